"""Products of integers in blocks that have scales: exact sums within a block, the declared order of
blocks in floats, the same bits on every target, in every layout and at any number of threads."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.arrays import contract_by_nest
from graphc.codegen.kernels.contraction.strategies.table import choose
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm.jit import kernel_texts
from graphc.codegen.loop_ir.interpreter import run
from graphc.codegen.nests.verifier import verify_nest
from graphc.codegen.target import named
from graphc.debug.profile.work import work_of_body
from graphc.debug.verification.bounds import numpy_bound
from graphc.errors import AttributeValueError, DTypeError, GradientError, ShapeError
from graphc.ir.dims import dim
from graphc.ir.nodes import Value
from graphc.ir.types import DType, TensorType
from graphc.ops.nn.block_products import block_matmul, pack_columns, unpacked_columns
from graphc.schedule.plan import KernelSpec

Array = np.ndarray[Any, Any]
VNNI = named("x86-64-v4+vnni")
TARGETS = [named(name) for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "wasm32")]


@dataclass(frozen=True)
class Form:
    """How a kind of weights is multiplied."""

    block: int = 32
    bits: int = 8
    high_bits: int = 0
    zero: int = 0
    minimum: bool = False

    @property
    def attributes(self) -> dict[str, Any]:
        named = ("block", "bits", "high_bits", "zero")
        return {name: getattr(self, name) for name in named}


FORMS = {
    "Q8_0": Form(zero=128), "Q4_0": Form(bits=4, zero=8), "Q4_1": Form(bits=4, minimum=True),
    "Q5_0": Form(bits=4, high_bits=1, zero=16), "Q5_K": Form(bits=4, high_bits=1, minimum=True),
    "Q2_K": Form(16, bits=2, minimum=True), "Q3_K": Form(16, bits=2, high_bits=1, zero=4),
    "Q6_K": Form(16, bits=4, high_bits=2, zero=32), "all at once": Form(64, 4, 4, 77, True),
}  # fmt: skip
SHAPES = [(1, 64, 5), (1, 96, 130), (3, 128, 70), (7, 64, 64), (13, 192, 17), (2, 32, 1)]
"""Rows, depth, columns."""


@dataclass(frozen=True)
class Case:
    """Operands as numbers, each a matrix."""

    form: Form
    x: Array
    x_scale: Array
    whole: Array
    scale: Array
    minimum: Array | None

    @staticmethod
    def drawn(form: Form, shape: tuple[int, int, int], extreme: bool = False) -> Case:
        m, k, n = shape
        k = -(-k // 64) * 64
        random = np.random.default_rng((m, k, n))
        most = 1 << (form.bits + form.high_bits)
        if extreme:
            x = random.choice([-128, 127], (m, k), p=[0.9, 0.1]).astype(np.int8)
            whole = np.full((k, n), most - 1, np.uint8)
        else:
            x = random.integers(-128, 128, (m, k)).astype(np.int8)
            whole = random.integers(0, most, (k, n)).astype(np.uint8)
        blocks = k // form.block
        floats = (
            random.standard_normal(size).astype(np.float32)
            for size in ((m, blocks), (blocks, n), (blocks, n))
        )
        x_scale, scale, minimum = floats
        return Case(form, x, x_scale, whole, scale, minimum if form.minimum else None)

    @property
    def operands(self) -> list[Array]:
        form = self.form
        values = [self.x, self.x_scale, pack_columns(self.whole, form.bits), self.scale]
        if form.high_bits:
            values.append(pack_columns(self.whole >> form.bits, form.high_bits))
        return values if self.minimum is None else [*values, self.minimum]

    @property
    def result(self) -> Array:
        """What the op's own NumPy form gives."""
        return block_matmul.compute(tuple(self.operands), self.form.attributes)[0]


