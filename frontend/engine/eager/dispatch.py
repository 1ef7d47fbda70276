"""Where ops on tensors go: computed, or emitted into the active trace; then recorded.

The eager backend computes them: the op's own kernel (see `native_ops`), or NumPy.

`CONTEXT` is the one context of all tensors, so the gradient rules and composites of graphc.ops
run on tensors as they are.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from frontend.engine.eager.prepared import VIEWS, Prepared
from frontend.engine.eager.tape import Saves, TapeNode, next_sequence, record
from frontend.engine.tensors.bounded import Bounded
from frontend.engine.tensors.memory_tracking import whole_array
from frontend.engine.tensors.no_value import NoData, escaped
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.symbolic_numbers import extents_in
from frontend.engine.tensors.tensor import Tensor, make, without_data
from frontend.engine.tensors.views import View
from graphc.errors import GraphError
from graphc.ir.builder import user_location
from graphc.ir.nodes import exact
from graphc.ir.types import INTERNED, DType, TensorType
from graphc.ops.composite import stack
from graphc.ops.contract import conv, conv_input_grad, conv_weight_grad, matmul, paired_matmul
from graphc.ops.elementwise import cast
from graphc.ops.movement import broadcast, concat, pad, reshape, slice_, transpose
from graphc.ops.nn.products import addmm, addmm_of_halves
from graphc.ops.paired_convolution import (
    conv_of_halves,
    input_grad_of_halves,
    weight_grad_of_halves,
)
from graphc.ops.strided import diagonal_embed


class TensorContext:
    """Computes or traces ops on tensors, and records them on the tape."""

    def apply(
        self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> tuple[Tensor, ...]:
        """Run `op`. Raises GraphError with the user's line where the operands do not fit."""
        try:
            if attributes:
                if op in MOVED and (moved := _moved(op, operands, attributes)) is not None:
                    return (moved,)
                if STATE.mode is not None and STATE.mode.open_sizes:
                    attributes = {name: extents_in(each) for name, each in attributes.items()}
                types = [x.tensor_type for x in operands]
                values = map(exact, attributes.values())
                prepared = STATE.prepared.get((op, *types, *attributes, *values))
            else:
                prepared = STATE.prepared.get((op, *[x.tensor_type for x in operands]))
        except (TypeError, AttributeError):  # lists among the attributes; operands of other types
            prepared = None
        if prepared is None:
            prepared = _prepare(op, operands, attributes)
        if prepared.plain and not STATE.watched and not prepared.region:
            result = _applied_plainly(op, operands, prepared)
            if result is not None:
                return (result,)
        if prepared.widened is not None:
            return self._widened(op, operands, prepared)
        if prepared.by_definition:
            return _defined(op, operands, prepared)
        wanted = None
        if prepared.records and STATE.grad_enabled:
            for x in operands:
                if x._view is not None:
                    x._view.bring_history(x)
            wanted = tuple([x._requires_grad for x in operands])
            if True not in wanted:
                wanted = None
            elif prepared.composite:
                return _defined(op, operands, prepared)
            elif prepared.region and op.is_plain(prepared.attributes):
                full = op.recorded(prepared.operand_types, prepared.attributes)
                if full is not prepared.attributes:
                    return self.apply(op, operands, full)[: len(prepared.types)]
        if STATE.mode is not None:
            results = STATE.mode.emit(
                op, operands, prepared.attributes, prepared.types, prepared.view
            )
        elif STATE.observer is not None:
            results = _observed(op, operands, prepared)
        elif prepared.plain:
            results = _computed_plainly(op, operands, prepared)
        else:
            results = _computed(op, operands, prepared)
        if wanted is not None:
            saves = prepared.saves.get(wanted) or prepared.saves_for(wanted, operands)
            record(prepared.op, prepared.attributes, operands, results, saves)
        return results

    def _widened(
        self, op: Any, operands: tuple[Any, ...], prepared: Prepared
    ) -> tuple[Tensor, ...]:
        """Arithmetic on storage types: in the type they compute in, rounded to the stored one.
        Products of f16 and bf16 are ops of their own."""
        assert prepared.widened is not None
        of_halves = OF_HALVES.get(op)
        dtypes = {x.tensor_type.dtype for x in operands}
        results: tuple[Any, ...]
        if of_halves is not None and len(dtypes) == 1 and dtypes <= HALVES:
            results = (of_halves(*operands, **prepared.attributes),)
        else:
            wide = [
                x if x.tensor_type is type else self.apply(cast, (x,), {"dtype": type.dtype})[0]
                for x, type in zip(operands, prepared.widened)
            ]
            results = self.apply(op, tuple(wide), prepared.attributes)
        return tuple(
            [
                x if x.tensor_type is type else self.apply(cast, (x,), {"dtype": type.dtype})[0]
                for x, type in zip(results, prepared.types)
            ]
        )

    def constant(self, array: Any) -> Tensor:
        """A tensor over `array`, not to be changed in place."""
        array = np.asarray(array)
        type = TensorType.of(array)
        return make(array, type) if STATE.mode is None else STATE.mode.constant(array, type)


