"""Algebraic rules: each in turn on special values, bit for bit; and what must not be simplified."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graphc.errors import GraphError
from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.nodes import Graph
from graphc.ir.parser import parse
from graphc.ir.registry import lookup
from graphc.ir.types import COMPILED, DType, TensorType
from graphc.ir.verifier import verify
from graphc.ops.interpreter import run
from graphc.ops.kinds.op import ANY
from graphc.passes import patterns
from graphc.passes.dead_code import dead_code
from graphc.passes.rewrite import rewrite
from graphc.passes.simplify import ARITHMETIC, IDEMPOTENT, LOGIC, RULES, simplify

TEXTS = sorted({rule.text for rule in (ARITHMETIC + IDEMPOTENT + LOGIC).rules})


def special(dtype: DType) -> Any:
    """Values where careless identities break."""
    if dtype is DType.bool:
        return np.array([False, True])
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        values = [limits.min, limits.min + 1, -7, -2, -1, 0, 1, 2, 3, limits.max - 1, limits.max]
        bits = [value % 2 ** (8 * dtype.itemsize) for value in values]
        return np.array(bits, np.uint64).astype(dtype.numpy)
    limits = ml_dtypes.finfo(dtype.numpy)
    with np.errstate(over="ignore"):  # 1e10 is no number of f16
        return _special_floats(limits, dtype)


def _special_floats(limits: Any, dtype: DType) -> Any:
    half = [0.0, limits.smallest_subnormal, limits.tiny * 0.75, limits.tiny, 0.1, 0.5, 1.0,
            1 + limits.eps, 1.5, 2.5, 3.0, 1e4, 1e10, limits.max, np.inf]  # fmt: skip
    return np.array([*half, *(-value for value in half), np.nan], dtype.numpy)


def plain(array: Any) -> bytes:
    """The bits, one NaN as good as another."""
    if TensorType.of(array).dtype.is_float:
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return bytes(array.tobytes())


def same_bits(before: Graph, after: Graph, *arrays: Any) -> bool:
    left, right = run(before, *arrays), run(after, *arrays)
    return [plain(a) for a in left] == [plain(b) for b in right]


def crossed(*dtypes: DType) -> list[Any]:
    """Special values of each dtype, in every combination."""
    rows = list(itertools.product(*(special(dtype) for dtype in dtypes)))
    return [
        np.array(column, dtype.numpy)
        for dtype, column in zip(dtypes, zip(*rows, strict=True), strict=True)
    ]


# -- the tables ----------------------------------------------------------------------------------


def names(tree: patterns.Tree) -> set[str]:
    if isinstance(tree, patterns.PatternVariable):
        return {tree.name}
    if not isinstance(tree, patterns.OpPattern):
        return set()
    return set().union(*map(names, tree.operands))


def graph_of(tree: patterns.Tree, dtypes: dict[str, DType], arrays: list[Any]) -> Graph:
    builder = GraphBuilder()
    types = [TensorType.of(array) for array in arrays]
    inputs = {n: builder.input(n, t) for n, t in zip(dtypes, types, strict=True)}

    def node_of(tree: patterns.Tree) -> Var:
        if isinstance(tree, patterns.PatternVariable):
            return inputs[tree.name]
        if isinstance(tree, patterns.Number):
            dtype = DType.bool if isinstance(tree.value, bool) else dtypes["x"]
            scalar = builder.constant(np.asarray(tree.value, dtype.numpy))
            result: Var = lookup("broadcast")(scalar, shape=types[0].shape)
            return result
        op: Var = lookup(tree.op)(*map(node_of, tree.operands))
        return op

    return builder.finish(node_of(tree))


@pytest.mark.parametrize("text", TEXTS)
def test_a_rule_keeps_every_bit(text: str) -> None:
    before, _, rest = text.partition(" -> ")
    after, _, guard = rest.partition(" [")
    row = (before, after, *([guard[:-1]] if guard else []))
    tree = patterns.parse(before)
    assert isinstance(tree, patterns.OpPattern)
    tried = 0
    for dtype in ANY:
        dtypes = {n: DType.bool if n == "p" else dtype for n in sorted(names(tree))}
        if guard and not patterns.GUARDS[guard[:-1]](dtype):
            continue
        arrays = crossed(*dtypes.values())
        try:
            graph = graph_of(tree, dtypes, arrays)
        except GraphError:
            continue  # the ops do not take this dtype
        simpler = verify(rewrite(graph, patterns.table(row)))
        assert simpler.outputs != graph.outputs or simpler.nodes != graph.nodes, "did not fire"
        assert same_bits(graph, simpler, *arrays), dtype
        tried += 1
    assert tried, "no dtype fits"


@pytest.mark.parametrize("op", sorted(patterns.COMMUTATIVE))
def test_commuting_ops_commute(op: str) -> None:
    for dtype in lookup(op).dtypes:
        x, y = crossed(dtype, dtype)
        with np.errstate(all="ignore"):
            left, right = (lookup(op).compute(pair, {})[0] for pair in ((x, y), (y, x)))
        assert plain(left) == plain(right)


# -- rules about attributes ----------------------------------------------------------------------


@pytest.mark.parametrize("source", COMPILED)
def test_casts_keep_every_value(source: DType) -> None:
    x = special(source)
    for middle, end in itertools.product(COMPILED, COMPILED):
        builder = GraphBuilder()
        y = lookup("cast")(builder.input("x", TensorType.of(x)), dtype=middle)
        graph = builder.finish(lookup("cast")(y, dtype=end))
        simpler = dead_code(verify(simplify(graph)))
        assert same_bits(graph, simpler, x), (middle, end)
        if middle is source or source is DType.bool:
            assert len(simpler.nodes) == (1 if end is source else 2), (middle, end)


@pytest.mark.parametrize("dtype", [DType.f32, DType.f64])
def test_division_by_a_power_of_two_is_a_product(dtype: DType) -> None:
    x = special(dtype)
    limits = np.finfo(dtype.numpy)
    for exponent in (limits.minexp - 3, limits.minexp, -2, -1, 1, 3, -limits.minexp, limits.maxexp):
        for sign in (1.0, -1.0):
            with np.errstate(all="ignore"):
                divisor = np.ldexp(dtype.numpy.type(sign), exponent)
            builder = GraphBuilder()
            graph = builder.finish(
                builder.input("x", TensorType.of(x)) / builder.constant(np.full(x.shape, divisor))
            )
            simpler = verify(simplify(graph))
            assert same_bits(graph, simpler, x), exponent
            if abs(exponent) <= 3:
                assert "div" not in [node.op for node in simpler.nodes]


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"])
def test_reductions_of_single_elements(op: str) -> None:
    for dtype in lookup(op).dtypes:
        x = special(dtype)[:, None]
        for axes in ((1,), ()):
            if op.startswith("arg") and not axes:
                continue
            builder = GraphBuilder()
            graph = builder.finish(lookup(op)(builder.input("x", TensorType.of(x)), axes=axes))
            simpler = dead_code(verify(simplify(graph)))
            assert same_bits(graph, simpler, x)
            stays = op == "sum" and dtype.is_float  # a sum starts at +0, and -0 + +0 is +0
            assert (op in [node.op for node in simpler.nodes]) is stays


# -- texts ---------------------------------------------------------------------------------------


def test_before_and_after() -> None:
    before = parse("""
        graph g(%x: f32[2], %y: f32[2]) {
          %2 = constant f32[] [1.0]
          %3 = broadcast(%2) shape=[2] : f32[2]
          %4 = mul(%x, %3) : f32[2]
          %5 = neg(%4) : f32[2]
          %6 = sub(%y, %5) : f32[2]
          %7 = pow(%6, %3) : f32[2]
          return %7
        }""")
    expected = parse("""
        graph g(%x: f32[2], %y: f32[2]) {
          %2 = add(%y, %x) : f32[2]
          return %2
        }""")
    assert dead_code(simplify(before)) == expected


def test_movements_between_casts_move_what_is_narrow() -> None:
    """As the gradients of narrow tensors have them, one behind the other; a cast that loses
    something stays."""
    before = parse("""
        graph g(%x: bf16[2,3], %y: f32[2,3]) {
          %2 = cast(%x) dtype=f32 : f32[2,3]
          %3 = transpose(%2) permutation=[1, 0] : f32[3,2]
          %4 = cast(%3) dtype=bf16 : bf16[3,2]
          %5 = cast(%4) dtype=f32 : f32[3,2]
          %6 = reshape(%5) shape=[6] : f32[6]
          %7 = cast(%6) dtype=bf16 : bf16[6]
          %8 = cast(%y) dtype=bf16 : bf16[2,3]
          %9 = reshape(%8) shape=[6] : bf16[6]
          %10 = cast(%9) dtype=f32 : f32[6]
          return %7, %10
        }""")
    expected = parse("""
        graph g(%x: bf16[2,3], %y: f32[2,3]) {
          %2 = transpose(%x) permutation=[1, 0] : bf16[3,2]
          %3 = reshape(%2) shape=[6] : bf16[6]
          %4 = cast(%y) dtype=bf16 : bf16[2,3]
          %5 = reshape(%4) shape=[6] : bf16[6]
          %6 = cast(%5) dtype=f32 : f32[6]
          return %3, %6
        }""")
    assert dead_code(simplify(before)) == expected


@pytest.mark.parametrize(
    "node",
    [
        "add(%x, %zero)", "mul(%x, %zero)", "sub(%x, %x)", "sub(%zero, %x)", "div(%x, %x)",
        "div(%x, %three)", "pow(%x, %half)", "pow(%x, %three)", "maximum(%x, %zero)",
    ],
)  # fmt: skip
def test_identities_of_the_reals_that_floats_break_stay(node: str) -> None:
    graph = parse(f"""
        graph g(%x: f32[2]) {{
          %zero = constant f32[2] splat 0.0
          %half = constant f32[2] splat 0.5
          %three = constant f32[2] splat 3.0
          %4 = {node} : f32[2]
          return %4
        }}""")
    assert simplify(graph) == graph


def test_no_comparison_of_a_float_with_itself_is_known() -> None:
    graph = parse("graph g(%x: f32[2]) { %1 = eq(%x, %x) : bool[2] return %1 }")
    assert simplify(graph) == graph


def test_all_tables_are_part_of_the_pass() -> None:
    assert set(TEXTS) <= {rule.text for rule in RULES.rules}