def nearest(number: Fraction) -> np.float32:
    """The nearest f32, of two the even one."""
    near = np.float32(float(number))
    around = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
    return min((near, *around), key=lambda f: (
        abs(Fraction(float(f)) - number), int(f.view(np.int32)) & 1
    ))  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_the_declared_order_of_roundings(name: str) -> None:
    """By rational numbers: sums are exact, then one rounding for each operation declared."""
    case = Case.drawn(FORMS[name], (2, 64, 3))
    form, block = case.form, case.form.block
    expected = np.zeros(case.result.shape, np.float32)
    for (m, n), _ in np.ndenumerate(expected):
        total = Fraction(0)
        for b in range(len(case.scale)):
            k = slice(b * block, (b + 1) * block)
            x = case.x[m, k].astype(int)
            exact = Fraction(int(x @ (case.whole[k, n].astype(int) - form.zero)))
            term = nearest(exact * Fraction(float(case.scale[b, n])))
            if case.minimum is not None:
                least = Fraction(float(case.minimum[b, n])) * int(x.sum())
                term = nearest(least + Fraction(float(term)))
            total = Fraction(
                float(nearest(Fraction(float(term)) * Fraction(float(case.x_scale[m, b])) + total))
            )
        expected[m, n] = float(total)
    np.testing.assert_array_equal(case.result, expected)


@pytest.mark.parametrize("name", FORMS)
def test_near_float64(name: str) -> None:
    """Each block takes three roundings, and its total one for each block behind it."""
    case = Case.drawn(FORMS[name], (13, 192, 17))
    blocks, block = len(case.scale), case.form.block
    x = case.x.astype(np.float64).reshape(13, blocks, block)
    w = (case.whole.astype(np.float64) - case.form.zero).reshape(blocks, block, 17)
    terms = np.einsum("mbk,bkn->mbn", x, w) * case.scale
    sizes = np.abs(terms)
    if case.minimum is not None:
        below = x.sum(axis=2)[..., None] * case.minimum
        terms, sizes = terms + below, sizes + np.abs(below)
    exact = (terms * case.x_scale[..., None]).sum(axis=1)
    bound = (blocks + 2) * 2.0**-24 * (sizes * np.abs(case.x_scale[..., None])).sum(axis=1)
    assert (np.abs(case.result - exact) <= bound).all()
    (reference,) = graphc.run(body(case), *case.operands)
    assert (np.abs(reference - exact) <= bound).all()


def test_bytes_that_are_shared_come_apart() -> None:
    whole = np.random.default_rng(0).integers(0, 256, (64, 5)).astype(np.uint8)
    for bits in (1, 2, 4, 8):
        packed = pack_columns(whole, bits)
        assert packed.shape == (8 * bits, 5)
        np.testing.assert_array_equal(unpacked_columns(packed, bits), whole & (2**bits - 1))
    np.testing.assert_array_equal(pack_columns(whole, 4)[:4], whole[:4] & 15 | whole[4:8] << 4)


# -- kernels ---------------------------------------------------------------------------------------


