"""Changing all parameters and buffers of a tree of Modules: dtype, device, mode, gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from frontend.engine.tensors.dtypes import TORCH_NAMES, as_dtype, device, memory_format
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.types import DType
from graphc.system import IMPORTING


class Conversion:
    """Members of Module that change what it holds, in place, and return the module."""

    if TYPE_CHECKING:
        training: bool
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]

        def children(self) -> Iterator[Any]: ...
        def parameters(self) -> Iterator[Any]: ...
        def buffers(self) -> Iterator[Any]: ...

    # -- mode and gradients ------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set `training` here and below: it decides what Dropout and BatchNorm do. Raises
        ValueError for anything but a bool."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let autograd collect gradients of all parameters, or freeze them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or set them to zero in place."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            with no_grad():
                grad.detach_().zero_()

    # -- dtype and device --------------------------------------------------------------------

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Let parameters (which stay the same objects), their gradients and the buffers have the
        data `fn` makes of them."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            _convert(parameter, fn)
            if parameter.grad is not None:
                _convert(parameter.grad, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """`to(device, dtype, non_blocking)`, `to(dtype, non_blocking)`, `to(tensor,
        non_blocking)`, `to(memory_format=)`: floating-point parameters and buffers take the dtype.
        There is one device and one layout in memory, so those, and `non_blocking`, change nothing.

        Raises TypeError for a dtype that is not floating point and for other arguments.
        """
        place, dtype = _wanted(args, kwargs)

        def converted(x: Any) -> Any:
            moved = x if place is None else x.to(place)
            return moved if dtype is None or not x.is_floating_point() else moved.to(dtype)

        return self._apply(converted)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """New memory for parameters and buffers, its content undefined."""
        with IMPORTING:
            from frontend.functions.creation import empty_like

        place = device
        return self._apply(lambda x: empty_like(x, device=place), recurse)

    def type(self, dst_type: Any) -> Self:
        """All parameters and buffers in this dtype (also as "torch.DoubleTensor")."""
        return self._apply(lambda x: x.type(dst_type))

    def float(self) -> Self:
        return self._apply(lambda x: x.float() if x.is_floating_point() else x)

    def double(self) -> Self:
        return self._apply(lambda x: x.double() if x.is_floating_point() else x)

    def half(self) -> Self:
        return self._apply(lambda x: x.half() if x.is_floating_point() else x)

    def bfloat16(self) -> Self:
        return self._apply(lambda x: x.bfloat16() if x.is_floating_point() else x)

    def cpu(self) -> Self:
        return self._apply(lambda x: x.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Raises AssertionError where there is anything to move: there is no CUDA."""
        return self._apply(lambda x: x.cuda(device))

    def share_memory(self) -> Self:
        """Move all parameters and buffers to memory that processes share: `Tensor.share_memory_`.
        Each process that trains the module writes the same weights."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self


def _convert(tensor: Tensor, fn: Callable[[Any], Any]) -> None:
    with no_grad():
        converted = fn(tensor)
    if converted is not tensor:
        tensor.data = converted


_NAMES = ("device", "dtype", "non_blocking", "copy", "memory_format")


def _wanted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, DType | None]:
    """The device and dtype `Module.to` is asked for; None where it is not. Checks the rest."""
    arguments = dict(kwargs)
    if args and isinstance(args[0], Tensor):
        names = ["tensor", "non_blocking"]
    elif args and _is_dtype(args[0]):
        names = ["dtype", "non_blocking"]
    else:
        names = ["device", "dtype", "non_blocking"]
    named = dict(zip(names, args))
    if (
        len(args) > len(names)
        or named.keys() & arguments.keys()
        or arguments.keys() - {*_NAMES, "tensor"}
    ):
        shown = ", ".join([*(type(x).__name__ for x in args), *(f"{k}=" for k in arguments)])
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({shown}); it takes "
            "(device, dtype, non_blocking), (dtype, non_blocking), (tensor, non_blocking) or "
            "(memory_format=)"
        )
    arguments |= named
    place, dtype, like = arguments.get("device"), arguments.get("dtype"), arguments.get("tensor")
    place = None if place is None else device(place)
    if not isinstance(arguments.get("memory_format"), memory_format | None):
        raise TypeError(
            "to(): argument 'memory_format' must be torch.memory_format, not "
            f"{type(arguments['memory_format']).__name__}"
        )
    if like is not None:
        dtype = like.dtype
    if dtype is None:
        return place, None
    kind = as_dtype(dtype)
    if not kind.is_float:
        raise TypeError(
            "nn.Module.to only accepts floating point or complex dtypes, but got desired "
            f"dtype={TORCH_NAMES[kind]}"
        )
    return place, kind


def _is_dtype(value: Any) -> bool:
    return isinstance(value, DType) or value in (float, int, bool)