HALVES = {DType.f16, DType.bf16}
OF_HALVES: dict[Any, Callable[..., Any]] = {
    matmul: paired_matmul, addmm: addmm_of_halves, conv: conv_of_halves,
    conv_input_grad: input_grad_of_halves, conv_weight_grad: weight_grad_of_halves,
}  # fmt: skip
"""What products of f16 or bf16 are, before they are rounded."""

CONTEXT = TensorContext()
Tensor.context = CONTEXT


def _defined(op: Any, operands: tuple[Any, ...], prepared: Prepared) -> tuple[Tensor, ...]:
    """The results of a composite, by the ops of its definition."""
    parts = op.define(*operands, **prepared.attributes)
    return parts if isinstance(parts, tuple) else (parts,)


def _prepare(op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Prepared:
    for operand in operands:
        if not isinstance(operand, Tensor):
            raise TypeError(f"{op.name}(): expected a Tensor, got {type(operand).__name__}")
    types = tuple([x.tensor_type for x in operands])
    try:
        prepared = Prepared(op, types, attributes, STATE.backend)
    except GraphError as error:
        raise located(error) from None
    known = STATE.prepared
    with contextlib.suppress(TypeError):  # a list among the attributes
        known[(op, *types, *attributes, *map(exact, attributes.values()))] = prepared
    return prepared


# -- moving --------------------------------------------------------------------------------------

MOVED = {*VIEWS, concat, diagonal_embed, pad, stack}
"""Movements that NumPy does: nothing is computed, so the bits are those of a kernel, and none is
compiled for each place that is read or written."""
_FITS: dict[Any, Callable[..., bool]] = {
    reshape: lambda source, result, shape: result == shape,
    broadcast: lambda source, result, shape: result == shape,
    slice_: lambda source, result, start, size, step: result == size and min(start, default=0) >= 0,
    transpose: lambda source, result, permutation: (
        permutation.__class__ is tuple and min(permutation, default=0) >= 0
    ),
}
"""By op, whether what NumPy made is what the op is defined to be, where that is less than to infer
it. (What fits no operand NumPy refuses.)"""


def _moved(op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Tensor | None:
    """The result of a movement in eager mode, a view where memory allows, recorded. None where that
    is left to `apply`: for errors, operands without an array, ops that are watched."""
    if STATE.watched:
        return None
    arrays = []
    for x in operands:
        array = x._value
        if array.__class__ is not _Array:
            return None
        arrays.append(array)
    fits = _FITS.get(op)
    try:
        value = np.stack(arrays, **attributes) if op is stack else op.view(*arrays, **attributes)
        if value.__class__ is not _Array:  # NumPy gives a number for all of a 0-d array
            value = np.asarray(value)
        if fits is None:
            attributes = op.canonical(attributes)
            op.infer(tuple([x.tensor_type for x in operands]), attributes)
        elif not fits(operands[0].tensor_type.shape, value.shape, **attributes):
            return None
    except (GraphError, TypeError, ValueError):
        return None
    return view_plainly(op, attributes, operands[0], value) if op in VIEWS else joined_plainly(
        op, attributes, operands, value
    )  # fmt: skip


def joined_plainly(
    op: Any, attributes: dict[str, Any], operands: tuple[Tensor, ...], value: Any
) -> Tensor | None:
    """`value`, which NumPy made of the arrays of tensors of one dtype as `op` is defined, as a
    tensor; recorded. None where that is left to `apply`. Nothing is watched."""
    dtype = operands[0].tensor_type.dtype
    recorded = False
    if STATE.grad_enabled:
        for x in operands:
            view = x._view
            if view is not None and view.known != x._counter[0]:
                view.bring_history(x)
            if x._requires_grad:
                recorded = True
    if recorded and not dtype.is_computed:
        return None  # complex numbers have rules of their own
    result = make(value, TensorType(dtype, value.shape))
    if recorded:
        record_moved(op, attributes, operands, result)
    return result


def view_plainly(op: Any, attributes: dict[str, Any], x: Tensor, value: Any) -> Tensor | None:
    """`value`, which NumPy made of the array of `x` as `op` is defined, as a tensor: a view where
    it shares memory, recorded. None where that is left to `apply`. Nothing is watched."""
    type, shape = x.tensor_type, value.shape
    result = _new(Tensor)
    result._value = value
    result.tensor_type = INTERNED.get((type.dtype, shape)) or TensorType(type.dtype, shape)
    tracked = recorded = False
    if STATE.grad_enabled:
        if x._view is not None:
            x._view.bring_history(x)
        tracked, recorded = True, x._requires_grad
        if recorded and not type.dtype.is_computed:
            return None  # as above
    base, array = value.base, x._value
    if base is not None and (base is array or base is array.base):
        result._counter = counter = x._counter
        result._view = view = _new(View)  # written out: a call less
        view._parent, view._former = x, x._former
        view.op, view.attributes = op, attributes
        view.seen = view.known = counter[0]
        view.tracked = tracked
    else:
        result._counter = [0]
    if recorded:
        record_moved(op, attributes, (x,), result)
    return result


def slices_plainly(x: Tensor, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...] | None:
    """`view_plainly` of the parts of these sizes along an axis, which follow each other."""
    array, dtype, start = x._value, x.tensor_type.dtype, 0
    if array.__class__ is not _Array:
        return None
    tracked, saves, edges = bool(STATE.grad_enabled), None, None
    if tracked:
        if x._view is not None:
            x._view.bring_history(x)
        if x._requires_grad:
            if not dtype.is_computed:
                return None  # complex numbers have rules of their own
            edges = (x._edge or (x, 0),)
    whole, lead, rest = (slice(None),) * axis, (0,) * axis, (0,) * (array.ndim - axis - 1)
    steps, counter, former = (1,) * array.ndim, x._counter, x._former
    parts, type = [], x.tensor_type
    for size in sizes:
        at = start if size else 0
        start += size
        value = array[(*whole, slice(at, at + size))]
        if value.shape != type.shape:
            type, saves = TensorType(dtype, value.shape), None
        part = _new(Tensor)
        part._value, part.tensor_type, part._counter = value, type, counter
        part._view = view = _new(View)
        view._parent, view._former = x, former
        view.op, view.tracked = slice_, tracked
        view.attributes = {"start": (*lead, at, *rest), "size": value.shape, "step": steps}
        view.seen = view.known = counter[0]
        if edges is not None:
            node = _new(TapeNode)
            if saves is None:
                saves = Saves((x.tensor_type,), (type,), ((), ()))
                saves.rules = None
            node.op, node.attributes, node.saves = slice_, view.attributes, saves
            node.sequence, node.edges = next_sequence(), edges
            part._edge, part._requires_grad = (node, 0), True
        parts.append(part)
    return tuple(parts)


def record_moved(
    op: Any, attributes: dict[str, Any], operands: tuple[Tensor, ...], result: Tensor
) -> None:
    """`record` for a movement, whose rule reads no value."""
    node = _new(TapeNode)
    node.op = op
    node.attributes = attributes
    node.saves = saves = _new(Saves)
    saves.result_types = (result.tensor_type,)
    saves.inputs = saves.outputs = ()
    saves.rules = None
    node.sequence = next_sequence()
    if len(operands) == 1:  # it is what records
        (x,) = operands
        saves.types = (x.tensor_type,)
        node.edges = (x._edge or (x, 0),)
    else:
        saves.types = tuple([x.tensor_type for x in operands])
        node.edges = tuple([(x._edge or (x, 0)) if x._requires_grad else None for x in operands])
    result._edge = (node, 0)
    result._requires_grad = True


# -- computing -----------------------------------------------------------------------------------


def _quiet_runner() -> Any:
    """A function that calls another without NumPy's floating-point warnings. NumPy keeps its error
    state in a context variable, so a context made once costs less than `np.errstate` per op."""
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    return context.run


class _Quiet(threading.local):
    """A runner per thread: a context cannot be entered twice at once."""

    def __init__(self) -> None:
        self.run = _quiet_runner()


QUIET = _Quiet()
_new = object.__new__
_Array = np.ndarray


def _applied_plainly(op: Any, operands: tuple[Any, ...], prepared: Prepared) -> Tensor | None:
    """The one result of an op without checks that makes no view, recorded; nothing is watched. None
    where an operand has no array."""
    arrays = [x._value for x in operands]
    for array in arrays:
        if array.__class__ is not _Array:
            return None
    try:
        native = prepared.native
        value = native.call(*arrays) if native else QUIET.run(prepared.compute, *arrays)
    except GraphError as error:  # a content check inside a composite
        raise located(error) from None
    result = _new(Tensor)
    result._value = value if value.__class__ is _Array else np.asarray(value)
    result.tensor_type = prepared.type
    result._counter = [0]
    if prepared.records and STATE.grad_enabled:
        for x in operands:
            if x._view is not None:
                x._view.bring_history(x)
        wanted = tuple([x._requires_grad for x in operands])
        if True in wanted:
            edges = [(x._edge or (x, 0)) if x._requires_grad else None for x in operands]
            record_one(prepared, operands, wanted, tuple(edges), result)
    return result


def _computed_plainly(op: Any, operands: tuple[Any, ...], prepared: Prepared) -> tuple[Tensor, ...]:
    """The one result of an op without checks that makes no view."""
    arrays = [x._value for x in operands]
    for array in arrays:
        if array.__class__ is not _Array:
            return _uncomputed(op, operands, prepared)
    try:
        native = prepared.native
        value = native.call(*arrays) if native else QUIET.run(prepared.compute, *arrays)
    except GraphError as error:  # a content check inside a composite
        raise located(error) from None
    result = _new(Tensor)
    result._value = value if value.__class__ is _Array else np.asarray(value)
    result.tensor_type = prepared.type
    result._counter = [0]
    return (result,)


def _computed(op: Any, operands: tuple[Any, ...], prepared: Prepared) -> tuple[Tensor, ...]:
    """The results, of any op."""
    arrays = tuple([x._value for x in operands])
    for array in arrays:
        if array.__class__ is not _Array:
            return _uncomputed(op, operands, prepared)
    try:
        run = prepared.run
        values = run(arrays) if prepared.native else QUIET.run(run, arrays)
    except GraphError as error:
        raise located(error) from None
    if prepared.view:
        result = make(values[0], prepared.type)
        _share(result, op, operands[0], prepared.attributes)
        return (result,)
    if prepared.region:
        values = _apart(values, arrays)
    return tuple([make(value, type) for value, type in zip(values, prepared.types)])


def _observed(op: Any, operands: tuple[Any, ...], prepared: Prepared) -> tuple[Tensor, ...]:
    assert STATE.observer is not None
    with STATE.observer(op, operands, prepared.attributes) as note:
        results = (_computed_plainly if prepared.plain else _computed)(op, operands, prepared)
        if note is not None:
            note(results)
    return results


def _apart(values: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results of a branch or loop, each with memory of its own: a body may return an operand, a
    view of one, a constant, or one value twice."""
    taken = {id(whole_array(array)) for array in arrays}
    apart = []
    for value in values:
        if id(whole_array(value)) in taken or not value.flags.writeable:
            value = value.copy(order="C")
        taken.add(id(whole_array(value)))
        apart.append(value)
    return tuple(apart)


def _uncomputed(op: Any, operands: tuple[Any, ...], prepared: Prepared) -> tuple[Tensor, ...]:
    """The results where an operand has no data: tensors on "meta". Raises TraceError where one is
    of a trace that has ended."""
    for x in operands:
        if x._value.__class__ not in (_Array, NoData):
            raise escaped(op.name)
    results = tuple([without_data(type) for type in prepared.types])
    if prepared.view:
        _show(results[0], op, operands[0], prepared.attributes)
    return results


def _share(result: Tensor, op: Any, operand: Tensor, attributes: dict[str, Any]) -> None:
    """Make `result` a view of `operand` where NumPy made its array one."""
    value, array = result._value, operand._value
    base = value.base
    # NumPy's base is the owner of the memory, or the array itself where that is no array (bytes).
    if value is array or (base is not None and (base is array or base is array.base)):
        _show(result, op, operand, attributes)


def _show(result: Tensor, op: Any, operand: Tensor, attributes: dict[str, Any]) -> None:
    """Make `result` a view of `operand`."""
    result._counter = counter = operand._counter
    result._view = View(operand, op, attributes, counter[0], bool(STATE.grad_enabled))


# -- the fast path -------------------------------------------------------------------------------
# Eager mode on small tensors costs what the code from a Python operator to NumPy costs. These two
# are `apply` unrolled for the ops it is mostly called with: one or two operands, one result, no
# attributes, no checks. Whatever is unusual is left to `apply`. A test runs each sample of the op
# table through all of them (tests/frontend/engine/eager/test_fast_paths.py).


def apply_one(op: Any, *operands: Any, **attributes: Any) -> Tensor:
    """The result of an op that has one: `CONTEXT.apply(op, operands, attributes)[0]`."""
    result: Tensor = CONTEXT.apply(op, operands, attributes)[0]
    return result


def apply_unary(op: Any, x: Tensor) -> Tensor:
    """`CONTEXT.apply(op, (x,), {})[0]`."""
    prepared = STATE.fast_path.get((op, x.tensor_type))
    if prepared is None or not prepared.plain:
        return CONTEXT.apply(op, (x,), {})[0]
    array = x._value
    if array.__class__ is not _Array:
        return CONTEXT.apply(op, (x,), {})[0]
    native = prepared.native
    value = native.call(array) if native else QUIET.run(prepared.compute, array)
    result = _new(Tensor)
    result._value = value if value.__class__ is _Array else np.asarray(value)
    result.tensor_type = prepared.type
    result._counter = [0]
    if prepared.records and STATE.grad_enabled:
        if x._view is not None:
            x._view.bring_history(x)
        if x._requires_grad:
            record_one(prepared, (x,), (True,), (x._edge or (x, 0),), result)
    return result


def apply_reduction(op: Any, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """`CONTEXT.apply(op, (x,), {"axes": axes})[0]`."""
    prepared = STATE.fast_path.get((op, x.tensor_type, "axes", axes))
    if prepared is not None and prepared.plain and not prepared.region:
        result = _applied_plainly(op, (x,), prepared)
        if result is not None:
            return result
    return CONTEXT.apply(op, (x,), {"axes": axes})[0]


def apply_binary(op: Any, x: Tensor, y: Tensor) -> Tensor:
    """`CONTEXT.apply(op, (x, y), {})[0]`."""
    prepared = STATE.fast_path.get((op, x.tensor_type, y.tensor_type))
    if prepared is None or not prepared.plain:
        return CONTEXT.apply(op, (x, y), {})[0]
    left, right = x._value, y._value
    if left.__class__ is not _Array or right.__class__ is not _Array:
        return CONTEXT.apply(op, (x, y), {})[0]
    native = prepared.native
    value = native.call(left, right) if native else QUIET.run(prepared.compute, left, right)
    result = _new(Tensor)
    result._value = value if value.__class__ is _Array else np.asarray(value)
    result.tensor_type = prepared.type
    result._counter = [0]
    if prepared.records and STATE.grad_enabled:
        if x._view is not None:
            x._view.bring_history(x)
        if y._view is not None:
            y._view.bring_history(y)
        one, other = x._requires_grad, y._requires_grad
        if one or other:
            edges = (
                (x._edge or (x, 0)) if one else None, (y._edge or (y, 0)) if other else None,
            )  # fmt: skip
            record_one(prepared, (x, y), (one, other), edges, result)
    return result


def record_one(
    prepared: Prepared, operands: tuple[Tensor, ...], wanted: tuple[bool, ...],
    edges: tuple[Any, ...], result: Tensor, arrays: tuple[Any, ...] | None = None,
) -> None:  # fmt: skip
    """`record` for one result, outside of traces. `arrays`: what was computed with, where that is
    not the operands as they are."""
    saves = prepared.saves.get(wanted) or prepared.saves_for(wanted, operands)
    node = _new(TapeNode)
    node.op = prepared.op
    node.attributes = prepared.attributes
    node.saves = saves
    node.sequence = next_sequence()
    node.edges = edges
    if saves.inputs:
        values = [x._value for x in operands] if arrays is None else arrays
        node.inputs = [(x := operands[i], values[i], x._counter[0]) for i in saves.inputs]
    result._edge = (node, 0)
    result._requires_grad = True
    if saves.outputs:
        node.outputs = [(result._value, result._counter, 0)]


# -- errors and constants ------------------------------------------------------------------------


def located(error: GraphError) -> GraphError:
    """The same error with the user's line."""
    if error.location is not None:
        return error
    message = str(error).partition("\n  try: ")[0]
    return type(error)(message, hint=error.hint, location=user_location())


_FILLED: Bounded[Any, np.ndarray] = Bounded(4096)


def filled(number: Any, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """`number` in `dtype`, repeated to `shape`, as a constant not to be changed in place."""
    if STATE.mode is not None:
        shape = extents_in(tuple(shape))
    return filled_like(number, TensorType(dtype, shape))


def filled_like(number: Any, type: TensorType) -> Tensor:
    """`number` as a constant of a tensor type, not to be changed in place."""
    if STATE.mode is not None:
        return STATE.mode.constant(number, type)
    # -0.0 equals 0.0, so zeros go by their text.
    key = (number or str(number), number.__class__, type)
    array = _FILLED.get(key)
    if array is None:
        with np.errstate(all="ignore"):  # a number that a half type has not is infinite there
            one = np.asarray(number).astype(type.dtype.numpy)
        one.flags.writeable = False
        array = np.broadcast_to(one, type.shape)
        _FILLED[key] = array
    return make(array, type)
