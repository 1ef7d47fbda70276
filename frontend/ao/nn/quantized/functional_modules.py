"""Sums, products and joins of two tensors as Modules, so that what they give is observed and gets a
scale: FloatFunctional observes, QFunctional is what it is converted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self

from frontend.ao.nn.quantized.layers import Scaled, need_quantized
from frontend.functions.creation import tensor
from frontend.functions.matrix import matmul
from frontend.functions.pointwise import add, maximum, minimum, mul, where
from frontend.functions.quantized_tensor import QuantizedTensor, range_of
from frontend.functions.shape import cat
from frontend.nn import functional as F
from frontend.nn.modules.linear import Identity
from frontend.nn.modules.module import Module
from graphc.ir.types import DType

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]


def _add_relu(x: Any, y: Any) -> Any:
    return F.relu(add(x, y))


class _Functional(Module):
    """The operations by name."""

    def forward(self, x: Any) -> NoReturn:
        name = type(self).__name__
        raise RuntimeError(
            f"{name} is not intended to use the 'forward'. Please use the underlying operation"
        )

    def _of(self, function: Callable[..., Any], *operands: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} computes nothing")

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self._of(add, x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """x y."""
        return self._of(mul, x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """Tensors one behind the other."""
        return self._of(lambda *parts: cat(parts, dim), *x)

    def add_relu(self, x: Any, y: Any) -> Any:
        """relu(x + y)."""
        return self._of(_add_relu, x, y)

    def matmul(self, x: Any, y: Any) -> Any:
        """The matrix product."""
        return self._of(matmul, x, y)


class FXFloatFunctional(_Functional):
    """Of tensors of floats, nothing observed."""

    def _of(self, function: Callable[..., Any], *operands: Any) -> Any:
        return function(*operands)

    def add_scalar(self, x: Any, y: float) -> Any:
        """x + y."""
        return self._of(add, x, y)

    def mul_scalar(self, x: Any, y: float) -> Any:
        """x y."""
        return self._of(mul, x, y)


class FloatFunctional(FXFloatFunctional):
    """Of tensors of floats; what they give passes `activation_post_process`."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Module = Identity()

    def _of(self, function: Callable[..., Any], *operands: Any) -> Any:
        return self.activation_post_process(function(*operands))


class QFunctional(_Functional, Scaled):
    """Of quantized tensors, to the scale and zero point of what was observed."""

    def __init__(self) -> None:
        super().__init__()
        self._scales()
        self.activation_post_process = Identity()

    def _of(self, function: Callable[..., Any], *operands: Any) -> Any:
        floats = [need_quantized(self, each).dequantize() for each in operands]
        dtype = operands[0].dtype
        result = QuantizedTensor.of(function(*floats), self.scale, self.zero_point, dtype)
        return self.activation_post_process(result)

    def add_scalar(self, x: Any, y: float) -> QuantizedTensor:
        """x + y: the integers of x by another zero point, or scale where that is out of range."""
        whole, scale, zero = need_quantized(self, x).parts()
        low, high, _ = range_of(x.dtype)
        steps = (y / scale).round()
        wanted = zero - steps.to(DType.i32)
        longest = maximum(maximum(high - wanted, wanted - low), tensor(high - low, dtype=DType.i32))
        own = longest.to(DType.f32) / (high - low) * scale
        moved = (whole.to(DType.f32) - zero + steps) * scale
        fits = (wanted >= low) & (wanted <= high)
        kept = minimum(maximum(wanted, tensor(low, dtype=DType.i32)), tensor(high, dtype=DType.i32))
        return QuantizedTensor.of(moved, where(fits, scale, own), kept, x.dtype)

    def mul_scalar(self, x: Any, y: float) -> QuantizedTensor:
        """x y: the integers of x by another scale, from the other end where y is negative."""
        whole, scale, zero = need_quantized(self, x).parts()
        low, high, kind = range_of(x.dtype)
        if y == 0:
            one, none = scale.new_ones(()), zero.new_zeros(())
            return QuantizedTensor(whole.new_zeros(whole.shape), one, none, None, x.dtype)
        if y < 0:
            whole, zero = (low + high - whole.to(DType.i32)).to(kind), low + high - zero
        return QuantizedTensor(whole, scale * abs(y), zero, None, x.dtype)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a FloatFunctional that was observed."""
        scale, zero = mod.activation_post_process.calculate_qparams()
        new = cls()
        new.scale, new.zero_point = scale.reshape(()).clone(), zero.reshape(()).to(DType.i32)
        return new

    def extra_repr(self) -> str:
        return f"scale={float(self.scale)}, zero_point={int(self.zero_point)}"
