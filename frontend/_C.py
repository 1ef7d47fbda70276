"""Names of PyTorch's compiled module that other people's code imports."""

from __future__ import annotations

from frontend.overrides.protocol import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
)
from frontend.overrides.protocol import (
    disabled_torch_function_impl as _disabled_torch_function_impl,
)

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]
