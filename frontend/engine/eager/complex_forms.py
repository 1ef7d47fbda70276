"""What ops on complex numbers are on pairs of reals: how graphs have them, and native code computes
them in eager mode, to the same bits.

An op is one that moves pairs as it moves elements, one that is itself on each of the parts, or
another op: of `graphc.ops.complex_numbers`, or what an op of `uncompiled` says it is `on_pairs`.
The rest has no compiled form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.eager.kernels.native_ops import native_op
from frontend.engine.eager.uncompiled import LINEAR, Types, Uncompiled
from frontend.engine.tensors.pairs import as_pairs, from_pairs, stored_type
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.handle import broadcast_to, lift
from graphc.ops import complex_numbers as c
from graphc.ops import contract, indexing, order, reduce
from graphc.ops import elementwise as e
from graphc.ops import movement as m
from graphc.ops.composite import stack
from graphc.ops.kinds.host import HostFunction
from graphc.ops.kinds.index import Gather
from graphc.ops.kinds.movement import Movement
from graphc.ops.kinds.op import Op
from graphc.ops.linear_algebra import complex_lapack
from graphc.ops.nn import activations
from graphc.ops.scalar_functions import special
from graphc.ops.scalar_functions import trigonometric as t

FORMS: dict[Any, Op] = {
    e.mul: c.mul, e.div: c.div, e.pow: c.pow, e.abs: c.abs, e.sign: c.sign, e.exp: c.exp,
    e.log: c.log, e.sqrt: c.sqrt, e.rsqrt: c.rsqrt, e.sin: c.sin, e.cos: c.cos, e.tanh: c.tanh,
    e.sigmoid: c.sigmoid, special.exp2: c.exp2, special.expm1: c.expm1, special.log2: c.log2,
    special.log10: c.log10, special.log1p: c.log1p, t.tan: c.tan, t.asin: c.asin, t.acos: c.acos,
    t.atan: c.atan, t.sinh: c.sinh, t.cosh: c.cosh, t.asinh: c.asinh, t.acosh: c.acosh,
    t.atanh: c.atanh, activations.silu: c.silu, contract.matmul: c.matmul, contract.conv: c.conv,
    contract.conv_input_grad: c.conv_input_grad, contract.conv_weight_grad: c.conv_weight_grad,
    reduce.prod: c.prod, order.cumprod: c.cumprod, order.logcumsumexp: c.logcumsumexp,
    **complex_lapack.ON_PAIRS,
}  # fmt: skip
"""By op of real numbers, that of pairs with the same attributes."""

# -- what moves pairs, or is itself on them --------------------------------------------------------


def _sliced(x: Any, *, start: Any, size: Any, step: Any) -> Any:
    return m.slice_(x, start=(*start, 0), size=(*size, 2), step=(*step, 1))


def _transposed(x: Any, *, permutation: Any) -> Any:
    return m.transpose(x, permutation=(*permutation, len(permutation)))


_ON_PAIRS: dict[Any, Callable[..., Any]] = {
    m.reshape: lambda x, shape: m.reshape(x, shape=(*shape, 2)),
    m.transpose: _transposed,
    m.slice_: _sliced,
    m.broadcast: lambda x, shape: m.broadcast(_in_rank(x, len(shape)), shape=(*shape, 2)),
    m.concat: m.concat,
    stack: stack,
    e.add: e.add,
    e.sub: e.sub,
    e.neg: e.neg,
    e.eq: lambda x, y: e.logical_and(*c.parts_of(e.eq(x, y))),
    e.ne: lambda x, y: e.logical_or(*c.parts_of(e.ne(x, y))),
}


def _in_rank(x: Any, rank: int) -> Any:
    """Pairs with axes of 1 in front, up to `rank` axes of elements."""
    missing = rank + 1 - len(x.shape)
    return m.reshape(x, shape=((1,) * missing + tuple(x.shape))) if missing else x


def _cast(x: Any, source: Any, dtype: Any) -> Any:
    """Between complex dtypes, from and to real ones; to bool, whether it is not 0."""
    if not dtype.is_complex:
        re, im = c.parts_of(x)
        if dtype.value == "bool":
            return e.logical_or(e.cast(re, dtype=dtype), e.cast(im, dtype=dtype))
        return e.cast(re, dtype=dtype)
    cast = x if x.dtype is dtype.computes_as else e.cast(x, dtype=dtype.computes_as)
    if source.is_complex:
        return cast
    return c.paired(cast, broadcast_to(lift(0, cast), cast.shape))


def _is_by_parts(op: Any) -> bool:
    moves = isinstance(op, Movement | Gather) or op in (
        e.where, indexing.scatter_set, indexing.index_set
    )  # fmt: skip
    return moves or op in LINEAR


# -- in a trace ------------------------------------------------------------------------------------


def on_pairs(
    op: Any, operands: tuple[Any, ...], types: Types, attributes: dict[str, Any]
) -> tuple[Any, ...]:
    """The results of an op on operands of these types, some of them or of the results complex:
    handles of a graph, in which complex numbers are pairs. Raises TraceError for what has no
    compiled form."""
    if op is e.cast:
        return (_cast(operands[0], types[0].dtype, attributes["dtype"]),)
    form: Any = FORMS.get(op) or _ON_PAIRS.get(op)
    if isinstance(op, Uncompiled):
        form = op.on_pairs
    elif isinstance(op, HostFunction):
        form = op.in_graphs(*types)
    if form is not None:
        results = form(*operands, **attributes)
        return results if isinstance(results, tuple) else (results,)
    if not _is_by_parts(op):
        raise without_form(op.name)
    halves = []
    for which in (0, 1):
        pairs = zip(operands, types)
        mine = [c.part(x, which) if type.dtype.is_complex else x for x, type in pairs]
        halves.append(operands[0].context.apply(op, tuple(mine), attributes))
    return tuple([c.paired(re, im) for re, im in zip(*halves)])


def without_form(what: str) -> TraceError:
    """The error for what compiled code does not do with complex numbers."""
    return TraceError(
        f"{what} of complex numbers runs eagerly only: compiled code has no form of it yet",
        hint="keep it outside of the compiled function",
        location=user_location(),
    )


# -- in eager mode ---------------------------------------------------------------------------------


def computed_on_pairs(
    op: Any, types: Types, results: Types, attributes: dict[str, Any], backend: str
) -> Callable[..., Any] | None:
    """What computes an op on arrays of which some, or the result, are complex: the native kernel of
    its form on pairs. None where NumPy does, to the same bits or without a form."""
    form = op.on_pairs if isinstance(op, Uncompiled) else FORMS.get(getattr(op, "op", op))
    if isinstance(form, Op):
        return OnPairs(form, types, results, attributes, backend)
    if getattr(op, "op", op) is reduce.sum and backend == "native":
        return OnParts(reduce.sum, types, attributes)
    return None


def _compute(op: Op, types: Types, attributes: dict[str, Any], backend: str) -> Callable[..., Any]:
    canonical = op.canonical(attributes)
    if backend == "native":
        return native_op(op, types, canonical).all
    return lambda arrays: op.compute(arrays, canonical)


class OnPairs:
    """Computes an op by another one of pairs."""

    def __init__(
        self, form: Op, types: Types, results: Types, attributes: dict[str, Any], backend: str
    ):
        self.run = _compute(form, tuple(map(stored_type, types)), attributes, backend)
        self.gives_pairs = results[0].dtype.is_complex

    def __call__(self, *arrays: Any) -> Any:
        (value,) = self.run(tuple([as_pairs(array) for array in arrays]))
        return from_pairs(value) if self.gives_pairs else value


class OnParts:
    """Computes an op of one complex operand on the real and on the imaginary parts."""

    def __init__(self, op: Op, types: Types, attributes: dict[str, Any]):
        (type,) = types
        self.run = _compute(op, (type.with_dtype(type.dtype.computes_as),), attributes, "native")

    def __call__(self, array: Any) -> Any:
        (re,), (im,) = self.run((array.real,)), self.run((array.imag,))
        return from_pairs(np.stack([re, im], -1))
