"""`torch.ops.aten`: operators that PyTorch's functions are made of, by names that `torch` and
Tensor do not have. Each is what functions of `torch` compute; others raise by name."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.conversion import to


def alias(self: Tensor) -> Tensor:
    """A view of all of it."""
    return self.view_as(self)


def _to_copy(
    self: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool | None = None, non_blocking: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Its numbers in other memory, as another dtype or on another device."""
    result = self if dtype is None and device is None else to(self, device=device, dtype=dtype)
    return self.clone() if result is self else result


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor: memory needs no pinning without a device to copy to."""
    return self


def index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """`self[indices]`, where None takes the whole axis."""
    return self[tuple([builtins.slice(None) if each is None else each for each in indices])]


def slice(
    self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """`self[start:end:step]` along an axis."""
    places: list[Any] = [builtins.slice(None)] * self.dim()
    places[dim] = builtins.slice(start, end, step)
    return self[tuple(places)]


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """What `conv1d`, `conv2d`, `conv3d` and their transposed forms compute."""
    from frontend.nn import functional

    name = f"conv{'_transpose' if transposed else ''}{input.dim() - 2}d"
    options: dict[str, Any] = {"output_padding": list(output_padding)} if transposed else {}
    result: Tensor = getattr(functional, name)(
        input, weight, bias, stride=list(stride), padding=list(padding), dilation=list(dilation),
        groups=groups, **options,
    )  # fmt: skip
    return result


def _convolution(*arguments: Any, **keywords: Any) -> Tensor:
    """`convolution`; which library computes it is not chosen here."""
    return convolution(*arguments[:9], **{
        name: value for name, value in keywords.items()
        if name not in ("benchmark", "deterministic", "cudnn_enabled", "allow_tf32")
    })  # fmt: skip


def _sparse(name: str) -> Any:
    def function(*arguments: Any, **keywords: Any) -> Any:
        raise NotImplementedError(f"aten.{name}: torch.sparse has mm and addmm")

    function.__name__ = name
    return function


_sparse_addmm, _sparse_mm_reduce_impl = _sparse("_sparse_addmm"), _sparse("_sparse_mm_reduce_impl")
