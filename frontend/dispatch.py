"""Where ops on tensors go: computed by NumPy, or emitted into the active trace; then recorded.

`CONTEXT` is the one context of all tensors, so the gradient rules and composites of graphc.ops
run on tensors as they are.
"""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import numpy as np

from frontend.state import STATE
from frontend.tape import Saves, record
from frontend.tensor import Tensor, make
from graphc.autodiff.sweep import reads
from graphc.errors import GraphError, TraceError
from graphc.ir.builder import user_location
from graphc.ir.nodes import exact
from graphc.ir.types import DType, TensorType
from graphc.ops.kind_composite import Composite
from graphc.ops.movement import broadcast, reshape, slice_, transpose

VIEWS = (reshape, transpose, slice_, broadcast)


class Prepared:
    """What is known of an op for given attributes and operand types."""

    __slots__ = (
        "attributes", "composite", "operand_types", "records", "saves", "type",
        "types", "view",
    )  # fmt: skip

    def __init__(self, op: Any, types: tuple[TensorType, ...], attributes: dict[str, Any]):
        self.attributes = op.canonical(attributes)
        self.operand_types = types
        self.types = tuple([interned(type) for type in op.infer(types, self.attributes)])
        self.type = self.types[0]
        floats = any(type.dtype.is_float for type in self.types)
        self.records = op.differentiable and floats
        self.composite = isinstance(op, Composite) and not op.has_own_gradient
        self.view = op in VIEWS
        self.saves: dict[tuple[bool, ...], Saves] = {}

    def saves_for(
        self, op: Any, attributes: dict[str, Any], wanted: tuple[bool, ...]
    ) -> Saves:
        """What a tape node keeps where gradients of the `wanted` operands are asked for."""
        read = reads(op, self.operand_types, self.types, attributes, wanted)
        made = self.saves[wanted] = Saves(self.operand_types, self.types, read)
        return made


# By op, attributes and the ids of the operand types, which Prepared keeps alive. Ids hash faster
# than types, and hit since types are interned.
_PREPARED: dict[Any, Prepared] = {}
_TYPES: dict[TensorType, TensorType] = {}
_LIMIT = 1 << 16


def interned(type: TensorType) -> TensorType:
    """The one object for equal types."""
    return _TYPES.setdefault(type, type)


class TensorContext:
    """Computes or traces ops on tensors, and records them on the tape."""

    def apply(
        self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> tuple[Tensor, ...]:
        """Run `op`. Raises GraphError with the user's line where the operands do not fit."""
        try:
            key = (op, *map(exact, attributes.items()), *[id(x.tensor_type) for x in operands])
            prepared = _PREPARED.get(key)
        except (TypeError, AttributeError):  # lists among the attributes; operands of other types
            key, prepared = (), None
        if prepared is None:
            prepared = _prepare(key, op, operands, attributes)
        attributes = prepared.attributes
        wanted = None
        if prepared.records and STATE.grad_enabled:
            wanted = tuple([x._requires_grad for x in operands])
            if True not in wanted:
                wanted = None
            elif prepared.composite:
                made = op.define(*operands, **attributes)
                return made if isinstance(made, tuple) else (made,)
        session = STATE.session
        if session is None:
            results = _computed(op, operands, attributes, prepared)
        else:
            values = session.emit(op, operands, attributes)
            results = tuple([make(v, type) for v, type in zip(values, prepared.types)])
            if prepared.view:
                session.make_view(results[0], operands[0], op, attributes)
        if wanted is not None:
            saves = prepared.saves.get(wanted) or prepared.saves_for(op, attributes, wanted)
            record(op, attributes, operands, results, saves)
        return results

    def constant(self, array: Any) -> Tensor:
        """A tensor over `array`, not to be changed in place."""
        array = np.asarray(array)
        value = array if STATE.session is None else STATE.session.constant_value(array)
        return make(value, TensorType.of(array))


CONTEXT = TensorContext()
Tensor.context = CONTEXT


def _prepare(
    key: Any, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]
) -> Prepared:
    for operand in operands:
        if not isinstance(operand, Tensor):
            raise TypeError(f"{op.name}(): expected a Tensor, got {type(operand).__name__}")
        operand.tensor_type = interned(operand.tensor_type)
    types = tuple([x.tensor_type for x in operands])
    if key:
        key = (op, *map(exact, attributes.items()), *map(id, types))
        known = _PREPARED.get(key)
        if known is not None:
            return known
    try:
        prepared = Prepared(op, types, attributes)
    except GraphError as error:
        raise located(error) from None
    if len(_PREPARED) >= _LIMIT:
        _PREPARED.clear()
    if key:
        _PREPARED[key] = prepared
    return prepared


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


def _computed(
    op: Any, operands: tuple[Any, ...], attributes: dict[str, Any], prepared: Prepared
) -> tuple[Tensor, ...]:
    """The results by NumPy."""
    arrays = tuple([x._value for x in operands])
    for array in arrays:
        if type(array) is not np.ndarray:
            raise escaped(op.name)
    try:
        if op.check_rule is not None:
            op.run_checks(arrays, attributes)
        values = _QUIET.run(op.compute, arrays, attributes)
    except GraphError as error:
        raise located(error) from None
    if prepared.view:
        return (_viewed(values[0], prepared.type, operands[0]),)
    if len(values) == 1:
        tensor = _new(Tensor)
        tensor._value = values[0]
        tensor.tensor_type = prepared.type
        tensor._counter = [0]
        return (tensor,)
    return tuple([make(value, type) for value, type in zip(values, prepared.types)])


_new = object.__new__


def _viewed(value: Any, type: TensorType, operand: Tensor) -> Tensor:
    """The result of a movement: a view of its operand where NumPy made it one."""
    result = make(value, type)
    owner = operand._value if operand._value.base is None else operand._value.base
    if value is operand._value or value.base is owner:
        result._base = operand._base if operand._base is not None else operand
        result._counter = operand._counter
    return result


def escaped(name: str) -> TraceError:
    """The error of a traced tensor used after its trace."""
    return TraceError(
        f"{name} met a traced tensor whose trace has ended",
        hint="return it from the function, or hand its value out with frontend.tap(t, fn)",
        location=user_location(),
    )


def located(error: GraphError) -> GraphError:
    """The same error with the user's line."""
    if error.location is not None:
        return error
    message = str(error).partition("\n  try: ")[0]
    return type(error)(message, hint=error.hint, location=user_location())


_SCALARS: dict[Any, np.ndarray] = {}


def filled(number: Any, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """`number` in `dtype`, repeated to `shape`, as a constant not to be changed in place."""
    # -0.0 equals 0.0, so zeros go by their text.
    key = (number or str(number), type(number), dtype, shape)
    array = _SCALARS.get(key)
    if array is None:
        array = np.broadcast_to(np.asarray(number).astype(dtype.numpy), shape)
        if len(_SCALARS) > 4096:
            _SCALARS.clear()
        _SCALARS[key] = array
    session = STATE.session
    kind = TensorType(dtype, shape)
    if session is None:
        return make(array, kind)
    return make(session.filled_value(number, kind), kind)

