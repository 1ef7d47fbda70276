"""`torch._functorch.vmap`: names that packages look for there; what vmap is made of raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.engine.tensors.tensor import Tensor as Tensor
from frontend.func import vmap as vmap
from frontend.namespace.stubs import stubs
from frontend.utils._pytree import tree_flatten as tree_flatten
from frontend.utils._pytree import tree_unflatten as tree_unflatten


def _get_name(func: Callable[..., Any]) -> str:
    """A function's name, in messages."""
    return str(getattr(func, "__name__", None) or repr(func))


globals().update(stubs("_functorch.vmap"))
