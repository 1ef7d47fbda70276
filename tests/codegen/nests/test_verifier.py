"""The rules of nests: plans keep them, and each fault planted in a plan's nest breaks the one it
should, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.arrays import products_of
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.strategies.table import STRATEGIES, StrategyPlan, choose
from graphc.codegen.kernels.contraction.strategies.unblocked import UnblockedPlan
from graphc.codegen.nests.nest import (
    Axis,
    Clear,
    Compute,
    Every,
    Fill,
    ForEach,
    Nest,
    Role,
    Split,
    Statement,
    all_splits,
)
from graphc.codegen.nests.runner import run_nest
from graphc.codegen.nests.tails import Run, Tail
from graphc.codegen.nests.verifier import verify_nest
from graphc.codegen.target import named
from graphc.errors import VerifyError
from graphc.ir.dims import dim
from graphc.ir.instances import at_sizes
from graphc.records import fields, is_record, record, replace
from tests.codegen.kernels.contraction.problems import (
    OPEN_PROBLEMS,
    PROBLEMS,
    body_of,
    convolution,
    product,
)

TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]
EVERY = {**{name: graph for name, (graph, _) in PROBLEMS.items()},
         **{f"open {name}": graph for name, graph in OPEN_PROBLEMS.items()}}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EVERY)
def test_every_plan_keeps_the_rules(name: str, target: str) -> None:
    body, on = body_of(EVERY[name]), named(target)
    for problem in problems(body, lanes_for(body, on)):
        for strategy in STRATEGIES:
            for plan in strategy.candidates(problem, on):
                nest = plan.nest()
                assert verify_nest(nest) is nest


# -- planted faults --------------------------------------------------------------------------------


def nest_of(name: str) -> Nest:
    body, target = body_of(EVERY[name]), named("x86-64-v3")
    return choose(body, lanes_for(body, target), target).nest()


Edit = Callable[[Statement], list[Statement] | None]
"""What stands in place of a statement; None: the statement, its body edited too."""


def edited(nest: Nest, edit: Edit) -> Nest:
    return replace(nest, body=tuple(_edited(nest.body, edit)))


def _edited(statements: tuple[Statement, ...], edit: Edit) -> Iterator[Statement]:
    for statement in statements:
        instead = edit(statement)
        if instead is not None:
            yield from instead
        elif isinstance(statement, ForEach):
            rest = None if statement.rest is None else tuple(_edited(statement.rest, edit))
            yield replace(statement, body=tuple(_edited(statement.body, edit)), rest=rest)
        elif isinstance(statement, Every):
            yield replace(statement, body=tuple(_edited(statement.body, edit)))
        else:
            yield statement


def over(split: str) -> Callable[[Statement], bool]:
    return lambda s: isinstance(s, ForEach) and s.split.name == split


def fills(stage: str) -> Callable[[Statement], bool]:
    return lambda s: isinstance(s, Fill) and s.stage.name == stage


def without(nest: Nest, is_gone: Callable[[Statement], bool]) -> Nest:
    return edited(nest, lambda s: [] if is_gone(s) else None)


def in_place_of(nest: Nest, split: str) -> Nest:
    """The body of the loops over a split in place of these."""
    return edited(nest, lambda s: list(s.body) if over(split)(s) else None)


def resplit(nest: Nest, split: str, **changes: Any) -> Nest:
    """The nest with a split that has other fields, wherever it stands."""
    return renewed(nest, lambda v: isinstance(v, Split) and v.name == split, changes)


def renewed(value: Any, is_it: Callable[[Any], bool], changes: dict[str, Any]) -> Any:
    """A value of records and tuples, with changes in some of what is inside."""
    if isinstance(value, tuple):
        return tuple(renewed(each, is_it, changes) for each in value)
    if not is_record(value) or isinstance(value, type) or not _may_hold(value):
        return value
    kept = {f.name: renewed(getattr(value, f.name), is_it, changes) for f in fields(value)}
    value = replace(value, **kept)
    return replace(value, **changes) if is_it(value) else value


def _may_hold(value: Any) -> bool:
    return isinstance(value, Nest | ForEach | Every | Fill | Clear | Compute | Split | Axis)


def effect(nest: Nest, text: str, **changes: Any) -> Nest:
    """The nest with leaves of such a text that say that they do something else."""

    @record
    class Other:
        leaf: Any

        @property
        def text(self) -> str:
            return str(self.leaf.text)

        @property
        def effect(self) -> Any:
            return replace(self.leaf.effect, **changes)

        def write(self, context: Any, place: Any) -> None:
            raise NotImplementedError

    def one(s: Statement) -> list[Statement] | None:
        matches = isinstance(s, Compute) and text in s.leaf.text
        return [Compute(Other(s.leaf))] if matches else None  # type: ignore[union-attr]

    return edited(nest, one)


def stage(nest: Nest, name: str, **changes: Any) -> Nest:
    """The nest with a stage that says something else of itself."""
    (known,) = (each for each in nest.stages if each.name == name)

    class Other:
        def __getattr__(self, asked: str) -> Any:
            return changes[asked] if asked in changes else getattr(known, asked)

    other = Other()
    nest = edited(nest, lambda s: [Fill(other)] if fills(name)(s) else None)  # type: ignore[arg-type]
    listed = tuple(other if each is known else each for each in nest.stages)
    return replace(nest, stages=listed)  # type: ignore[arg-type]


def hoisted(nest: Nest, name: str, out_of: str) -> Nest:
    """The filling of a stage ahead of the loop that it stands in."""

    def one(s: Statement) -> list[Statement] | None:
        if not over(out_of)(s):
            return None
        assert isinstance(s, ForEach)
        filling = [each for each in s.body if fills(name)(each)]
        rest = tuple(each for each in s.body if not fills(name)(each))
        return [*filling, replace(s, body=rest)]

    return edited(nest, one)


def sunk(nest: Nest, name: str, into: str) -> Nest:
    """The filling of a stage inside of a loop that it stands ahead of."""
    (filling,) = (each for each in nest.stages if each.name == name)
    nest = without(nest, fills(name))
    return edited(nest, lambda s: [replace(s, body=(Fill(filling), *s.body))]  # type: ignore[call-arg,union-attr]
                  if over(into)(s) else None)  # fmt: skip


def doubled(nest: Nest, split: str) -> Nest:
    """A loop in a loop over the same."""
    return edited(nest, lambda s: [replace(s, body=(s,))] if over(split)(s) else None)  # type: ignore[arg-type,type-var]


def divided_by(nest: Nest, name: str) -> Nest:
    """Threads divide another split."""
    return replace(nest, parallel=tuple(s for s in all_splits(nest) if s.name == name))


K = "axis k"
FAULTS: dict[str, tuple[str, str, Callable[[Nest], Nest], str]] = {
    # rule, problem, the fault, and what is said
    "two splits of one name": (
        "N1", "large product", lambda n: resplit(n, "row_blocks", name="rows"), "are called rows"
    ),
    "a stage that is not there": (
        "N1", "large planes", lambda n: replace(n, stages=()), "there is no halo"
    ),
    "tiles of no loop around": (
        "N1", "one row", lambda n: in_place_of(n, "k_block"), "no loop around is over k_block"
    ),
    "an axis too short": (
        "N2", "open rows", lambda n: renewed(n, lambda v: isinstance(v, Axis) and v.name == "rows",
                                             {"extent": dim("s0", 2) - 1}), "rows",
    ),
    "no loop over rows": (
        "N3", "large planes", lambda n: in_place_of(n, "rows"), "axis rows"
    ),
    "rows twice": ("N3", "large planes", lambda n: doubled(n, "rows"), "axis rows"),
    "a last tile that overlaps": (
        "N3", "large planes", lambda n: resplit(n, "rows", tail=Tail.SHIFTED), "axis rows"
    ),
    "a class of columns left out": (
        "N3", "stride 2 by x",
        lambda n: effect(n, "interleave", covers=("columns0", "columns1", "columns2")),
        "axis columns3",
    ),
    "results ahead of the last K block": (
        "N3", "large product", lambda n: effect(n, "register tile", last=None), K
    ),
    "threads that store the same": (
        "N4", "small planes", lambda n: divided_by(n, "positions"), "positions"
    ),
    "threads that divide a sum": (
        "N4", "one row", lambda n: divided_by(n, "k_block"), K
    ),
    "K blocks of another length": (
        "N5", "large product", lambda n: resplit(n, "k", size=200), K
    ),
    "two K blocks exchanged": (
        "N5", "large product",
        lambda n: resplit(n, "k", tail=Tail.RUNS, runs=(Run(0, 256, 1, 256), Run(1, 0, 1, 256))), K,
    ),
    "K blocks that overlap": (
        "N5", "large product", lambda n: resplit(n, "k", tail=Tail.SHIFTED), K
    ),
    "one chain for several K blocks": (
        "N5", "one row", lambda n: resplit(n, "k_block", size=512), K
    ),
    "products added twice": ("N5", "one row", lambda n: doubled(n, "matrix_rows"), K),
    "no products of a class": (
        "N5", "stride 2 by x", lambda n: without(n, over("columns2")), "axis columns2"
    ),
    "sums that are not zero first": (
        "N6", "one image", lambda n: without(n, lambda s: isinstance(s, Clear)), "sums"
    ),
    "sums of another block": (
        "N6", "deep product",
        lambda n: stage(n, "sums", whole=("column_blocks", "columns")), "a tile of columns",
    ),
    "sums taken in each K block": (
        "N6", "one image",
        lambda n: edited(without(n, lambda s: fills("sums")(s) or is_leaf("results")(s)),
                         lambda s: [replace(s, body=(*s.body, *results(n)))]  # type: ignore[call-arg,union-attr]
                         if over("k")(s) else None),
        K,
    ),
    "a stage that nothing fills": (
        "N7", "large planes", lambda n: without(n, fills("halo")), "halo"
    ),
    "filled ahead of the loop that it follows": (
        "N7", "open rows", lambda n: hoisted(n, "vectors", "columns"), "axis columns"
    ),
    "one image for all": ("N7", "large planes", lambda n: hoisted(n, "halo", "b0"), "axis b0"),
    "one loop too deep": ("N8", "open rows", lambda n: sunk(n, "vectors", "rows"), "axis rows"),
    "room for less than a tile": (
        "N9", "open rows", lambda n: stage(n, "vectors", room=(("columns", 2), ("k", 300))),
        "axis columns",
    ),
    "room for an example": (
        "N9", "open small planes by w", lambda n: stage(n, n.stages[0].name, room=(("k", 16),)), K
    ),
    "tiles that do not divide": (
        "N10", "small product", lambda n: resplit(n, "rows", size=4, tail=Tail.EXACT), "axis rows"
    ),
    "a mask that the leaf does not have": (
        "N10", "open rows", lambda n: resplit(n, "rows", tail=Tail.MASKED), "axis rows"
    ),
    "what is left of a size as code of its own": (
        "N10", "open rows", lambda n: resplit(n, "rows", tail=Tail.WHOLE_AND_REST), "axis rows"
    ),
    "blocks of no tiles": (
        "N10", "small product", lambda n: resplit(n, "rows", tail=Tail.CLIPPED), "axis rows"
    ),
}  # fmt: skip


def is_leaf(text: str) -> Callable[[Statement], bool]:
    return lambda s: isinstance(s, Compute) and text in s.leaf.text


def results(nest: Nest) -> list[Statement]:
    """What fills the sums, and the leaf that takes them."""
    kept: list[Statement] = []
    edited(nest, lambda s: kept.append(s) if fills("sums")(s) or is_leaf("results")(s) else None)  # type: ignore[func-returns-value]
    return kept


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str) -> None:
    rule, problem, plant, said = FAULTS[fault]
    nest = verify_nest(nest_of(problem))
    with pytest.raises(VerifyError, match=f"rule {rule}: .*{re.escape(said)}"):
        verify_nest(plant(nest))


SMALL = {
    "rows": product(dim("n", 2), 512, 300), "one row": product(1, 20, 530),
    "images": convolution("forward", (2, 4, 6, 9), (7, 4, 3, 3)),
}  # fmt: skip
AT_RUN_TIME: dict[str, tuple[str, str, Callable[[Nest], Nest]]] = {
    "rows twice": ("N3", "images", lambda n: doubled(n, "rows")),
    "no loop over columns": ("N3", "images", lambda n: without(n, over("columns"))),
    "sums that are not zero first": ("N6", "one row", lambda n: without(n, is_leaf("clear sums"))),
    "K blocks of another length": ("N5", "rows", lambda n: edited(n, halved)),
    "filled ahead of the loop": ("N7", "rows", lambda n: hoisted(n, "vectors", "columns")),
    "one image for all": ("N7", "images", lambda n: hoisted(n, "halo", "b0")),
    "a stage that nothing fills": ("N7", "images", lambda n: without(n, fills("halo"))),
    "room for less than a tile": (
        "N9", "rows", lambda n: stage(n, "vectors", room=(("columns", 2), ("k", 300)))
    ),
}  # fmt: skip
"""What shows when it runs, too."""


def halved(s: Statement) -> list[Statement] | None:
    """Sums of the first 150 products, then of the others, as results."""
    if not isinstance(s, Compute):
        return None
    k = Split("half", Axis("k", 300, Role.SUM, block=256), 150, Tail.EXACT)
    return [ForEach(k, (s,))]


@pytest.mark.parametrize("fault", AT_RUN_TIME)
def test_a_planted_fault_shows_when_it_runs(fault: str) -> None:
    rule, name, plant = AT_RUN_TIME[fault]
    body, target = body_of(SMALL[name]), named("x86-64-v3")
    lanes = lanes_for(body, target)
    plan: StrategyPlan = choose(body, lanes, target)
    if name == "images":
        listed = UnblockedPlan.candidates(next(problems(body, lanes)), target)
        plan = next(p for p in listed if [s.name for s in p.nest().stages] == ["halo"])
    sizes = {"s0": 5} if name == "rows" else {}
    at = at_sizes(body, sizes)
    operands = tuple(
        np.ones(at.type_of(v).shape, np.float32) for v in plan.problem.view.node.operands
    )
    products = products_of(at, plan.problem.view.swapped, operands)
    with pytest.raises(VerifyError, match=f"rule {rule}: "):
        run_nest(plant(plan.nest()), products, sizes)
