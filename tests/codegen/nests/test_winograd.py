"""The nest of `winograd`: it keeps the rules, has a text, gives the definition's bits when run; and
each fault planted in it breaks the rule that it should, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK
from graphc.codegen.kernels.lower import by_nest, nest_of
from graphc.codegen.kernels.winograd.recipe import winograd_nest
from graphc.codegen.nests.nest import Axis, ForEach, Nest, all_splits
from graphc.codegen.nests.printer import print_nest
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.verifier import verify_nest
from graphc.codegen.target import named
from graphc.errors import VerifyError
from graphc.ir.dims import Extent, dim
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Value
from graphc.ir.symbols import symbols_of
from graphc.ir.types import DType, TensorType
from graphc.records import replace
from graphc.schedule.plan import KernelSpec
from tests.codegen.nests.test_elements import values_of
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
from tests.ebnf import Recognizer

TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]


def body_of(
    images: Extent, channels: int, outputs: int, size: tuple[int, int],
    padding: tuple[int, int] = (1, 1), dtype: DType = DType.f32,
) -> graphc.Graph:  # fmt: skip
    g = graphc.GraphBuilder("body")
    x = g.input("x", TensorType(dtype, (images, channels, *size)))
    u = g.input("u", TensorType(dtype, (16, outputs, channels)))
    return g.finish(ops.winograd(x, u, padding=padding))


N = dim("n", 1)
BODIES = {
    "one tile": body_of(1, 1, 1, (2, 2)),
    "rows that tiles do not divide": body_of(2, 3, 7, (5, 9), (1, 0)),
    "several chunks": body_of(1, 2, 131, (3, 4)),
    "several K blocks": body_of(1, K_BLOCK + 3, 5, (4, 9)),
    "f64": body_of(2, 3, 5, (7, 6), (2, 2), DType.f64),
    "open images": body_of(N, 3, 5, (5, 6)),
}


def kernel_of(body: graphc.Graph) -> KernelSpec:
    return KernelSpec("winograd", body)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BODIES)
def test_every_nest_keeps_the_rules_and_has_a_text(name: str, target: str) -> None:
    nest = nest_of(kernel_of(BODIES[name]), named(target))
    assert nest is not None and verify_nest(nest) is nest
    text = print_nest(nest, "k0")
    assert Recognizer.of("Nests").reads(text, "nest"), text
    listed = (("axis", nest.axes), ("split", all_splits(nest)), ("stage", nest.stages))
    for kind, names in listed:
        for each in names:
            assert len(re.findall(rf"^  {kind} {re.escape(each.name)}\b", text, re.M)) == 1, text


@pytest.mark.parametrize("name", BODIES)
def test_what_the_runner_adds_has_the_bits_of_the_definition(name: str) -> None:
    body = BODIES[name]
    for size in (1, 3) if symbols_of(body) else (None,):
        sizes, values = values_of(body, size)
        at = at_sizes(body, sizes) if sizes else body
        x, u, result = (Value(number) for number in range(3))
        values[result] = graphc.compile(at, "none")(values[x], values[u])[0]
        (pair,) = by_nest(kernel_of(body), named("x86-64-v3"), sizes, at, values)
        np.testing.assert_array_equal(*pair)


# -- planted faults --------------------------------------------------------------------------------

ROWS, COLUMNS = "several chunks", "open images"


def padded(nest: Nest, split: str, within: str) -> Nest:
    """The loops over a split in tiles of another go on behind its end."""

    def one(s: Any) -> Any:
        is_it = over(split)(s) and s.within is not None and s.within.name == within
        return [replace(s, padded=True)] if is_it else None

    return edited(nest, one)


def products_in(nest: Nest, split: str) -> Nest:
    """The register tile's loop inside of one over a split of its block."""
    (block,) = nest.body
    assert isinstance(block, ForEach)
    (around,) = (s for s in block.body if isinstance(s, ForEach) and s.split.name == split)
    return edited(
        nest, lambda s: [replace(around, body=(s,))] if over("plane")(s) else None,
    )  # fmt: skip


FAULTS: dict[str, tuple[str, str, Callable[[Nest], Nest], str]] = {
    # rule, body, the fault, and what is said
    "too few channels": (
        "N2", ROWS,
        lambda n: renewed(n, lambda v: isinstance(v, Axis) and v.name == "k", {"extent": 1}), "k",
    ),
    "results of padding": (
        "N3", COLUMNS,
        lambda n: effect(padded(n, "group", "block"), "At m A", covers=("plane",)), "axis groups",
    ),
    "planes left out": ("N3", ROWS, lambda n: effect(n, "At m A", covers=()), "axis plane"),
    "rows twice": ("N3", ROWS, lambda n: doubled(n, "row"), "axis rows"),
    "threads that store the same": (
        "N4", ROWS, lambda n: divided_by(n, "plane"), "all tiles of plane"
    ),
    "products of padding": (
        "N5", COLUMNS, lambda n: products_in(n, "group"), "adds its products again"
    ),
    "products of one plane": ("N5", ROWS, lambda n: in_place_of(n, "plane"), "axis plane"),
    "sums of another chunk": (
        "N6", ROWS, lambda n: effect(n, "register tile", starts=False), "sums"
    ),
    "sums that are taken at once": ("N6", ROWS, lambda n: without(n, fills("sums")), "sums"),
    "tiles of another block": ("N7", COLUMNS, lambda n: hoisted(n, "tiles", "block"), "axis group"),
    "one channel for all": ("N7", ROWS, lambda n: in_place_of(n, "k"), "axis k"),
    "room for less than a chunk": (
        "N9", ROWS, lambda n: stage(n, "sums", room=(("rows", 2),)), "axis rows"
    ),
    "a chunk that nobody clips": (
        "N10", ROWS, lambda n: resplit(n, "chunk", tail=Tail.MASKED), "masked"
    ),
    "padding to no number": (
        "N10", COLUMNS, lambda n: resplit(n, "block", tail=Tail.BEHIND), "no number to be padded to"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str) -> None:
    rule, name, plant, said = FAULTS[fault]
    nest = verify_nest(winograd_nest(BODIES[name], named("x86-64-v3")))
    with pytest.raises(VerifyError, match=f"rule {rule}: .*{re.escape(said)}"):
        verify_nest(plant(nest))
