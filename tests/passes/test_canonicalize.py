"""The joint fixed point: random graphs of elementwise ops on special values, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.nodes import Graph
from graphc.ir.parser import parse
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ir.verifier import verify
from graphc.ops.interpreter import run
from graphc.passes.canonicalize import canonicalize
from graphc.passes.dead_code import dead_code

UNARY = ["neg", "abs", "sign", "relu"]
BINARY = ["add", "sub", "mul", "maximum", "minimum"]
COMPARE = ["eq", "ne", "lt", "le", "gt", "ge"]
LOGIC = ["logical_and", "logical_or", "logical_xor"]
LENGTH = 40


def random_graph(draw: random.Random, dtype: DType) -> Graph:
    builder = GraphBuilder()
    shape = f"[{LENGTH}]"
    numbers = [builder.input(name, f"{dtype.value}{shape}") for name in "xy"]
    bools = [builder.input("p", f"bool{shape}")]
    for number in (0, -0.0, 1, -1, 2, 4, 0.5, np.nan, np.inf) if dtype.is_float else (0, 1, -1, 2):
        scalar = builder.constant(np.asarray(number, dtype.numpy))
        numbers.append(lookup("broadcast")(scalar, shape=(LENGTH,)))
    bools += [builder.constant(np.full(LENGTH, truth)) for truth in (False, True)]
    for _ in range(25):
        value = random_op(draw, dtype, numbers, bools)
        (bools if value.dtype is DType.bool else numbers).append(value)
    return builder.finish(*numbers[-6:], *bools[-6:])


def random_op(draw: random.Random, dtype: DType, numbers: list[Var], bools: list[Var]) -> Any:
    def number() -> Var:
        return draw.choice(numbers[-4:] if draw.random() < 0.6 else numbers)

    def truth() -> Var:
        return draw.choice(bools[-3:] if draw.random() < 0.6 else bools)

    kind = draw.choice(["unary", "unary", "binary", "binary", "binary", "compare", "logic", "not",
                        "where", "where of bools", "cast"])  # fmt: skip
    if kind == "unary":
        rounding = ["floor", "ceil", "round", "sqrt"] if dtype.is_float else []
        return lookup(draw.choice(UNARY + rounding))(number())
    if kind == "binary":
        return lookup(draw.choice(BINARY + (["div"] if dtype.is_float else [])))(number(), number())
    if kind == "compare":
        return lookup(draw.choice(COMPARE))(number(), number())
    if kind == "logic":
        return lookup(draw.choice([*LOGIC, "eq", "ne"]))(truth(), truth())
    if kind == "not":
        return lookup("logical_not")(truth())
    if kind == "where":
        return lookup("where")(truth(), number(), number())
    if kind == "where of bools":
        return lookup("where")(truth(), truth(), truth())
    return lookup("cast")(draw.choice([truth(), number()]), dtype=draw.choice([dtype, DType.bool]))


def special(dtype: DType, random_: np.random.Generator) -> Any:
    if dtype is DType.bool:
        return random_.integers(0, 2, LENGTH).astype(bool)
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return random_.choice([limits.min, -3, -1, 0, 1, 2, 7, limits.max], LENGTH).astype(
            dtype.numpy
        )
    limits = np.finfo(dtype.numpy)
    values = [0.0, limits.smallest_subnormal, limits.tiny, 0.3, 1, 1.5, 3, limits.max, np.inf,
              np.nan]  # fmt: skip
    return np.array(random_.choice(values, LENGTH) * random_.choice([-1, 1], LENGTH), dtype.numpy)


def plain(array: Any) -> bytes:
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return bytes(array.tobytes())


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", [DType.f32, DType.f64, DType.i32, DType.i64])
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_keep_every_bit(seed: int, dtype: DType) -> None:
    graph = random_graph(random.Random(seed), dtype)
    after = dead_code(verify(canonicalize(graph)))
    draw = np.random.default_rng(seed)
    arrays = [special(type.dtype, draw) for type in graph.input_types]
    for left, right in zip(run(graph, *arrays), run(after, *arrays), strict=True):
        assert plain(left) == plain(right), f"\n{graph}\n{after}"
    assert len(after.nodes) <= len(graph.nodes)
    assert dead_code(canonicalize(after)) == after


def test_before_and_after() -> None:
    before = parse("""
        graph g(%x: f32[2,2]) {
          %1 = transpose(%x) permutation=[1,0] : f32[2,2]
          %2 = transpose(%1) permutation=[1,0] : f32[2,2]
          %3 = constant f32[2,2] splat -1.0
          %4 = mul(%x, %3) : f32[2,2]
          %5 = sub(%2, %4) : f32[2,2]
          return %5
        }""")
    expected = parse("graph g(%x: f32[2,2]) { %1 = add(%x, %x) : f32[2,2] return %1 }")
    assert dead_code(canonicalize(before)) == expected


def test_a_long_chain_of_concats_is_no_deep_recursion() -> None:
    """As a cache that grows by a token makes it, of which the first token is read."""
    builder = GraphBuilder()
    tokens = [builder.input(f"t{i}", "f32[1,4]") for i in range(1500)]
    cache = tokens[0]
    for token in tokens[1:]:
        cache = lookup("concat")(cache, token, axis=0)
    first = lookup("slice")(cache, start=(0, 0), size=(1, 4), step=(1, 1))
    after = dead_code(canonicalize(builder.finish(first)))
    assert after.outputs[0].node == 0
