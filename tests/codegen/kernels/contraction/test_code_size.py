"""How much code a kernel is does not grow with the extents of what it computes."""

import pytest

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.target import named
from graphc.ops import contract
from graphc.passes.pipelines import optimize
from graphc.schedule.build import make_plan
from graphc.schedule.plan import kernels
from tests.codegen.kernels.contraction.problems import convolution

LINES = 6000
"""Of a kernel's loops, at most: what takes LLVM some seconds."""


def volumes() -> graphc.Graph:
    g = graphc.GraphBuilder("volumes")
    x, w = g.input("x", "f32[20,16,10,50,100]"), g.input("w", "f32[33,16,3,5,2]")
    geometry = {"stride": (2, 1, 1), "padding": (4, 2, 0), "dilation": (1, 1, 1)}
    return g.finish(contract.conv(x, w, groups=1, **geometry))


LARGE = {
    "volumes": volumes(),
    "thin volumes": convolution("forward", (4, 16, 8, 96, 92), (32, 16, 3, 3, 3)),
    "volumes by w": convolution("by w", (4, 16, 8, 96, 92), (32, 16, 3, 3, 3)),
    "large windows by w": convolution("by w", (4, 64, 56, 56), (64, 64, 11, 11)),
    "low planes": convolution("forward", (8, 32, 8, 500), (64, 32, 3, 3)),
    "low planes by x": convolution("by x", (8, 32, 8, 500), (64, 32, 3, 3)),
    "images": convolution("forward", (8, 3, 224, 224), (64, 3, 7, 7), stride=2),
    "images by w": convolution("by w", (8, 3, 224, 224), (64, 3, 7, 7), stride=2),
}


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize("name", LARGE)
def test_large_convolutions_are_little_code(name: str, target: str) -> None:
    specs = list(kernels(make_plan(optimize(LARGE[name], "exact"))))
    assert specs
    for spec in specs:
        kernel = lower(spec, named(target))
        assert str(kernel).count("\n") < LINES, kernel.note
