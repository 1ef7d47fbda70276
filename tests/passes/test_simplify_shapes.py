"""Rules about movements: texts before and after, and random chains of movements bit for bit."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.parser import parse
from graphc.ir.registry import lookup
from graphc.ir.verifier import verify
from graphc.ops.interpreter import run
from graphc.passes.canonicalize import canonicalize
from graphc.passes.dead_code import dead_code
from graphc.passes.simplify_shapes import simplify_shapes

REPEATED = (
    "%2 = broadcast(%k) shape=[3,2,5,2] : f32[3,2,5,2] %3 = reshape(%2) shape=[6,5,2] : f32[6,5,2]"
)
CASES = {
    "reshape of reshape": (
        "%1 = reshape(%x) shape=[6] : f32[6] %2 = reshape(%1) shape=[3,2] : f32[3,2] return %2",
        "%1 = reshape(%x) shape=[3,2] : f32[3,2] return %1",
    ),
    "reshape there and back": (
        "%1 = reshape(%x) shape=[6] : f32[6] %2 = reshape(%1) shape=[2,3] : f32[2,3] return %2",
        "return %x",
    ),
    "reshape of broadcast": (
        "%1 = broadcast(%r) shape=[2,3] : f32[2,3] %2 = reshape(%1) shape=[2,1,3] : f32[2,1,3] "
        "return %2",
        "%1 = broadcast(%r) shape=[2,1,3] : f32[2,1,3] return %1",
    ),
    "reshape of broadcast that adds a trailing axis": (
        "%1 = broadcast(%r) shape=[2,3] : f32[2,3] %2 = reshape(%1) shape=[2,3,1] : f32[2,3,1] "
        "return %2",
        "%1 = reshape(%r) shape=[1,3,1] : f32[1,3,1] "
        "%2 = broadcast(%1) shape=[2,3,1] : f32[2,3,1] return %2",
    ),
    "reshape of broadcast that joins repeated axes": (
        "%1 = reshape(%r) shape=[3,1,1] : f32[3,1,1] %2 = broadcast(%1) shape=[3,4,5] : f32[3,4,5] "
        "%3 = reshape(%2) shape=[3,20] : f32[3,20] return %3",
        "%1 = reshape(%r) shape=[3,1] : f32[3,1] %2 = broadcast(%1) shape=[3,20] : f32[3,20] "
        "return %2",
    ),
    "reshape of broadcast that joins a repeated axis with another": (
        "%1 = reshape(%r) shape=[3,1] : f32[3,1] %2 = broadcast(%1) shape=[3,4] : f32[3,4] "
        "%3 = reshape(%2) shape=[12] : f32[12] return %3",
        "%1 = reshape(%r) shape=[3,1] : f32[3,1] %2 = broadcast(%1) shape=[3,4] : f32[3,4] "
        "%3 = reshape(%2) shape=[12] : f32[12] return %3",
    ),
    "transpose of broadcast": (
        "%1 = broadcast(%x) shape=[4,2,3] : f32[4,2,3] "
        "%2 = transpose(%1) permutation=[2,0,1] : f32[3,4,2] return %2",
        "%1 = reshape(%x) shape=[1,2,3] : f32[1,2,3] "
        "%2 = transpose(%1) permutation=[2,0,1] : f32[3,1,2] "
        "%3 = broadcast(%2) shape=[3,4,2] : f32[3,4,2] return %3",
    ),
    "windows of one element": (
        "%1 = reshape(%x) shape=[2,3,1,1] : f32[2,3,1,1] %2 = windows(%1, %s) dilation=[1,1] "
        "kernel=[1,1] padding=[0,0] stride=[1,1] : f32[2,3,1,1] return %2",
        "%1 = reshape(%x) shape=[2,3,1,1] : f32[2,3,1,1] return %1",
    ),
    "reshape of a number": (
        "%1 = constant f32[2,3] splat 2.0 %2 = reshape(%1) shape=[6] : f32[6] return %2",
        "%1 = constant f32[] [2.0] %2 = broadcast(%1) shape=[6] : f32[6] return %2",
    ),
    "transpose of transpose": (
        "%1 = transpose(%x) permutation=[1,0] : f32[3,2] "
        "%2 = transpose(%1) permutation=[1,0] : f32[2,3] return %2",
        "return %x",
    ),
    "transpose of an axis of size one": (
        "%1 = transpose(%c) permutation=[1,0] : f32[1,2] return %1",
        "%1 = reshape(%c) shape=[1,2] : f32[1,2] return %1",
    ),
    "transpose of a square": (
        "%1 = transpose(%q) permutation=[1,0] : f32[2,2] return %1",
        "%1 = transpose(%q) permutation=[1,0] : f32[2,2] return %1",
    ),
    "broadcast of broadcast": (
        "%1 = broadcast(%c) shape=[2,3] : f32[2,3] "
        "%2 = broadcast(%1) shape=[4,2,3] : f32[4,2,3] return %2",
        "%1 = broadcast(%c) shape=[4,2,3] : f32[4,2,3] return %1",
    ),
    "broadcast of leading axes": (
        "%1 = reshape(%r) shape=[1,3] : f32[1,3] %2 = broadcast(%1) shape=[2,3] : f32[2,3] "
        "return %2",
        "%1 = broadcast(%r) shape=[2,3] : f32[2,3] return %1",
    ),
    "broadcast of a trailing axis": (
        "%1 = reshape(%r) shape=[3,1] : f32[3,1] %2 = broadcast(%1) shape=[3,2] : f32[3,2] "
        "return %2",
        "%1 = reshape(%r) shape=[3,1] : f32[3,1] %2 = broadcast(%1) shape=[3,2] : f32[3,2] "
        "return %2",
    ),
    "slice of all": (
        "%1 = slice(%x) size=[2,3] start=[0,0] step=[1,1] : f32[2,3] return %1",
        "return %x",
    ),
    "slice backwards": (
        "%1 = slice(%r) size=[3] start=[2] step=[-1] : f32[3] return %1",
        "%1 = slice(%r) size=[3] start=[2] step=[-1] : f32[3] return %1",
    ),
    "slice backwards twice": (
        "%1 = slice(%r) size=[3] start=[2] step=[-1] : f32[3] "
        "%2 = slice(%1) size=[3] start=[2] step=[-1] : f32[3] return %2",
        "return %r",
    ),
    "slice of slice": (
        "%1 = slice(%v) size=[5] start=[1] step=[2] : f32[5] "
        "%2 = slice(%1) size=[2] start=[4] step=[-3] : f32[2] return %2",
        "%1 = slice(%v) size=[2] start=[9] step=[-6] : f32[2] return %1",
    ),
    "slice of what a pad holds": (
        "%1 = pad(%r, %s) high=[2] interior=[1] low=[3] : f32[10] "
        "%2 = slice(%1) size=[2] start=[5] step=[2] : f32[2] return %2",
        "%1 = slice(%r) size=[2] start=[1] step=[1] : f32[2] return %1",
    ),
    "slice of a pad's fill": (
        "%1 = pad(%r, %s) high=[2] interior=[0] low=[3] : f32[8] "
        "%2 = slice(%1) size=[2] start=[1] step=[1] : f32[2] return %2",
        "%1 = broadcast(%s) shape=[2] : f32[2] return %1",
    ),
    "slice of both": (
        "%1 = pad(%r, %s) high=[2] interior=[0] low=[3] : f32[8] "
        "%2 = slice(%1) size=[2] start=[2] step=[1] : f32[2] return %2",
        "%1 = pad(%r, %s) high=[2] interior=[0] low=[3] : f32[8] "
        "%2 = slice(%1) size=[2] start=[2] step=[1] : f32[2] return %2",
    ),
    "slice of concat": (
        "%1 = concat(%v, %r) axis=0 : f32[13] "
        "%2 = slice(%1) size=[2] start=[12] step=[-1] : f32[2] return %2",
        "%1 = slice(%r) size=[2] start=[2] step=[-1] : f32[2] return %1",
    ),
    "slice across a concat": (
        "%1 = concat(%v, %r) axis=0 : f32[13] "
        "%2 = slice(%1) size=[2] start=[9] step=[1] : f32[2] return %2",
        "%1 = concat(%v, %r) axis=0 : f32[13] "
        "%2 = slice(%1) size=[2] start=[9] step=[1] : f32[2] return %2",
    ),
    "pad of nothing": (
        "%1 = pad(%r, %s) high=[0] interior=[0] low=[0] : f32[3] return %1",
        "return %r",
    ),
    "pad of pad": (
        "%1 = pad(%r, %s) high=[2] interior=[1] low=[3] : f32[10] "
        "%2 = pad(%1, %s) high=[1] interior=[0] low=[4] : f32[15] return %2",
        "%1 = pad(%r, %s) high=[3] interior=[1] low=[7] : f32[15] return %1",
    ),
    "concat of one": (
        "%1 = concat(%r) axis=0 : f32[3] return %1",
        "return %r",
    ),
    "concat with an empty one": (
        "%1 = concat(%e, %r, %e, %v) axis=0 : f32[13] return %1",
        "%1 = concat(%r, %v) axis=0 : f32[13] return %1",
    ),
    "concat of parts": (
        "%1 = slice(%v) size=[4] start=[0] step=[1] : f32[4] "
        "%2 = slice(%v) size=[6] start=[4] step=[1] : f32[6] "
        "%3 = concat(%1, %2) axis=0 : f32[10] return %3",
        "return %v",
    ),
    "concat of reshaped parts": (
        "%1 = slice(%x) size=[1,3] start=[0,0] step=[1,1] : f32[1,3] "
        "%2 = slice(%x) size=[1,3] start=[1,0] step=[1,1] : f32[1,3] "
        "%3 = reshape(%1) shape=[3] : f32[3] %4 = reshape(%2) shape=[3] : f32[3] "
        "%5 = concat(%3, %4) axis=0 : f32[6] return %5",
        "%1 = reshape(%x) shape=[6] : f32[6] return %1",
    ),
    "concat of reshaped parts in another order": (
        "%1 = slice(%x) size=[1,3] start=[1,0] step=[1,1] : f32[1,3] "
        "%2 = slice(%x) size=[1,3] start=[0,0] step=[1,1] : f32[1,3] "
        "%3 = reshape(%1) shape=[3] : f32[3] %4 = reshape(%2) shape=[3] : f32[3] "
        "%5 = concat(%3, %4) axis=0 : f32[6] return %5",
        "%1 = slice(%x) size=[1,3] start=[1,0] step=[1,1] : f32[1,3] "
        "%2 = slice(%x) size=[1,3] start=[0,0] step=[1,1] : f32[1,3] "
        "%3 = reshape(%1) shape=[3] : f32[3] %4 = reshape(%2) shape=[3] : f32[3] "
        "%5 = concat(%3, %4) axis=0 : f32[6] return %5",
    ),
    "transpose of a product": (
        "%1 = transpose(%x) permutation=[1,0] : f32[3,2] "
        "%2 = matmul(%1, %c) : f32[3,1] %3 = concat(%2, %2) axis=1 : f32[3,2] "
        "%4 = matmul(%1, %q) : f32[3,2] "
        "%5 = transpose(%4) permutation=[1,0] : f32[2,3] return %3, %5",
        "%1 = transpose(%x) permutation=[1,0] : f32[3,2] "
        "%2 = matmul(%1, %c) : f32[3,1] %3 = concat(%2, %2) axis=1 : f32[3,2] "
        "%4 = transpose(%q) permutation=[1,0] : f32[2,2] "
        "%5 = matmul(%4, %x) : f32[2,3] return %3, %5",
    ),
    "transpose of a rounded product of pairs": (
        "%1 = cast(%x) dtype=bf16 : bf16[2,3] %2 = cast(%q) dtype=bf16 : bf16[2,2] "
        "%3 = transpose(%1) permutation=[1,0] : bf16[3,2] "
        "%4 = paired_matmul(%3, %2) : f32[3,2] %5 = cast(%4) dtype=bf16 : bf16[3,2] "
        "%6 = cast(%5) dtype=f32 : f32[3,2] "
        "%7 = transpose(%6) permutation=[1,0] : f32[2,3] return %7",
        "%1 = cast(%x) dtype=bf16 : bf16[2,3] %2 = cast(%q) dtype=bf16 : bf16[2,2] "
        "%3 = transpose(%2) permutation=[1,0] : bf16[2,2] "
        "%4 = paired_matmul(%3, %1) : f32[2,3] %5 = cast(%4) dtype=bf16 : bf16[2,3] "
        "%6 = cast(%5) dtype=f32 : f32[2,3] return %6",
    ),
    "transpose of a product of plain operands": (
        "%1 = matmul(%q, %x) : f32[2,3] %2 = transpose(%1) permutation=[1,0] : f32[3,2] return %2",
        "%1 = matmul(%q, %x) : f32[2,3] %2 = transpose(%1) permutation=[1,0] : f32[3,2] return %2",
    ),
    "transpose of a product that is read elsewhere": (
        "%1 = transpose(%q) permutation=[1,0] : f32[2,2] %2 = matmul(%1, %x) : f32[2,3] "
        "%3 = transpose(%2) permutation=[1,0] : f32[3,2] return %2, %3",
        "%1 = transpose(%q) permutation=[1,0] : f32[2,2] %2 = matmul(%1, %x) : f32[2,3] "
        "%3 = transpose(%2) permutation=[1,0] : f32[3,2] return %2, %3",
    ),
    "product with a matrix for several of the batch": (
        f"{REPEATED} %4 = matmul(%h, %3) : f32[6,1,2] return %4",
        "%1 = reshape(%k) shape=[3,5,2] : f32[3,5,2] "
        "%2 = reshape(%h) shape=[3,2,5] : f32[3,2,5] %3 = matmul(%2, %1) : f32[3,2,2] "
        "%4 = reshape(%3) shape=[6,1,2] : f32[6,1,2] return %4",
    ),
    "product with the transpose of such a matrix": (
        f"{REPEATED} %4 = transpose(%3) permutation=[0,2,1] : f32[6,2,5] "
        "%5 = reshape(%h) shape=[6,1,5] : f32[6,1,5] "
        "%6 = slice(%5) size=[6,1,2] start=[0,0,0] step=[1,1,1] : f32[6,1,2] "
        "%7 = matmul(%6, %4) : f32[6,1,5] return %7",
        "%1 = slice(%h) size=[6,1,2] start=[0,0,0] step=[1,1,1] : f32[6,1,2] "
        "%2 = reshape(%k) shape=[3,5,2] : f32[3,5,2] "
        "%3 = transpose(%2) permutation=[0,2,1] : f32[3,2,5] "
        "%4 = reshape(%1) shape=[3,2,2] : f32[3,2,2] %5 = matmul(%4, %3) : f32[3,2,5] "
        "%6 = reshape(%5) shape=[6,1,5] : f32[6,1,5] return %6",
    ),
    "product with matrices in turns": (
        "%1 = broadcast(%k) shape=[3,2,5,2] : f32[3,2,5,2] "
        "%2 = transpose(%1) permutation=[1,0,2,3] : f32[2,3,5,2] "
        "%3 = reshape(%2) shape=[6,5,2] : f32[6,5,2] %4 = matmul(%h, %3) : f32[6,1,2] return %4",
        "%1 = reshape(%k) shape=[1,3,5,2] : f32[1,3,5,2] "
        "%2 = broadcast(%1) shape=[2,3,5,2] : f32[2,3,5,2] "
        "%3 = reshape(%2) shape=[6,5,2] : f32[6,5,2] %4 = matmul(%h, %3) : f32[6,1,2] return %4",
    ),
    "product with one matrix for all of the batch": (
        "%1 = transpose(%x) permutation=[1,0] : f32[3,2] "
        "%2 = broadcast(%1) shape=[2,3,2] : f32[2,3,2] "
        "%3 = reshape(%x) shape=[2,1,3] : f32[2,1,3] %4 = matmul(%3, %2) : f32[2,1,2] return %4",
        "%1 = transpose(%x) permutation=[1,0] : f32[3,2] "
        "%2 = reshape(%1) shape=[1,3,2] : f32[1,3,2] "
        "%3 = reshape(%x) shape=[1,2,3] : f32[1,2,3] %4 = matmul(%3, %2) : f32[1,2,2] "
        "%5 = reshape(%4) shape=[2,1,2] : f32[2,1,2] return %5",
    ),
}
INPUTS = (
    "%x: f32[2,3], %q: f32[2,2], %c: f32[2,1], %r: f32[3], %v: f32[10], %e: f32[0], %s: f32[], "
    "%h: f32[6,1,5], %k: f32[3,1,5,2]"
)


@pytest.mark.parametrize("case", CASES)
def test_before_and_after(case: str) -> None:
    before, expected = (parse(f"graph g({INPUTS}) {{ {text} }}") for text in CASES[case])
    after = dead_code(verify(simplify_shapes(before)))
    assert after == expected, f"\n{after}"
    draw = np.random.default_rng(0)
    arrays = [draw.standard_normal(t.shape).astype(np.float32) for t in before.input_types]
    for left, right in zip(run(before, *arrays), run(after, *arrays), strict=True):
        assert left.tobytes() == right.tobytes()


def random_movement(draw: random.Random, builder: GraphBuilder, x: Var, others: list[Var]) -> Var:
    """Some movement of x, with a bias to those that cancel."""
    shape, rank = x.shape, len(x.shape)
    kind = draw.choice(["reshape", "transpose", "broadcast", "slice", "pad", "concat", "neg"])
    if kind == "neg":
        return -x  # type: ignore[no-any-return]
    if kind == "reshape":
        places = [draw.randrange(rank + 1) for _ in range(draw.randrange(2))]
        new = [dim for dim in shape if dim != 1 or draw.random() < 0.5]
        for place in places:
            new.insert(min(place, len(new)), 1)
        target = draw.choice([tuple(new), (math.prod(shape),)])
        attributes: dict[str, Any] = {"shape": target}
    elif kind == "transpose":
        attributes = {"permutation": tuple(draw.sample(range(rank), rank))}
    elif kind == "broadcast":
        spread = tuple(draw.choice([1, 2, 3]) if dim == 1 else dim for dim in shape)
        attributes = {"shape": (2,) * draw.randrange(2) + spread}
    elif kind == "slice":
        cut = [random_cut(draw, dim) for dim in shape]
        start, size, step = ([c[i] for c in cut] for i in range(3))
        attributes = {"start": tuple(start), "size": tuple(size), "step": tuple(step)}
    elif kind == "pad":
        amounts = [[draw.choice([0, 0, 1, 2]) for _ in shape] for _ in range(3)]
        low, high, interior = map(tuple, amounts)
        fill = builder.constant(np.float32(draw.choice([0.0, -0.0, 1.0])))
        padded: Var = lookup("pad")(x, fill, low=low, high=high, interior=interior)
        return padded
    else:
        if not rank:
            return x
        joined: Var = lookup("concat")(x, *draw.choice([[], [x]]), axis=draw.randrange(rank))
        return joined
    moved: Var = lookup(kind)(x, **attributes)
    return moved


def random_cut(draw: random.Random, dim: int) -> tuple[int, int, int]:
    if dim == 0 or draw.random() < 0.1:
        return 0, 0, 1
    if draw.random() < 0.4:
        return 0, dim, 1
    step = draw.choice([1, 1, 2, 3, -1, -2])
    start = draw.randrange(dim)
    room = (dim - 1 - start) // step if step > 0 else start // -step
    return start, draw.randint(1, room + 1), step


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(300))
def test_random_chains_keep_every_bit(seed: int) -> None:
    draw = random.Random(seed)
    builder = GraphBuilder()
    shape = tuple(draw.choice([1, 2, 3, 4]) for _ in range(draw.randrange(4)))
    x = builder.input("x", f"f32[{','.join(map(str, shape))}]")
    values = [x, builder.constant(np.full(shape, -0.0, np.float32))]
    for _ in range(draw.randrange(1, 9)):
        value = random_movement(draw, builder, draw.choice(values[-2:]), values)
        if math.prod(value.shape) <= 2000:
            values.append(value)
    graph = builder.finish(*values[1:])
    array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    expected = run(graph, array)
    for transform in (simplify_shapes, canonicalize):
        after = verify(transform(graph))
        for left, right in zip(expected, run(after, array), strict=True):
            assert left.tobytes() == right.tobytes(), f"\n{graph}\n{after}"
        assert transform(after) == after, "a second run still finds something"
