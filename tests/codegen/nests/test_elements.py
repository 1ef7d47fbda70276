"""Nests without products: elementwise kernels, reductions of rows and columns, boxes, by each
strategy that makes one. They keep the rules, have a text, store every element once in any number of
parts, have the sums of columns to the bit; and each fault planted in one breaks the rule that it
should, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.elementwise.arrays import along, summed_of, sums_of
from graphc.codegen.kernels.elementwise.axes import outputs_of
from graphc.codegen.kernels.elementwise.columns import ColumnsPlan
from graphc.codegen.kernels.elementwise.phases import PhasesPlan
from graphc.codegen.kernels.elementwise.recipe import NestPlan, plan_elements
from graphc.codegen.kernels.elementwise.rows import RowsPlan
from graphc.codegen.kernels.elementwise.stages import StagesPlan
from graphc.codegen.kernels.elementwise.transposed import TransposedPlan
from graphc.codegen.kernels.lower import by_nest, nest_of
from graphc.codegen.nests.element_runner import run_elements
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Compute,
    Every,
    Fill,
    ForEach,
    Nest,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.verifier import verify_nest
from graphc.codegen.target import named
from graphc.errors import VerifyError
from graphc.ir.dims import dim
from graphc.ir.handle import broadcast_to
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Value
from graphc.ir.symbols import symbols_of
from graphc.ir.types import DType, TensorType
from graphc.ops import elementwise as e
from graphc.ops import movement, reduce
from graphc.ops.interpreter import evaluate
from graphc.records import replace
from graphc.schedule.plan import KernelSpec
from tests.codegen.kernels.elementwise.test_phases import repeated
from tests.codegen.kernels.elementwise.test_reductions import in_blocks
from tests.codegen.nests.test_verifier import (
    divided_by,
    doubled,
    edited,
    effect,
    fills,
    hoisted,
    in_place_of,
    over,
    renewed,
    resplit,
    stage,
    without,
)
from tests.codegen.nests.texts import check_text
from tests.schedule.test_box_updates import changed

TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]
Array = np.ndarray[Any, Any]
N = dim("n", 2)


def body_of(function: Callable[..., Any], *shapes: tuple[Any, ...]) -> graphc.Graph:
    g = graphc.GraphBuilder("elements")
    results = function(
        *(g.input(f"x{i}", TensorType(DType.f32, shape)) for i, shape in enumerate(shapes))
    )
    return g.finish(*(results if isinstance(results, tuple) else (results,)))


def softmax(x: Any) -> Any:
    """Of each row; the exponentials are read by two sweeps."""
    rows, _ = x.shape
    highest = movement.reshape(reduce.max(x, axes=(1,)), shape=(rows, 1))
    powers = e.exp(x - broadcast_to(highest, x.shape))
    total = movement.reshape(reduce.sum(powers, axes=(1,)), shape=(rows, 1))
    return powers / broadcast_to(total, x.shape)


def row_and_elements(x: Any) -> Any:
    row = reduce.sum(e.exp(x), axes=(1,))
    return row, e.exp(x) * 2.0


def columns(x: Any) -> Any:
    """Sums and maxima over all axes but the last."""
    axes = tuple(range(len(x.shape) - 1))
    return reduce.sum(x, axes=axes) * 0.5, reduce.max(x * 2.0, axes=axes)


BODIES: dict[str, graphc.Graph] = {
    "one element": body_of(lambda x: x + 1.0, ()),
    "one vector and a rest": body_of(lambda x: x + 1.0, (21,)),
    "rows": body_of(lambda x, y: x + broadcast_to(y, (5, 21)), (5, 21), (21,)),
    "rows of one": body_of(lambda x: reduce.sum(x, axes=(1,)), (6, 40)),
    "softmax": body_of(softmax, (5, 21)),
    "a row and its elements": body_of(row_and_elements, (5, 21)),
    "parts": body_of(lambda x, y: movement.concat(x + y, x - y, axis=1), (3, 10), (3, 10)),
    "transposed": body_of(lambda x: movement.transpose(x, permutation=(1, 0)) * 2.0, (18, 21)),
    "cells": body_of(lambda x: repeated(x, 2, 2) * 2.0, (9, 11)),
    "stages": body_of(lambda x: e.exp(x * e.sigmoid(x)), (1333,)),
    "stages of rows": body_of(lambda x: e.exp(x * e.sigmoid(x)), (3, 1333)),
    "columns": body_of(columns, (300, 21)),
    "one vector of columns": body_of(columns, (17, 4)),
    "columns in chunks": body_of(columns, (18, 3000)),
    "columns of images": body_of(lambda x: reduce.sum(x, axes=(1,)), (3, 45, 19)),
    "columns of planes": body_of(columns, (4, 5, 21)),
    "open rows": body_of(lambda x: x * 2.0, (N, 21)),
    "open sums": body_of(columns, (N, 40)),
    "open images of columns": body_of(lambda x: reduce.sum(x, axes=(1,)), (N, 45, 19)),
    "open columns": body_of(softmax, (5, N)),
    "open, transposed": body_of(
        lambda x: movement.transpose(x, permutation=(1, 0)) * 2.0, (dim("n", 16), dim("n", 16))
    ),
    "open, more than one element": body_of(lambda x: e.exp(x), (3, N + 4)),
}
STRATEGIES = {
    "transposed": TransposedPlan, "cells": PhasesPlan, "stages": StagesPlan,
    "stages of rows": StagesPlan, "open, transposed": TransposedPlan,
    **{name: ColumnsPlan for name in BODIES if "columns" in name or name == "open sums"},
    "open columns": RowsPlan,
}  # fmt: skip
"""Of rows the others."""


@cache
def plan_of(name: str, target: str = "x86-64-v3") -> NestPlan:
    plan = plan_elements(BODIES[name], named(target))
    assert plan is not None
    return plan


def values_of(body: graphc.Graph, size: int | None) -> tuple[dict[str, int], dict[Value, Array]]:
    """Sizes, and all values of the body there; inputs that are integers are from 0 to 5."""
    sizes = {symbol.name: size or 0 for symbol in symbols_of(body)}
    at = at_sizes(body, sizes) if sizes else body
    random = np.random.default_rng(0)
    arrays = tuple(
        random.standard_normal(t.shape).astype(t.dtype.numpy) if t.dtype.is_float
        else random.integers(0, 6, t.shape).astype(t.dtype.numpy) for t in at.input_types
    )  # fmt: skip
    values = [Value(i, k) for i, node in enumerate(at.nodes) for k in range(len(node.types))]
    whole = graphc.Graph(at.name, at.nodes, tuple(values), ())
    return sizes, dict(zip(values, evaluate(whole, arrays, reference=True), strict=True))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BODIES)
def test_every_plan_keeps_the_rules_and_has_a_text(name: str, target: str) -> None:
    plan = plan_of(name, target)
    if target == "x86-64-v3":
        assert isinstance(plan, STRATEGIES.get(name, RowsPlan))
    nest = plan.nest()
    assert verify_nest(nest) is nest
    check_text(nest)


@pytest.mark.parametrize("name", BODIES)
def test_every_element_is_stored_once(name: str) -> None:
    plan = plan_of(name)
    for number, size in enumerate((17, 24, 40) if symbols_of(BODIES[name]) else (None,)):
        sizes, values = values_of(BODIES[name], size)
        arrays = {
            output.name: along(plan.over, values[value], sizes)
            for output, value in zip(outputs_of(plan.over), plan.over.body.outputs, strict=True)
        }
        for parts in (1, 2 + number):
            sums = summed_of(plan, sizes, values)
            stored = run_elements(plan.nest(), arrays, sizes, parts, sums)
            assert all(np.array_equal(stored[name], arrays[name]) for name in arrays)
            for each, value in sums_of(plan):
                elements = np.moveaxis(sums[each].elements, -1, 0)
                expected = in_blocks(elements, sums[each].combine, sums[each].identity)
                np.testing.assert_array_equal(stored[each], expected, strict=True)
                np.testing.assert_allclose(
                    stored[each], along(plan.over, values[value], sizes), rtol=1e-4, atol=1e-4
                )


def test_a_box_is_a_nest_of_rows() -> None:
    body = changed((1, 2, 3), (2, 3, 4), (9, 22, 30))
    spec = KernelSpec("update", body)
    nest = nest_of(spec, named("x86-64-v3"))
    assert nest is not None and verify_nest(nest).domain[0][1] == 24
    sizes, values = values_of(body, None)
    pairs = by_nest(spec, named("x86-64-v3"), sizes, body, values)
    assert len(pairs) == 1 and np.array_equal(*pairs[0])


# -- planted faults --------------------------------------------------------------------------------


def after(nest: Nest, before: int, count: int) -> Nest:
    """What is done after every so many tiles, after other ones."""
    wanted = (Every, before)
    return edited(nest, lambda s: [replace(s, count=count)]  # type: ignore[call-arg]
                  if (type(s), getattr(s, "count", 0)) == wanted else None)  # fmt: skip


def without_leaf(nest: Nest, text: str) -> Nest:
    return without(nest, lambda s: isinstance(s, Compute) and text in s.leaf.text)


def with_rows(nest: Nest, text: str) -> Nest:
    """What a leaf does at each tile of a chunk, after every four tiles of rows and there alone."""

    def holds(s: Statement) -> bool:
        inside = s.body[0] if isinstance(s, ForEach) else None
        return isinstance(inside, Compute) and text in inside.leaf.text

    listed: list[Statement] = []
    edited(nest, lambda s: listed.append(s) if holds(s) else None)
    return edited(without(nest, holds), lambda s: [replace(s, body=(*s.body, *listed))]
                  if isinstance(s, Every) and s.count == 4 else None)  # fmt: skip


FAULTS: dict[str, tuple[str, str, Callable[[Nest], Nest], str]] = {
    # rule, body, the fault, and what is said
    "two outputs of one name": (
        "N1", "a row and its elements",
        lambda n: replace(n, outputs=(n.outputs[0], n.outputs[0])), "are called y0",
    ),
    "an axis of an output that is not there": (
        "N1", "rows", lambda n: replace(n, outputs=(replace(n.outputs[0], axes=("i0", "i2")),)),
        "axis of output y0",
    ),
    "an output that is not there": (
        "N1", "rows", lambda n: effect(n, "vectors", outputs=("y1",)), "there is no y1"
    ),
    "an axis too short": (
        "N2", "rows", lambda n: renewed(n, lambda v: isinstance(v, Axis) and v.name == "i0",
                                        {"extent": 4}), "i0",
    ),
    "no loop over columns": ("N3", "rows", lambda n: in_place_of(n, "v"), "axis i1"),
    "vectors twice": ("N3", "rows", lambda n: doubled(n, "v"), "axis i1"),
    "an output that no leaf stores": (
        "N3", "a row and its elements", lambda n: effect(n, "vectors of 8", outputs=()),
        "output y1 is stored by 0 leaves",
    ),
    "a row's sum for each of its vectors": (
        "N3", "a row and its elements", lambda n: effect(n, "vectors of 8", outputs=("y1", "y0")),
        "output y0 is stored by 2 leaves",
    ),
    "a row's sum with its elements alone": (
        "N3", "a row and its elements",
        lambda n: effect(effect(n, "vectors of 8", outputs=("y1", "y0")), "one by one", outputs=()),
        "for each tile of axis i1",
    ),
    "what is left twice": ("N3", "transposed", lambda n: doubled(n, "v"), "axis i1"),
    "a last vector that overlaps": (
        "N3", "rows", lambda n: resplit(n, "v", tail=Tail.SHIFTED), "axis i1"
    ),
    "threads that store the same": (
        "N4", "a row and its elements", lambda n: divided_by(n, "v"), "all tiles of v"
    ),
    "levels of no loop around": (
        "N1", "columns", lambda n: in_place_of(n, "rows"), "no loop around is over rows"
    ),
    "results that are stored as rows go by": (
        "N3", "columns", lambda n: with_rows(n, "all levels"), "every 4 of rows alone"
    ),
    "threads that divide rows": ("N4", "columns", lambda n: divided_by(n, "rows"), "axis r"),
    "a level joined too early": (
        "N5", "columns", lambda n: after(n, 64, 32), "level 1 along axis r is joined after 128"
    ),
    "a level joined too late": (
        "N5", "columns", lambda n: after(n, 4, 8), "level 0 along axis r is joined after 32"
    ),
    "levels that change places": (
        "N5", "columns",
        lambda n: effect(effect(n, "level 0 to", joins=1), "level 1 to", joins=0), "1, 0 are joined"
    ),
    "a level that is never joined": (
        "N5", "columns", lambda n: without_leaf(n, "level 1 to"), "axis r 0 are joined"
    ),
    "what is left joined too": (
        "N5", "open sums", lambda n: edited(n, lambda s: [replace(s, rest=s.body)]  # type: ignore[call-arg,union-attr]
                                            if over("rows")(s) else None), "and not none",
    ),
    "a level too few": (
        "N5", "columns", lambda n: renewed(n, lambda v: isinstance(v, Axis) and v.name == "r",
                                           {"levels": 2}), "not all products along axis r",
    ),
    "rows once more as a block": (
        "N5", "columns", lambda n: effect(n, "rows to level 0", continues=False), "end after 16"
    ),
    "rows that are added again": (
        "N5", "columns", lambda n: resplit(n, "rows", tail=Tail.SHIFTED), "in order"
    ),
    "rows that are added now and then": (
        "N5", "columns", lambda n: with_rows(n, "rows to level 0"), "every 4 of rows alone"
    ),
    "sums that begin with something": (
        "N6", "columns", lambda n: without_leaf(n, "no rows yet"), "not zero before"
    ),
    "levels taken too early": (
        "N6", "columns",
        lambda n: edited(without(n, fills("levels")), lambda s: [Fill(n.stages[0]), s]
                         if over("rows")(s) else None), "added to after",
    ),
    "a row that nothing keeps": (
        "N7", "softmax", lambda n: without(n, fills(n.stages[0].name)), "row"
    ),
    "one row for all": (
        "N7", "softmax", lambda n: hoisted(n, n.stages[0].name, "i0"), "axis i0"
    ),
    "one block for all": (
        "N7", "stages", lambda n: hoisted(n, n.stages[0].name, "u"), "axis i0"
    ),
    "room for less than a row": (
        "N9", "softmax", lambda n: stage(n, n.stages[0].name, room=(("i1", 20),)), "axis i1"
    ),
    "room for less than a block": (
        "N9", "stages", lambda n: stage(n, n.stages[0].name, room=(("i0", 64),)), "axis i0"
    ),
    "room for less than a chunk": (
        "N9", "columns", lambda n: stage(n, "levels", room=(("i0", 16),)), "axis i0"
    ),
    "a chunk that the leaf does not take": (
        "N10", "columns", lambda n: effect(n, "no rows yet", tails=OF_NUMBERS), "stepped"
    ),
    "a rest that the leaf does not take": (
        "N10", "open rows", lambda n: resplit(n, "v", tail=Tail.CLAMPED), "axis i0"
    ),
    "vectors that do not divide": (
        "N10", "rows", lambda n: resplit(n, "v", tail=Tail.EXACT), "axis i1"
    ),
    "blocks of no tiles": (
        "N10", "rows", lambda n: resplit(n, "v", tail=Tail.BEHIND), "axis i1"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str) -> None:
    rule, name, plant, said = FAULTS[fault]
    nest = verify_nest(plan_of(name).nest())
    with pytest.raises(VerifyError, match=f"rule {rule}: .*{re.escape(said)}"):
        verify_nest(plant(nest))


AT_RUN_TIME: dict[str, tuple[str, str, Callable[[Nest], Nest]]] = {
    "vectors twice": ("N3", "rows", lambda n: doubled(n, "v")),
    "no loop over what is left": ("N3", "transposed", lambda n: without_rest(n)),
    "an output that no leaf stores": (
        "N3", "a row and its elements", lambda n: effect(n, "one by one", outputs=())
    ),
    "a row that nothing keeps": (
        "N7", "softmax", lambda n: without(n, fills(n.stages[0].name))
    ),
    "one row for all": ("N7", "softmax", lambda n: hoisted(n, n.stages[0].name, "i0")),
    "room for less than a row": (
        "N9", "softmax", lambda n: stage(n, n.stages[0].name, room=(("i1", 20),))
    ),
    "a level joined too early": ("N5", "columns", lambda n: after(n, 64, 32)),
    "a level joined too late": ("N5", "columns", lambda n: after(n, 4, 8)),
    "a level that is never joined": ("N5", "columns", lambda n: without_leaf(n, "level 0 to")),
    "rows that are added again": ("N5", "columns", lambda n: doubled(n, "rows")),
    "sums that begin with something": (
        "N6", "columns", lambda n: without_leaf(n, "no rows yet")
    ),
    "rows that are left out": (
        "N6", "open sums", lambda n: edited(n, lambda s: [replace(s, rest=())]  # type: ignore[call-arg]
                                            if over("rows")(s) else None),
    ),
    "room for less than a chunk": (
        "N9", "columns", lambda n: stage(n, "levels", room=(("i0", 16),))
    ),
}  # fmt: skip
"""What shows when it runs, too."""


def without_rest(nest: Nest) -> Nest:
    (rows,) = nest.body
    assert isinstance(rows, ForEach)
    return replace(nest, body=(replace(rows, rest=()),))


@pytest.mark.parametrize("fault", AT_RUN_TIME)
def test_a_planted_fault_shows_when_it_runs(fault: str) -> None:
    rule, name, plant = AT_RUN_TIME[fault]
    plan = plan_of(name)
    sizes, values = values_of(BODIES[name], 17)
    arrays = {
        output.name: along(plan.over, values[value], sizes)
        for output, value in zip(outputs_of(plan.over), plan.over.body.outputs, strict=True)
    }
    with pytest.raises(VerifyError, match=f"rule {rule}: "):
        run_elements(plant(plan.nest()), arrays, sizes, sums=summed_of(plan, sizes, values))
