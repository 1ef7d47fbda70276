"""The driver and the pattern language."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from graphc.errors import GraphError, PassError
from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph, Location, Node, Value
from graphc.ir.parser import parse
from graphc.ir.registry import lookup, unregister
from graphc.ir.types import DType
from graphc.ir.verifier import verify
from graphc.ops.kinds.op import REQUIRED, Op, Parameters, Types
from graphc.passes.canonicalize import canonicalize
from graphc.passes.dead_code import dead_code
from graphc.passes.decompose import decompose
from graphc.passes.patterns import is_number, table
from graphc.passes.patterns import parse as parse_pattern
from graphc.passes.rewrite import Rewriter, RuleSet, rewrite, rule

NEGATIONS = parse("""
    graph g(%x: f32[2], %y: f32[2]) {
      %2 = neg(%x) : f32[2]
      %3 = neg(%2) : f32[2]
      %4 = neg(%3) : f32[2]
      %5 = neg(%4) : f32[2]
      %6 = add(%5, %y) : f32[2]
      return %6 -> %y, %4, %y
    }""")


def test_rules_run_to_their_fixed_point() -> None:
    after = dead_code(rewrite(NEGATIONS, table(("neg(neg(x))", "x"))))
    expected = parse("""
        graph g(%x: f32[2], %y: f32[2]) {
          %2 = neg(%x) : f32[2]
          %3 = add(%x, %y) : f32[2]
          return %3 -> %y, %2, %y
        }""")
    assert verify(after) == expected


def test_no_rules_change_nothing() -> None:
    assert rewrite(NEGATIONS, RuleSet()) == NEGATIONS


def test_what_a_rule_makes_is_rewritten_too() -> None:
    rules = table(("exp(x)", "neg(sin(x))"), ("neg(x)", "abs(x)"), ("sin(x)", "cos(x)"))
    graph = parse("graph g(%x: f32[2]) { %1 = exp(%x) : f32[2] return %1 }")
    assert [node.op for node in rewrite(graph, rules).nodes] == ["input", "cos", "abs"]


@pytest.mark.parametrize(
    ("rules", "texts"),
    [
        ([("sub(x, y)", "sub(y, x)")], ["sub(%x, %y)", "sub(%y, %x)"]),
        ([("sub(x, y)", "neg(sub(x, y))")], ["sub(%x, %y)"]),
        ([("sub(x, y)", "sub(neg(x), y)")], ["= sub(%10001, %y)", "= sub(%10002, %y)"]),
        ([("sub(x, y)", "add(x, y)"), ("add(x, y)", "sub(x, y)")], ["sub(%", "add(%"]),
    ],
)
def test_rules_that_do_not_converge_raise_with_the_last_two_graphs(
    rules: list[tuple[str, str]], texts: list[str]
) -> None:
    graph = parse("""
        graph loop(%x: f32[2], %y: f32[2]) {
          %2 = sub(%x, %y) : f32[2]
          return %2
        }""")
    with pytest.raises(PassError, match="do not converge") as caught:
        rewrite(graph, table(*rules))
    message = str(caught.value)
    assert message.count("graph loop(%x: f32[2], %y: f32[2]) {") == 2
    assert all(text in message for text in texts)
    assert any(" -> ".join(rule) in message for rule in rules)


def test_an_unknown_op_in_a_rule_is_an_error() -> None:
    with pytest.raises(GraphError, match="unknown op 'nonsense'"):
        table(("sub(x, y)", "nonsense(x)"))


def test_a_rule_that_changes_the_type_raises() -> None:
    @rule("neg")
    def halved(draft: Rewriter, node: Node) -> Node | Value | None:
        return draft.make("slice", node.operands[0], start=(0,), size=(1,), step=(1,))

    with pytest.raises(PassError, match=r"rule halved \[neg\] turns f32\[2\] into f32\[1\]"):
        rewrite(NEGATIONS, halved)


def test_locations_aliases_and_names_survive_every_pass() -> None:
    builder = GraphBuilder("step")
    x = builder.input("x", "f32[2,3]")
    unused = builder.input("unused", "i64[]")
    where = [Location("model.py", line, "forward") for line in range(4)]
    with builder.at(where[0]):
        mean = lookup("mean")(x, axes=(1,))
    with builder.at(where[1]):
        twice = lookup("neg")(-mean)
    with builder.at(where[2]):
        one = x * 1.0
    with builder.at(where[3]):
        result = one - lookup("broadcast")(lookup("reshape")(twice, shape=(2, 1)), shape=(2, 3))
    graph = builder.finish(twice, result, unused, aliases=[(1, 0)])
    for run in (decompose, canonicalize, dead_code):
        graph = verify(run(graph))
    assert (graph.name, graph.aliases) == ("step", ((1, 0),))
    assert graph.input_names == ("x", "unused")
    lines = {node.op: node.location.line for node in graph.nodes if node.location}
    assert lines["sum"] == lines["div"] == 0
    assert lines["sub"] == lines["broadcast"] == 3
    assert "mul" not in lines and "neg" not in lines


def test_a_node_without_location_gets_none() -> None:
    """Not the line of whoever called the pass."""
    graph = parse("graph g(%x: f32[4]) { %1 = constant f32[4] splat 4.0 "
                  "%2 = div(%x, %1) : f32[4] return %2 }")  # fmt: skip
    bare = Graph("g", tuple(Node(n.op, n.operands, n.attributes, n.types) for n in graph.nodes),
                 graph.outputs)  # fmt: skip
    after = canonicalize(bare)
    assert after.nodes[-1].op == "mul"
    assert {node.location for node in after.nodes} == {None}


class Twice(Op):
    """A region op for the test below: its region applied twice."""

    region_names = ("body",)

    def infer(self, types: Types, attributes: dict[str, object]) -> Types:
        return types


@pytest.fixture
def twice() -> Iterator[Op]:
    yield Twice("twice", parameters=Parameters({"body": REQUIRED}), vjp=None, samples=None)
    unregister("twice")


def test_passes_enter_regions(twice: Op) -> None:
    body = "graph body(%a: f32[2]) {{ {} return {} }}"
    text = "graph g(%x: f32[2]) {{ %1 = twice(%x) {} : f32[2] return %1 }}"
    inside = "%1 = neg(%a) : f32[2] %2 = neg(%1) : f32[2] %3 = exp(%a) : f32[2]"
    graph = parse(text.format(body.format(inside, "%2, %3")))
    for run in (decompose, canonicalize, dead_code):
        graph = verify(run(graph))
    expected = parse(text.format(body.format("%1 = exp(%a) : f32[2]", "%a, %1")))
    assert graph == expected


# -- pattern language ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scalar", "number", "dtype", "same"),
    [
        (0.0, 0, DType.f32, True),
        (-0.0, 0, DType.f32, False),
        (-0.0, -0.0, DType.f32, True),
        (0.0, -0.0, DType.f32, False),
        (0, -0.0, DType.i32, False),
        (0, 0, DType.i64, True),
        (1, True, DType.i32, False),
        (True, 1, DType.bool, False),
        (True, True, DType.bool, True),
        (float(np.float32(0.1)), 0.1, DType.f32, True),
        (0.1, 0.1, DType.f64, True),
        (float("nan"), 0, DType.f32, False),
        (None, 0, DType.f32, False),
    ],
)
def test_numbers_match_by_bits(
    scalar: float | None, number: float, dtype: DType, same: bool
) -> None:
    assert is_number(scalar, number, dtype) is same


@pytest.mark.parametrize(
    "one",
    [
        "%1 = constant f32[2] splat 1.0",
        "%1 = constant f32[2] [1.0, 1.0]",
        "%0 = constant f32[] [1.0] %1 = broadcast(%0) shape=[2] : f32[2]",
        "%a = constant f32[] [1.0] %b = reshape(%a) shape=[1] : f32[1] "
        "%1 = broadcast(%b) shape=[2] : f32[2]",
    ],
)
@pytest.mark.parametrize("operands", ["%x, %1", "%1, %x"])
def test_a_number_is_seen_through_broadcasts_and_in_either_order(one: str, operands: str) -> None:
    graph = parse(f"graph g(%x: f32[2]) {{ {one} %2 = mul({operands}) : f32[2] return %2 }}")
    assert rewrite(graph, table(("mul(x, 1)", "x"))).outputs == (Value(0),)


def test_a_repeated_variable_is_one_value() -> None:
    inputs = "%p: bool[2], %x: f32[2], %y: f32[2]"
    text = f"graph g({inputs}) {{{{ %3 = where(%p, {{}}) : f32[2] return %3 }}}}"
    rules = table(("where(p, x, x)", "x"))
    assert rewrite(parse(text.format("%y, %y")), rules).outputs == (Value(2),)
    assert rewrite(parse(text.format("%x, %y")), rules).outputs == (Value(3),)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("x", "x"), "needs an op on the left"),
        (("neg(x)", "y"), "does not stand on the left"),
        (("neg(x)", "x", "prime"), "a guard of"),
        (("neg(y)", "y", "float"), "'x' does not|x does not"),
        (("neg(x, y)", "x"), "neg takes 1 operands"),
        (("cast(x)", "x"), "no elementwise op without attributes"),
        (("sum(x)", "x"), "no elementwise op without attributes"),
        (("neg(x", "x"), "expected , or"),
        (("neg(x))", "x"), "unexpected"),
        (("neg(x) $", "x"), "unexpected"),
        (("", "x"), "unexpected"),
    ],
)
def test_bad_rules_are_refused_when_they_are_read(row: tuple[str, ...], message: str) -> None:
    with pytest.raises(PassError, match=message):
        table(row)


def test_trees_nest() -> None:
    assert repr(parse_pattern("add(x, neg(-0.0))")).count("OpPattern") == 2
