"""The table of strategies: each is chosen somewhere, asking changes nothing, one more is one class
and one entry (the one in CONTRIBUTING.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.recipe import lower_contract
from graphc.codegen.kernels.contraction.strategies import table as strategies
from graphc.codegen.kernels.contraction.strategies.grouped import GroupedPlan
from graphc.codegen.kernels.contraction.strategies.open_columns import OpenColumnsPlan
from graphc.codegen.kernels.contraction.strategies.sized import SizedPlan
from graphc.codegen.kernels.contraction.strategies.table import STRATEGIES, Strategy, choose
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.target import named
from graphc.ir.dims import Extent, dim
from graphc.ops.interpreter import evaluate
from tests.codegen.kernels.contraction.problems import (
    PROBLEMS,
    body_of,
    convolution,
    product,
)

Priced = Callable[..., Any]
TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_strategy_that_a_problem_is_for_is_chosen(name: str) -> None:
    graph, strategy = PROBLEMS[name]
    body, target = body_of(graph), named("x86-64-v3")
    plan = choose(body, lanes_for(body, target), target)
    chosen: object = type(plan)
    assert chosen is strategy, plan.reason
    assert lower_contract("k", body, target).note == plan.reason


def test_every_strategy_of_the_table_is_chosen_for_some_problem() -> None:
    """But the one for sizes known only at run time (tests/codegen/run_time_extents) and that of
    bytes (test_int_matmul.py)."""
    elsewhere = {OpenColumnsPlan, SizedPlan, GroupedPlan}
    assert {strategy for _, strategy in PROBLEMS.values()} == set(STRATEGIES) - elsewhere


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_asking_again_gives_the_same_plans(name: str, target: str) -> None:
    """Of the same problem, and of one that says the same; a limit leaves out what costs more."""
    body, on = body_of(PROBLEMS[name][0]), named(target)
    lanes = lanes_for(body, on)
    for problem, again in zip(problems(body, lanes), problems(body, lanes), strict=True):
        for strategy in STRATEGIES:
            plans = list(strategy.candidates(problem, on))
            assert plans == list(strategy.candidates(problem, on))
            described = [(plan.cost, plan.reason) for plan in strategy.candidates(again, on)]
            assert [(plan.cost, plan.reason) for plan in plans] == described
            for limit in {plan.cost for plan in plans}:
                cheaper = [plan for plan in plans if plan.cost < limit]
                left = list(strategy.candidates(problem, on, limit))
                assert [plan for plan in left if plan.cost < limit] == cheaper


def test_which_coordinates_are_open() -> None:
    n = dim("n", 1)
    c = Coordinates
    for graph, expected in (
        (product(6, 8, 4), c.NONE), (product(n, 8, 4), c.ROWS), (product(6, n, 4), c.COLUMNS),
        (product(6, n, 2 * n), c.COLUMNS | c.DEPTH),
        (convolution("forward", (n, 3, 8, 8), (4, 3, 3, 3)), c.IMAGES),
        (convolution("by w", (n, 3, 8, 8), (4, 3, 3, 3)), c.DEPTH),
        (convolution("by w", (2, 3, 8, n + 3), (4, 3, 3, 3)), c.TAPS),
    ):  # fmt: skip
        problem = next(problems(body_of(graph), 8))
        assert problem.open is expected
        assert problem.has_sizes == (expected not in c.BATCH)


def test_a_strategy_has_plans_for_the_open_coordinates_it_says() -> None:
    def asked(may: Coordinates, needs: Coordinates, rows: Extent) -> int:
        candidates = open_to(may, needs)(lambda problem, target, limit: iter([problem]))
        (problem, _) = problems(body_of(product(rows, 8, 4)), 8)
        return len(list(candidates(problem, named("x86-64-v3"))))

    none, rows, columns = Coordinates.NONE, Coordinates.ROWS, Coordinates.COLUMNS
    n = dim("n", 1)
    assert [asked(none, none, 6), asked(none, none, n)] == [1, 0]
    assert [asked(rows, none, 6), asked(rows, none, n), asked(columns, none, n)] == [1, 1, 0]
    assert [asked(rows, rows, 6), asked(rows, rows, n)] == [0, 1]


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_plan_has_its_problem_and_a_cost(name: str) -> None:
    body, on = body_of(PROBLEMS[name][0]), named("x86-64-v3")
    for problem in problems(body, lanes_for(body, on)):
        for strategy in STRATEGIES:
            for plan in strategy.candidates(problem, on):
                assert plan.problem is problem and 0 < plan.cost < float("inf")
                assert plan.reason.startswith(f"{problem.name}, ")


# -- one strategy more ----------------------------------------------------------------------------


def scalar() -> Strategy:
    # The empty lines are those of a file of its own.
    # fmt: off
    # -- declaration
    import math
    from collections.abc import Iterator

    from graphc.codegen.kernels.contraction.cost.costs import note
    from graphc.codegen.kernels.contraction.emission.axes import BatchNest, batch_loops, each
    from graphc.codegen.kernels.contraction.emission.emitter import Emitter
    from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
    from graphc.codegen.nests.nest import Compute, Effect, ForEach, Nest, NestPlace, Role
    from graphc.codegen.target import Target
    from graphc.ops.kinds.index_expr import Variable
    from graphc.records import record
    from graphc.schedule.access import unflatten


    @record
    class ScalarPlan:
        """Strategy: one result at a time, each product under its guards."""

        problem: ContractionProblem
        cost: float
        reason: str

        @staticmethod
        def candidates(
            problem: ContractionProblem, target: Target, limit: float = math.inf
        ) -> Iterator[ScalarPlan]:
            if not problem.dtype.is_float:
                return
            columns = math.prod(problem.view.n)
            products = float(problem.batch_count * problem.rows * columns * problem.depth)
            reason = note(problem, "scalar", "one result at a time", products=products)
            yield ScalarPlan(problem, products, reason)

        @property
        def lanes(self) -> int:
            return 1

        def nest(self) -> Nest:
            problem, view = self.problem, self.problem.view
            rows = each("row", Variable("row", problem.rows), Role.ROWS)
            columns = each("column", Variable("column", math.prod(view.n)), Role.COLUMNS)
            body = ForEach(rows, (ForEach(columns, (Compute(Result(problem)),)),))
            return BatchNest(problem, (), (body,), self.reason).nest(batch_loops(problem))


    @record
    class Result:
        """The leaf of one result."""

        problem: ContractionProblem

        @property
        def text(self) -> str:
            return "one result"

        @property
        def effect(self) -> Effect:
            return Effect(covers=("k",), stores=True)

        def write(self, emit: Emitter, place: NestPlace) -> None:
            problem, view = self.problem, self.problem.view
            m = problem.m(place["row"].first)
            n = unflatten(place["column"].first, view.n)
            total = emit.guarded.total(problem.batch, m, n, ())
            emit.finish(view.out(problem.batch, m, n), (), total)

    # -- end
    # fmt: on
    return ScalarPlan


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Strategy:
    strategy = scalar()
    monkeypatch.setattr(strategies, "STRATEGIES", (*STRATEGIES, strategy))
    return strategy


SMALL = {
    "product": product(5, 19, 7),
    "deep product": product(3, 4, 600),
    "forward": convolution("forward", (2, 3, 5, 6), (4, 3, 3, 3), stride=2),
    "by x": convolution("by x", (2, 3, 5, 6), (4, 3, 3, 3), stride=2),
    "by w": convolution("by w", (2, 4, 5, 6), (4, 2, 3, 3), groups=2),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_strategy_that_is_never_cheapest_changes_no_kernel(name: str, added: Strategy) -> None:
    body, target = body_of(PROBLEMS[name][0]), named("x86-64-v3")
    with_it = lower_contract("k", body, target)
    strategies.STRATEGIES = STRATEGIES
    assert with_it.note == lower_contract("k", body, target).note


@pytest.mark.sampled(16)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SMALL)
def test_a_strategy_that_is_cheapest_is_lowered(
    name: str, target: str, added: Strategy, priced: Priced
) -> None:
    graph = SMALL[name]
    with priced(added):
        kernel = lower_contract("k", body_of(graph), named(target))
    assert ", scalar: one result at a time" in kernel.note
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(t.shape).astype(np.float32) for t in graph.input_types]
    (expected,) = evaluate(graph, tuple(arrays), reference=True)
    actual = np.full(expected.shape, np.nan, np.float32)
    buffers = [*(array.ravel() for array in arrays), actual.ravel()]
    interpreter.run(kernel, buffers)
    np.testing.assert_allclose(buffers[-1].reshape(expected.shape), expected, atol=1e-4)
