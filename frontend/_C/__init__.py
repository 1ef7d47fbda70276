"""`torch._C`: the few names of PyTorch's C++ module that libraries look for."""

from __future__ import annotations

from enum import Enum
from typing import Any

from frontend.engine.tensors.memory_tracking import whole_array
from frontend.engine.tensors.state import STATE, swap_autocast
from frontend.engine.tensors.tensor import Tensor
from frontend.namespace.stubs import stubs
from frontend.overrides.protocol import OVERRIDING, disabled_torch_function_impl
from frontend.overrides.protocol import (
    DisableTorchFunction as DisableTorchFunction,
)
from frontend.overrides.protocol import (
    DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
)
from graphc.system import import_module

TensorBase = _TensorBase = Tensor
_disabled_torch_function_impl = disabled_torch_function_impl

_TensorMeta = type(Tensor)
"""The class of the class of tensors."""
globals().update(stubs("_C"))


def _is_torch_function_mode_enabled() -> bool:
    """Whether a TorchFunctionMode is around the caller."""
    return bool(OVERRIDING.modes)


def _is_alias_of(first: Tensor, second: Tensor) -> bool:
    """Whether both have the same storage, wherever they begin in it."""
    if first.is_meta or second.is_meta:
        return first is second
    arrays = (each._array("_is_alias_of()") for each in (first, second))
    return len({int(whole_array(array).ctypes.data) for array in arrays}) == 1


class DispatchKey(Enum):
    """Names of dispatch keys, as far as libraries name them."""

    CPU = "CPU"
    CUDA = "CUDA"
    Meta = "Meta"
    Autograd = "Autograd"
    AutogradCPU = "AutogradCPU"
    AutocastCPU = "AutocastCPU"
    AutocastCUDA = "AutocastCUDA"
    AutocastXPU = "AutocastXPU"
    CompositeImplicitAutograd = "CompositeImplicitAutograd"
    CompositeExplicitAutograd = "CompositeExplicitAutograd"


class DispatchKeySet:
    """A set of dispatch keys."""

    def __init__(self, key: DispatchKey):
        self.keys = {key}

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        both = DispatchKeySet(next(iter(self.keys)))
        both.keys = self.keys | other.keys
        return both


_OTHER_DEVICES = {DispatchKey.AutocastCUDA, DispatchKey.AutocastXPU, DispatchKey.CUDA}


class _ExcludeDispatchKeyGuard:
    """A block that the kernels of these keys are left out of: without autocast's of the CPU, an
    operation computes in the types of its operands. Keys of other devices change nothing; raises
    NotImplementedError for any others, which the operators here are not divided by."""

    def __init__(self, keys: DispatchKeySet):
        self.keys = keys
        others = keys.keys - _OTHER_DEVICES - {DispatchKey.AutocastCPU}
        if others:
            names = ", ".join(sorted(key.value for key in others))
            raise NotImplementedError(f"operators here have no kernels by dispatch keys ({names})")

    def __enter__(self) -> None:
        leaves_out = DispatchKey.AutocastCPU in self.keys.keys
        self._before = swap_autocast(None if leaves_out else STATE.autocast)

    def __exit__(self, *error: Any) -> None:
        swap_autocast(self._before)


def __getattr__(name: str) -> Any:
    if name == "Future":  # needs threads
        return import_module("frontend.futures").Future
    if name == "_functorch":
        return import_module("frontend._C._functorch")
    raise AttributeError(f"module 'frontend._C' has no attribute {name!r}")


class _nn:
    """`torch._C._nn`, as far as libraries call it."""

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """What `Module.to` is asked for: device, dtype, whether not to wait, memory format."""
        from frontend.nn.modules.conversion import _wanted

        device, dtype = _wanted(args, kwargs)
        return device, dtype, bool(kwargs.get("non_blocking")), kwargs.get("memory_format")
