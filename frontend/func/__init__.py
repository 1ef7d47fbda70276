"""`frontend.func`: functions of functions. Derivatives of a function as functions, one function for
a batch from that for an example, a Module as a function of its parameters.

derivatives, batching (`vmap`) and modules (`functional_call`).
"""

from __future__ import annotations

from frontend.func.batching import vmap
from frontend.func.derivatives import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
from frontend.func.modules import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
