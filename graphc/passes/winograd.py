"""3x3 convolutions of stride 1 as Winograd's F(2x2, 3x3), where that pays: for level *relaxed*.

in : a graph without composites but those with a recipe, and what a target gains
out: the graph with `winograd` in the place of the `conv` and `conv_input_grad` that gain by it

The sums are rounded elsewhere, so results differ within the bound that docs/contractions.md states.
An element of x that is not finite reaches the results it reaches in the convolution, an infinity as
infinity or NaN. A weight that is not finite also reaches results through taps that fall on padding,
as NaN. Sums of four numbers near the greatest may overflow where the convolution's do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphc.ir.copying import replayed
from graphc.ir.dims import is_symbolic
from graphc.ir.draft import Draft, Values, moved
from graphc.ir.nodes import CONSTANT, Graph, Node, Value
from graphc.ir.size_guards import typical
from graphc.ir.types import DType, Shape
from graphc.ops.layouts.winograd import PLANES, weight_matrix
from graphc.records import replace

LEAST_GAIN = 1.2
"""Times as fast as the direct kernel, as predicted: the model may err by so much."""

_OPS = ("conv", "conv_input_grad")


class Candidate(NamedTuple):
    """A convolution that fits, of x by a weight, or a gradient of one's input (`is_gradient`: x is
    that of its result). Open sizes are those of the example."""

    dtype: DType
    x: Shape
    weight: Shape
    result: Shape
    padding: Shape
    is_gradient: bool = False
    known_weight: bool = False
    """Whether the weight is transformed ahead of the call."""

    @property
    def channels(self) -> int:
        return self.x[1]


Gain = Callable[[Candidate], float]
"""How many times as fast as the direct kernel a convolution is expected to be."""


def winograd(graph: Graph, gain: Gain) -> Graph:
    """Put `winograd` in the place of convolutions, also inside regions.

        %2 = conv(%x, %w) .. padding=[1, 1]    =>   %2 = constant f32[16,9] [..]
             : f32[16,64,32,32]                     %3 = reshape(%w) shape=[4096, 9]
                                                    %4 = transpose(%3) permutation=[1, 0]
                                                    %5 = matmul(%2, %4) : f32[16,4096]
                                                    %6 = reshape(%5) shape=[16, 64, 64]
                                                    %7 = winograd(%x, %6) padding=[1, 1]
                                                         : f32[16,64,32,32]

    The gradient of the input is the convolution of the other with the kernel rotated by 180 degrees
    and the roles of its channels exchanged. Weights known here are transformed here. `gain`: what
    the target is expected to have of it.
    """

    def pays(node: Node, operands: Values) -> bool:
        case = _candidate(draft, node, operands) if node.op in _OPS and _fits(node) else None
        return case is not None and gain(case) >= LEAST_GAIN

    def visit(node: Node, operands: Values) -> Values:
        if node.regions:
            node = replace(node, regions=tuple(winograd(region, gain) for region in node.regions))
        if not pays(node, operands):
            return draft.add(moved(node, operands))
        return (_replaced(draft, node, operands),)

    draft = Draft()
    return replayed(graph, draft, visit)


def _fits(node: Node) -> bool:
    """Whether a convolution in two dimensions has stride 1, one group, and a padding that both
    directions take."""
    if len(node.types[0].shape) != 4:
        return False
    ones = (1, 1)
    if node.attribute("stride") != ones or node.attribute("dilation") != ones:
        return False
    return bool(node.attribute("groups") == 1 and max(node.attribute("padding")) <= 2)


def _candidate(draft: Draft, node: Node, operands: Values) -> Candidate | None:
    """A convolution that fits; None of another kernel than 3x3, and of open channels."""
    x, w = (draft.type(operand) for operand in operands)
    if w.shape[2:] != (3, 3) or is_symbolic(w.shape):
        return None
    x_shape, result = (tuple(map(typical, shape)) for shape in (x.shape, node.types[0].shape))
    known = draft.node(operands[1]).op == CONSTANT
    padding: Shape = node.attribute("padding")
    is_gradient = node.op == "conv_input_grad"
    return Candidate(x.dtype, x_shape, w.shape, result, padding, is_gradient, known)


def _replaced(draft: Draft, node: Node, operands: Values) -> Value:
    x, w = operands
    rotated = node.op == "conv_input_grad"
    padding: Shape = node.attribute("padding")
    u = _transformed(draft, w, rotated)
    if rotated:
        u = _one(draft, "transpose", u, permutation=(0, 2, 1))
        padding = tuple(2 - by for by in padding)
    return _one(draft, "winograd", x, u, padding=padding)


def _transformed(draft: Draft, w: Value, rotated: bool) -> Value:
    """[16, O, C] of w [O, C, 3, 3]."""
    type = draft.type(w)
    outputs, channels = type.shape[:2]
    matrix, shape = weight_matrix(rotated), (PLANES, outputs, channels)
    if draft.node(w).op == CONSTANT:
        known = draft.node(w).attribute("value").array.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            planes = (matrix @ known.reshape(-1, 9).T).astype(type.dtype.numpy)
        (constant,) = draft.add(draft.make_constant(planes.reshape(shape)))
        return constant
    (left,) = draft.add(draft.make_constant(matrix.astype(type.dtype.numpy)))
    rows = _one(draft, "reshape", w, shape=(outputs * channels, 9))
    columns = _one(draft, "transpose", rows, permutation=(1, 0))
    return _one(draft, "reshape", _one(draft, "matmul", left, columns), shape=shape)


def _one(draft: Draft, name: str, *operands: Value, **attributes: Any) -> Value:
    (value,) = draft.add(draft.make(name, *operands, **attributes))
    return value
