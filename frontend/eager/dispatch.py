"""Where ops on tensors go: computed, or emitted into the active trace; then recorded.

The eager backend computes them: NumPy, or the op's own kernel (see `native_ops`).

`CONTEXT` is the one context of all tensors, so the gradient rules and composites of graphc.ops
run on tensors as they are.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import weakref
from functools import partial
from typing import Any

import numpy as np

from frontend.eager.native_ops import native_op
from frontend.eager.tape import Saves, TapeNode, next_sequence, record
from frontend.tensors.no_value import escaped
from frontend.tensors.state import STATE
from frontend.tensors.tensor import Tensor, make
from frontend.tensors.views import View
from graphc.autodiff.sweep import reads
from graphc.errors import GraphError
from graphc.ir.builder import user_location
from graphc.ir.nodes import exact
from graphc.ir.types import DType, TensorType
from graphc.ops.elementwise import cast
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.index import Gather, Scatter
from graphc.ops.kinds.movement import Movement
from graphc.ops.kinds.region import Region
from graphc.ops.movement import broadcast, reshape, slice_, transpose
from graphc.ops.strided import diagonal, slide

VIEWS = (reshape, transpose, slice_, broadcast, diagonal, slide)


class Prepared:
    """What is known of an op for given attributes and operand types."""

    __slots__ = (
        "attributes", "checked", "composite", "compute", "operand_types", "plain", "records",
        "region", "run", "saves", "type", "types", "view", "widened",
    )  # fmt: skip

    def __init__(
        self, op: Any, types: tuple[TensorType, ...], attributes: dict[str, Any], backend: str
    ):
        self.attributes = op.canonical(attributes)
        self.operand_types = types
        self.widened = _widened(op, types)
        wide = self.widened or types
        self.types = tuple(op.infer(wide, self.attributes))
        if self.widened:
            self.types = _narrowed(self.types, types)
        self.type = self.types[0]
        self.records = op.differentiable and any(type.dtype.is_float for type in self.types)
        self.region = isinstance(op, Region)
        self.composite = isinstance(op, Composite) and not op.has_own_gradient
        self.view = op in VIEWS
        self.checked = op.check_rule is not None
        if backend == "native" and not self.view and self.widened is None:
            native = native_op(op, types, self.attributes)
            self.compute, self.run = native.one, native.all  # the one result; all of a tuple's
        else:
            self.compute = op.direct(self.attributes)
            self.run = partial(_run_by_numpy, op, self.attributes)
        awkward = self.view or self.checked or self.widened or self.composite
        self.plain = len(self.types) == 1 and not awkward
        self.saves: dict[tuple[bool, ...], Saves] = {}

    def saves_for(self, op: Any, attributes: dict[str, Any], wanted: tuple[bool, ...]) -> Saves:
        """What a tape node keeps where gradients of the `wanted` operands are asked for."""
        read = reads(op, self.operand_types, self.types, attributes, wanted)
        saves = self.saves[wanted] = Saves(self.operand_types, self.types, read)
        return saves


def _run_by_numpy(op: Any, attributes: dict[str, Any], arrays: tuple[Any, ...]) -> Any:
    if op.check_rule is not None:
        op.run_checks(arrays, attributes)
    return op.compute(arrays, attributes)


def _widened(op: Any, types: tuple[TensorType, ...]) -> tuple[TensorType, ...] | None:
    """The operand types `op` computes with, where some are storage types it does not take."""
    if op is cast or isinstance(op, Movement | Gather | Region):
        return None
    if isinstance(op, Scatter) and op.combine is None:  # elements are moved, as they are
        return None
    if not any(type.dtype.is_storage for type in types):
        return None
    return tuple([type.with_dtype(type.dtype.computes_as) for type in types])


def _narrowed(
    results: tuple[TensorType, ...], operands: tuple[TensorType, ...]
) -> tuple[TensorType, ...]:
    """Results in the storage type of the operands they were widened from."""
    stored = {x.dtype.computes_as: x.dtype for x in operands if x.dtype.is_storage}
    return tuple([type.with_dtype(stored.get(type.dtype, type.dtype)) for type in results])


# STATE.prepared: by op, operand types and attributes. Types are interned, so that this hashes fast.
_LIMIT = 1 << 16


class TensorContext:
    """Computes or traces ops on tensors, and records them on the tape."""

    def apply(
        self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> tuple[Tensor, ...]:
        """Run `op`. Raises GraphError with the user's line where the operands do not fit."""
        try:
            if attributes:
                types = [x.tensor_type for x in operands]
                prepared = STATE.prepared.get((op, *types, *map(exact, attributes.items())))
            else:
                prepared = STATE.prepared.get((op, *[x.tensor_type for x in operands]))
        except (TypeError, AttributeError):  # lists among the attributes; operands of other types
            prepared = None
        if prepared is None:
            prepared = _prepare(op, operands, attributes)
        if prepared.widened is not None:
            return self._widened(op, operands, prepared)
        wanted = None
        if prepared.records and STATE.grad_enabled:
            for x in operands:
                if x._view is not None:
                    x._view.bring_history(x)
            wanted = tuple([x._requires_grad for x in operands])
            if True not in wanted:
                wanted = None
            elif prepared.composite:
                parts = op.define(*operands, **prepared.attributes)
                return parts if isinstance(parts, tuple) else (parts,)
            elif prepared.region and op.is_plain(prepared.attributes):
                full = op.recorded(prepared.operand_types, prepared.attributes)
                if full is not prepared.attributes:
                    return self.apply(op, operands, full)[: len(prepared.types)]
        if STATE.session is not None:
            results = _emitted(op, operands, prepared)
        elif STATE.observer is not None:
            with STATE.observer(op, operands):
                results = (_computed_plainly if prepared.plain else _computed)(
                    op, operands, prepared
                )
        elif prepared.plain:
            results = _computed_plainly(op, operands, prepared)
        else:
            results = _computed(op, operands, prepared)
        if wanted is not None:
            attributes = prepared.attributes
            saves = prepared.saves.get(wanted) or prepared.saves_for(op, attributes, wanted)
            record(op, attributes, operands, results, saves)
        return results

    def _widened(
        self, op: Any, operands: tuple[Any, ...], prepared: Prepared
    ) -> tuple[Tensor, ...]:
        """Arithmetic on storage types: in the type they compute in, rounded to the stored one."""
        assert prepared.widened is not None
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
        value = array if STATE.session is None else STATE.session.constant_value(array)
        return make(value, TensorType.of(array))


