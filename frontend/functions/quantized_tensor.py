"""Tensors of integers that stand for floats, and what functions make of them.

A function that moves elements moves the integers; one whose results are in the range of its operand
computes in floats and keeps the scale; one whose results are in a range of its own has the scale
that PyTorch has for it. Others raise TypeError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.engine.tensors.absent_dtypes import qint8, qint32, quint8
from frontend.engine.tensors.qschemes import per_channel_affine, per_tensor_affine
from frontend.engine.tensors.tensor import Tensor
from graphc.errors import DTypeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops.nn import quantization as ops
from graphc.system import import_module

RANGES: dict[Any, tuple[int, int, DType]] = {
    qint8: (-128, 127, DType.i8), quint8: (0, 255, DType.u8),
    qint32: (-(2**31), 2**31 - 1, DType.i32),
}  # fmt: skip
"""By the name of a quantized dtype: its least and greatest number, and the dtype that holds it."""

MOVES = frozenset((
    "__getitem__", "channel_shuffle", "chunk", "clone", "contiguous", "detach", "expand",
    "flatten", "flip", "index_select", "movedim", "moveaxis", "narrow", "permute",
    "pixel_shuffle", "pixel_unshuffle", "reshape", "select", "split", "squeeze", "swapaxes",
    "swapdims", "t", "tensor_split", "transpose", "unbind", "unflatten", "unsqueeze", "view",
))  # fmt: skip
KEEPS_SCALE = frozenset((
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "clamp", "clip", "dropout", "elu", "hardswish", "hardtanh",
    "interpolate", "leaky_relu", "max_pool1d", "max_pool2d", "max_pool3d", "mean", "pad",
    "relu", "relu6", "threshold",
))  # fmt: skip
IN_PLACE = {
    "dropout": 3, "elu": 2, "hardswish": 1, "hardtanh": 3, "leaky_relu": 2, "relu": 1, "relu6": 1,
    "threshold": 3,
}  # fmt: skip
"""Where the argument `inplace` stands."""
OWN_SCALE = {"sigmoid": 1, "hardsigmoid": 1, "softmax": 1, "tanh": 2}
"""The length of the range that their results are in: it begins at 0, or has 0 in its middle."""
TAKEN = frozenset((*MOVES, *KEEPS_SCALE, *OWN_SCALE, "dequantize"))
JOINS = frozenset(("cat", "concat", "concatenate", "stack"))


def range_of(dtype: Any) -> tuple[int, int, DType]:
    """The least and greatest number of a quantized dtype, and the dtype that holds it."""
    known = RANGES.get(dtype)
    if known is None:
        raise DTypeError(
            f"a tensor is quantized to torch.qint8, torch.quint8 or torch.qint32, not {dtype}",
            location=user_location(),
        )
    return known


class QuantizedTensor:
    """Integers that stand for floats. `axis`: the dimension along which scales and zero points
    differ, None where there is one of each. Functions that PyTorch has for such tensors take it;
    other arithmetic is on what `dequantize` or `int_repr` gives."""

    is_quantized = True
    requires_grad = False

    def __init__(self, whole: Tensor, scale: Tensor, zero: Tensor, axis: int | None, dtype: Any):
        self._whole, self._scale, self._zero, self._axis = whole, scale, zero, axis
        self.dtype = dtype
        _have_functions_ask()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _have_functions_ask()

    @classmethod
    def of(cls, x: Tensor, scale: Tensor, zero: Tensor, dtype: Any) -> QuantizedTensor:
        """Floats by one scale and zero point, each []."""
        low, high, kind = range_of(dtype)
        whole = ops.quantize(x, scale.to(DType.f32), zero, low=low, high=high, dtype=kind)
        return cls(whole, scale, zero, None, dtype)

    @property
    def shape(self) -> Any:
        return self._whole.shape

    @property
    def ndim(self) -> int:
        return self._whole.dim()

    @property
    def device(self) -> Any:
        return self._whole.device

    def size(self, *dim: int) -> Any:
        return self._whole.size(*dim)

    def dim(self) -> int:
        return self._whole.dim()

    def numel(self) -> int:
        return self._whole.numel()

    def int_repr(self) -> Tensor:
        """A copy of the integers."""
        return self._whole.clone()

    def dequantize(self) -> Tensor:
        """The floats, f32."""
        shape = [1] * self.dim()
        if self._axis is not None:
            shape[self._axis] = self.shape[self._axis]
        scale, zero = (each.reshape(shape) for each in (self._scale, self._zero))
        result: Tensor = ops.dequantize(self._whole, scale.to(DType.f32), zero)
        return result

    def qscheme(self) -> Any:
        """`torch.per_tensor_affine`, or `torch.per_channel_affine`."""
        return per_tensor_affine if self._axis is None else per_channel_affine

    def q_scale(self) -> float:
        """The scale. Raises RuntimeError where each channel has its own."""
        self.need_one_scale()
        return float(self._scale)

    def q_zero_point(self) -> int:
        """The zero point. Raises RuntimeError where each channel has its own."""
        self.need_one_scale()
        return int(self._zero)

    def q_per_channel_scales(self) -> Tensor:
        """Those of the channels, [n]. Raises RuntimeError where there is one for all."""
        self._of_channels()
        return self._scale

    def q_per_channel_zero_points(self) -> Tensor:
        """Those of the channels, [n]. Raises RuntimeError where there is one for all."""
        self._of_channels()
        return self._zero

    def q_per_channel_axis(self) -> int:
        """The dimension of the channels. Raises RuntimeError where there is one scale for all."""
        return self._of_channels()

    @property
    def scales(self) -> Tensor:
        """The scale [], or those of the channels [n]."""
        return self._scale

    @property
    def zero_points(self) -> Tensor:
        """The zero point [], or those of the channels [n]."""
        return self._zero

    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Integers, scale [] in f32 and zero point [] in i32. Raises RuntimeError where each
        channel has its own."""
        self.need_one_scale()
        return self._whole, self._scale.to(DType.f32), self._zero.to(DType.i32)

    def need_one_scale(self) -> None:
        if self._axis is not None:
            raise RuntimeError("Expected quantizer->qscheme() == kPerTensorAffine to be true")

    def _of_channels(self) -> int:
        if self._axis is None:
            raise RuntimeError("Expected quantizer->qscheme() == kPerChannelAffine to be true")
        return self._axis

    def __repr__(self) -> str:
        scales = f"axis={self._axis}, scale={self._scale}, zero_point={self._zero}"
        if self._axis is None:
            scales = f"scale={float(self._scale)}, zero_point={int(self._zero)}"
        return f"quantized({self.dequantize()!r}, dtype={self.dtype}, {scales})"

    # -- functions of one --------------------------------------------------------------------------

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _answer(func.__name__, func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        if name in TAKEN:
            method = getattr(Tensor, name)
            return lambda *args, **kwargs: _answer(name, method, (self, *args), kwargs)
        raise AttributeError(f"a quantized tensor has no attribute {name!r}")

    def __getitem__(self, place: Any) -> Any:
        return _answer("__getitem__", Tensor.__getitem__, (self, place), {})


def _have_functions_ask() -> None:
    import_module("frontend.overrides.interception").intercept_functions()


def _answer(name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    first = args[0] if args else kwargs.get("input", kwargs.get("tensors"))
    if name in JOINS:
        return _joined(func, first, args[1:], kwargs)
    if not isinstance(first, QuantizedTensor) or name not in TAKEN:
        raise TypeError(
            f"{name} does not take a quantized tensor: x.dequantize() is one of floats; sums and "
            "products of two are those of torch.ao.nn.quantized.FloatFunctional"
        )
    if name == "dequantize":
        return first.dequantize()
    first.need_one_scale()
    if not args:
        kwargs = {key: value for key, value in kwargs.items() if key != "input"}
    if name in MOVES:
        return _moved(first, func(first._whole, *args[1:], **kwargs))
    result = func(first.dequantize(), *args[1:], **kwargs)
    if name in OWN_SCALE:
        return _in_own_range(result, OWN_SCALE[name], first.dtype)
    kept = QuantizedTensor.of(result, first._scale, first._zero, first.dtype)
    place = IN_PLACE.get(name, len(args))
    if kwargs.get("inplace", place < len(args) and args[place]):
        first._whole = kept._whole
        return first
    return kept


def _moved(x: QuantizedTensor, whole: Any) -> Any:
    if isinstance(whole, tuple | list):
        return type(whole)(_moved(x, each) for each in whole)
    return QuantizedTensor(whole, x._scale, x._zero, None, x.dtype)


def _in_own_range(x: Tensor, length: int, dtype: Any) -> QuantizedTensor:
    low, high, _ = range_of(dtype)
    zero = low if length == 1 else (low + high + 1) // 2
    scale = x.new_full((), length / (high - low + 1), dtype=DType.f64)
    return QuantizedTensor.of(x, scale, x.new_full((), zero, dtype=DType.i64), dtype)


def _joined(func: Callable[..., Any], parts: Any, args: Any, kwargs: Any) -> QuantizedTensor:
    """By the scale of the first."""
    if not all(isinstance(part, QuantizedTensor) for part in parts):
        raise TypeError(f"{func.__name__} takes quantized tensors or tensors, not both")
    for part in parts:
        part.need_one_scale()
    kwargs = {key: value for key, value in kwargs.items() if key != "tensors"}
    result = func([part.dequantize() for part in parts], *args, **kwargs)
    return QuantizedTensor.of(result, parts[0]._scale, parts[0]._zero, parts[0].dtype)
