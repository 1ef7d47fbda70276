"""Attention that was written out, as the op `attention`: for level *relaxed*.

in : a graph with composites, forward alone or with its derived backward
out: the graph with `attention` (and `attention_grad`) where the matrix of weights is no longer read

The weights are taken in another order, so results round differently. Three things differ beyond
rounding, all where a row sees nothing: its result stays NaN where the user's is, but its gradients
are 0 where the user's would be NaN; and without any mask, a row whose products are all -∞ gives 0.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from graphc.ir.copying import copy_nodes
from graphc.ir.draft import Draft, Values
from graphc.ir.nodes import Graph, Node, Value
from graphc.ir.types import Shape, TensorType
from graphc.passes.attention_sites import Mask, OperandView, Site
from graphc.passes.common_subexpressions import common_subexpressions
from graphc.passes.dead_code import dead_code
from graphc.records import replace


def recognize_attention(graph: Graph) -> Graph:
    """Put `attention` in the place of its parts, also inside regions.

        %3 = transpose(%k) permutation=[0, 2, 1] : f32[8,64,32]
        %4 = matmul(%q, %3) : f32[8,32,32]
        %5 = constant f32[] [0.125]                        =>   %3, %4 = attention(%q, %k, %v)
        %6 = broadcast(%5) shape=[8, 32, 32] : f32[8,32,32]         causal=false scale=0.125
        %7 = mul(%4, %6) : f32[8,32,32]                             : f32[8,32,64], f32[8,32]
        %8 = softmax(%7) axis=2 : f32[8,32,32]
        %9 = matmul(%8, %v) : f32[8,32,64]

    Between product and softmax may stand: scaling by constants, then masks by `where` or `add`, at
    most one of them other than a constant causal one, and reshapes of the leading axes. A site
    stays as it is where anything else reads the scores or the weights.
    """
    regions = [
        replace(node, regions=tuple(map(recognize_attention, node.regions)))
        if node.regions else node
        for node in graph.nodes
    ]  # fmt: skip
    graph = Graph(graph.name, tuple(regions), graph.outputs, graph.aliases)
    if not any(node.op == "softmax" for node in graph.nodes):
        return graph
    shared = common_subexpressions(graph)
    view = OperandView(shared)
    sites = [site for site in view.sites() if view.settles(site)]
    return dead_code(_Replacing(view, sites).run()) if sites else graph


class _Replacing:
    """The graph with its sites replaced. What nobody reads any more is still there."""

    def __init__(self, view: OperandView, sites: list[Site]):
        self.view = view
        self.draft = Draft()
        self.values: dict[Value, Value] = {}
        self.site_of = {value: site for site in sites for value in site.replaced}
        self.replacements: dict[int, tuple[Value, Value, tuple[Value, ...]]] = {}

    def run(self) -> Graph:
        graph, draft = self.view.graph, self.draft
        identities = itertools.count()

        def place(node: Node, operands: Values) -> Values:
            value = Value(next(identities))
            site = self.site_of.get(value)
            if site is None:
                return draft.add_moved(node, operands)
            draft.location = node.location
            if value not in self.values:
                self._replace(site, value)
            return (self.values[value],)

        copy_nodes(graph.nodes, range(len(graph.nodes)), self.values, place)
        outputs = [self.values[output] for output in graph.outputs]
        return draft.graph(graph.name, outputs, graph.aliases)

    def _emit(self, name: str, *operands: Value, **attributes: Any) -> tuple[Value, ...]:
        return self.draft.add(self.draft.make(name, *operands, **attributes))

    def _one(self, name: str, *operands: Value, **attributes: Any) -> Value:
        return self._emit(name, *operands, **attributes)[0]

    def _shaped(self, value: Value, shape: Shape) -> Value:
        same = self.draft.shape(value) == shape
        return value if same else self._one("reshape", value, shape=shape)

    def _uniform(self, number: float, type: TensorType) -> Value:
        (value,) = self.draft.add(self.draft.make_constant(np.asarray(number, type.dtype.numpy)))
        return self._one("broadcast", value, shape=type.shape) if type.shape else value

    def _swapped(self, value: Value) -> Value:
        rank = len(self.draft.shape(value))
        order = (*range(rank - 2), rank - 1, rank - 2)
        return self._one("transpose", value, permutation=order)

    def _replace(self, site: Site, value: Value) -> None:
        """Give `value`, a result or gradient of the site, its new value."""
        if id(site) not in self.replacements:
            self.replacements[id(site)] = self._forward(site)
        for cotangent, gradient in site.gradients.items():
            if value in gradient.values():
                self._backward(site, cotangent, gradient)

    def _operands(self, site: Site) -> tuple[Value, ...]:
        """q, k, v and the mask."""
        lead = site.shape[:-2]
        left, right, v = (
            self._shaped(self.values[x], (*lead, *self.view.shape(x)[-2:]))
            for x in (site.product.left, site.product.right, site.v)
        )
        mask = () if site.plan is None else (self._mask(site, site.plan),)
        return (left, self._swapped(right), v, *mask)

    def _mask(self, site: Site, plan: Mask) -> Value:
        """As [L, S] where it is the same for all that leads."""
        small = self.view.small(plan.condition)
        shape, square = self.view.shape(small), site.shape[-2:]
        value = self.values[small]
        if plan.fill is not None and site.added:
            type = self.view.graph.type_of(site.out).with_shape(shape)
            fill, zero = self._uniform(plan.fill, type), self._uniform(0.0, type)
            both = (zero, fill) if plan.seen else (fill, zero)
            value = self._one("where", value, *both)
        elif plan.fill is not None and not plan.seen:
            value = self._one("logical_not", value)
        whole = site.shape
        if math.prod(shape[:-2]) == 1:
            value, whole = self._shaped(value, shape[-2:]), square
        if self.draft.shape(value) == whole:
            return value
        return self._one("broadcast", value, shape=whole)

    def _forward(self, site: Site) -> tuple[Value, Value, tuple[Value, ...]]:
        """The values and logsumexps, and what they come from."""
        operands = self._operands(site)
        options = {"scale": site.product.scale, "causal": site.causal}
        values, logsumexp = self._emit("attention", *operands, **options)
        shown = self._blinded(values, logsumexp) if site.blind else values
        self.values[site.out] = self._shaped(shown, self.view.shape(site.out))
        return values, logsumexp, operands

    def _blinded(self, values: Value, logsumexp: Value) -> Value:
        """NaN in rows that see nothing: softmax makes it there."""
        draft = self.draft
        type, rows = draft.type(values), draft.type(logsumexp)
        blind = self._one("eq", logsumexp, self._uniform(-math.inf, rows))
        blind = self._one("reshape", blind, shape=(*rows.shape, 1))
        blind = self._one("broadcast", blind, shape=type.shape)
        return self._one("where", blind, self._uniform(math.nan, type), values)

    def _backward(self, site: Site, cotangent: Value, gradient: dict[str, Value]) -> None:
        values, logsumexp, (q, k, v, *mask) = self.replacements[id(site)]
        g = self._shaped(self.values[cotangent], self.draft.shape(values))
        axis = len(site.shape) - 1
        delta = self._one("sum", self._one("mul", g, values), axes=(axis,))
        results = self._emit(
            "attention_grad", g, q, k, v, logsumexp, delta, *mask,
            scale=site.product.scale, causal=site.causal,
        )  # fmt: skip
        for name, value in zip(("left", "right", "v"), results, strict=True):
            if name in gradient:
                fitting = self._swapped(value) if name == "right" else value
                shape = self.view.shape(gradient[name])
                self.values[gradient[name]] = self._shaped(fitting, shape)
