"""Where attention stands written out in a graph: product, scale, masks, softmax, product.

in : a graph without common subexpressions, with composites
out: sites, each with what it computes and the values it may be replaced in

The backward of a site is found by deriving its gradient with the sweep that derived the graph's,
and looking that up in the graph, node by node. So whatever the gradient rules emit is recognised,
and nothing here repeats them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from graphc.autodiff.joint import joint
from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.copying import extract
from graphc.ir.draft import moved
from graphc.ir.graph_queries import ancestors, reachable
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.ops.interpreter import evaluate
from graphc.ops.kinds.op import FLOATS
from graphc.passes.rewrite import UNIFORM_OPS, key_of
from graphc.records import field, record, replace

HIDDEN_BELOW = -1e4
"""What a constant mask holds where nothing is seen: exp of it less any usual score is 0."""
SWALLOWS = 32
"""Units in which numbers near a finite mask are apart, at least, to take it for one."""
DEPTH = 8
"""How many ops may stand between product and softmax."""
MASK_LIMIT = 1 << 24
"""Elements of a constant mask up to which it is computed here, to see whether it is causal."""


@record
class Mask:
    """A link of the chain of scores: entries hidden (or not: `seen`) where `condition` holds take
    the number `fill`; or, without `fill`, `condition` is added."""

    condition: Value
    fill: float | None
    seen: bool = False


@record
class Product:
    """scale · left right, where right is [.., E, S]; `nodes` lead from the product to the end."""

    left: Value
    right: Value
    scale: float
    masks: tuple[Mask, ...]
    nodes: tuple[int, ...]


@record(frozen=False)
class Site:
    """One attention: softmax(product) times v gives `out`. `gradients` holds, for each gradient of
    `out`, which values are that of left, right and v."""

    product: Product
    v: Value
    shape: Shape  # of the scores
    out: Value
    plan: Mask | None = None  # the mask that is not causal
    causal: bool = False
    added: bool = False  # the number of the mask is added, not a sign of what is hidden
    blind: bool = False  # a row may see nothing, and its result is NaN
    gradients: dict[Value, dict[str, Value]] = field(default_factory=dict)

    @property
    def replaced(self) -> set[Value]:
        gradients = {value for gradient in self.gradients.values() for value in gradient.values()}
        return {self.out, *gradients}

    @property
    def sources(self) -> set[Value]:
        operands = {self.product.left, self.product.right, self.v}
        return operands if self.plan is None else {*operands, self.plan.condition}


class OperandView:
    """A graph without common subexpressions, and what reads what in it."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.readers: dict[Value, list[int]] = {}
        self.known: dict[Any, int] = {}
        for identity, node in enumerate(graph.nodes):
            if node.op != INPUT:
                self.known.setdefault(key_of(node), identity)
            for operand in node.operands:
                self.readers.setdefault(operand, []).append(identity)

    def node(self, value: Value) -> Node:
        return self.graph.nodes[value.node]

    def shape(self, value: Value) -> Shape:
        return self.graph.type_of(value).shape

    def scalar(self, value: Value) -> Any:
        """The number that every element is known to be, else None."""
        node = self.node(value)
        while node.op in UNIFORM_OPS:
            node = self.node(node.operands[0])
        return node.attribute("value").scalar if node.op == CONSTANT else None

    # -- the forward -------------------------------------------------------------------------

    def sites(self) -> Iterator[Site]:
        """All softmaxes along rows of a product, times something."""
        for identity, node in enumerate(self.graph.nodes):
            if node.op != "softmax" or node.attribute("axis") != len(node.types[0].shape) - 1:
                continue
            if len(node.types[0].shape) < 2:
                continue
            product = self._product(node.operands[0], 0)
            if product is not None:
                product = replace(product, nodes=(*product.nodes, identity))
                yield from self._times(product, Value(identity), node.types[0].shape)

    def _times(self, product: Product, weights: Value, shape: Shape) -> Iterator[Site]:
        for identity in self.readers.get(weights, ()):
            node = self.graph.nodes[identity]
            if node.op == "reshape" and self._regroups(node):
                inner = replace(product, nodes=(*product.nodes, identity))
                yield from self._times(inner, Value(identity), shape)
            if node.op == "matmul" and node.operands[0] == weights:
                out = Value(identity)
                whole = replace(product, nodes=(*product.nodes, identity))
                yield Site(whole, node.operands[1], shape, out)

    def _product(self, value: Value, depth: int) -> Product | None:
        """The product behind scores, through scaling, masks and reshapes."""
        node = self.node(value)
        if depth > DEPTH:
            return None
        if node.op == "matmul":
            left, right = node.operands
            return Product(left, right, 1.0, (), (value.node,)) if _floats(node) else None
        if node.op == "reshape" and self._regroups(node):
            return self._on(self._product(node.operands[0], depth + 1), value)
        if node.op in ("mul", "div"):
            return self._scaled(value, node, depth)
        if node.op in ("where", "add"):
            return self._masked(value, node, depth)
        return None

    def _on(self, product: Product | None, value: Value, **changes: Any) -> Product | None:
        if product is None:
            return None
        return replace(product, nodes=(*product.nodes, value.node), **changes)

    def _regroups(self, node: Node) -> bool:
        """A reshape that leaves the last two axes alone."""
        before, after = self.shape(node.operands[0]), node.types[0].shape
        return len(before) >= 2 and len(after) >= 2 and before[-2:] == after[-2:]

    def _scaled(self, value: Value, node: Node, depth: int) -> Product | None:
        for x, factor in (node.operands, node.operands[::-1]):
            number = self.scalar(factor)
            if number is None or (node.op == "div" and factor is not node.operands[1]):
                continue
            product = self._product(x, depth + 1)
            if product is None or product.masks:
                return None
            number = product.scale * number if node.op == "mul" else product.scale / (number or 1)
            usable = math.isfinite(number) and number != 0
            return self._on(product, value, scale=float(number)) if usable else None
        return None

    def _masked(self, value: Value, node: Node, depth: int) -> Product | None:
        if node.op == "add":
            tries = [(x, Mask(y, None)) for x, y in (node.operands, node.operands[::-1])]
        else:
            condition, yes, no = node.operands
            numbers = self.scalar(yes), self.scalar(no)
            tries = [
                (x, Mask(condition, float(number), seen))
                for x, number, seen in ((yes, numbers[1], True), (no, numbers[0], False))
                if number is not None
            ]
        for x, mask in tries:
            product = self._product(x, depth + 1)
            if product is not None:
                return self._on(product, value, masks=(*product.masks, mask))
        return None

    # -- what a site needs to be replaced -----------------------------------------------------

    def settles(self, site: Site) -> bool:
        """Complete `site`: its mask, its gradients. False where it must stay as it is."""
        if not self._masks(site):
            return False
        if self._scores_are_read(site):
            self._find_gradients(site)
            if self._scores_are_read(site):
                return False
        # The op stands where the first of what it replaces stood, and needs all its operands there.
        return max(v.node for v in site.sources) < min(v.node for v in site.replaced)

    def _masks(self, site: Site) -> bool:
        """Tell the causal mask from the other, and see what the other can hide."""
        square = site.shape[-2:]
        finite = False  # a causal mask holds a number
        for mask in site.product.masks:
            known = self._known_mask(mask)
            if known is not None and known[0] is not None and _is_causal(known[0], square):
                site.causal = True
                finite |= known[2]
            elif site.plan is not None:
                return False
            else:
                site.plan, shown = mask, known
        if site.plan is None:
            return True
        fill = site.plan.fill
        visible = None if shown is None else shown[1]
        if visible is not None and site.causal:
            visible = visible & np.tri(square[0], square[1], dtype=bool)
        all_see = visible is not None and _each_row_sees(visible, square[1])
        if finite and not all_see:
            return False  # a row without anything takes the mean of all of v
        if fill is None or fill == -math.inf:
            site.blind = not all_see
            return True
        # A number in place of scores: it hides where each row sees something else; else it is
        # added, and must be so large that it swallows what it is added to.
        hides = all_see and fill <= HIDDEN_BELOW
        site.added = not hides
        return hides or -fill * self._epsilon(site) >= SWALLOWS

    def _epsilon(self, site: Site) -> float:
        return float(np.finfo(self.graph.type_of(site.out).dtype.numpy).eps)

    def _known_mask(self, mask: Mask) -> tuple[Any, Any, bool] | None:
        """Of a constant mask: what it shows, where it is a plain yes and no (else None), what can
        be seen at all, and whether it hides by a finite number. None for other masks."""
        array = self._constant(self.small(mask.condition))
        if array is None:
            return None
        if mask.fill is not None:
            shown = array if mask.seen else ~array
            return (shown if mask.fill <= HIDDEN_BELOW else None), shown, mask.fill > -math.inf
        if np.isnan(array).any():
            return None
        visible = array > HIDDEN_BELOW
        plain = bool(np.all(array[visible] == 0))
        return (visible if plain else None), visible, bool(np.any(array[~visible] > -math.inf))

    def small(self, value: Value) -> Value:
        """A value before it was broadcast."""
        while self.node(value).op == "broadcast":
            (value,) = self.node(value).operands
        return value

    def _constant(self, value: Value) -> Any:
        """The array of a value that depends on no input, None for others."""
        if math.prod(self.shape(value)) > MASK_LIMIT:
            return None
        needed = ancestors(self.graph.nodes, [value])
        if any(self.graph.nodes[i].op == INPUT or self.graph.nodes[i].regions for i in needed):
            return None
        mask = extract(self.graph, "mask", [], [value])
        return evaluate(mask, (), reference=False)[0]

    def _scores_are_read(self, site: Site) -> bool:
        """Whether a node between the products is still needed once the site is replaced."""
        replaced = site.replaced

        def read_for(value: Value) -> Iterable[Value]:
            if value not in replaced:
                return self.graph.nodes[value.node].operands
            gradients = site.gradients.items()
            return (
                *(site.sources - replaced),
                *(gradient for gradient, by_operand in gradients if value in by_operand.values()),
            )

        needed = {v.node for v in reachable(self.graph.outputs, read_for) if v not in replaced}
        return bool(needed & set(site.product.nodes) - {site.out.node})

    # -- the backward ------------------------------------------------------------------------

    def _find_gradients(self, site: Site) -> None:
        derived, inputs = self._derived(site)
        for cotangent in self._cotangents(site):
            equal_values = self._looked_up(derived, [*inputs, cotangent])
            names = zip(("left", "right", "v"), equal_values[1:], strict=True)
            gradient = {name: value for name, value in names if value is not None}
            if gradient:
                site.gradients[cotangent] = gradient

    def _derived(self, site: Site) -> tuple[Graph, list[Value]]:
        """The site alone with its backward; and which values its inputs are."""
        builder = GraphBuilder("attention")
        values: dict[Value, Var] = {}
        roles: dict[tuple[int, int], Var] = {}
        inputs: list[Value] = []

        def entered(value: Value) -> Var:
            inputs.append(value)
            return builder.input(f"x{len(inputs)}", self.graph.type_of(value))

        with builder.at(None):
            # q, k and v may be one value: their gradients are told apart.
            for position, value in enumerate((site.product.left, site.product.right)):
                roles[site.product.nodes[0], position] = entered(value)
            roles[site.out.node, 1] = entered(site.v)
            for identity in site.product.nodes:
                node = self.graph.nodes[identity]
                operands = []
                for position, value in enumerate(node.operands):
                    var = roles.get((identity, position), values.get(value))
                    if var is None:
                        var = values[value] = entered(value)
                    operands.append(var)
                results = builder.apply(lookup(node.op), tuple(operands), dict(node.attributes))
                values[Value(identity)] = results[0]
            forward = builder.finish(values[site.out])
        return joint(forward, (0, 1, 2)), inputs

    def _cotangents(self, site: Site) -> list[Value]:
        """The values that may be the gradient of the result: those multiplied by what gradients of
        a product are multiplied by."""
        type = self.graph.type_of(site.out)
        candidates: dict[Value, None] = {}
        for node in self.graph.nodes:
            if node.op == "matmul":
                candidates.update({v: None for v in node.operands if self.graph.type_of(v) == type})
        return list(candidates)

    def _looked_up(self, derived: Graph, arguments: list[Value]) -> list[Value | None]:
        """The outputs of `derived` on `arguments`, where the graph computes the same."""
        results: list[Value | None] = []
        rest = iter(arguments)
        for node in derived.nodes:
            if node.op == INPUT:
                results.append(next(rest))
                continue
            operands = [results[operand.node] for operand in node.operands]
            if any(operand is None for operand in operands):
                results.append(None)
                continue
            identity = self.known.get(key_of(moved(node, tuple(operands))))  # type: ignore[arg-type]
            results.append(None if identity is None else Value(identity))
        return [results[output.node] for output in derived.outputs]


def _floats(node: Node) -> bool:
    return node.types[0].dtype in FLOATS


def _is_causal(shown: Any, square: Shape) -> bool:
    """Whether a mask shows each row the columns up to its own, the same for all that leads."""
    if shown.shape[-2:] != square or math.prod(shown.shape[:-2]) != 1:
        return False
    return bool(np.array_equal(shown.reshape(square), np.tri(square[0], square[1], dtype=bool)))


def _each_row_sees(shown: Any, source: int) -> bool:
    """Whether no row of a mask, broadcast to `source` columns, is without a True."""
    return bool(shown.any(axis=-1).all()) if shown.ndim and source else False
