"""Drawn programs of joins, pads, slices, splits and broadcasts: what each kernel reads of another
differs from element to element, so fusion has to see which domains fit each other.

A kernel that writes less than it should breaks rule P7 (plan) or R3 (loops), one that writes
something else differs from the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphc
from graphc.codegen.program.run_plan import run_plan_by_loops
from graphc.codegen.target import named
from graphc.ir.handle import broadcast_to
from graphc.ir.registry import lookup
from graphc.passes.pipelines import optimize
from graphc.schedule.build import make_plan
from graphc.schedule.plan_verifier import verify_plan
from graphc.schedule.run_plan import run_plan
from tests.fuzz.frame import Fuzzer

DIMS = (1, 1, 2, 3, 4)
Graphs = tuple[graphc.Graph, list[np.ndarray]]


class Drawer:
    """A program of small values, each step drawn from those made so far: `steps` of them, or a
    drawn number."""

    def __init__(self, seed: int, steps: int | None = None):
        self.steps = steps
        self.random = np.random.default_rng(seed)
        self.builder = graphc.GraphBuilder("drawn")
        self.axis = int(self.random.integers(2))
        self.other = int(self.random.choice(DIMS))
        shapes = [self.shape(int(along)) for along in self.random.choice(DIMS, 3)]
        self.values = [
            self.builder.input(f"x{i}", f"f32[{d},{e}]") for i, (d, e) in enumerate(shapes)
        ]
        self.arrays = [self.random.standard_normal(v.shape, np.float32) for v in self.values]

    def shape(self, along: int) -> tuple[int, int]:
        return (along, self.other) if self.axis == 0 else (self.other, along)

    def one(self, values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def concat(self) -> Any:
        parts = [self.one(self.values) for _ in range(int(self.random.integers(2, 4)))]
        return lookup("concat")(*parts, axis=self.axis)

    def same(self) -> Any:
        """Parts of one shape, which a kernel computes side by side."""
        x = self.one(self.values)
        parts = [self.one([v for v in self.values if v.shape == x.shape]) for _ in range(2)]
        return lookup("concat")(lookup(self.one(["exp", "tanh", "neg"]))(x), *parts, axis=self.axis)

    def pad(self) -> Any:
        x = self.one(self.values)
        fill = self.builder.constant(np.float32(0.5))
        low, high = (self.shape(int(self.random.integers(3))) for _ in range(2))
        mask = (self.axis == 0, self.axis == 1)
        low, high = (tuple(a * on for a, on in zip(pair, mask)) for pair in (low, high))
        return lookup("pad")(x, fill, low=low, high=high, interior=(0, 0))

    def slice(self) -> Any:
        return self.part(self.one(self.values))

    def part(self, x: Any) -> Any:
        dim = x.shape[self.axis]
        start = int(self.random.integers(dim))
        size = int(self.random.integers(1, dim - start + 1))
        starts, sizes = [0, 0], list(x.shape)
        starts[self.axis], sizes[self.axis] = start, size
        return lookup("slice")(x, start=tuple(starts), size=tuple(sizes), step=(1, 1))

    def unary(self) -> Any:
        return lookup(self.one(["exp", "tanh", "neg"]))(self.one(self.values))

    def binary(self) -> Any:
        x = self.one(self.values)
        return lookup(self.one(["add", "mul"]))(x, broadcast_to(self.fitting(x), x.shape))

    def fitting(self, x: Any) -> Any:
        """A value that broadcasts to x's shape."""
        fits = [v for v in self.values if v.shape[self.axis] in (1, x.shape[self.axis])]
        return self.one(fits) if fits else x

    def total(self) -> Any:
        """A sum along the axis of the joins, back beside it."""
        x = self.one(self.values)
        return lookup("reshape")(lookup("sum")(x, axes=(self.axis,)), shape=self.shape(1))

    def program(self) -> Graphs:
        draws = [self.concat, self.same, self.pad, self.slice, self.unary, self.binary, self.total]
        for _ in range(int(self.random.integers(2, 6)) if self.steps is None else self.steps):
            values = self.one(draws)()
            if values.shape[self.axis] <= 24:
                self.values.append(values)
        last = self.one([self.same, self.concat, self.pad])()
        self.values.append(lookup("add")(last, broadcast_to(self.fitting(last), last.shape)))
        # Parts of what was joined are read apart: each by a kernel of another size.
        outputs = [self.part(self.values[-1]) for _ in range(2)] + [self.one(self.values)]
        return self.builder.finish(*outputs), self.arrays


def hold(drawn: Graphs, same_bits: Callable[..., None], native: bool) -> None:
    graph, arrays = drawn
    expected = graphc.run(graph, *arrays)
    plan = verify_plan(make_plan(optimize(graph, "exact")))
    label = f"{graph}\n{plan}"
    same_bits(run_plan(plan, tuple(arrays)), expected, label)
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        loops = run_plan_by_loops(plan, tuple(arrays), named(name))
        for x, y in zip(loops, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-5, err_msg=label)
    if native:
        same_bits(graphc.compile(graph)(*arrays), loops, label)


Case = tuple[int, int]  # the seed of a program, how many steps it has


def draw(random: np.random.Generator, size: int) -> Case:
    return int(random.integers(1 << 30)), size


def check(case: Case) -> str:
    from tests.conftest import _same_bits

    hold(Drawer(*case).program(), _same_bits, native=case[0] % 20 == 0)
    return "agrees"


def program(case: Case) -> str:
    graph, _ = Drawer(*case).program()
    lines = "".join(f"# {line}\n" for line in str(graph).splitlines())
    return f"{lines}from tests.fuzz import joins\njoins.check({case!r})"


FUZZER = Fuzzer("joins", draw, check, program)
