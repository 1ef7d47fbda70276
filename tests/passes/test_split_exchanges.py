"""Graphs that are cut where processes exchange values: the parts, one after the other, compute what
the whole does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.debug.cut_decisions import cut_decisions
from graphc.debug.decisions import decisions
from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph, Value
from graphc.ir.registry import lookup, parameters
from graphc.ops.interpreter import run
from graphc.passes.split_exchanges import ExchangeSplit, split_exchanges

STEP = """
graph step(%x: f32[4,3], %w: f32[3,2], %m: f32[3,2], %lr: f32[], %n: f32[2]) {
  %5 = matmul(%x, %w) : f32[4,2]
  %6 = exp(%5) : f32[4,2]
  %7 = sum(%6) axes=[0] : f32[2]
  %8 = transpose(%x) permutation=[1, 0] : f32[3,4]
  %9 = matmul(%8, %6) : f32[3,2]
  %10 = add(%n, %7) : f32[2]
  %11 = exchange(%9, %n) number=1 rows=0 : f32[3,2], f32[2]
  %12 = exchange(%7) number=0 rows=2 : f32[2,2]
  %13 = sum(%12) axes=[0] : f32[2]
  %14 = mul(%lr, %lr) : f32[]
  %15 = broadcast(%14) shape=[3, 2] : f32[3,2]
  %16 = mul(%m, %15) : f32[3,2]
  %17 = add(%16, %11) : f32[3,2]
  %18 = sub(%w, %17) : f32[3,2]
  %19 = mul(%7, %13) : f32[2]
  %20 = constant f32[] [2.0]
  return %18 -> %w, %17 -> %m, %10 -> %n, %7, %11, %11, %lr, %19, %11.1, %20
}
"""
TWICE = """
graph twice(%x: f32[3], %w: f32[3]) {
  %2 = mul(%x, %w) : f32[3]
  %3 = exchange(%2) number=0 rows=0 : f32[3]
  %4 = mul(%3, %2) : f32[3]
  %5 = exchange(%4, %2, %3) number=1 rows=0 : f32[3], f32[3], f32[3]
  %6 = add(%5, %5.1) : f32[3]
  %7 = exchange(%w) number=2 rows=0 : f32[3]
  %8 = add(%6, %7) : f32[3]
  return %8 -> %w, %4
}
"""
ALONE = """
graph alone(%x: f32[3]) {
  %1 = exchange(%x) number=0 rows=0 : f32[3]
  return %1 -> %x
}
"""


def run_parts(split: ExchangeSplit, arrays: list[Any], call: Any) -> list[Any]:
    """The outputs of the whole: each part by `call(graph, arrays)`, between them what the op says
    by itself."""
    graph = split.graph
    values = {Value(i): array for i, array in enumerate(arrays)}
    results: Any = ()
    for number, part in enumerate(split.parts):
        slots = [graph.type_of(split.exchanges[e].operands[i]) for e, i in part.handed]
        places = [np.zeros(type.shape, type.dtype.numpy) for type in slots]
        results = call(part.graph, [*[values[v] for v in part.reads], *places])
        results = results if part.graph.outputs else ()
        values |= zip(part.makes, results[len(results) - len(part.makes) :])
        first = len(results) - len(part.makes) - len(part.handed)
        handed = dict(zip(part.handed, results[first:]))
        for e, each in enumerate(split.exchanges):
            if each.part == number:
                operands = [handed.get((e, i), values.get(v)) for i, v in enumerate(each.operands)]
                node = graph.nodes[each.results[0].node]
                values |= zip(
                    each.results, lookup(node.op).compute(tuple(operands), parameters(node))
                )
    outputs = zip(graph.outputs, split.outputs)
    return [values[v] if at is None else results[at] for v, at in outputs]


def interpreted(graph: Graph, arrays: list[Any]) -> Any:
    return run(graph, *[array.copy() for array in arrays])


def compiled(graph: Graph, arrays: list[Any]) -> Any:
    return graphc.compile(graph).run(arrays) if graph.outputs else ()


def check(graph: Graph, *calls: Any) -> ExchangeSplit:
    split = split_exchanges(graph)
    assert split is not None
    assert all(node.op != "exchange" for part in split.parts for node in part.graph.nodes)
    for part in split.parts[:-1]:  # the last alone updates inputs of the whole
        assert all(target >= len(part.reads) for _, target in part.graph.aliases)
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(t.shape).astype(t.dtype.numpy) for t in graph.input_types]
    whole = run(graph, *[array.copy() for array in arrays])
    for call in calls or (interpreted,):
        found = run_parts(split, [array.copy() for array in arrays], call)
        for value, expected in zip(found, whole, strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-5)
    return split


def test_a_step_is_two_parts() -> None:
    split = check(graphc.parse(STEP), interpreted, compiled)
    assert [(each.number, each.part) for each in split.exchanges] == [(1, 0), (0, 0)]
    first, second = split.parts
    assert [node.op for node in second.graph.nodes if node.op in ("matmul", "exp")] == []
    assert [node.op for node in first.graph.nodes if node.op == "mul"] == []  # lr * lr sank
    assert first.handed == ((0, 0), (1, 0))  # %n is there already
    crossing = [str(split.graph.type_of(value)) for value in split.crossing(1)]
    assert crossing == ["f32[2]"] * 2 and split.crossing(0) == []


def test_exchanges_that_follow_each_other() -> None:
    split = check(graphc.parse(TWICE), interpreted, compiled)
    assert [(each.number, each.part) for each in split.exchanges] == [(0, 0), (2, 0), (1, 1)]
    assert len(split.parts) == 3


def test_a_part_may_be_empty() -> None:
    split = check(graphc.parse(ALONE), interpreted, compiled)
    assert [len(part.graph.outputs) for part in split.parts] == [0, 1]
    nothing = graphc.parse("graph plain(%x: f32[3]) {\n  return %x\n}\n")
    assert split_exchanges(nothing) is None


@pytest.mark.parametrize("seed", range(40))
def test_drawn_graphs(seed: int) -> None:
    check(drawn(np.random.default_rng(seed)))


def drawn(random: np.random.Generator) -> Graph:
    """Sums and products of a few values, with exchanges among them; some inputs are updated."""
    g = GraphBuilder("drawn")
    inputs = [g.input(f"in{i}", "f32[2]") for i in range(3)]
    values = [*inputs, g.constant(np.array([0.5, 2.0], np.float32))]
    number = 0
    for _ in range(int(random.integers(4, 16))):
        picked = [values[i] for i in random.integers(0, len(values), int(random.integers(1, 4)))]
        if random.random() < 0.3:
            attributes = {"number": number, "rows": 0}
            values += g.apply(lookup("exchange"), tuple(picked), attributes)
            number += 1
        else:
            a, b = picked[0], picked[-1]
            values.append(a + b if random.random() < 0.5 else a * b)
    values += g.apply(lookup("exchange"), (values[-1],), {"number": number, "rows": 0})
    updated = [int(i) for i in range(3) if random.random() < 0.5]
    outputs = [values[i] for i in random.integers(0, len(values), 3 + len(updated))]
    return g.finish(*outputs, values[-1], aliases=list(enumerate(updated)))


def test_the_ledger_tells_the_cut() -> None:
    graph = graphc.parse(STEP)
    split = split_exchanges(graph)
    assert split is not None
    told = [str(each) for each in cut_decisions(split, ["means", "gradients"])]
    assert told == [
        "exchange 1, of gradients: part 1 makes the last of it, part 2 reads it first "
        "(values 2, bytes 32)",
        "exchange 0, of means: part 1 makes the last of it, part 2 reads it first "
        "(values 1, bytes 8)",
        "sum : f32[2]: part 2 reads what an earlier part computes (bytes 8)",
        "add : f32[2]: part 2 reads what an earlier part computes (bytes 8)",
    ]
    assert [each.kind for each in decisions(graph, lowered=False)][:4] == ["cut"] * 4
