"""What dispatch knows of an op for given attributes and operand types, found out once."""

from __future__ import annotations

from functools import partial
from typing import Any

from frontend.engine.eager.complex_forms import computed_on_pairs
from frontend.engine.eager.kernels.blocked import BlockedOp, runs_in_blocks
from frontend.engine.eager.kernels.gradient_worker import ask_ahead
from frontend.engine.eager.kernels.native_ops import NativeOp, native_op, result_types
from frontend.engine.eager.tape import Saves
from frontend.engine.eager.uncompiled import (
    OnComplex,
    Uncompiled,
    asks_for_bits,
    inferred,
    meaning,
    read_by,
)
from graphc.ir.types import TensorType
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.region import Region
from graphc.ops.movement import broadcast, reshape, slice_, transpose
from graphc.ops.strided import diagonal, slide

VIEWS = (reshape, transpose, slice_, broadcast, diagonal, slide)


class Prepared:
    """What is known of an op for given attributes and operand types."""

    __slots__ = (
        "attributes", "by_definition", "checked", "composite", "compute", "native", "op",
        "operand_types", "plain", "records", "region", "run", "saves", "type", "types", "view",
        "widened",
    )  # fmt: skip

    def __init__(
        self, op: Any, types: tuple[TensorType, ...], attributes: dict[str, Any], backend: str
    ):
        compiled = all([x.dtype.is_computed for x in types]) or (
            all([x.dtype.is_compiled for x in types]) and asks_for_bits(op)
        )
        self.op = op if compiled else meaning(op, types)  # what is recorded
        self.attributes = op.canonical(attributes)
        self.operand_types = types
        self.widened = _widened(op, types) if compiled else None
        if compiled:
            self.types = result_types(op, self.widened or types, self.attributes)
        else:
            self.types = _result_types(self.op, types, self.attributes)
        if self.widened:
            self.types = _narrowed(self.types, types)
        self.type = self.types[0]
        compiled &= all([type.dtype.is_compiled for type in self.types])
        op = self.op
        self.records = op.differentiable and any(type.dtype.is_float for type in self.types)
        self.region = isinstance(op, Region)
        self.composite = isinstance(op, Composite) and not op.has_own_gradient
        self.by_definition = isinstance(op, Composite) and not compiled
        self.view = op in VIEWS or getattr(op, "put_back", None) is not None
        self.checked = op.check_rule is not None
        self.native: NativeOp | None = None
        self.compute: Any = None  # without native code: the one result
        self.run: Any  # all results as a tuple
        if backend == "native" and compiled and not self.view and self.widened is None:
            self.native = native_op(op, types, self.attributes)
            self.run = self.native.all
        elif not compiled and (on_pairs := _on_pairs(op, types, self, backend)) is not None:
            self.compute = on_pairs
            self.run = lambda arrays: (on_pairs(*arrays),)
        else:
            blocks = runs_in_blocks(op, types)
            self.compute = (
                BlockedOp(op, types[0], self.attributes) if blocks else op.direct(self.attributes)
            )
            self.run = partial(_run_by_numpy, op, self.attributes)
        awkward = self.view or self.checked or self.widened or self.composite or self.by_definition
        self.plain = len(self.types) == 1 and not awkward
        self.saves: dict[tuple[bool, ...], Saves] = {}

    def saves_for(self, wanted: tuple[bool, ...], operands: tuple[Any, ...]) -> Saves:
        """What a tape node keeps where gradients of the `wanted` operands are asked for, when that
        is asked for the first time."""
        if self.native is not None:
            ask_ahead(self.op, self.attributes, operands, wanted)
        op = self.op
        find = op.reads if isinstance(op, Uncompiled | OnComplex) else partial(read_by, op)
        read = find(self.operand_types, self.types, self.attributes, wanted)
        saves = self.saves[wanted] = Saves(self.operand_types, self.types, read)
        return saves


def _on_pairs(op: Any, types: tuple[TensorType, ...], prepared: Prepared, backend: str) -> Any:
    """What computes an op of complex numbers on pairs; None where NumPy does."""
    if not any([type.dtype.is_complex for type in (*types, *prepared.types)]):
        return None
    return computed_on_pairs(op, types, prepared.types, prepared.attributes, backend)


def _result_types(
    op: Any, types: tuple[TensorType, ...], attributes: dict[str, Any]
) -> tuple[TensorType, ...]:
    """The result types of what `meaning` gave."""
    if isinstance(op, Uncompiled | OnComplex):
        return op.infer(types, attributes)
    return inferred(op, types, attributes)


def _run_by_numpy(op: Any, attributes: dict[str, Any], arrays: tuple[Any, ...]) -> Any:
    if op.check_rule is not None:
        op.run_checks(arrays, attributes)
    return op.compute(arrays, attributes)


def _widened(op: Any, types: tuple[TensorType, ...]) -> tuple[TensorType, ...] | None:
    """The operand types `op` computes with, where some are storage types it does not take."""
    if op.takes_stored or not any(type.dtype.is_storage for type in types):
        return None
    return tuple([type.with_dtype(type.dtype.computes_as) for type in types])


def _narrowed(
    results: tuple[TensorType, ...], operands: tuple[TensorType, ...]
) -> tuple[TensorType, ...]:
    """Results in the storage type of the operands they were widened from."""
    stored = {x.dtype.computes_as: x.dtype for x in operands if x.dtype.is_storage}
    return tuple([type.with_dtype(stored.get(type.dtype, type.dtype)) for type in results])
