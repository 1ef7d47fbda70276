"""Nests of scatters: they keep the rules, have a text, combine every source once and in order; and
each fault planted in one breaks the rule that it should, by name or where it is run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.lower import by_nest, nest_of
from graphc.codegen.kernels.scatter import plan_scatter
from graphc.codegen.nests import verifier
from graphc.codegen.nests.element_runner import Combined, run_elements
from graphc.codegen.nests.nest import Axis, ForEach, Nest
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.verifier import verify_nest
from graphc.codegen.target import named
from graphc.errors import VerifyError
from graphc.ir.dims import dim
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Value
from graphc.ir.symbols import symbols_of
from graphc.ir.types import DType, TensorType
from graphc.ops import indexing
from graphc.records import replace
from graphc.schedule.plan import KernelSpec
from tests.codegen.nests.test_elements import values_of
from tests.codegen.nests.test_verifier import FAULTS as OF_PRODUCTS
from tests.codegen.nests.test_verifier import (
    divided_by,
    doubled,
    edited,
    effect,
    in_place_of,
    over,
    renewed,
    resplit,
    without,
)
from tests.codegen.nests.texts import check_text

TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]
N = dim("n", 2)


def body_of(op: Any, axis: int, x: tuple[Any, ...], at: tuple[Any, ...], new: Any) -> graphc.Graph:
    g = graphc.GraphBuilder("scatter")
    types = zip(("x", "at", "new"), (DType.f32, DType.i64, DType.f32), (x, at, new), strict=True)
    return g.finish(op(*(g.input(name, TensorType(*type)) for name, *type in types), axis=axis))


BODIES = {
    "along rows": body_of(indexing.scatter_add, 0, (6, 21), (4, 21), (4, 21)),
    "along columns": body_of(indexing.scatter_add, 1, (3, 6), (3, 9), (3, 9)),
    "whole rows": body_of(indexing.index_add, 0, (6, 21), (2, 5), (2, 5, 21)),
    "in each row": body_of(indexing.scatter_add, 1, (3, 21), (3, 30), (3, 30)),
    "in each batch": body_of(indexing.index_add, 1, (3, 6, 20), (9,), (3, 9, 20)),
    "parts of rows": body_of(indexing.index_add, 0, (6, 5), (4,), (4, 5)),
    "the last stays": body_of(indexing.index_set, 1, (3, 6), (9,), (3, 9)),
    "one source": body_of(indexing.index_add, 0, (6,), (), ()),
    "no sources": body_of(indexing.scatter_add, 1, (3, 6), (3, 0), (3, 0)),
    "no rows": body_of(indexing.scatter_add, 0, (0, 6), (0, 6), (0, 6)),
    "open rows": body_of(indexing.index_add, 0, (6, 21), (N,), (N, 21)),
    "open columns": body_of(indexing.index_add, 0, (6, N), (4,), (4, N)),
    "open batch": body_of(indexing.index_add, 1, (N, 6, 20), (9,), (N, 9, 20)),
}


def nest_named(name: str, target: str = "x86-64-v3") -> Nest:
    nest = nest_of(KernelSpec("scatter", BODIES[name]), named(target))
    assert nest is not None
    return nest


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BODIES)
def test_every_nest_keeps_the_rules_and_has_a_text(name: str, target: str) -> None:
    nest = nest_named(name, target)
    assert verify_nest(nest) is nest
    check_text(nest)


@pytest.mark.parametrize("name", BODIES)
def test_every_source_is_combined_once_and_in_order(name: str) -> None:
    body = BODIES[name]
    for size in (2, 17) if symbols_of(body) else (None,):
        sizes, values = values_of(body, size)
        at = at_sizes(body, sizes) if sizes else body
        (pair,) = by_nest(KernelSpec("scatter", body), named("x86-64-v3"), sizes, at, values)
        assert np.array_equal(*pair)


# -- planted faults --------------------------------------------------------------------------------


def exchanged(nest: Nest) -> Nest:
    copy, combination = nest.body
    return replace(nest, body=(combination, copy))


def inside_out(nest: Nest) -> Nest:
    """The loop over rows inside that over columns."""

    def one(s: Any) -> Any:
        if not over("s0")(s):
            return None
        (inner,) = s.body
        return [replace(inner, body=(replace(s, body=inner.body),))]

    return edited(nest, one)


FAULTS: dict[str, tuple[str, str, Callable[[Nest], Nest], str]] = {
    # rule, body, the fault, and what is said
    "an output that is not there": (
        "N1", "along rows", lambda n: effect(n, "scatter_add", combines="y1"), "there is no y1"
    ),
    "sources left out": ("N11", "along rows", lambda n: without(n, over("s0")), "source0, source1"),
    "the first row of sources alone": (
        "N11", "along rows", lambda n: in_place_of(n, "s0"), "source1"
    ),
    "sources twice": ("N11", "along rows", lambda n: doubled(n, "s0"), "source0, source0"),
    "another order": ("N11", "along columns", inside_out, "source1, source0"),
    "threads that may meet": ("N11", "along rows", lambda n: divided_by(n, "copied"), "copied"),
    "threads that divide sources": (
        "N4", "in each batch", lambda n: divided_by(n, "s1"), "stores all tiles of s1"
    ),
    "threads that divide what is copied alone": (
        "N11", "in each row", lambda n: divided_by(n, "copied"), "copied, and sources may meet"
    ),
    "each row's sources in another row": (
        "N11", "in each row", lambda n: replace(n, body=(n.body[0], *n.body[1].body)),
        "row, and sources may meet"
    ),
    "a copy over what was combined": ("N11", "along rows", exchanged, "stored behind"),
    "a part of the operand": (
        "N3", "along rows", lambda n: in_place_of(n, "copied"), "axis element"
    ),
    "an axis too short": (
        "N2", "along rows", lambda n: renewed(n, lambda v: isinstance(v, Axis) and v.number == 1,
                                              {"extent": 20}), "source",
    ),
    "a last vector that is combined again": (
        "N10", "in each batch", lambda n: resplit(n, "vectors", tail=Tail.CLAMPED), "source2"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str) -> None:
    rule, name, plant, said = FAULTS[fault]
    nest = verify_nest(nest_named(name))
    with pytest.raises(VerifyError, match=f"rule {rule}: .*{re.escape(said)}"):
        verify_nest(plant(nest))


def test_every_rule_has_a_fault() -> None:
    rules = set(re.findall(r"^\| (N\d+) \|", verifier.__doc__ or "", re.MULTILINE))
    planted = (*OF_PRODUCTS.values(), *FAULTS.values())
    assert rules == {rule for rule, *_ in planted} and len(rules) == 11


RUN: dict[str, tuple[Callable[[Nest], Nest], str]] = {
    "sources left out": (lambda n: without(n, over("s0")), "84 of 84 sources are not"),
    "another order": (inside_out, "behind 1"),
    "sources twice": (lambda n: replace(n, body=(*n.body, n.body[1])), "behind 84"),
    "nothing stored before": (exchanged, "not stored before"),
}


@pytest.mark.parametrize("fault", RUN)
def test_a_planted_fault_shows_where_it_is_run(fault: str) -> None:
    plant, said = RUN[fault]
    body = BODIES["along rows"]
    plan = plan_scatter(body, named("x86-64-v3"))
    _, values = values_of(body, None)
    x, at, new = (values[Value(i)] for i in range(3))
    positions = plan.op.positions((x, at, new), {"axis": 0})
    nest = plan.nest()
    assert isinstance(nest.body[1], ForEach)
    source = Combined(new, positions, plan.op.put, plan.source_axes)
    with pytest.raises(VerifyError, match=f"rule N11: .*{said}"):
        run_elements(plant(nest), {"y0": x.reshape(-1)}, combined={"y0": source})