def in_tiles(array: Array, tile: int, together: int) -> Array:
    """[k, n] as [tiles, k / together, tile, together], as the frontend keeps weights."""
    k, n = array.shape
    apart = array.reshape(k // together, together, n // tile, tile)
    return np.ascontiguousarray(apart.transpose(2, 0, 3, 1))


def body(case: Case, layout: str = "rows", rows: Any = None) -> graphc.Graph:
    """The product of operands that lie as they are; turned, columns' bytes side by side; or in
    tiles of quads."""
    b, inputs = graphc.GraphBuilder("product"), []
    for i, array in enumerate(case.operands):
        type = TensorType.of(array)
        if i < 2:
            shape = (type.shape[0] if rows is None else rows, type.shape[1])
            inputs.append(b.input(f"x{i}", type.with_shape(shape)))
        elif layout == "turned":
            turned = b.input(f"x{i}", type.with_shape(type.shape[::-1]))
            inputs.append(ops.transpose(turned, permutation=(1, 0)))
        elif layout == "tiles":
            tiled = b.input(f"x{i}", type.with_shape(lying(case, layout)[i].shape))
            whole = ops.transpose(tiled, permutation=(1, 3, 0, 2))
            inputs.append(ops.reshape(whole, shape=type.shape))
        else:
            inputs.append(b.input(f"x{i}", type))
    return b.finish(block_matmul(*inputs, **case.form.attributes))


def lying(case: Case, layout: str) -> list[Array]:
    """The operands as they lie in memory."""
    first, others = case.operands[:2], case.operands[2:]
    if layout == "turned":
        return first + [np.ascontiguousarray(each.T) for each in others]
    if layout == "tiles":
        tile = 16 if case.scale.shape[1] % 16 == 0 else case.scale.shape[1]
        return first + [in_tiles(each, tile, 4 if each.dtype == np.uint8 else 1) for each in others]
    return case.operands


@pytest.mark.sampled(16)
@pytest.mark.parametrize("layout", ["rows", "turned", "tiles"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_all_layouts_have_the_bits(
    name: str, shape: tuple[int, int, int], layout: str, native_target: Any
) -> None:
    for extreme in (False, True):
        case = Case.drawn(FORMS[name], shape, extreme)
        for threads in (1, 2):
            compiled = graphc.compile(body(case, layout), target=native_target, threads=threads)
            (actual,) = compiled(*lying(case, layout))
            np.testing.assert_array_equal(actual, case.result, strict=True)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", [*TARGETS, VNNI], ids=lambda target: target.name)
@pytest.mark.parametrize("name", FORMS)
def test_interpreted_on_every_target(name: str, target: Any) -> None:
    for layout, extreme in (("rows", True), ("tiles", False)):
        case = Case.drawn(FORMS[name], (3, 64, 32), extreme)
        actual = np.empty_like(case.result)
        run(lower(KernelSpec("contract", body(case, layout)), target), [
            *lying(case, layout), actual
        ])  # fmt: skip
        np.testing.assert_array_equal(actual, case.result)


@pytest.mark.parametrize("name", ["Q8_0", "Q3_K", "Q5_K"])
def test_the_nest_is_what_its_loops_are(name: str) -> None:
    for target in (TARGETS[0], VNNI):
        case = Case.drawn(FORMS[name], (7, 64, 70))
        graph = body(case)
        verify_nest(choose(graph, lanes_for(graph, target), target).nest())
        values = {Value(i): array for i, array in enumerate(case.operands)}
        values[graph.outputs[0]] = case.result
        both = contract_by_nest(graph, target, {}, graph, values)
        assert both is not None
        np.testing.assert_array_equal(*both)


def test_rows_of_any_number() -> None:
    for name in ("Q8_0", "Q4_1"):
        case = Case.drawn(FORMS[name], (9, 64, 33))
        graph = body(case, rows=dim("n"))
        for target in (named("x86-64-v3"), VNNI):
            kernel = lower(KernelSpec("contract", graph), target)
            for n in (0, 1, 5, 9):
                x, x_scale, *others = case.operands
                actual = np.empty((n, 33), np.float32)
                run(kernel, [x[:n], x_scale[:n], *others, actual], sizes={"n": n})
                np.testing.assert_array_equal(actual, case.result[:n])


def test_what_is_told_of_it() -> None:
    """Its products and bytes, as a profile counts them; its strategy; and that kernels have NumPy's
    bits, which `verify` holds them to."""
    case = Case.drawn(FORMS["Q4_1"], (3, 64, 20))
    graph = body(case)
    work = work_of_body(graph)
    assert work.products == 3 * 64 * 20
    assert work.reads == tuple(array.nbytes for array in case.operands)
    plan = choose(graph, lanes_for(graph, VNNI), VNNI)
    assert plan.reason.startswith("block_matmul, scaled blocks: tile 3x2x16, exact sums of 32")
    node = graph.nodes[graph.outputs[0].node]
    assert np.all(numpy_bound(node, tuple(case.operands), case.result) == 0)


def test_which_instructions_stand_for_it() -> None:
    def text(name: str, target: Any) -> str:
        kernel = lower(KernelSpec("contract", body(Case.drawn(FORMS[name], (4, 64, 64)))), target)
        return "\n".join(kernel_texts(kernel, target)[1])

    for name in ("Q8_0", "Q4_0"):
        assert "vpdpbusd.512" in text(name, VNNI)
        assert "vpdpbusds" not in text(name, VNNI)
    for target, saturating in zip(
        TARGETS[:3], ("pmadd.ub.sw.128", "pmadd.ub.sw", "pmaddubs.w.512"), strict=True
    ):
        assert saturating in text("Q6_K", target)  # of 7 bits at most no sum of two saturates
        assert "madd.ub" not in text("Q8_0", target)
        assert "maddub" not in text("Q8_0", target)


def test_scales_that_are_computed_are_not_stored() -> None:
    """Those of a block of 256 times integers of few bits, in half precision, are read as they are;
    so are bytes that index maps move."""
    b = graphc.GraphBuilder("scaled")
    x, x_scale = b.input("x", "i8[1,512]"), b.input("x_scale", "f32[1,16]")
    low = b.input("low", "u8[2,64,64,4]")
    scale, groups = b.input("scale", "f16[2,2,1,64]"), b.input("groups", "u8[2,2,8,64]")
    wide = ops.broadcast(ops.cast(scale, dtype=DType.f32), shape=(2, 2, 8, 64))
    scales = ops.reshape(wide * ops.cast(groups, dtype=DType.f32), shape=(2, 16, 64))
    columns = ops.reshape(ops.transpose(low, permutation=(1, 3, 0, 2)), shape=(256, 128))
    of_blocks = ops.reshape(ops.transpose(scales, permutation=(1, 0, 2)), shape=(16, 128))
    graph = b.finish(block_matmul(x, x_scale, columns, of_blocks, block=32, bits=4))
    compiled = graphc.compile(graph, "exact")
    assert len(compiled.plan.steps) == 1
    random = np.random.default_rng(0)
    arrays = [
        random.integers(0, 60, type.shape).astype(type.dtype.numpy) for type in graph.input_types
    ]
    np.testing.assert_array_equal(
        compiled(*arrays)[0], ops.interpreter.evaluate(graph, arrays, reference=False)[0]
    )


# -- what is refused -------------------------------------------------------------------------------


def types(*texts: str) -> list[Any]:
    b = graphc.GraphBuilder("refused")
    return [b.input(f"x{i}", text) for i, text in enumerate(texts)]


def test_what_does_not_fit_is_refused() -> None:
    fitting = "i8[3,64]", "f32[3,2]", "u8[64,5]", "f32[2,5]"
    assert block_matmul(*types(*fitting), block=32).shape == (3, 5)
    for position, text, error, message in (
        (0, "u8[3,64]", DTypeError, "operand 0"), (2, "i8[64,5]", DTypeError, "operand 2"),
        (1, "f64[3,2]", DTypeError, "operand 1"), (3, "i32[2,5]", DTypeError, "operand 3"),
        (0, "i8[3,48]", ShapeError, "no blocks of 32"), (0, "i8[3,0]", ShapeError, "no blocks"),
        (1, "f32[2,2]", ShapeError, r"expected f32\[3,2\]"),
        (3, "f32[5,2]", ShapeError, r"expected f32\[2,5\]"),
        (2, "u8[1,64,5]", ShapeError, "takes matrices"),
    ):  # fmt: skip
        wrong = [*fitting[:position], text, *fitting[position + 1 :]]
        with pytest.raises(error, match=message):
            block_matmul(*types(*wrong), block=32)
    for attributes, message in (
        ({"block": 30}, "block of 30"), ({"block": 128}, "block of 128"),
        ({"bits": 3}, "3 and 0 bits"), ({"bits": 4, "high_bits": 8}, "4 and 8 bits"),
        ({"zero": 256}, "256 is no u8"),
    ):  # fmt: skip
        with pytest.raises(AttributeValueError, match=message):
            block_matmul(*types(*fitting), **{"block": 32, **attributes})
    with pytest.raises(ShapeError, match="share bytes"):
        block_matmul(*types("i8[3,4]", "f32[3,1]", "u8[2,5]", "f32[1,5]"), block=4, bits=4)


def test_there_is_no_gradient() -> None:
    b = graphc.GraphBuilder("loss")
    x, x_scale, low, scale = (
        b.input(f"x{i}", text) for i, text in enumerate(("i8[3,32]", "f32[3,1]", "u8[32,5]",
                                                         "f32[1,5]"))
    )  # fmt: skip
    graph = b.finish(ops.sum(block_matmul(x, x_scale, low, scale, block=32), axes=(0, 1)))
    with pytest.raises(GradientError, match="block_matmul has no gradient"):
        graphc.joint(graph)
