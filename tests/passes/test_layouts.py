"""Layouts: what is packed, where it goes, and that results keep their bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.preferred_layouts import preferred_layouts
from graphc.codegen.program.link import plan_kernels
from graphc.codegen.target import Target, named
from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph, Node
from graphc.ir.types import TensorType
from graphc.ir.verifier import verify
from graphc.ops.contract import conv, matmul
from graphc.ops.control import scan
from graphc.ops.elementwise import tanh
from graphc.ops.interpreter import evaluate
from graphc.ops.layouts.packing import COLUMNS, ROWS, pack, unpack
from graphc.ops.movement import transpose
from graphc.passes.layouts import Stored, layouts, packed
from graphc.passes.pipelines import optimize
from graphc.passes.split_frozen import split_frozen
from graphc.schedule.build import plan_graph

V3 = named("x86-64-v3")


def always(
    node: Node, types: tuple[TensorType, ...], position: int, reads: int = 1
) -> Stored | None:
    return Stored(3, 8) if position == 1 else None


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def running(length: int = 5) -> Graph:
    """h ← tanh(h Wᵀ + x), over x [length, 4, 40]."""
    g = GraphBuilder("running")
    h, xs, w = (
        g.input(name, type)
        for name, type in (("h", "f32[4,40]"), ("xs", f"f32[{length},4,40]"), ("w", "f32[40,40]"))
    )
    b = GraphBuilder("body")
    hb, xb, wb = (
        b.input(name, type)
        for name, type in (("h", "f32[4,40]"), ("x", "f32[4,40]"), ("w", "f32[40,40]"))
    )
    hidden = tanh(hb @ transpose(wb, permutation=(1, 0)) + xb)
    last = scan(h, xs, w, body=b.finish(hidden), carry=1, sequences=1, length=length)
    return g.finish(last)


def scan_of(graph: Graph) -> Any:
    return next(node for node in graph.nodes if node.op == "scan")


def test_a_loop_reads_packed_what_is_packed_ahead_of_it() -> None:
    graph = verify(optimize(running(), preferred=always))
    assert "unpack" in ops(scan_of(graph).regions[0])
    assert not {"pad", "reshape", "transpose"} & set(ops(scan_of(graph).regions[0]))
    before = ops(graph)[: ops(graph).index("scan")]
    assert before.count("pad") == 1 and "unpack" not in before


def test_a_loop_of_one_step_packs_nothing() -> None:
    assert "unpack" not in str(optimize(running(1), preferred=always))


def test_without_a_target_nothing_is_packed() -> None:
    assert "unpack" not in str(optimize(running()))


def test_what_changes_at_each_step_is_not_packed() -> None:
    changed = layouts(running(), lambda *_: Stored(3, 8))
    (product,) = (n for n in scan_of(changed).regions[0].nodes if n.op == "matmul")
    body = scan_of(changed).regions[0]
    assert body.nodes[product.operands[0].node].op == "input"
    assert body.nodes[product.operands[1].node].op == "unpack"


def test_one_matrix_read_twice_is_packed_once() -> None:
    g = GraphBuilder("two")
    x, y, w = (g.input(n, "f32[6,6]") for n in "xyw")
    graph = packed(g.finish(x @ w, y @ w), [2], always)
    assert ops(graph).count("unpack") == 1


@pytest.mark.parametrize("axis", [ROWS, COLUMNS])
def test_unpack_undoes_pack(axis: int) -> None:
    g = GraphBuilder("there_and_back")
    x = g.input("x", "f32[2,5,29]")
    stored = pack(x, axis=axis, vectors=2, lanes=4)
    graph = g.finish(stored, unpack(stored, axis=axis, size=5 if axis == ROWS else 29))
    array = np.random.default_rng(0).standard_normal((2, 5, 29)).astype(np.float32)
    there, back = evaluate(graph, (array,), reference=False)
    assert back.tobytes() == array.tobytes()
    if axis == COLUMNS:
        assert there.shape == (2, 4, 5, 2, 4) and there[0, 0, 2, 1, 3] == array[0, 2, 7]
        assert not there[:, 3, :, 1, 1:].any(), "29 columns end in the last tile"
        return
    assert there.shape == (2, 1, 29, 2, 4) and there[0, 0, 2, 1, 0] == array[0, 4, 2]
    assert not there[:, 0, :, 1, 1:].any(), "5 rows end in the only tile"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("length", [2, 5])
@pytest.mark.parametrize("width", [(3, 8), (2, 8), (1, 4)])
def test_native_results_keep_their_bits(length: int, width: tuple[int, int]) -> None:
    graph = running(length)
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(t.shape).astype(np.float32) for t in graph.input_types]
    arrays[2] /= 16  # no chaos
    (plain,) = evaluate(graph, tuple(arrays), reference=True)
    (result,) = graphc.compile(layouts(graph, lambda n, t, p, _: Stored(*width) if p else None))(
        *arrays
    )
    (unpacked,) = graphc.compile(graph, "none")(*arrays)
    assert result.tobytes() == unpacked.tobytes()
    np.testing.assert_allclose(result, plain, atol=1e-5)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("rows", [1, 2, 33])
@pytest.mark.parametrize(("depth", "columns"), [(20, 65), (50, 24), (300, 70), (700, 129)])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_products_with_packed_operands_keep_their_bits(
    rows: int, depth: int, columns: int, dtype: str, native_target: Target
) -> None:
    g = GraphBuilder("product")
    x, w = g.input("x", f"{dtype}[{rows},{depth}]"), g.input("w", f"{dtype}[{columns},{depth}]")
    graph = g.finish(x @ transpose(w, permutation=(1, 0)))
    split = split_frozen(packed(graph, [1], preferred_layouts(native_target)), [1], 2)
    assert split is not None
    assert "unpack" in ops(split.graph) or rows == 1, "a row by short vectors"
    random = np.random.default_rng(2)
    arrays = [random.standard_normal(t.shape).astype(t.dtype.numpy) for t in graph.input_types]
    arrays[0][0, 0], arrays[1][-1, -1] = np.inf, np.nan
    stored = graphc.compile(split.constants, target=native_target)(arrays[1])
    (actual,) = graphc.compile(split.graph, target=native_target)(*arrays, *stored)
    (expected,) = graphc.compile(graph)(*arrays)
    assert actual.tobytes() == expected.tobytes()


def preferred(*types: str, position: int = 1, **geometry: Any) -> Stored | None:
    """The tiles in which a product, or with a geometry a convolution, likes an operand."""
    g = GraphBuilder("one")
    operands = [g.input(name, type) for name, type in zip("xw", types, strict=True)]
    node = g.finish(conv(*operands, **geometry) if geometry else matmul(*operands)).nodes[-1]
    return preferred_layouts(V3)(node, tuple(map(TensorType.parse, types)), position)


def test_products_say_how_they_like_their_operands() -> None:
    assert preferred("f32[32,128]", "f32[128,512]") == (3, 8, 1)
    assert preferred("f32[32,128]", "f32[128,512]", position=0) is None
    assert preferred("f32[1,128]", "f32[128,512]") == (7, 8, 1), "one row reads one stream"
    assert preferred("i64[32,8]", "i64[8,16]") is None
    assert preferred("f32[8,8]", "f32[8,32]") is None, "a small one is read where it lies"
    assert preferred("f64[32,128]", "f64[128,512]") == (3, 4, 1)


@pytest.mark.parametrize("turned", [False, True])
def test_a_row_has_what_lies_across_it_packed(turned: bool) -> None:
    """A matrix that lies along its columns is read in order where it lies."""
    g = GraphBuilder("row")
    x, w = g.input("x", "f32[1,128]"), g.input("w", "f32[512,128]" if turned else "f32[128,512]")
    graph = g.finish(x @ (transpose(w, permutation=(1, 0)) if turned else w))
    assert ("unpack" in ops(packed(graph, [1], preferred_layouts(V3)))) is turned


PADDED = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}


def test_convolutions_say_how_they_like_their_weights() -> None:
    small, large = "f32[1,64,4,4]", "f32[1,64,56,56]"
    assert preferred(small, "f32[96,64,3,3]", **PADDED) == (3, 8, 1)
    assert preferred(small, "f32[96,64,3,3]", position=0, **PADDED) is None
    assert preferred(large, "f32[96,64,3,3]", **PADDED) is None, "little falls on padding"
    assert preferred(small, "f32[96,64,3,3]", **{**PADDED, "padding": (0, 0)}) is None
    assert preferred(small, "f32[96,32,3,3]", **{**PADDED, "groups": 2}) is None
    assert preferred(small, "f32[4,64,1,1]", **{**PADDED, "padding": (0, 0)}) is None


@pytest.mark.sampled(6)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("outputs", "stride"), [(96, 1), (70, 2)])
def test_convolutions_with_packed_weights_keep_their_bits(
    threads: int, outputs: int, stride: int, native_target: Target
) -> None:
    g = GraphBuilder("layer")
    x, w = g.input("x", "f32[2,40,8,4]"), g.input("w", f"f32[{outputs},40,3,3]")
    result = conv(x, w, **{**PADDED, "stride": (stride, stride)})
    graph = g.finish(tanh(result))
    split = split_frozen(packed(graph, [1], preferred_layouts(native_target)), [1], 2)
    assert split is not None and "unpack" in ops(split.graph)
    random = np.random.default_rng(2)
    arrays = [random.standard_normal(t.shape).astype(np.float32) for t in graph.input_types]
    arrays[0][0, 3, 0, 0], arrays[0][1, 5, 4, 3] = np.inf, np.nan
    arrays[1][-1, 0, 0, 0] = np.nan
    stored = graphc.compile(split.constants, target=native_target, threads=threads)(arrays[1])
    (actual,) = graphc.compile(split.graph, target=native_target, threads=threads)(*arrays, *stored)
    (expected,) = graphc.compile(graph, "none", threads=1)(*arrays)
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("transposed", [False, True])
def test_a_packed_operand_is_not_copied_by_its_kernel(transposed: bool) -> None:
    """Deep and with many rows, so that an operand that is not packed has a panel in scratch."""
    g = GraphBuilder("product")
    x, w = g.input("x", "f32[128,512]"), g.input("w", "f32[512,512]")
    graph = g.finish(x @ (transpose(w, permutation=(1, 0)) if transposed else w))
    split = split_frozen(packed(graph, [1], preferred_layouts(V3)), [1], 2)
    assert split is not None
    results = []
    for each in (split.graph, graph):
        kernels = plan_kernels(plan_graph(each)[1], V3)
        product = next(kernel for kernel in kernels if "matmul" in kernel.name)
        results.append({buffer.name for buffer in product.scratch})
    assert "vectors" not in results[0]
    assert "vectors" in results[1]


def test_bad_geometry_is_refused() -> None:
    g = GraphBuilder("bad")
    x, tiles = g.input("x", "f32[5]"), g.input("t", "f32[2,3,2,4]")
    with pytest.raises(ShapeError, match="expected a matrix"):
        pack(x, vectors=2, lanes=4)
    with pytest.raises(ShapeError, match="holds no 17"):
        unpack(tiles, axis=COLUMNS, size=17)
    with pytest.raises(AttributeValueError, match="axis 2"):
        unpack(tiles, axis=2, size=1)
    with pytest.raises(AttributeValueError, match="lanes must be"):
        pack(tiles, lanes=0)
