"""Kernels lowered for AArch64 give the bits of this machine's, under user emulation.

Skipped but where Debian's qemu-user, binutils-aarch64-linux-gnu and libc6-arm64-cross are installed
(or others that have the same programs in the path). Kernels and the arrays they read and write are
taken down while this machine runs plans; a program of all of them is linked and run once.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm import jit
from graphc.codegen.llvm.kernel import scratch_layout
from graphc.codegen.llvm.native import compile_text, pieces
from graphc.codegen.target import named, running
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.op import SampleDrawer
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec
from graphc.schedule.run_plan import interpret_kernel, run_plan

LINKER, EMULATOR = "aarch64-linux-gnu-ld", "qemu-aarch64"
LIBRARIES = Path("/usr/aarch64-linux-gnu")
TARGET = named("aarch64")
Array = np.ndarray[Any, Any]
Call = tuple[KernelSpec, list[Array], list[Array]]
"""A kernel, its buffers before it ran, and those it wrote to afterwards."""

pytestmark = pytest.mark.skipif(
    not (shutil.which(LINKER) and shutil.which(EMULATOR) and LIBRARIES.exists()),
    reason="needs an emulator, a linker and a C library for AArch64",
)


def calls_of(graph: graphc.Graph, arrays: tuple[Array, ...]) -> list[Call]:
    """What each kernel of the graph does on this machine."""
    calls: list[Call] = []

    def call(spec: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        if not spec.has_loops:
            interpret_kernel(spec, reads, writes)
            return
        buffers = [*reads, *writes]
        before = [buffer.copy() for buffer in buffers]
        jit.call_kernel(lower(spec, running()), buffers)
        calls.append((spec, before, [buffer.copy() for buffer in writes]))

    run_plan(plan_graph(graph)[1], arrays, call)
    return calls


def program(calls: list[Call]) -> tuple[str, dict[str, bytes]]:
    """A program that reads the buffers of all calls, makes these, and writes the buffers; and the
    objects of its kernels."""
    lines = [
        f'target triple = "{TARGET.triple}"',
        "@stdin = external global ptr",
        "@stdout = external global ptr",
        "declare i64 @fread(ptr, i64, i64, ptr)",
        "declare i64 @fwrite(ptr, i64, i64, ptr)",
        "declare i32 @fflush(ptr)",
        "declare void @exit(i32)",
    ]
    body = ["%in = load ptr, ptr @stdin", "%out = load ptr, ptr @stdout"]
    objects: dict[str, bytes] = {}
    for number, (spec, before, _) in enumerate(calls):
        kernel = lower(spec, TARGET)
        compiled = jit.compile_kernel(kernel, TARGET)
        if compiled.symbol not in objects:
            lines.append(f"declare void @{compiled.symbol}(ptr, ptr, i64, i64, ptr)")
        objects[compiled.symbol] = compiled.object
        names = [f"@b{number}_{i}" for i in range(len(before))]
        for name, array in zip(names, before):
            size = max(array.nbytes, 1)
            lines.append(f"{name} = global [{size} x i8] zeroinitializer, align 64")
            body.append(f"call i64 @fread(ptr {name}, i64 1, i64 {array.nbytes}, ptr %in)")
        lines.append(
            f"@t{number} = global [{len(names)} x ptr] [{', '.join(f'ptr {n}' for n in names)}]"
        )
        scratch = scratch_layout(kernel)[1] + 64
        lines.append(f"@s{number} = global [{scratch} x i8] zeroinitializer, align 64")
        body.append(
            f"call void @{compiled.symbol}(ptr @t{number}, ptr null, i64 0, i64 {kernel.extent}, "
            f"ptr @s{number})"
        )
        body += [
            f"call i64 @fwrite(ptr {name}, i64 1, i64 {array.nbytes}, ptr %out)"
            for name, array in zip(names, before)
        ]
    body += ["call i32 @fflush(ptr %out)", "call void @exit(i32 0)", "unreachable"]
    return "\n".join([*lines, "define void @_start() {", *body, "}"]), objects


def emulated(calls: list[Call], folder: Path) -> Iterator[list[Array]]:
    """What each call wrote."""
    text, objects = program(calls)
    files = []
    for symbol, code in {**objects, "main": compile_text(text, TARGET)}.items():
        for number, piece in enumerate(pieces(code)):
            files.append(folder / f"{symbol}_{number}.o")
            files[-1].write_bytes(piece)
    libraries = [LIBRARIES / "lib" / name for name in ("libc.so.6", "libm.so.6")]
    loader = "/lib/ld-linux-aarch64.so.1"
    subprocess.run(
        [LINKER, "-dynamic-linker", loader, "-o", folder / "main", *files, *libraries], check=True
    )
    inputs = b"".join(array.tobytes() for _, before, _ in calls for array in before)
    done = subprocess.run(
        [EMULATOR, "-L", LIBRARIES, folder / "main"], input=inputs, capture_output=True, check=True
    )
    place = 0
    for _, before, written in calls:
        result: list[Array] = []
        for array in before:
            raw = done.stdout[place : place + array.nbytes]
            result.append(np.frombuffer(raw, array.dtype).reshape(array.shape))
            place += array.nbytes
        yield result[-len(written) :]
    assert place == len(done.stdout)


def of_ops() -> Iterator[tuple[str, graphc.Graph, tuple[Array, ...]]]:
    """Two samples of every op, the first with floats of f64 too."""
    for op in graphc.ops.table():
        samples = list(op.samples(SampleDrawer())) if op.samples else []
        for number, sample in enumerate(samples[:2]):
            region = op.kind == "region"  # whose graphs have the dtype of the sample
            for dtype in (DType.f64,) if region else (DType.f32, DType.f64)[: 2 - number]:
                arrays = tuple(
                    x.astype(dtype.numpy) if x.dtype.kind == "f" and not region else x
                    for x in sample.operands
                )
                if dtype is DType.f64 and all(x.dtype.kind != "f" for x in arrays):
                    continue
                b = graphc.GraphBuilder(op.name)
                inputs = tuple(b.input(f"x{i}", TensorType.of(x)) for i, x in enumerate(arrays))
                graph = b.finish(*b.apply(op, inputs, dict(sample.attributes)))
                yield f"{op.name} of {dtype}", graph, arrays


@pytest.mark.slow
def test_ops(tmp_path: Path, same_bits: Any) -> None:
    labels, calls = [], []
    for label, graph, arrays in of_ops():
        recorded = calls_of(graph, arrays)
        labels += [label] * len(recorded)
        calls += recorded
    assert len(calls) > 300
    for label, (spec, _, wanted), actual in zip(labels, calls, emulated(calls, tmp_path)):
        same_bits(actual, wanted, f"{label}\n{spec.body}")


def test_products_and_convolutions(tmp_path: Path, same_bits: Any) -> None:
    """Larger than the samples: tiles, blocks and what is left over."""
    calls = []
    random = np.random.default_rng(0)
    for rows, depth, columns in ((70, 300, 90), (5, 40, 33), (1, 200, 64)):
        b = graphc.GraphBuilder("product")
        x, y = b.input("x", f"f32[{rows},{depth}]"), b.input("y", f"f32[{depth},{columns}]")
        graph = b.finish(graphc.ops.tanh(x @ y))
        calls += calls_of(
            graph, tuple(random.standard_normal(t.shape, np.float32) for t in graph.input_types)
        )
    for channels, size, kernel in ((3, 17, 3), (16, 9, 5), (20, 12, 1)):
        b = graphc.GraphBuilder("convolution")
        x = b.input("x", f"f32[2,{channels},{size},{size}]")
        w = b.input("w", f"f32[24,{channels},{kernel},{kernel}]")
        plain = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
        graph = b.finish(graphc.ops.relu(graphc.ops.contract.conv(x, w, **plain)))
        calls += calls_of(
            graph, tuple(random.standard_normal(t.shape, np.float32) for t in graph.input_types)
        )
    for (spec, _, wanted), actual in zip(calls, emulated(calls, tmp_path)):
        same_bits(actual, wanted, str(spec.body))
