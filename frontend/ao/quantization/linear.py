"""Linear layers whose weights are kept as integers of 8 or 4 bits."""

from __future__ import annotations

from frontend.ao.quantization.integers import (
    Integers,
    of_groups,
    of_rows,
    of_tensor,
    product,
    rows_of,
)
from frontend.engine.tensors.absent_dtypes import qint8
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.quantization import QuantizedTensor
from frontend.nn import functional as F
from frontend.nn.modules.linear import Linear
from frontend.nn.modules.module import Module
from graphc.ir.types import DType
from graphc.ops.nn import quantization as ops

REDUCED = 127
"""The greatest integer of activations that PyTorch's engine for x86 quantizes dynamically."""


class Int8WeightLinear(Linear):
    """A Linear whose weight is int8, with a scale for each output: `weight` is what it stands for,
    computed where it is asked for. Gradients go to the input and the bias."""

    weight_int: Tensor
    weight_scale: Tensor

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        dequantized: Tensor = ops.dequantize(self.weight_int, self.weight_scale)
        return dequantized

    @staticmethod
    def convert(linear: Linear, kind: type[Int8WeightLinear]) -> None:
        """Make this layer one of the class `kind`, in place: whoever holds it has it quantized."""
        with no_grad():
            whole, scale = of_rows(linear.weight.detach().to(DType.f32))
        del linear.weight
        linear.__class__ = kind
        linear.register_buffer("weight_int", whole)
        linear.register_buffer("weight_scale", scale)

    def forward(self, input: Tensor) -> Tensor:
        # Scaled behind the product, as in torchao: one row then reads the bytes where they lie.
        product = F.linear(input, self.weight_int.to(input.dtype))
        result = product * self.weight_scale.reshape(-1).to(input.dtype)
        return result if self.bias is None else result + self.bias

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, weight=int8"


class Int8ActivationLinear(Int8WeightLinear):
    """The same with inputs quantized too, with a scale for each row, and exact products of
    integers. It has no gradients."""

    def forward(self, input: Tensor) -> Tensor:
        rows = rows_of(input.detach().to(DType.f32))
        whole, scale = of_rows(rows)
        summed = product(whole, self.weight_int).to(DType.f32)
        result = summed * scale * self.weight_scale.reshape(1, -1)
        if self.bias is not None:
            result = result + self.bias
        return result.reshape(*input.shape[:-1], self.out_features).to(input.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activations=int8"


class Int4WeightLinear(Linear):
    """A Linear whose weight is integers of 4 bits, two in a byte, with a scale and a zero point for
    each group along a row: `weight` is what it stands for, computed where it is read. Gradients
    go to the input and the bias."""

    weight_int: Tensor
    weight_scale: Tensor
    weight_zero: Tensor

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        whole = ops.unpack_bits(self.weight_int, bits=4)
        dequantized: Tensor = ops.dequantize(whole, self.weight_scale, self.weight_zero)
        return dequantized

    @property
    def group_size(self) -> int:
        """Weights that share a scale."""
        return int(self.in_features // self.weight_scale.shape[1])

    @staticmethod
    def convert(linear: Linear, group: int) -> None:
        """Make this layer one of this class, in place: whoever holds it has it quantized."""
        with no_grad():
            parts = of_groups(linear.weight.detach().to(DType.f32), group)
        del linear.weight
        linear.__class__ = Int4WeightLinear
        for name, part in zip(("weight_int", "weight_scale", "weight_zero"), parts, strict=True):
            linear.register_buffer(name, part)

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = F.linear(input, self.weight.to(input.dtype), self.bias)
        return result

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, weight=int4, group_size={self.group_size}"


class DynamicQuantizedLinear(Module):
    """A Linear of int8 weights, with one scale, and inputs quantized to uint8 by their range, of
    which PyTorch's engine for x86 uses 0 … 127. [*, in_features] to [*, out_features], float32."""

    def __init__(self, linear: Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        with no_grad():
            whole, scale = of_tensor(linear.weight.detach().to(DType.f32))
        self.register_buffer("weight_int", whole)
        self.register_buffer("weight_scale", scale)
        self.register_buffer("weight_sum", whole.sum(1, dtype=DType.i32))
        bias = linear.bias
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    def weight(self) -> QuantizedTensor:
        """The weight, as torch.qint8."""
        scale = self.weight_scale.to(DType.f64)
        zero = scale.new_zeros((), dtype=DType.i64)
        return QuantizedTensor(self.weight_int, scale, zero, None, qint8)

    def forward(self, input: Tensor) -> Tensor:
        x: Integers = Integers.by_range(rows_of(input.detach()), REDUCED)
        summed = product(x.whole, self.weight_int) - x.zero * self.weight_sum
        result = summed.to(DType.f32) * (x.scale * self.weight_scale)
        if self.bias is not None:
            result = result + self.bias
        return result.reshape(*input.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, dtype=torch.qint8, "
            "qscheme=torch.per_tensor_affine"
        )
