"""The driver of rewrite passes: rules to their fixed point in one walk over the graph.

in : a graph and a set of rules
out: a graph in which no rule applies any more

The walk goes in topological order and brings each node to its normal form before it is added to
the new graph: the operands of a node are in normal form already, and the nodes a rule makes are
brought to theirs on the way. Rules look only at what stands below a node, so one walk reaches the
fixed point of all rules together, in time linear in the graph and the rules that fire. Nodes that
rules left without a user stay; dead-code elimination takes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import PassError
from graphc.ir.copying import replayed
from graphc.ir.draft import Draft, Values, moved
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value, exact
from graphc.ir.printer import print_graph
from graphc.ir.recording import NOTES
from graphc.ir.types import TensorType
from graphc.passes.recorder import excerpt
from graphc.records import record, replace

# Rules that fire in a row for one node of the graph (a slice of a chain of concats goes down it a
# link at a time), and how deep one rule's nodes may set off others (Python's recursion has an end).
STEP_LIMIT = 10_000
DEPTH_LIMIT = 50

# x∘y and y∘x have the same bits (NaN payloads aside). Not minimum and maximum: of -0 and +0 they
# give the second.
COMMUTATIVE = frozenset({"add", "mul", "eq", "ne", "logical_and", "logical_or", "logical_xor"})

ANY_OP = "*"
MERGED = "equal nodes are one"
"""The rule that merges, by name."""
UNIFORM_OPS = frozenset({"broadcast", "reshape"})


@record
class Rule:
    """`apply(draft, node)` is None where the rule does not apply; else what to put in place of the
    one result of `node`: a value of the draft, or a node of the same type not yet in the draft
    (`draft.make`). `op` is the op at the root, or ANY_OP. `text` names the rule in errors."""

    op: str
    apply: Callable[[Rewriter, Node], Node | Value | None]
    text: str


class RuleSet:
    """Rules in order: the first that applies wins. `a + b` has the rules of both."""

    def __init__(self, *rules: Rule):
        self.rules = rules
        self._by_op: dict[str, tuple[Rule, ...]] = {}

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(*self.rules, *other.rules)

    def of(self, op: str) -> tuple[Rule, ...]:
        """The rules with `op` at the root."""
        rules = self._by_op.get(op)
        if rules is None:
            rules = tuple(rule for rule in self.rules if rule.op in (op, ANY_OP))
            self._by_op[op] = rules
        return rules


def rule(*ops: str) -> Callable[[Callable[[Rewriter, Node], Node | Value | None]], RuleSet]:
    """Decorator: a function (draft, node) as the rules for `ops`."""

    def decorate(function: Callable[[Rewriter, Node], Node | Value | None]) -> RuleSet:
        return RuleSet(*(Rule(op, function, f"{function.__name__} [{op}]") for op in ops))

    return decorate


def rewrite(graph: Graph, rules: RuleSet, *, share: bool = False) -> Graph:
    """`graph` with `rules` applied until none does, also inside regions. With `share`, nodes that
    compute the same are one node. Raises PassError where the rules do not converge."""
    return Rewriter(graph, rules, share).run()


class Rewriter(Draft):
    """What rules see of the graph under construction, and the walk itself."""

    def __init__(self, graph: Graph, rules: RuleSet, share: bool):
        super().__init__()
        self._graph = graph
        self._rules = rules
        self._share = share
        self._known: dict[Any, Values] = {}
        self._scalars: dict[int, Any] = {}
        self._uses: Counter[int] = Counter()  # by node of the draft
        self._steps = 0
        self._notes = NOTES.get()
        self._visited = 0  # the node of the graph that is being brought to its normal form
        self._under_way: list[Node] = []  # a node, one its rule makes, one that one's rule makes, …
        self._trying: Rule | None = None

    def run(self) -> Graph:
        identities = (i for i, node in enumerate(self._graph.nodes) if node.op != INPUT)
        uses = Counter(value.node for node in self._graph.nodes for value in node.operands)
        uses.update(value.node for value in self._graph.outputs)

        def visit(node: Node, operands: Values) -> Values:
            identity = self._visited = next(identities)
            if node.regions:
                regions = [rewrite(r, self._rules, share=self._share) for r in node.regions]
                node = replace(node, regions=tuple(regions))
            self._steps = 0
            results = self.normal(moved(node, operands))
            for result in results:
                self._uses[result.node] += uses[identity]
            return results

        return replayed(self._graph, self, visit)

    # -- for rules ---------------------------------------------------------------------------

    def value(self, node: Node) -> Value:
        """The one result of a node, in normal form."""
        return self.normal(node)[0]

    def emit(self, name: str, *operands: Value, **attributes: Any) -> Value:
        """The one result of an op, in normal form."""
        return self.value(self.make(name, *operands, **attributes))

    def uniform(self, number: Any, type: TensorType) -> Value:
        """A value of `type` with `number` everywhere: a 0-d constant, broadcast."""
        value = self.value(self.make_constant(np.asarray(number, type.dtype.numpy)))
        return self.emit("broadcast", value, shape=type.shape) if type.shape else value

    def scalar(self, value: Value) -> Any:
        """The number that every element of `value` is known to be, else None."""
        identity = value.node
        if identity in self._scalars:
            return self._scalars[identity]
        node = self.nodes[identity]
        while node.op in UNIFORM_OPS:
            node = self.node(node.operands[0])
        number = node.attribute("value").scalar if node.op == CONSTANT else None
        self._scalars[identity] = number
        return number

    def used_once(self, value: Value) -> bool:
        """True where the graph, as far as it is known, reads `value`'s node at most once."""
        return self._uses[value.node] <= 1

    # -- the walk ----------------------------------------------------------------------------

    def normal(self, node: Node) -> Values:
        """Add `node` in normal form; its results."""
        if len(self._under_way) > DEPTH_LIMIT:
            raise self._diverging(self._under_way[-1], node)
        self._under_way.append(node)
        try:
            return self._normal(node)
        finally:
            self._under_way.pop()

    def _normal(self, node: Node) -> Values:
        keys = []
        result = None
        while result is None:
            if self._share:
                keys.append(key_of(node))
                result = self._known.get(keys[-1])
                if result is not None and self._may(MERGED, node, result[0]):
                    break
                result = None
            replacement = self._step(node)
            if replacement is None:
                result = self.add(node)
            elif isinstance(replacement, Value):
                result = (replacement,)
            else:
                node = replacement
        for key in keys:
            self._known[key] = result
        return result

    def _step(self, node: Node) -> Node | Value | None:
        """What the first rule that applies puts in place of `node`."""
        if len(node.types) != 1:
            return None
        for candidate in self._rules.of(node.op):
            self._trying = candidate
            replacement = candidate.apply(self, node)
            if replacement is not None:
                self._check(candidate, node, replacement)
                if self._may(candidate.text, node, replacement):
                    return replacement
        return None

    def _may(self, rule: str, before: Node, after: Node | Value) -> bool:
        """Whether a rule may fire; it is noted where somebody asked for that."""
        if self._notes is None:
            return True
        return self._notes.fires(rule, self, self._graph, self._visited, before, after)

    def _check(self, fired: Rule, node: Node, after: Node | Value) -> None:
        type = self.type(after) if isinstance(after, Value) else after.types[0]
        if type != node.types[0]:
            raise PassError(
                f"rule {fired.text} turns {node.types[0]} into {type}", location=node.location
            )
        self._steps += 1
        if self._steps > STEP_LIMIT:
            raise self._diverging(node, after)

    def _diverging(self, before: Node, after: Node | Value) -> PassError:
        rule = self._trying.text if self._trying else "none"
        texts = [excerpt(self, end, self._graph.name) for end in (before, after)]
        return PassError(
            f"graph {self._graph.name!r}: rules do not converge, the last is {rule}. "
            f"It turned\n{texts[0]}\ninto\n{texts[1]}",
            location=before.location,
            hint="make the right side of the rule simpler than the left",
        )


def key_of(node: Node) -> Any:
    """Equal for nodes that compute the same: constants by content, numbers by type and bits."""
    operands = node.operands
    if node.op in COMMUTATIVE:
        operands = tuple(sorted(operands, key=lambda value: (value.node, value.index)))
    regions = tuple(print_graph(region, locations=False) for region in node.regions)
    return (node.op, operands, exact(node.attributes), regions)
