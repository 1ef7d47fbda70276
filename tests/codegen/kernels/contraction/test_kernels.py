"""Contraction kernels: no access beside their buffers, the same bits in parts, clear errors, and
inner loops of FMAs from registers on every target.

Run as a script, this file runs its examples on buffers that end, then on buffers that start, at a
page that must not be touched: a kernel that does ends the process.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.target import named, running
from graphc.ops import composite, contract, elementwise, movement
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec, Launch
from graphc.schedule.run_plan import run_plan

TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
Array = np.ndarray[Any, Any]
Graph = graphc.Graph
Shape = tuple[int, ...]


def drawn(seed: int, shape: Shape) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def typed(shape: Shape) -> str:
    return "f32[" + ",".join(map(str, shape)) + "]"


def product(
    form: str, m: int, n: int, k: int, *, batch: Shape = (), activation: Any = None
) -> Graph:
    """A product; with an activation it has a bias before it and a residual behind."""
    g = graphc.GraphBuilder("product")
    left, right = (m, k) if form[0] == "N" else (k, m), (k, n) if form[1] == "N" else (n, k)
    x, y = g.input("x", typed((*batch, *left))), g.input("y", typed((*batch, *right)))
    rank = len(batch)
    swap = (*range(rank), rank + 1, rank)
    x = x if form[0] == "N" else movement.transpose(x, permutation=swap)
    y = y if form[1] == "N" else movement.transpose(y, permutation=swap)
    out = contract.matmul(x, y)
    if activation is not None:
        bias, residual = g.input("bias", typed((n,))), g.input("residual", typed((m, n)))
        out = activation(out + bias) + residual
    return g.finish(out)


def convolution(
    x: Shape, w: Shape, stride: int = 1, padding: int = 1, dilation: int = 1, groups: int = 1,
    which: tuple[int, ...] = (0, 1, 2), channels_last: bool = False,
) -> Graph:  # fmt: skip
    """A convolution, its gradient by x and by w: those of the three that `which` names.
    `channels_last`: the weight is stored with output channels side by side."""
    rank = len(x) - 2
    geometry: dict[str, Any] = {"stride": (stride,) * rank, "padding": (padding,) * rank,
                                "dilation": (dilation,) * rank, "groups": groups}  # fmt: skip
    counts = tuple(
        (size + 2 * padding - dilation * (tap - 1) - 1) // stride + 1
        for size, tap in zip(x[2:], w[2:])
    )
    g = graphc.GraphBuilder("convolution")
    vx, vw = g.input("x", typed(x)), g.input("w", typed((*w[1:], w[0]) if channels_last else w))
    vc = g.input("c", typed((x[0], w[0], *counts)))
    if channels_last:
        vw = movement.transpose(vw, permutation=(rank + 1, *range(rank + 1)))
    calls: tuple[Callable[[], Any], ...] = (
        lambda: contract.conv(vx, vw, **geometry),
        lambda: contract.conv_input_grad(vc, vw, size=x[2:], **geometry),
        lambda: contract.conv_weight_grad(vx, vc, kernel=w[2:], **geometry),
    )
    return g.finish(*(calls[number]() for number in which))


# Sizes below one tile, one more than whole tiles, several tiles and a part.
EXAMPLES: dict[str, Graph] = {
    "product NN 1x1x1": product("NN", 1, 1, 1),
    "product NN 5x7x3": product("NN", 5, 7, 3),
    "product NN 13x49x17": product("NN", 13, 49, 17),
    "product NT 33x65x31": product("NT", 33, 65, 31),
    "product TN 31x33x65": product("TN", 31, 33, 65),
    "product TT 7x19x21": product("TT", 7, 19, 21),
    "product NN 1x130x67": product("NN", 1, 130, 67),
    "product NT 1x37x129": product("NT", 1, 37, 129),
    "product NN 97x1x33": product("NN", 97, 1, 33),
    "product NN 70x100x600": product("NN", 70, 100, 600),
    "batched NT 3x(9,17,11)": product("NT", 9, 17, 11, batch=(3,)),
    "linear NN 19x35x23": product("NN", 19, 35, 23, activation=composite.gelu),
    "linear NT 19x35x23": product("NT", 19, 35, 23, activation=composite.gelu),
    "conv 3->5 7x9 3/1": convolution((2, 3, 7, 9), (5, 3, 3, 3)),
    "conv 17->33 6x5 3/2": convolution((1, 17, 6, 5), (33, 17, 3, 3), 2),
    "conv 9->18 5x7 1/2": convolution((2, 9, 5, 7), (18, 9, 1, 1), 2, 0),
    "conv 3->6 12x11 5/1": convolution((2, 3, 12, 11), (6, 3, 5, 5), 1, 0),
    "conv over one axis": convolution((2, 5, 33), (7, 5, 4), 3, 2),
    "conv over three axes": convolution((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), 1, 1),
    "depthwise 19 8x9": convolution((2, 19, 8, 9), (19, 1, 3, 3), groups=19),
    "conv 3->20 4x4, 16 images": convolution((16, 3, 4, 4), (20, 3, 3, 3)),
    "conv 40->13 3x5 3/2, 9 images": convolution((9, 40, 3, 5), (13, 40, 3, 3), 2),
    "conv 40->50 4x7, weight channels last": convolution(
        (1, 40, 4, 7), (50, 40, 3, 3), which=(0,), channels_last=True
    ),
    "grouped 6->10 7x7": convolution((1, 6, 7, 7), (10, 3, 3, 3), 1, 2, 2, 2),
}


def arrays_of(graph: Graph) -> list[Array]:
    return [drawn(i, type.shape) for i, type in enumerate(graph.input_types)]


def run(graph: Graph, call: Callable[[KernelSpec, list[Array]], None]) -> tuple[Array, ...]:
    """The graph with each kernel run by `call`, whose buffers are what it reads, then writes."""

    def run_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        for place in writes:
            place.fill(np.nan)
        call(kernel, [*reads, *writes])

    _, plan = plan_graph(graph)
    return run_plan(plan, tuple(arrays_of(graph)), run_kernel)


@functools.cache
def lowered(kernel: KernelSpec, target: str | None = None) -> Kernel:
    return lower(kernel, named(target) if target else running())


def plainly(kernel: KernelSpec, buffers: list[Array]) -> None:
    jit.call_kernel(lowered(kernel), buffers)


def bits(array: Array) -> Array:
    return array.view(np.uint32)


# -- memory beside the buffers --------------------------------------------------------------------


class Guarded:
    """Arrays between two pages that must not be touched, at one end or the other."""

    def __init__(self, side: str) -> None:
        self.side = side
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.blocks: list[mmap.mmap] = []

    def array(self, content: Array) -> Array:
        page = mmap.PAGESIZE
        size = -(-max(content.nbytes, 1) // page) * page
        block = mmap.mmap(-1, size + 2 * page)
        self.blocks.append(block)
        first = ctypes.addressof(ctypes.c_char.from_buffer(block))
        for guard in (first, first + page + size):
            assert self.libc.mprotect(ctypes.c_void_p(guard), page, 0) == 0
        start = page if self.side == "start" else page + size - content.nbytes
        result = np.frombuffer(block, content.dtype, content.size, start).reshape(content.shape)
        result[...] = content
        return result


def main() -> None:
    """Runs every example between guard pages. Prints each name ahead of it, so that the last one
    printed is the one that ended the process."""
    for name, graph in EXAMPLES.items():
        expected = run(graph, plainly)
        for side in ("end", "start"):
            print(side, name, sep=": ", flush=True)
            memory = Guarded(side)

            def guarded(kernel: KernelSpec, buffers: list[Array], memory: Guarded = memory) -> None:
                inside = [memory.array(buffer) for buffer in buffers]
                plainly(kernel, inside)
                for buffer, result in zip(buffers, inside):
                    buffer[...] = result

            for actual, wanted in zip(run(graph, guarded), expected, strict=True):
                if not np.array_equal(bits(actual), bits(wanted)):
                    raise SystemExit("other results between guard pages")
    os._exit(0)  # tearing down arrays over protected pages is none of the test's business


@pytest.mark.slow
def test_no_access_beside_the_buffers() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                   "GRAPHC_CACHE": "off"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=300
    )
    started = done.stdout.splitlines()
    assert done.returncode == 0, (
        f"ended by {done.returncode} (-11 or -7 is a touched page) in "
        f"{started[-1] if started else 'nothing'!r}\n{done.stderr[-2000:]}"
    )
    assert len(started) == 2 * len(EXAMPLES)


# -- parts ----------------------------------------------------------------------------------------


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", EXAMPLES)
def test_parts_of_a_kernel_give_the_bits_of_the_whole(name: str) -> None:
    def in_parts(count: int) -> Callable[[KernelSpec, list[Array]], None]:
        def call(kernel: KernelSpec, buffers: list[Array]) -> None:
            loops = lowered(kernel)
            edges = [loops.extent * part // count for part in range(count + 1)]
            for part in reversed(range(count)):
                jit.call_kernel(loops, buffers, edges[part], edges[part + 1])

        return call

    graph = EXAMPLES[name]
    whole = run(graph, in_parts(1))
    for count in (2, 3):
        for actual, expected in zip(run(graph, in_parts(count)), whole, strict=True):
            np.testing.assert_array_equal(bits(actual), bits(expected), err_msg=f"{count} parts")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "graph",
    [product("NN", 512, 512, 512), product("TN", 200, 600, 100),
     *(convolution((16, 64, 8, 8), (64, 64, 3, 3), which=(i,)) for i in range(3))],
    ids=["product", "TN", "conv", "conv_input_grad", "conv_weight_grad"],
)  # fmt: skip
@pytest.mark.parametrize("target", TARGETS)
def test_large_contractions_divide_evenly_among_two_threads(target: str, graph: Graph) -> None:
    """Two parts of the range differ by less than a tenth of the work."""
    _, plan = plan_graph(graph)
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    extents = [lower(step.kernel, named(target)).extent for step in launches]
    assert extents and all(extent % 2 == 0 or extent >= 10 for extent in extents), extents


# -- errors ---------------------------------------------------------------------------------------

IMPOSSIBLE: dict[str, tuple[Shape, Shape, dict[str, int], str]] = {
    "kernel larger than the padded input": (
        (1, 2, 4, 4), (3, 2, 7, 7), {"padding": 1}, "span 7 does not fit"
    ),
    "dilated kernel larger than the input": (
        (1, 2, 6, 6), (3, 2, 3, 3), {"padding": 0, "dilation": 3}, "span 7 does not fit"
    ),
    "groups that do not divide the channels": (
        (1, 5, 4, 4), (4, 2, 3, 3), {"groups": 2}, "2 groups do not divide 5"
    ),
    "groups that do not divide the outputs": (
        (1, 4, 4, 4), (5, 2, 3, 3), {"groups": 2}, "2 groups do not divide 4 and 5"
    ),
    "channels that differ": ((1, 4, 4, 4), (5, 3, 3, 3), {}, "expected 3 input channels, got 4"),
    "no groups": ((1, 4, 4, 4), (4, 4, 3, 3), {"groups": 0}, "0 groups"),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_geometry_is_an_error_where_it_is_traced(name: str) -> None:
    x, w, changed, message = IMPOSSIBLE[name]
    plain = {"stride": 1, "padding": 1, "dilation": 1, "groups": 1, **changed}
    geometry: dict[str, Any] = {
        key: value if key == "groups" else (value, value) for key, value in plain.items()
    }
    g = graphc.GraphBuilder("impossible")
    vx, vw = g.input("x", typed(x)), g.input("w", typed(w))
    with pytest.raises(graphc.ShapeError, match=re.escape(message)) as caught:
        contract.conv(vx, vw, **geometry)
    assert str(caught.value.location).startswith(Path(__file__).name)
    g.finish(vx)  # the builder is as it was: nothing half made


@pytest.mark.parametrize(("x", "y"), [((2, 3), (4, 5)), ((2, 2, 3), (3, 3, 5)), ((3,), (3, 2))])
def test_products_that_do_not_fit_are_errors_where_they_are_traced(x: Shape, y: Shape) -> None:
    g = graphc.GraphBuilder("impossible")
    vx, vy = g.input("x", typed(x)), g.input("y", typed(y))
    with pytest.raises(graphc.ShapeError, match="cannot be multiplied") as caught:
        contract.matmul(vx, vy)
    assert str(caught.value.location).startswith(Path(__file__).name)


def test_gradients_of_no_such_convolution_are_errors() -> None:
    g = graphc.GraphBuilder("impossible")
    x, c, w = (g.input(name, typed(shape)) for name, shape in
               (("x", (1, 2, 5, 5)), ("c", (1, 3, 4, 5)), ("w", (3, 2, 3, 3))))  # fmt: skip
    ones: dict[str, Any] = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    with pytest.raises(graphc.ShapeError, match="is no result for"):
        contract.conv_input_grad(c, w, size=(5, 5), **ones)
    with pytest.raises(graphc.ShapeError, match="is no result for"):
        contract.conv_weight_grad(x, c, kernel=(3, 3), **ones)


# -- code -----------------------------------------------------------------------------------------

FMA = {"x86-64-v3": r"\tvfn?madd\w+ps\t.*%ymm", "x86-64-v4": r"\tvfn?madd\w+ps\t.*%zmm",
       "aarch64": r"\tfmla\tv\d+\.4s"}  # fmt: skip
STACK = {"x86-64-v3": r"\(%rsp", "x86-64-v4": r"\(%rsp", "aarch64": r"\[sp\b"}
LANE_FMA = r"\tfmla\tv\d+\.4s, v\d+\.4s, v\d+\.s\[\d\]"


def hottest_block(listing: str, fma: str) -> str:
    """The basic block with the most FMAs, which is the inner loop's body. A block starts at a label
    and ends behind a branch."""
    blocks: list[list[str]] = [[]]
    for line in listing.split("\n"):
        if re.match(r"[.\w]+:", line):
            blocks.append([])
        blocks[-1].append(line)
        if re.match(r"\t(j\w+|b|b\.\w+|cbn?z|tbn?z|ret\w?)(\t|$)", line):
            blocks.append([])
    return max(("\n".join(block) for block in blocks), key=lambda text: len(re.findall(fma, text)))


HOT = {
    "product": product("NN", 96, 192, 256),
    "product NT": product("NT", 96, 192, 256),
    "product TN": product("TN", 96, 192, 256),
    "linear": product("NN", 96, 192, 256, activation=elementwise.relu),
    "conv": convolution((4, 64, 16, 16), (64, 64, 3, 3), which=(0,)),
    "conv, taps listed": convolution((16, 64, 4, 4), (64, 64, 3, 3), which=(0,)),
    "conv_weight_grad, taps listed": convolution((16, 64, 4, 4), (64, 64, 3, 3), which=(2,)),
    "conv, directly": convolution((1, 64, 8, 8), (96, 64, 3, 3), which=(0,), channels_last=True),
    "conv_input_grad": convolution((4, 64, 16, 16), (64, 64, 3, 3), which=(1,)),
    "conv_weight_grad": convolution((4, 64, 16, 16), (64, 64, 3, 3), which=(2,)),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", FMA)
@pytest.mark.parametrize("name", HOT)
def test_inner_loops_are_fmas_without_spills(name: str, target: str) -> None:
    _, plan = plan_graph(HOT[name])
    specs = [step.kernel for step in plan.steps if isinstance(step, Launch)]
    listings = [jit.assembly(lowered(spec, target), named(target)) for spec in specs]
    blocks = [hottest_block(listing, FMA[target]) for listing in listings]
    block = max(blocks, key=lambda text: len(re.findall(FMA[target], text)))
    count = len(re.findall(FMA[target], block))
    assert count >= 8, f"{count} vector FMAs in the hottest block\n{block}"
    spills = [line for line in block.split("\n") if re.search(STACK[target], line)]
    assert not spills, f"{len(spills)} spills in the inner loop\n{block}"
    if target == "aarch64":
        lanes = len(re.findall(LANE_FMA, block))
        assert lanes >= 0.8 * count, f"{lanes} of {count} FMAs take a lane\n{block}"


def test_the_hottest_block_is_found() -> None:
    listing = "f:\n\tvfmadd231ps\t%ymm0\n.LBB0_1:\n\tvfmadd213ps\t(%rsp), %ymm1\n" \
              "\tvfmadd231ps\t%ymm2\n\tjne\t.LBB0_1\n.LBB0_2:\n\tretq\n"  # fmt: skip
    block = hottest_block(listing, FMA["x86-64-v3"])
    assert block.count("vfmadd") == 2 and "%ymm0" not in block and "retq" not in block
    assert re.search(STACK["x86-64-v3"], block)


if __name__ == "__main__":
    main()
