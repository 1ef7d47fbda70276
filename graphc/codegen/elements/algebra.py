"""The scalar algebra on loop values: what an op's `scalar` rule means in native code. The same
methods as graphc.ops.kinds.numpy_algebra; scalars meet vectors by splatting."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from graphc.codegen.libm import double_math, vector_math, wide_math
from graphc.codegen.libm.integer_math import integer_pow
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.dims import Extent
from graphc.ir.types import DType


def _function(name: str) -> Any:
    """A method for a function of floats: of f32 by fits in f32 where there is one, else computed in
    f64 and rounded; of f64 to all its digits."""
    single, double = getattr(vector_math, name, None), getattr(double_math, name)
    if single is None:
        single = partial(wide_math.through_f64, function=getattr(wide_math, name))

    def method(self: LoopAlgebra, *operands: LoopValue) -> LoopValue:
        chosen = double if operands[0].type.dtype is DType.f64 else single
        return cast("LoopValue", chosen(self.builder, *operands))

    method.__doc__ = double.__doc__
    return method


class LoopAlgebra:
    """Methods emit into the builder's current block."""

    def __init__(self, builder: LoopBuilder):
        self.builder = builder

    def constant(self, value: float | int | bool, like: LoopValue) -> LoopValue:
        return self.builder.const(like.type.dtype, value)

    def extent(self, size: Extent) -> LoopValue:
        """A size as an i64."""
        return self.builder.size(size)

    def flatten(self, index: tuple[LoopValue, ...], shape: tuple[Extent, ...]) -> LoopValue:
        """The row-major flat position of a coordinate of i64 values."""
        flat = self.builder.const(DType.i64, 0)
        for coordinate, dim in zip(index, shape, strict=True):
            scaled = self.builder.mul(flat, self.builder.size(dim))
            flat = self.builder.add(scaled, coordinate)
        return flat

    def _op(self, opcode: str, *operands: LoopValue) -> LoopValue:
        return self.builder.op(opcode, *operands)

    def add(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("add", x, y)

    def sub(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("sub", x, y)

    def mul(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("mul", x, y)

    def div(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("div", x, y)

    def neg(self, x: LoopValue) -> LoopValue:
        return self._op("neg", x)

    def abs(self, x: LoopValue) -> LoopValue:
        return self._op("abs", x)

    def floor(self, x: LoopValue) -> LoopValue:
        return self._op("floor", x)

    def ceil(self, x: LoopValue) -> LoopValue:
        return self._op("ceil", x)

    def round(self, x: LoopValue) -> LoopValue:
        return self._op("round", x)

    def trunc(self, x: LoopValue) -> LoopValue:
        return self._op("trunc", x)

    def sqrt(self, x: LoopValue) -> LoopValue:
        return self._op("sqrt", x)

    def minimum(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("minimum", x, y)

    def maximum(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("maximum", x, y)

    def eq(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("eq", x, y)

    def ne(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("ne", x, y)

    def lt(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("lt", x, y)

    def le(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("le", x, y)

    def gt(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("gt", x, y)

    def ge(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("ge", x, y)

    def logical_and(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("and", x, y)

    def logical_or(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("or", x, y)

    def logical_xor(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("xor", x, y)

    def logical_not(self, x: LoopValue) -> LoopValue:
        return self._op("not", x)

    def xor(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("xor", x, y)

    def bit_or(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("or", x, y)

    def bit_and(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._op("and", x, y)

    def bit_not(self, x: LoopValue) -> LoopValue:
        return self._op("not", x)

    def shift_left(self, x: LoopValue, amount: LoopValue) -> LoopValue:
        return self._op("shl", x, amount)

    def shift_right(self, x: LoopValue, amount: LoopValue) -> LoopValue:
        return self._op("ashr", x, amount)

    def width(self, x: LoopValue) -> int:
        """Bits of an element."""
        return 8 * x.type.dtype.itemsize

    def rotl(self, x: LoopValue, count: int) -> LoopValue:
        """The bits of each element rotated to the left, 0 < count < width."""
        left = self._op("shl", x, self.constant(count, x))
        return self._op("or", left, self.lshr(x, self.width(x) - count))

    def lshr(self, x: LoopValue, count: int) -> LoopValue:
        return self._op("lshr", x, self.constant(count, x))

    def select(self, condition: LoopValue, x: LoopValue, y: LoopValue) -> LoopValue:
        return self.builder.select(condition, x, y)

    def convert(self, x: LoopValue, dtype: DType) -> LoopValue:
        return self.builder.convert(x, dtype)

    def wide(self, x: LoopValue) -> LoopValue:
        """The operand in f64."""
        return self.convert(x, DType.f64)

    def narrow(self, x: LoopValue, like: LoopValue) -> LoopValue:
        """An f64 value in the dtype of `like`."""
        return self.convert(x, like.type.dtype)

    exp, exp2, expm1 = _function("exp"), _function("exp2"), _function("expm1")
    exp_of_nonpositive = _function("exp_of_nonpositive")
    """`exp` where x is nowhere above 0: the same bits by fewer operations."""
    log, log2, log10 = _function("log"), _function("log2"), _function("log10")
    log1p = _function("log1p")
    log1p_of_fraction = _function("log1p_of_fraction")
    """`log1p` where x is from 0 to 1: a last bit may differ."""
    sin, cos, tan = _function("sin"), _function("cos"), _function("tan")
    asin, acos, atan = _function("asin"), _function("acos"), _function("atan")
    sinh, cosh, tanh = _function("sinh"), _function("cosh"), _function("tanh")
    asinh, acosh, atanh = _function("asinh"), _function("acosh"), _function("atanh")
    atan2, hypot, sigmoid = _function("atan2"), _function("hypot"), _function("sigmoid")
    erf, erfc, lgamma = _function("erf"), _function("erfc"), _function("lgamma")
    _float_pow = _function("pow")

    def rsqrt(self, x: LoopValue) -> LoopValue:
        return vector_math.rsqrt(self.builder, x)

    def pow(self, x: LoopValue, y: LoopValue) -> LoopValue:
        if x.type.dtype.is_integer:
            return integer_pow(self.builder, x, y)
        return cast("LoopValue", self._float_pow(x, y))

    def signbit(self, x: LoopValue) -> LoopValue:
        return vector_math.signbit(self.builder, x)

    def copysign(self, x: LoopValue, y: LoopValue) -> LoopValue:
        magnitude = self.abs(x)
        return self.select(self.signbit(y), self.neg(magnitude), magnitude)

    def sign(self, x: LoopValue) -> LoopValue:
        """Of NaN it is 0."""
        zero, one = self.constant(0, x), self.constant(1, x)
        negative = self.select(self.lt(x, zero), self.neg(one), zero)
        return self.select(self.gt(x, zero), one, negative)

    def mod(self, x: LoopValue, y: LoopValue) -> LoopValue:
        """The remainder with the divisor's sign, as NumPy's."""
        if x.type.dtype.is_integer:
            return self._op("mod", x, y)
        zero = self.constant(0, x)
        remainder = self._op("rem", x, y)
        moved = self.select(self._sign_differs(remainder, y), self.add(remainder, y), remainder)
        # An exact multiple is a zero with the divisor's sign.
        signed_zero = self.mul(self.sign(y), zero)
        return self.select(self.eq(remainder, zero), signed_zero, moved)

    def fmod(self, x: LoopValue, y: LoopValue) -> LoopValue:
        """The remainder with the dividend's sign, as C's."""
        return self._op("rem", x, y)

    def _sign_differs(self, remainder: LoopValue, divisor: LoopValue) -> LoopValue:
        """Whether a remainder that is not zero has another sign than the divisor."""
        zero = self.constant(0, remainder)
        differs = self._op("xor", self.lt(remainder, zero), self.lt(divisor, zero))
        return self._op("and", differs, self.ne(remainder, zero))

    def floordiv(self, x: LoopValue, y: LoopValue) -> LoopValue:
        """Division rounded down, as NumPy's: the float one is exact where x/y would round up."""
        if x.type.dtype.is_integer:
            return self._op("floordiv", x, y)
        zero = self.constant(0, x)
        quotient = self.div(x, y)
        remainder = self._op("rem", x, y)
        towards_zero = self.div(self.sub(x, remainder), y)
        # Not (x - mod(x, y)) / y: with an infinite divisor that is infinite over infinite.
        lower = self.sub(towards_zero, self.constant(1, x))
        whole = self.select(self._sign_differs(remainder, y), lower, towards_zero)
        low = self.floor(whole)
        half: Any = self.constant(0.5, x)
        near = self.add(low, self.constant(1, x))
        rounded = self.select(self.gt(self.sub(whole, low), half), near, low)
        none = self.mul(quotient, zero)  # a zero with the sign of x/y, which may itself be -0
        result = self.select(self.eq(whole, zero), none, rounded)
        return self.select(self.eq(y, zero), quotient, result)


class NonpositiveAlgebra(LoopAlgebra):
    """For functions of a value that is nowhere above 0."""

    exp = LoopAlgebra.exp_of_nonpositive
