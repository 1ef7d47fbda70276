"""`frontend.overrides`: types that take over what functions of tensors do, by `__torch_function__`.

Importing this changes nothing; what makes functions look at the types of their arguments, and when,
says `interception.py`.

protocol asks `__torch_function__`, modes are blocks of it, names what can be taken over, checks
assertions.
"""

from __future__ import annotations

from frontend.overrides.modes import BaseTorchFunctionMode, TorchFunctionMode
from frontend.overrides.names import (
    get_default_nowrap_functions,
    get_ignored_functions,
    get_overridable_functions,
    is_tensor_method_or_property,
    resolve_name,
)
from frontend.overrides.protocol import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    wrap_torch_function,
)

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "get_default_nowrap_functions",
    "get_ignored_functions", "get_overridable_functions", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
    "is_tensor_like", "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip
