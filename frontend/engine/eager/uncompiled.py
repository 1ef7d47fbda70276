"""What ops mean on dtypes that graphs do not compute with: complex numbers, unsigned integers of 16
bits and more, floats of 8 bits. Graphs have complex numbers as pairs of reals, and eager mode
computes most of their ops so, too (`complex_forms`); of the rest eager mode alone has values, and
NumPy computes them. Of u64 graphs have values too: what asks for its bits only (`asks_for_bits`) is
on u64 what it is on i64.

An op that moves elements, casts them, chooses between them or asks whether they are equal is itself
on all of them. Integers and floats of these kinds are stored, and little else, as in PyTorch. On
complex numbers an op is one of

- linear with real coefficients: itself;
- holomorphic: itself, but its gradient rule r, which is written for real numbers, becomes
  conj(r(conj(g))): PyTorch's gradients are conjugate Wirtinger derivatives, and r multiplies the
  gradient by the derivative;
- one that has a meaning of its own, with its own rule, in `OWN`.

All others raise NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import SCALAR_NAMES
from graphc.autodiff.sweep import Reads, reads
from graphc.ir.builder import user_location
from graphc.ir.handle import Handle, apply
from graphc.ir.types import DType, TensorType
from graphc.ops import complex_numbers as c
from graphc.ops import contract, indexing, order, reduce
from graphc.ops import elementwise as e
from graphc.ops.composite import mean, stack
from graphc.ops.kinds.index import Gather
from graphc.ops.kinds.movement import Movement
from graphc.ops.nn import activations, products
from graphc.ops.nn.normalization import rms_norm
from graphc.ops.scalar_functions import special
from graphc.ops.scalar_functions import trigonometric as t
from graphc.ops.scalar_functions.bitwise import bitwise_and, bitwise_or, bitwise_xor

Types = tuple[TensorType, ...]

MOVING = (e.cast, e.where, e.eq, e.ne, indexing.scatter_set, indexing.index_set)
"""Beside Movement and Gather: what every dtype can do."""
OF_SMALL_FLOATS = (e.mul, e.abs)
ON_BITS = (e.mul, bitwise_and, bitwise_or, bitwise_xor)
OF_UNSIGNED = (*ON_BITS, order.argsort, order.argtopk)

LINEAR = (e.add, e.sub, e.neg, reduce.sum, order.cumsum, indexing.scatter_add, indexing.index_add)
HOLOMORPHIC = (
    e.mul, e.div, e.exp, e.log, e.sin, e.cos, e.sqrt, e.rsqrt, e.tanh, e.sigmoid, reduce.prod,
    order.cumprod, special.exp2, special.expm1, special.log2, special.log10, special.log1p, t.tan,
    t.asin, t.acos, t.atan, t.sinh, t.cosh, t.asinh, t.atanh, contract.matmul,
    contract.conv, contract.conv_input_grad, contract.conv_weight_grad, activations.silu,
)  # fmt: skip
BY_DEFINITION = (mean, products.addmm, activations.tanhshrink, rms_norm)
"""Composites that on complex numbers mean what their definition means."""

COMPUTED: dict[Any, Callable[..., Any]] = {
    activations.silu: lambda x: x / (1 + np.exp(-x)),
    e.sigmoid: lambda x: 1 / (1 + np.exp(-x)),
    special.exp2: lambda x: np.exp(x * x.dtype.type(np.log(2))),
}
"""Where an op's NumPy form does not take complex numbers."""


def stands_for(type: TensorType) -> TensorType:
    """The type that ops compute with whose rules of inference hold for a type."""
    return type if type.dtype.is_computed else type.with_dtype(type.dtype.computes_as)


def asks_for_bits(op: Any) -> bool:
    """Whether an op means the same on u64 as on the i64 of its bits."""
    return isinstance(op, Movement | Gather) or op in MOVING or op is stack or op in ON_BITS


def conj(x: Any) -> Any:
    """The complex conjugate; a real tensor itself."""
    return apply(CONJ, x) if isinstance(x, Handle) and x.dtype.is_complex else x


class Uncompiled:
    """An op without compiled form, for `Prepared` and the tape: `compute(*arrays)` and
    `vjp(g, out, *operands)` say what it means, `result(type)` of what type the result is. That of
    one with `put_back` is a view: `put_back(new, parent)` is the parent's value where the view
    takes the value `new`. `on_pairs`: what it is in graphs, where complex numbers are pairs, of
    handles; None where it has no compiled form. Where that is an op it computes this one, and there
    needs no `compute` be."""

    differentiable = True
    takes_stored = True
    check_rule = None
    kind = "uncompiled"
    region_names: tuple[str, ...] = ()

    def __init__(
        self, name: str, compute: Callable[..., Any] | None, vjp: Callable[..., tuple[Any, ...]],
        reads: Reads, result: Callable[..., TensorType] = lambda type: type,
        put_back: Callable[[Any, Any], Any] | None = None,
        on_pairs: Callable[..., Any] | None = None,
    ):  # fmt: skip
        self.name = name
        self.on_pairs = on_pairs
        self.node_name = "".join(map(str.capitalize, name.split("_"))) + "Backward0"
        self.put_back = put_back
        self.numpy: Any = compute
        self.vjp = vjp
        self.declared_reads = reads
        self.result = result

    def canonical(self, attributes: dict[str, Any]) -> dict[str, Any]:
        return attributes

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        return (self.result(types[0], **attributes),)

    def direct(self, attributes: dict[str, Any]) -> Callable[..., Any]:
        return partial(self.numpy, **attributes)

    def compute(self, arrays: tuple[Any, ...], attributes: dict[str, Any]) -> tuple[Any, ...]:
        return (np.asarray(self.numpy(*arrays, **attributes)),)

    def reads(self, *_: Any) -> Reads:
        """Which operands and results the rule reads."""
        return self.declared_reads


class OnComplex:
    """A linear or holomorphic op of graphc on complex numbers."""

    check_rule = None
    kind = "uncompiled"

    def __init__(self, op: Any, conjugated: bool):
        self.op = op
        self.name = op.name
        self.differentiable = op.differentiable
        self.conjugated = conjugated

    def canonical(self, attributes: dict[str, Any]) -> dict[str, Any]:
        canonical: dict[str, Any] = self.op.canonical(attributes)
        return canonical

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        return inferred(self.op, types, attributes)

    def direct(self, attributes: dict[str, Any]) -> Callable[..., Any]:
        own = COMPUTED.get(self.op)
        run: Callable[..., Any] = self.op.direct(attributes) if own is None else own
        return run

    def compute(self, arrays: tuple[Any, ...], attributes: dict[str, Any]) -> tuple[Any, ...]:
        return (np.asarray(self.direct(attributes)(*arrays)),)

    def vjp(self, g: Any, out: Any, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        if not self.conjugated:
            return tuple(self.op.vjp(g, out, *inputs, **attributes))
        results = self.op.vjp(conj(g), out, *inputs, **attributes)
        return tuple([partial(_conjugated, result) for result in results])

    def reads(self, types: Types, results: Types, attributes: dict[str, Any], wanted: Any) -> Reads:
        return read_by(self.op, types, results, attributes, wanted)


def _conjugated(result: Any) -> Any:
    return conj(result() if callable(result) else result)


def inferred(op: Any, types: Types, attributes: dict[str, Any]) -> Types:
    """The result types of an op of graphc on types some of which have no compiled form."""
    known = {stands_for(x).dtype: x.dtype for x in types if not x.dtype.is_computed}
    results = op.infer(tuple(map(stands_for, types)), attributes)
    if "dtype" in attributes:
        return tuple(results)
    return tuple([x.with_dtype(known.get(x.dtype, x.dtype)) for x in results])


def read_by(
    op: Any, types: Types, results: Types, attributes: dict[str, Any], wanted: Any
) -> Reads:
    """What the rule of an op of graphc reads, found out on the types that stand for these."""
    plain = tuple(map(stands_for, types)), tuple(map(stands_for, results))
    if op is e.cast:  # its rule reads nothing; the dtype it casts to may have no compiled form
        return (False,), (False,)
    return reads(op, *plain, attributes, wanted)


def meaning(op: Any, types: Types) -> Any:
    """What takes the place of `op` on operands of which some have no compiled form: `op` itself
    where it means the same. Raises NotImplementedError where there is none."""
    dtype = next(type.dtype for type in types if not type.dtype.is_computed)
    if isinstance(op, Movement | Gather | Uncompiled) or op in MOVING or op is stack:
        return op
    if dtype.is_complex:
        known = _MEANINGS.get(op)
    else:
        allowed = OF_SMALL_FLOATS if dtype.is_float else OF_UNSIGNED
        known = OnComplex(op, False) if op in allowed else None
    if known is None and op in BY_DEFINITION and dtype.is_complex:
        return op
    if known is None:
        raise NotImplementedError(
            f"\"{op.name}_cpu\" not implemented for '{SCALAR_NAMES[dtype]}'\n"
            f"  at: {user_location()}"
        )
    return known


# -- meanings of their own -------------------------------------------------------------------------


def real_type(type: TensorType) -> TensorType:
    """The type of the real parts."""
    return type.with_dtype(type.dtype.computes_as) if type.dtype.is_complex else type


def complex_type(type: TensorType) -> TensorType:
    """The type of numbers with such real parts."""
    return type.with_dtype(DType.c128 if type.dtype is DType.f64 else DType.c64)


def _of(x: Any, g: Any) -> Any:
    """A real gradient as a complex one."""
    return apply(e.cast, g, dtype=x.dtype)


NONE: Reads = ((False,), (False,))
CONJ: Uncompiled = Uncompiled(
    "conj", np.conjugate, lambda g, out, x: (conj(g),), NONE,
    on_pairs=lambda x: c.paired(c.part(x, 0), -c.part(x, 1)),
)  # fmt: skip
REAL: Uncompiled = Uncompiled(
    "real", lambda x: x.real, lambda g, out, x: (_of(x, g),), NONE, real_type,
    put_back=lambda new, parent: apply(COMPLEX, new, imaginary(parent)),
    on_pairs=lambda x: c.part(x, 0),
)  # fmt: skip
IMAG: Uncompiled = Uncompiled(
    "imag", lambda x: x.imag, lambda g, out, x: (_of(x, g) * 1j,), NONE, real_type,
    put_back=lambda new, parent: apply(COMPLEX, real_part(parent), new),
    on_pairs=lambda x: c.part(x, 1),
)  # fmt: skip


def imaginary(x: Any) -> Any:
    """The imaginary parts of a complex tensor."""
    return apply(IMAG, x)


def real_part(x: Any) -> Any:
    """The real parts; a real tensor itself."""
    return apply(REAL, x) if x.dtype.is_complex else x


def _joined(x: Any, y: Any) -> Any:
    out = np.empty(x.shape, np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x, y
    return out


COMPLEX: Uncompiled = Uncompiled(
    "complex", _joined, lambda g, out, x, y: (lambda: real_part(g), lambda: imaginary(g)),
    ((False, False), (False,)), complex_type, on_pairs=c.paired,
)  # fmt: skip


def joined(x: Any, y: Any) -> Any:
    """x + y · i, of real tensors of one type."""
    return apply(COMPLEX, x, y)


def _magnitude_rule(g: Any, out: Any, x: Any) -> tuple[Any]:
    return (_of(x, g) * apply(SGN, x),)


def _sgn(x: Any) -> Any:
    size = np.abs(x)
    return np.where(size == 0, x.dtype.type(0), x / np.where(size == 0, 1, size))


def _sgn_rule(g: Any, out: Any, x: Any) -> tuple[Any]:
    size = apply(e.abs, x)
    flat = e.eq(size, size * 0)
    safe = _of(x, e.where(flat, size * 0 + 1, size))
    along = _of(x, real_part(g * conj(out))) * out
    return (e.where(flat, g * 0, (g - along) / safe),)


def _angle_rule(g: Any, out: Any, x: Any) -> tuple[Any]:
    size = apply(e.abs, x)
    square = size * size
    flat = e.eq(square, square * 0)
    share = e.where(flat, square * 0, g / e.where(flat, square * 0 + 1, square))
    return (_of(x, share) * x * 1j,)


def _pow(x: Any, y: Any) -> Any:
    # NumPy gives NaN for some powers of 0.
    powers = np.power(x, y)
    return np.where((x == 0) & (y.real > 0), x.dtype.type(0), powers)


def _pow_rule(g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    def base() -> Any:
        return g * conj(e.where(e.eq(y, y * 0), y * 0, y * e.pow(x, y - 1)))

    def exponent() -> Any:
        start = e.ge(real_part(y), real_part(y) * 0)
        flat = e.logical_and(e.eq(x, x * 0), start)
        return g * conj(e.where(flat, x * 0, out * e.log(x)))

    return base, exponent


SGN: Uncompiled = Uncompiled("sgn", _sgn, _sgn_rule, ((True,), (True,)), on_pairs=c.sign)
ANGLE = Uncompiled("angle", np.angle, _angle_rule, ((True,), (False,)), real_type, on_pairs=c.angle)


def _acosh_rule(g: Any, out: Any, x: Any) -> tuple[Any]:
    # Not the root of x² - 1, whose branch is another one where the real part of x is negative.
    return (g * conj(e.rsqrt(x - 1) * e.rsqrt(x + 1)),)


def _logcumsumexp_rule(g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    # conj of Σ conj(gⱼ)·exp(xᵢ - outⱼ) over j from i on, as a logarithm. What has no logarithm
    # takes the least number, whose exponential is 0.
    none = e.eq(g, g * 0)
    least = g * 0 + float(np.finfo(x.dtype.computes_as.numpy).min)
    logs = e.where(none, least, e.log(conj(e.where(none, g * 0 + 1, g))))
    sums = order.flip(order.logcumsumexp(order.flip(logs - out, axis), axis=axis), axis)
    return (conj(e.exp(sums + x)),)


OWN: dict[Any, Uncompiled] = {
    t.acosh: Uncompiled("acosh", np.arccosh, _acosh_rule, ((True,), (False,)), on_pairs=c.acosh),
    e.abs: Uncompiled(
        "abs", np.abs, _magnitude_rule, ((True,), (False,)), real_type, on_pairs=c.abs
    ),
    e.sign: SGN,
    e.pow: Uncompiled("pow", _pow, _pow_rule, ((True, True), (True,)), on_pairs=c.pow),
    order.logcumsumexp: Uncompiled(
        "logcumsumexp",
        c.logcumsumexp_of_complex,
        _logcumsumexp_rule,
        ((True,), (True,)),
        lambda type, axis: type,
        on_pairs=c.logcumsumexp,
    ),
}
_MEANINGS: dict[Any, Any] = {
    **{op: OnComplex(op, False) for op in LINEAR},
    **{op: OnComplex(op, True) for op in HOLOMORPHIC},
    **OWN,
}
