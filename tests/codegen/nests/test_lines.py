"""Nests of scans and sorts, of lines along any axis: they keep the rules, have a text, store every
element once in any number of parts; and faults planted in one break the rule that they should."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from graphc.codegen.kernels.lower import LINES, along_lines, by_nest, nest_of
from graphc.codegen.nests.element_runner import run_elements
from graphc.codegen.nests.nest import ForEach, Nest
from graphc.codegen.nests.printer import print_nest
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.verifier import verify_nest
from graphc.codegen.target import named
from graphc.errors import VerifyError
from graphc.ir.dims import dim
from graphc.ir.symbols import symbols_of
from graphc.ops import order
from graphc.records import replace
from graphc.schedule.plan import KernelSpec
from tests.codegen.nests.test_elements import body_of, values_of
from tests.codegen.nests.test_verifier import (
    doubled,
    edited,
    effect,
    fills,
    hoisted,
    in_place_of,
    over,
    resplit,
    stage,
    without,
)
from tests.ebnf import Recognizer

TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]
N = dim("n", 2)
SHAPES: dict[str, tuple[tuple[Any, ...], int]] = {
    "one line": ((9,), 0),
    "lines": ((5, 21), 1),
    "vectors of lines": ((5, 21), 0),
    "images": ((3, 5, 21), 1),
    "small images": ((3, 5, 4), 1),
    "images along the first axis": ((5, 3, 4, 21), 0),
    "open lines": ((N, 4), 1),
    "open columns": ((3, 5, N), 1),
    "open scan": ((3, N, 21), 1),
}


OPS: dict[str, tuple[str, Any]] = {
    "scan": ("scan", order.cumsum),
    "sort": ("sort", order.argsort),
    "selection": ("sort", partial(order.argtopk, count=2)),
}
"""The recipes, and of which ops."""


def body_along(kind: str, name: str) -> Any:
    shape, axis = SHAPES[name]
    op = OPS[kind][1]
    return body_of(lambda x: op(x * 2.0, axis=axis), shape)


def plan_along(kind: str, name: str, target: str = "x86-64-v3") -> Any:
    plan = LINES[OPS[kind][0]](body_along(kind, name), named(target))
    assert plan is not None
    return plan


@pytest.mark.parametrize("kind", OPS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SHAPES)
def test_every_plan_keeps_the_rules_and_has_a_text(name: str, target: str, kind: str) -> None:
    nest = plan_along(kind, name, target).nest()
    assert verify_nest(nest) is nest
    text = print_nest(nest, "k0")
    assert Recognizer.of("Nests").reads(text, "nest"), text
    assert ("for line with v flat" in text) == (nest.fused is not None)
    assert ("\n    fill runs\n" in text) == (kind != "scan")


@pytest.mark.parametrize("kind", OPS)
@pytest.mark.parametrize("name", SHAPES)
def test_every_element_is_stored_once(name: str, kind: str) -> None:
    body, plan = body_along(kind, name), plan_along(kind, name)
    for size in (2, 17) if symbols_of(body) else (None,):
        sizes, values = values_of(body, size)
        result = values[body.outputs[0]]
        along = along_lines(plan, result, sizes)
        for parts in (1, 2, 5):
            stored = run_elements(plan.nest(), {"y0": along}, sizes, parts)
            assert np.array_equal(stored["y0"], along)
        (pair,) = by_nest(KernelSpec(OPS[kind][0], body), named("x86-64-v3"), sizes, body, values)
        assert pair[0].size == result.size and np.array_equal(*pair)


@pytest.mark.parametrize("recipe", LINES)
def test_lines_of_nothing_have_no_nest(recipe: str) -> None:
    body = body_of(lambda x: order.cumsum(x, axis=0), (0, 4))
    if recipe == "sort":
        body = body_of(lambda x: order.argsort(x, axis=0), (0, 4))
    assert nest_of(KernelSpec(recipe, body), named("x86-64-v3")) is None


FAULTS: dict[str, tuple[str, str, str, Callable[[Nest], Nest], str]] = {
    # rule, recipe and its lines, the fault, and what is said
    "keys that are not sorted": (
        "N7", "sort", "lines", lambda n: without(n, fills("runs")), "stage runs is read"
    ),
    "keys of a line for all": (
        "N7", "sort", "lines", lambda n: hoisted(n, "runs", "line"), "axis lines"
    ),
    "keys of a part of a line": (
        "N7", "sort", "lines", lambda n: in_place_of(n, "in"), "a part of axis n"
    ),
    "an axis of too few keys": (
        "N2", "sort", "lines",
        lambda n: replace(n, axes=(*n.axes[:2], replace(n.axes[2], extent=20))), "20 of 21",
    ),
    "a part of what is selected": (
        "N7", "selection", "lines", lambda n: effect(n, "ascending keys", covers=("n",)),
        "a part of axis k",
    ),
    "room for less than a line": (
        "N9", "sort", "lines", lambda n: stage(n, "runs", room=(("n", 20),)), "axis n"
    ),
    "positions of a part of a line": (
        "N3", "sort", "lines", lambda n: in_place_of(n, "out"), "axis k"
    ),
    "a scan that stops": (
        "N3", "scan", "lines", lambda n: effect(n, "cumsum", covers=()), "axis k"
    ),
    "no loop over vectors": ("N3", "scan", "images", lambda n: in_place_of(n, "v"), "axis columns"),
    "lines twice": ("N3", "scan", "lines", lambda n: doubled(n, "line"), "axis lines"),
    "threads that store the same": (
        "N1", "scan", "lines", lambda n: replace(in_place_of(n, "line"), body=n.body[0].body),  # type: ignore[union-attr]
        "no loop is over split line",
    ),
    "a last vector that overlaps": (
        "N3", "scan", "images", lambda n: resplit(n, "v", tail=Tail.SHIFTED), "axis columns"
    ),
    "a last vector that the leaf does not take": (
        "N10", "scan", "vectors of lines", lambda n: resplit(n, "v", tail=Tail.CLAMPED),
        "axis columns",
    ),
    "one loop for tiles of several bodies": (
        "N10", "scan", "images", lambda n: resplit(n, "v", tail=Tail.WHOLE_AND_REST), "counted flat"
    ),
    "one loop for lines alone": (
        "N10", "scan", "lines", lambda n: edited(n, lambda s: [replace(s, flat=True)]  # type: ignore[call-arg]
                                         if over("line")(s) else None), "axis lines",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str) -> None:
    rule, recipe, name, plant, said = FAULTS[fault]
    nest = verify_nest(plan_along(recipe, name).nest())
    with pytest.raises(VerifyError, match=f"rule {rule}: .*{re.escape(said)}"):
        verify_nest(plant(nest))


def test_a_part_of_the_vectors_left_out_shows_when_it_runs() -> None:
    body, plan = body_along("scan", "images"), plan_along("scan", "images")
    _, values = values_of(body, None)
    nest = plan.nest()
    (lines,) = nest.body
    assert isinstance(lines, ForEach)
    unfused = replace(nest, fused=None, body=(replace(lines, fused=None, flat=False),))
    array = along_lines(plan, values[body.outputs[0]], {})
    with pytest.raises(VerifyError, match="rule N3: a"):
        run_elements(replace(unfused, body=(lines, lines)), {"y0": array}, {})
    assert np.array_equal(run_elements(unfused, {"y0": array}, {}, 2)["y0"], array)
