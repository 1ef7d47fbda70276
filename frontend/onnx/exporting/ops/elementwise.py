"""Ops that compute one element at a time."""

from __future__ import annotations

import math
from typing import Any

from frontend.onnx.exporting.declarations import exports
from frontend.onnx.importing.errors import OnnxNotHere
from graphc.ir.types import DType


def _direct(since: int, **operators: str) -> None:
    for op, operator in operators.items():

        def rule(w: Any, node: Any, *xs: str, _operator: str = operator) -> Any:
            return w.add(_operator, xs)

        exports(op, since=since)(rule)


_direct(
    13, add="Add", sub="Sub", mul="Mul", div="Div", neg="Neg", pow="Pow", exp="Exp", log="Log",
    sin="Sin", cos="Cos", sqrt="Sqrt", tanh="Tanh", sigmoid="Sigmoid", erf="Erf", abs="Abs",
    sign="Sign", floor="Floor", ceil="Ceil", round="Round", relu="Relu", eq="Equal", lt="Less",
    le="LessOrEqual", gt="Greater", ge="GreaterOrEqual", logical_and="And", logical_or="Or",
    logical_xor="Xor", logical_not="Not", tan="Tan", asin="Asin", acos="Acos",
    atan="Atan", sinh="Sinh", cosh="Cosh", asinh="Asinh", acosh="Acosh", atanh="Atanh",
    minimum="Min", maximum="Max",
)  # fmt: skip
_direct(
    18, bitwise_and="BitwiseAnd", bitwise_or="BitwiseOr", bitwise_xor="BitwiseXor",
    bitwise_not="BitwiseNot", mish="Mish",
)  # fmt: skip
_direct(14, hardswish="HardSwish")


def _dtype(node: Any) -> DType:
    dtype: DType = node.types[0].dtype
    return dtype


@exports("stop_gradient", "saved", "check_index", "check_all", "check_assertion")
def identity(w: Any, node: Any, x: str, *others: str, **_: Any) -> Any:
    """What is checked of content the file does not check."""
    return x


@exports("where")
def where(w: Any, node: Any, condition: str, x: str, y: str) -> Any:
    """Of bools by And and Or: ONNX Runtime has no Where of them."""
    if _dtype(node) is not DType.bool:
        return w.add("Where", [condition, x, y])
    other = w.add("And", [w.add("Not", [condition]), y])
    return w.add("Or", [w.add("And", [condition, x]), other])


@exports("ne")
def ne(w: Any, node: Any, x: str, y: str) -> Any:
    return w.add("Not", [w.add("Equal", [x, y])])


@exports("cast")
def cast(w: Any, node: Any, x: str, *, dtype: DType) -> Any:
    return w.cast(x, dtype)


@exports("clamp")
def clamp(w: Any, node: Any, x: str, low: str, high: str) -> Any:
    return w.add("Min", [w.add("Max", [x, low]), high])


@exports("mod")
def mod(w: Any, node: Any, x: str, y: str) -> Any:
    """With the divisor's sign."""
    if _dtype(node).is_integer:
        return w.add("Mod", [x, y])
    return w.add("Sub", [x, w.add("Mul", [y, w.add("Floor", [w.add("Div", [x, y])])])])


@exports("fmod")
def fmod(w: Any, node: Any, x: str, y: str) -> Any:
    return w.add("Mod", [x, y], fmod=1)


@exports("floordiv")
def floordiv(w: Any, node: Any, x: str, y: str) -> Any:
    if not _dtype(node).is_integer:
        return w.add("Floor", [w.add("Div", [x, y])])
    return w.add("Div", [w.add("Sub", [x, w.add("Mod", [x, y])]), y])


@exports("trunc")
def trunc(w: Any, node: Any, x: str) -> Any:
    return w.add("Mul", [w.add("Sign", [x]), w.add("Floor", [w.add("Abs", [x])])])


@exports("rsqrt")
def rsqrt(w: Any, node: Any, x: str) -> Any:
    return w.add("Reciprocal", [w.add("Sqrt", [x])])


@exports("silu")
def silu(w: Any, node: Any, x: str) -> Any:
    return w.add("Mul", [x, w.add("Sigmoid", [x])])


@exports("softplus")
def softplus(w: Any, node: Any, x: str, *, beta: float, threshold: float) -> Any:
    """Above the threshold, x; up to 20 that is what float32 gives anyway."""
    dtype = _dtype(node)
    scaled = x if beta == 1 else w.add("Mul", [x, w.scalar(beta, dtype)])
    result = w.add("Softplus", [scaled])
    result = result if beta == 1 else w.add("Div", [result, w.scalar(beta, dtype)])
    if threshold >= 20 and dtype is not DType.f64:
        return result
    return w.add("Where", [w.add("Greater", [scaled, w.scalar(threshold, dtype)]), x, result])


@exports("log_sigmoid")
def log_sigmoid(w: Any, node: Any, x: str) -> Any:
    return w.add("Neg", [w.add("Softplus", [w.add("Neg", [x])])])