CONTEXT = TensorContext()
Tensor.context = CONTEXT


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
    if len(known) >= _LIMIT:
        known.clear()
    with contextlib.suppress(TypeError):  # a list among the attributes
        known[(op, *types, *map(exact, attributes.items()))] = prepared
    return prepared


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


_QUIET = _Quiet()
_new = object.__new__
_Array = np.ndarray


def _computed_plainly(op: Any, operands: tuple[Any, ...], prepared: Prepared) -> tuple[Tensor, ...]:
    """The one result of an op without checks that makes no view."""
    arrays = [x._value for x in operands]
    for array in arrays:
        if array.__class__ is not _Array:
            raise escaped(op.name)
    try:
        value = _QUIET.run(prepared.compute, *arrays)
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
        if type(array) is not np.ndarray:
            raise escaped(op.name)
    try:
        values = _QUIET.run(prepared.run, arrays)
    except GraphError as error:
        raise located(error) from None
    if prepared.view:
        return (_viewed(values[0], op, operands[0], prepared),)
    return tuple([make(value, type) for value, type in zip(values, prepared.types)])


def _viewed(value: Any, op: Any, operand: Tensor, prepared: Prepared) -> Tensor:
    """The result of a movement: a view of its operand where NumPy made it one."""
    result = make(value, prepared.type)
    array, base = operand._value, value.base
    # NumPy's base is the owner of the memory, or the array itself where that is no array (bytes).
    if value is array or (base is not None and (base is array or base is array.base)):
        result._counter = counter = operand._counter
        result._view = View(operand, op, prepared.attributes, counter[0], bool(STATE.grad_enabled))
    return result


