"""The batching rules, of every op that has one, beside a run for each example."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from graphc.ir.builder import GraphBuilder
from graphc.ir.registry import all_ops
from graphc.ir.types import TensorType
from graphc.ops.batching import RULES, batched, one_by_one
from graphc.ops.interpreter import run
from graphc.ops.kinds.op import SampleDrawer

EXAMPLES = 3


def has_rule(op: Any) -> bool:
    return op in RULES or any(kind in RULES for kind in type(op).__mro__)


def samples_of(op: Any) -> Iterator[tuple[list[tuple[np.ndarray, ...]], dict[str, Any]]]:
    """Operands for each example, of the same types, and the attributes."""
    drawn = [list(op.samples(SampleDrawer(seed))) for seed in range(EXAMPLES)]
    for each in zip(*drawn):
        if len({tuple((x.shape, x.dtype) for x in sample.operands) for sample in each}) == 1:
            yield [sample.operands for sample in each], each[0].attributes


def compared(op: Any, examples: Any, mapped: tuple[bool, ...], attributes: dict[str, Any]) -> bool:
    """Compare the two; False where there is no rule for these operands."""
    given = [
        np.stack(column) if is_batch else column[0]
        for column, is_batch in zip(zip(*examples), mapped)
    ]
    results = []
    for form in (batched, one_by_one):
        builder = GraphBuilder("batch")
        inputs = [builder.input(f"x{i}", TensorType.of(x)) for i, x in enumerate(given)]
        made = form(op, inputs, mapped, op.canonical(attributes), EXAMPLES)
        if made is None:
            return False
        results.append(run(builder.finish(*made), *given))
    for got, expected in zip(*results, strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    return True


@pytest.mark.parametrize("op", [op for op in all_ops() if has_rule(op)], ids=lambda op: op.name)
def test_a_rule_is_a_run_for_each_example(op: Any) -> None:
    checked = [
        compared(op, examples, mapped, attributes)
        for examples, attributes in samples_of(op)
        for mapped in itertools.product((False, True), repeat=len(examples[0]))
        if any(mapped)
    ]
    assert any(checked)
