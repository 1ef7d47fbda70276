"""How much faster than the direct kernel a convolution is expected to be by Winograd's sums.

In: a `Candidate` of the pass, a target. Out: the quotient of two costs: of the plan that the
contractions' strategies would choose, and of the `winograd` with the transform of its weights.
"""

from __future__ import annotations

from functools import lru_cache

from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.cost.winograd import winograd_cost
from graphc.codegen.kernels.contraction.strategies.table import choose
from graphc.codegen.target import Target
from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph
from graphc.ir.types import TensorType
from graphc.ops.contract import conv, conv_input_grad
from graphc.passes.winograd import Candidate


@lru_cache(maxsize=1024)
def expected_gain(case: Candidate, target: Target) -> float:
    """The direct kernel's cost over that of `winograd`; 0 where there is nothing to compute."""
    if 0 in (*case.result, *case.weight):
        return 0.0
    body = _direct(case)
    lanes = lanes_for(body, target)
    cost = winograd_cost(case.result, case.channels, lanes, target)
    weights = 0.0 if case.known_weight else cost.weights
    return choose(body, lanes, target).cost / (cost.products + cost.transforms + weights)


def _direct(case: Candidate) -> Graph:
    builder = GraphBuilder("contraction")
    x, w = (
        builder.input(name, TensorType(case.dtype, shape))
        for name, shape in (("x", case.x), ("y", case.weight))
    )
    geometry = {"stride": (1, 1), "padding": case.padding, "dilation": (1, 1), "groups": 1}
    if case.is_gradient:
        return builder.finish(conv_input_grad(x, w, size=case.result[2:], **geometry))
    return builder.finish(conv(x, w, **geometry))
