"""The strategies of contractions, and the choice among them.

In: a kernel's body around one contraction, lanes, target. Out: the cheapest plan. Of equal costs
the first counts: of the two roles that the operands can have that of the op, then the strategy that
stands first in the table. Special strategies therefore stand before general ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol

from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, problems
from graphc.codegen.kernels.contraction.strategies.blocked import BlockedPlan
from graphc.codegen.kernels.contraction.strategies.depthwise_wgrad import DepthwiseWgradPlan
from graphc.codegen.kernels.contraction.strategies.direct_conv import DirectConvPlan
from graphc.codegen.kernels.contraction.strategies.gemv import GemvPlan
from graphc.codegen.kernels.contraction.strategies.grouped import GroupedPlan
from graphc.codegen.kernels.contraction.strategies.open_columns import OpenColumnsPlan
from graphc.codegen.kernels.contraction.strategies.paired_windows import PairedWindowsPlan
from graphc.codegen.kernels.contraction.strategies.parity_split import ParitySplitPlan
from graphc.codegen.kernels.contraction.strategies.scaled_blocks import ScaledBlocksPlan
from graphc.codegen.kernels.contraction.strategies.sized import SizedPlan
from graphc.codegen.kernels.contraction.strategies.split_k import SplitKPlan
from graphc.codegen.kernels.contraction.strategies.tap_list_conv import TapListConvPlan
from graphc.codegen.kernels.contraction.strategies.unblocked import UnblockedPlan
from graphc.codegen.nests.nest import Nest
from graphc.codegen.target import Target
from graphc.errors import LoweringError
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ops.kinds.contract import Contract
from graphc.ops.nn.block_products import block_matmul


class StrategyPlan(Protocol):
    """What a strategy would do for a problem."""

    @property
    def problem(self) -> ContractionProblem: ...

    @property
    def cost(self) -> float:
        """In vector FMAs (`costs.py`)."""

    @property
    def reason(self) -> str:
        """The first line of the kernel: strategy, cut, cost."""

    @property
    def lanes(self) -> int:
        """Those of the vectors that its nest computes with."""

    def nest(self) -> Nest:
        """The kernel as a value. The problem has results."""


class Strategy(Protocol):
    def candidates(
        self, problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[StrategyPlan]:
        """The plans for a problem, if there are any; those that cost `limit` or more may be left
        out. The same problem gives the same plans."""


STRATEGIES: tuple[Strategy, ...] = (
    DepthwiseWgradPlan,
    TapListConvPlan,
    DirectConvPlan,
    GemvPlan,
    SplitKPlan,
    BlockedPlan,
    ParitySplitPlan,
    GroupedPlan,
    UnblockedPlan,
    OpenColumnsPlan,
    SizedPlan,
)
"""In the order in which they are asked."""
OF_PAIRS: tuple[Strategy, ...] = (GemvPlan, GroupedPlan, BlockedPlan, UnblockedPlan, SizedPlan)
"""Those that add products of pairs."""

OF_CHAINS: tuple[Strategy, ...] = (UnblockedPlan, SizedPlan)
"""Those that have all of k in one leaf, and so can add parts of it as a tree."""


def asked(problem: ContractionProblem) -> tuple[Strategy, ...]:
    """The strategies that may have plans for a problem, in order."""
    if problem.pairs:
        return OF_PAIRS
    if problem.view.chains > 1:
        return OF_CHAINS
    if problem.view.op is block_matmul:
        return (ScaledBlocksPlan,)
    return STRATEGIES if problem.view.op.pairing is None else (PairedWindowsPlan, *STRATEGIES)


def declined(graph: Graph, target: Target) -> str:
    """Which instruction of the processor stands in none of the graph's contractions because it is
    slower than what does, and why; empty where there is none."""
    pairs = any(
        node.op not in (INPUT, CONSTANT)
        and isinstance(op := lookup(node.op), Contract) and op.pairs
        and graph.type_of(node.operands[0]).dtype is DType.bf16
        for node in graph.nodes
    )  # fmt: skip
    if not (pairs and target.slow_pairs):
        return ""
    return (
        f"{target.cpu}'s instruction for pairs of bf16 is not used: FMAs on widened operands take "
        "less time and have the same bits"
    )


@lru_cache(maxsize=64)
def choose(body: Graph, lanes: int, target: Target) -> StrategyPlan:
    """The cheapest plan, of several the first; for a body equal to this one, which is asked about
    by layouts, size classes and lowering in turn."""
    best: StrategyPlan | None = None
    for problem in problems(body, lanes):
        for strategy in asked(problem) if problem.has_results else ():
            limit = math.inf if best is None else best.cost
            for plan in strategy.candidates(problem, target, limit):
                if best is None or plan.cost < best.cost:
                    best = plan
    if best is None:
        raise LoweringError("no strategy for a contraction", hint="is its result empty?")
    return best
