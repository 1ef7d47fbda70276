"""The nests of attention and of its gradient: they keep the rules, have a text, store every result
once; and each fault planted in one breaks the rule that it should, by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.kernels.lower import by_nest, nest_of
from graphc.codegen.nests.nest import Nest
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.verifier import verify_nest
from graphc.codegen.target import named
from graphc.errors import VerifyError
from graphc.ir.dims import Extent, dim
from graphc.ir.instances import at_sizes
from graphc.ir.symbols import symbols_of
from graphc.ir.types import DType, TensorType
from graphc.schedule.plan import KernelSpec
from tests.codegen.nests.test_elements import values_of
from tests.codegen.nests.test_verifier import (
    divided_by,
    doubled,
    effect,
    fills,
    hoisted,
    resplit,
    stage,
    without,
)
from tests.codegen.nests.texts import check_text

TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]
N = dim("n", 1)


def forward(rows: Extent, columns: Extent, *results: int, causal: bool = False) -> graphc.Graph:
    g = graphc.GraphBuilder("attention")
    shapes = {"q": (2, rows, 5), "k": (2, columns, 5), "v": (2, columns, 7)}
    handles = [g.input(name, TensorType(DType.f32, shape)) for name, shape in shapes.items()]
    every = ops.attention(*handles, scale=0.5, causal=causal)
    return g.finish(*(every[i] for i in results))


def backward(rows: Extent, columns: Extent, *results: int) -> graphc.Graph:
    g = graphc.GraphBuilder("attention_grad")
    shapes = {
        "g": (2, rows, 7), "q": (2, rows, 5), "k": (2, columns, 5), "v": (2, columns, 7),
        "logsumexp": (2, rows), "delta": (2, rows),
    }  # fmt: skip
    handles = [g.input(name, TensorType(DType.f32, shape)) for name, shape in shapes.items()]
    every = ops.attention_grad(*handles, scale=0.5, causal=False)
    return g.finish(*(every[i] for i in results))


BODIES = {
    "one block": forward(6, 9, 0, 1),
    "several blocks": forward(70, 9, 0, 1, causal=True),
    "no rows": forward(0, 9, 0, 1),
    "no columns": forward(6, 0, 0, 1),
    "values alone": forward(6, 9, 0),
    "logarithms alone": forward(6, 9, 1),
    "open rows": forward(N, N, 0, 1),
    "gradients": backward(6, 9, 0, 1, 2),
    "gradients of no rows": backward(0, 9, 0, 1, 2),
    "gradients of no columns": backward(6, 0, 0, 1, 2),
    "several chains": backward(300, 9, 0, 1, 2),
    "one gradient": backward(6, 9, 2),
    "open gradients": backward(N, 9, 0, 1, 2),
}


def kernel_of(name: str) -> KernelSpec:
    return KernelSpec(BODIES[name].name, BODIES[name])


def nest_named(name: str, target: str = "x86-64-v3") -> Nest:
    nest = nest_of(kernel_of(name), named(target))
    assert nest is not None
    return nest


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BODIES)
def test_every_nest_keeps_the_rules_and_has_a_text(name: str, target: str) -> None:
    nest = nest_named(name, target)
    assert verify_nest(nest) is nest
    check_text(nest)


@pytest.mark.parametrize("name", BODIES)
def test_every_result_is_stored_once(name: str) -> None:
    body = BODIES[name]
    for size in (1, 70) if symbols_of(body) else (None,):
        sizes, values = values_of(body, size)
        at = at_sizes(body, sizes) if sizes else body
        pairs = by_nest(kernel_of(name), named("x86-64-v3"), sizes, at, values)
        assert len(pairs) == len(body.outputs)
        assert all(np.array_equal(*pair) for pair in pairs)


# -- planted faults --------------------------------------------------------------------------------


FAULTS: dict[str, tuple[str, str, Callable[[Nest], Nest], str]] = {
    # rule, body, the fault, and what is said
    "blocks twice": ("N3", "several blocks", lambda n: doubled(n, "block"), "axis row"),
    "half of a row": (
        "N3", "one block", lambda n: effect(n, "divided by the sums", covers=()), "axis width"
    ),
    "sums for each block": (
        "N3", "several chains",
        lambda n: effect(effect(n, "over columns", outputs=("by_q", "by_k")), "rows of sums",
                         outputs=("by_v",)), "axis",
    ),
    "a gradient that no leaf stores": (
        "N3", "gradients", lambda n: effect(n, "over columns", outputs=()), "output by_q"
    ),
    "threads that store the same": (
        "N4", "several chains", lambda n: divided_by(n, "block"), "all tiles of block"
    ),
    "scores before they are there": (
        "N7", "one block", lambda n: without(n, fills("scores")), "stage scores"
    ),
    "queries of another block": (
        "N7", "several blocks", lambda n: hoisted(n, "queries", "block"), "axis row"
    ),
    "keys of another head": ("N7", "one block", lambda n: hoisted(n, "keys", "head"), "axis head"),
    "scores of half of the columns": (
        "N7", "one block", lambda n: effect(n, "q kt", covers=()), "axis column"
    ),
    "sums before they are complete": (
        "N7", "gradients", lambda n: without(n, fills("sums")), "stage sums"
    ),
    "room for less than a block": (
        "N9", "several blocks", lambda n: stage(n, "scores", room=(("row", 8),)), "axis row"
    ),
    "blocks that overlap": (
        "N10", "several blocks", lambda n: resplit(n, "block", tail=Tail.MASKED), "masked"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str) -> None:
    rule, name, plant, said = FAULTS[fault]
    nest = verify_nest(nest_named(name))
    with pytest.raises(VerifyError, match=f"rule {rule}: .*{re.escape(said)}"):
        verify_nest(plant(nest))