@exports("elu")
def elu(w: Any, node: Any, x: str, *, alpha: float, scale: float, rate: float) -> Any:
    """scale · (x, or alpha · (exp(rate · x) - 1) where x is below 0)."""
    dtype = _dtype(node)
    if rate == 1:
        result = w.add("Elu", [x], alpha=float(alpha))
    else:
        below = w.add("Elu", [w.add("Mul", [x, w.scalar(rate, dtype)])], alpha=float(alpha))
        result = w.add("Where", [w.add("Less", [x, w.scalar(0, dtype)]), below, x])
    return result if scale == 1 else w.add("Mul", [result, w.scalar(scale, dtype)])


@exports("hardtanh")
def hardtanh(w: Any, node: Any, x: str, *, low: float, high: float) -> Any:
    dtype = _dtype(node)
    return w.add("Clip", [x, w.scalar(low, dtype), w.scalar(high, dtype)])


@exports("hardsigmoid")
def hardsigmoid(w: Any, node: Any, x: str) -> Any:
    return w.add("HardSigmoid", [x], alpha=1 / 6, beta=0.5)


@exports("leaky_relu")
def leaky_relu(w: Any, node: Any, x: str, *, slope: float) -> Any:
    return w.add("LeakyRelu", [x], alpha=float(slope))


@exports("prelu")
def prelu(w: Any, node: Any, x: str, slope: str) -> Any:
    return w.add("PRelu", [x, slope])


@exports("softshrink")
def softshrink(w: Any, node: Any, x: str, *, level: float) -> Any:
    return w.add("Shrink", [x], lambd=float(level), bias=float(level))


@exports("hardshrink")
def hardshrink(w: Any, node: Any, x: str, *, level: float) -> Any:
    return w.add("Shrink", [x], lambd=float(level), bias=0.0)


@exports("exp2")
def exp2(w: Any, node: Any, x: str) -> Any:
    return w.add("Pow", [w.scalar(2, _dtype(node)), x])


@exports("expm1")
def expm1(w: Any, node: Any, x: str) -> Any:
    return w.add("Sub", [w.add("Exp", [x]), w.scalar(1, _dtype(node))])


@exports("log1p")
def log1p(w: Any, node: Any, x: str) -> Any:
    return w.add("Log", [w.add("Add", [x, w.scalar(1, _dtype(node))])])


@exports("log2")
def log2(w: Any, node: Any, x: str) -> Any:
    return w.add("Div", [w.add("Log", [x]), w.scalar(math.log(2), _dtype(node))])


@exports("log10")
def log10(w: Any, node: Any, x: str) -> Any:
    return w.add("Div", [w.add("Log", [x]), w.scalar(math.log(10), _dtype(node))])


@exports("erfc")
def erfc(w: Any, node: Any, x: str) -> Any:
    return w.add("Sub", [w.scalar(1, _dtype(node)), w.add("Erf", [x])])


@exports("hypot")
def hypot(w: Any, node: Any, x: str, y: str) -> Any:
    return w.add("Sqrt", [w.add("Add", [w.add("Mul", [x, x]), w.add("Mul", [y, y])])])


@exports("logaddexp")
def logaddexp(w: Any, node: Any, x: str, y: str) -> Any:
    apart = w.add("Neg", [w.add("Abs", [w.add("Sub", [x, y])])])
    return w.add("Add", [w.add("Max", [x, y]), w.add("Softplus", [apart])])


@exports("logaddexp2")
def logaddexp2(w: Any, node: Any, x: str, y: str) -> Any:
    dtype = _dtype(node)
    two = w.scalar(math.log(2), dtype)
    apart = w.add("Neg", [w.add("Abs", [w.add("Sub", [x, y])])])
    more = w.add("Div", [w.add("Softplus", [w.add("Mul", [apart, two])]), two])
    return w.add("Add", [w.add("Max", [x, y]), more])


@exports("signbit")
def signbit(w: Any, node: Any, x: str) -> Any:
    """That of -0 by its reciprocal."""
    dtype = w.type_of(node.operands[0]).dtype
    zero = w.scalar(0, dtype)
    below = w.add("Less", [x, zero])
    if not dtype.is_float:
        return below
    negative_zero = w.add("Less", [w.add("Reciprocal", [x]), zero])
    return w.add("Or", [below, w.add("And", [w.add("Equal", [x, zero]), negative_zero])])


@exports("xlogy")
def xlogy(w: Any, node: Any, x: str, y: str) -> Any:
    zero = w.scalar(0, _dtype(node))
    product = w.add("Mul", [x, w.add("Log", [y])])
    return w.add("Where", [w.add("Equal", [x, zero]), zero, product])


@exports("atan2")
def atan2(w: Any, node: Any, y: str, x: str) -> Any:
    dtype = _dtype(node)
    zero, pi = w.scalar(0, dtype), w.scalar(math.pi, dtype)
    plain = w.add("Atan", [w.add("Div", [y, x])])
    turn = w.add("Where", [w.add("Less", [y, zero]), w.add("Neg", [pi]), pi])
    behind = w.add("Where", [w.add("Less", [x, zero]), w.add("Add", [plain, turn]), plain])
    nothing = w.add("And", [w.add("Equal", [x, zero]), w.add("Equal", [y, zero])])
    return w.add("Where", [nothing, zero, behind])


@exports("shift_left", "shift_right")
def shift(w: Any, node: Any, x: str, y: str) -> Any:
    raise OnnxNotHere("shifts of signed integers", hint="multiply, or divide with rounding down")