def _emitted(op: Any, operands: tuple[Any, ...], prepared: Prepared) -> tuple[Tensor, ...]:
    """The results as variables of the active trace."""
    session: Any = STATE.session
    values = session.emit(op, operands, prepared.attributes, prepared.types)
    results = tuple([make(v, type) for v, type in zip(values, prepared.types)])
    if session.watched is not None:
        session.watched += map(weakref.ref, results)
    if prepared.view:
        session.make_view(results[0], operands[0], op, prepared.attributes)
    return results


# -- the fast path -------------------------------------------------------------------------------
# Eager mode on small tensors costs what the code from a Python operator to NumPy costs. These two
# are `apply` unrolled for the ops it is mostly called with: one or two operands, one result, no
# attributes, no checks. Whatever is unusual is left to `apply`.


def apply_unary(op: Any, x: Tensor) -> Tensor:
    """`CONTEXT.apply(op, (x,), {})[0]`."""
    prepared = STATE.fast_path.get((op, x.tensor_type))
    if prepared is None or not prepared.plain:
        return CONTEXT.apply(op, (x,), {})[0]
    array = x._value
    if array.__class__ is not _Array:
        raise escaped(op.name)
    value = _QUIET.run(prepared.compute, array)
    result = _new(Tensor)
    result._value = value if value.__class__ is _Array else np.asarray(value)
    result.tensor_type = prepared.type
    result._counter = [0]
    if prepared.records and STATE.grad_enabled:
        if x._view is not None:
            x._view.bring_history(x)
        if x._requires_grad:
            _record_one(op, prepared, (x,), (True,), (x._edge or (x, 0),), result)
    return result


def apply_binary(op: Any, x: Tensor, y: Tensor) -> Tensor:
    """`CONTEXT.apply(op, (x, y), {})[0]`."""
    prepared = STATE.fast_path.get((op, x.tensor_type, y.tensor_type))
    if prepared is None or not prepared.plain:
        return CONTEXT.apply(op, (x, y), {})[0]
    left, right = x._value, y._value
    if left.__class__ is not _Array or right.__class__ is not _Array:
        raise escaped(op.name)
    value = _QUIET.run(prepared.compute, left, right)
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
            _record_one(op, prepared, (x, y), (one, other), edges, result)
    return result


def _record_one(
    op: Any, prepared: Prepared, operands: tuple[Tensor, ...], wanted: tuple[bool, ...],
    edges: tuple[Any, ...], result: Tensor,
) -> None:  # fmt: skip
    """`record` for one result, outside of traces."""
    saves = prepared.saves.get(wanted) or prepared.saves_for(op, prepared.attributes, wanted)
    node = _new(TapeNode)
    node.op = op
    node.attributes = prepared.attributes
    node.saves = saves
    node.sequence = next_sequence()
    node.edges = edges
    if saves.inputs:
        node.inputs = [(x := operands[i], x._value, x._counter[0]) for i in saves.inputs]
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


_FILLED: dict[Any, np.ndarray] = {}


def filled(number: Any, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """`number` in `dtype`, repeated to `shape`, as a constant not to be changed in place."""
    return filled_like(number, TensorType(dtype, shape))


def filled_like(number: Any, type: TensorType) -> Tensor:
    """`number` as a constant of a tensor type, not to be changed in place."""
    session = STATE.session
    if session is not None:
        return make(session.filled_value(number, type), type)
    # -0.0 equals 0.0, so zeros go by their text.
    key = (number or str(number), number.__class__, type)
    array = _FILLED.get(key)
    if array is None:
        array = np.broadcast_to(np.asarray(number).astype(type.dtype.numpy), type.shape)
        if len(_FILLED) > 4096:
            _FILLED.clear()
        _FILLED[key] = array
    return make(array, type)
