"""Kernels of which a program has two: one for any number of images, one for as many as fill
vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.kernels.size_class import SizeClass, size_class
from graphc.codegen.target import executable as executable_targets
from graphc.codegen.target import named
from graphc.ir.builder import GraphBuilder
from graphc.ir.dims import dim
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Graph
from graphc.ir.types import DType, TensorType
from graphc.runtime.sized_executable import SizedExecutable
from graphc.schedule.plan import Launch

WINDOW = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}


def planes(size: int = 6) -> Graph:
    """A convolution over small planes, and the gradient of its input."""
    builder = GraphBuilder("planes")
    x = builder.input("x", TensorType(DType.f32, (dim("n"), 8, size, size)))
    w = builder.input("w", TensorType(DType.f32, (16, 8, 3, 3)))
    y = ops.conv(x, w, **WINDOW)
    return builder.finish(y, ops.conv_input_grad(y, w, size=(size, size), **WINDOW))


def launched(executable: Any) -> list[Any]:
    return [step for step in executable.plan.steps if isinstance(step, Launch)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("target", "threads"), [("x86-64-v2", 1), ("x86-64-v3", 1), ("x86-64-v3", 3), ("x86-64-v4", 2)]
)
def test_the_bits_of_each_size_alone(target: str, threads: int) -> None:
    if named(target) not in executable_targets():
        pytest.skip(f"this processor runs no {target}")
    graph = planes()
    lanes = named(target).lanes(DType.f32)
    sized = graphc.compile(graph, threads=threads, target=target, example={"n": 40})
    assert isinstance(sized, SizedExecutable)
    classes = [size_class(step.kernel, named(target)) for step in launched(sized)]
    assert SizeClass("s0", lanes) in classes
    # The general kernel of each launch, and the others beside them.
    program = sized._programs[-1].program
    assert len(program.native.kernels) == len(classes) + len(classes) - classes.count(None)
    for n in (0, 1, lanes - 1, lanes, 40):
        known = at_sizes(graph, {"n": n})
        draw = np.random.default_rng(n)
        arrays = [draw.standard_normal(t.shape).astype(np.float32) for t in known.input_types]
        expected = graphc.compile(known, threads=1, target=target)(*arrays)
        for one, other in zip(sized(*arrays), expected, strict=True):
            assert one.tobytes() == other.tobytes(), n
    assert sized.programs == 1


def test_one_kernel_serves_where_planes_are_large_or_images_always_many() -> None:
    target = named("x86-64-v3")
    for graph in (planes(64), at_sizes(planes(), {"n": dim("n", 8)})):
        sized = graphc.compile(graph, target="x86-64-v3", example={"n": 40}, threads=1)
        assert [size_class(step.kernel, target) for step in launched(sized)] == [None, None]


def test_both_kernels_come_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphc.codegen.program import link

    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path))
    graph = planes()
    monkeypatch.setattr(link, "_native", {})
    first = graphc.compile(graph, threads=1, example={"n": 40})
    names = first._programs[-1].program.native.kernels
    monkeypatch.setattr(link, "_native", {})
    monkeypatch.setattr("graphc.codegen.program.compiled_spec.lower", None)
    again = graphc.compile(graph, "exact", threads=1, example={"n": 50})
    assert again._programs[-1].program.native.kernels == names
