"""Nests of scans: they keep the rules, have a text, store every element once in any number of
parts, of lines along any axis; and faults planted in one break the rule that they should."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphc.codegen.kernels.lower import by_nest, nest_of
from graphc.codegen.kernels.scan import plan_scan
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
from graphc.schedule.plan import KernelSpec
from tests.codegen.nests.test_elements import body_of, values_of
from tests.codegen.nests.test_verifier import (
    doubled,
    edited,
    effect,
    in_place_of,
    over,
    resplit,
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


def body_along(name: str) -> Any:
    shape, axis = SHAPES[name]
    return body_of(lambda x: order.cumsum(x * 2.0, axis=axis), shape)


def scan_nest(name: str, target: str = "x86-64-v3") -> Nest:
    plan = plan_scan(body_along(name), named(target))
    assert plan is not None
    return plan.nest()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SHAPES)
def test_every_plan_keeps_the_rules_and_has_a_text(name: str, target: str) -> None:
    nest = scan_nest(name, target)
    assert verify_nest(nest) is nest
    text = print_nest(nest, "k0")
    assert Recognizer.of("Nests").reads(text, "nest"), text
    assert ("for line with v flat" in text) == (nest.fused is not None)


@pytest.mark.parametrize("name", SHAPES)
def test_every_element_is_stored_once(name: str) -> None:
    body = body_along(name)
    plan = plan_scan(body, named("x86-64-v3"))
    assert plan is not None
    for size in (2, 17) if symbols_of(body) else (None,):
        sizes, values = values_of(body, size)
        result = values[body.outputs[0]]
        along = plan.along_axes(result, sizes)
        for parts in (1, 2, 5):
            stored = run_elements(plan.nest(), {"y0": along}, sizes, parts)
            assert np.array_equal(stored["y0"], along)
        (pair,) = by_nest(KernelSpec("scan", body), named("x86-64-v3"), sizes, body, values)
        assert pair[0].size == result.size and np.array_equal(*pair)


def test_a_scan_of_nothing_has_no_nest() -> None:
    body = body_of(lambda x: order.cumsum(x, axis=0), (0, 4))
    assert nest_of(KernelSpec("scan", body), named("x86-64-v3")) is None


FAULTS: dict[str, tuple[str, str, Callable[[Nest], Nest], str]] = {
    # rule, scan, the fault, and what is said
    "a scan that stops": ("N3", "lines", lambda n: effect(n, "cumsum", covers=()), "axis k"),
    "no loop over vectors": ("N3", "images", lambda n: in_place_of(n, "v"), "axis columns"),
    "lines twice": ("N3", "lines", lambda n: doubled(n, "line"), "axis lines"),
    "threads that store the same": (
        "N1", "lines", lambda n: replace(in_place_of(n, "line"), body=n.body[0].body),  # type: ignore[union-attr]
        "no loop is over split line",
    ),
    "a last vector that overlaps": (
        "N3", "images", lambda n: resplit(n, "v", tail=Tail.SHIFTED), "axis columns"
    ),
    "a last vector that the leaf does not take": (
        "N10", "vectors of lines", lambda n: resplit(n, "v", tail=Tail.CLAMPED), "axis columns"
    ),
    "one loop for tiles of several bodies": (
        "N10", "images", lambda n: resplit(n, "v", tail=Tail.WHOLE_AND_REST), "counted flat"
    ),
    "one loop for lines alone": (
        "N10", "lines", lambda n: edited(n, lambda s: [replace(s, flat=True)]  # type: ignore[call-arg]
                                         if over("line")(s) else None), "axis lines",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str) -> None:
    rule, name, plant, said = FAULTS[fault]
    nest = verify_nest(scan_nest(name))
    with pytest.raises(VerifyError, match=f"rule {rule}: .*{re.escape(said)}"):
        verify_nest(plant(nest))


def test_a_part_of_the_vectors_left_out_shows_when_it_runs() -> None:
    body = body_along("images")
    plan = plan_scan(body, named("x86-64-v3"))
    assert plan is not None
    _, values = values_of(body, None)
    nest = plan.nest()
    (lines,) = nest.body
    assert isinstance(lines, ForEach)
    unfused = replace(nest, fused=None, body=(replace(lines, fused=None, flat=False),))
    array = plan.along_axes(values[body.outputs[0]], {})
    with pytest.raises(VerifyError, match="rule N3: a"):
        run_elements(replace(unfused, body=(lines, lines)), {"y0": array}, {})
    assert np.array_equal(run_elements(unfused, {"y0": array}, {}, 2)["y0"], array)
