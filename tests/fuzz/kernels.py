"""Drawn kernels of f32, and products of narrower operands (narrow.py), against float64 with the
bounds that docs/arithmetic.md and docs/precision.md state.

Each value is followed by its float64 counterpart and by how far off it may be: what its operands
may be off, carried through the op, and the op's own rounding (its units in the last place, the
depth of its sum). A result beyond that is a wrong number or a bound that does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc
from graphc.ir.handle import broadcast_to
from graphc.ir.registry import lookup
from tests.fuzz import narrow
from tests.fuzz.frame import Broken, Fuzzer

Array = np.ndarray[Any, Any]
UNIT = 2.0**-24  # the error of one rounding, relative
GREATEST = 1e15
DIMS = (1, 2, 3, 5, 8, 16, 17, 33, 64, 70, 130, 300)
LIMIT = 40_000  # elements
CHAIN, LANES, FAN = 256, 64, 16  # of contractions, rows and columns

RISING: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "atan": np.arctan,
    "asinh": np.arcsinh, "erf": np.vectorize(math.erf, otypes=[float]),
    "erfc": np.vectorize(math.erfc, otypes=[float]), "relu": lambda x: np.maximum(x, 0),
}  # fmt: skip
"""Monotone functions of any number."""
GENTLE: dict[str, Callable[[Array], Array]] = {
    "sin": np.sin, "cos": np.cos, "abs": np.abs, "neg": np.negative,
}  # fmt: skip
"""Functions that bring no two numbers further apart."""
BOUNDED = {"exp": np.exp, "expm1": np.expm1, "sinh": np.sinh, "exp2": np.exp2}
"""Rising ones, given numbers between -1 and 1."""
POSITIVE = {"log": np.log, "sqrt": np.sqrt, "log1p": np.log1p, "log2": np.log2}
"""Rising ones, given numbers above 1."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """A value of the graph, what it is in float64, and how far off it may be."""

    handle: Any
    exact: Array
    error: Array

    @property
    def most(self) -> Array:
        return np.asarray(np.abs(self.exact) + self.error)


def spacing(x: Array) -> Array:
    return np.asarray(np.spacing(np.abs(x).astype(np.float32)), np.float64)


def rounded(handle: Any, exact: Array, carried: Array, units: float) -> Tracked:
    """A result whose own rounding is some units in the last place."""
    return Tracked(handle, exact, carried + units * spacing(np.abs(exact) + carried))


def rising(name: str, function: Callable[[Array], Array], x: Tracked) -> Tracked:
    exact = function(x.exact)
    up, down = function(x.exact + x.error) - exact, exact - function(x.exact - x.error)
    carried = np.maximum(np.abs(up), np.abs(down))
    return rounded(lookup(name)(x.handle), exact, carried, max(lookup(name).ulps, 0.5))


def depth(outer: int, run: int) -> int:
    """Roundings of one element of a sum: lanes of the run, blocks of outer indices, the tree."""
    levels = math.ceil(math.log(max(outer, 2), FAN))
    return min(outer, FAN) * math.ceil(run / LANES) + FAN * levels + 6


class Drawer:
    """A program, each step drawn from the values made so far."""

    def __init__(self, seed: int, steps: int):
        self.random = np.random.default_rng(seed)
        self.builder = graphc.GraphBuilder("drawn")
        self.steps = steps
        self.dims = tuple(int(dim) for dim in self.random.choice(DIMS, 2))
        self.values: list[Tracked] = []
        self.arrays: list[Array] = []
        self.maker = narrow.Maker(self.random, self.builder, self.arrays)
        for i in range(3):
            rows, columns = (int(dim) for dim in self.random.choice(self.dims, 2))
            array = self.random.standard_normal((rows, columns)).astype(np.float32)
            self.arrays.append(array * np.float32(2.0 ** self.random.integers(-3, 4)))
            handle = self.builder.input(f"x{i}", f"f32[{rows},{columns}]")
            exact = self.arrays[-1].astype(np.float64)
            self.values.append(Tracked(handle, exact, np.zeros_like(exact)))

    def one(self, values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def fitting(self, x: Tracked) -> Tracked:
        """A value that broadcasts to x's shape."""
        fits = [
            v for v in self.values
            if all(a in (1, b) for a, b in zip(v.exact.shape, x.exact.shape))
        ]  # fmt: skip
        y = self.one(fits)
        shape = x.exact.shape
        exact, error = (np.broadcast_to(each, shape) for each in (y.exact, y.error))
        return Tracked(broadcast_to(y.handle, shape), exact, error)

    def draw_rising(self) -> Tracked:
        name = self.one(sorted(RISING))
        return rising(name, RISING[name], self.one(self.values))

    def draw_gentle(self) -> Tracked:
        name, x = self.one(sorted(GENTLE)), self.one(self.values)
        return rounded(lookup(name)(x.handle), GENTLE[name](x.exact), x.error, lookup(name).ulps)

    def draw_bounded(self) -> Tracked:
        name = self.one(sorted(BOUNDED))
        return rising(name, BOUNDED[name], rising("tanh", np.tanh, self.one(self.values)))

    def draw_positive(self) -> Tracked:
        name, x = self.one(sorted(POSITIVE)), self.one(self.values)
        shifted = lookup("abs")(x.handle) + 1.0
        return rising(name, POSITIVE[name], rounded(shifted, np.abs(x.exact) + 1, x.error, 0.5))

    def draw_sum_of_two(self) -> Tracked:
        x = self.one(self.values)
        y = self.fitting(x)
        return rounded(x.handle + y.handle, x.exact + y.exact, x.error + y.error, 0.5)

    def draw_product_of_two(self) -> Tracked:
        x = self.one(self.values)
        y = self.fitting(x)
        carried = np.abs(x.exact) * y.error + x.error * y.most
        return rounded(x.handle * y.handle, x.exact * y.exact, carried, 0.5)

    def draw_quotient(self) -> Tracked:
        x = self.one(self.values)
        y = self.fitting(x)
        below = rounded(lookup("abs")(y.handle) + 1.0, np.abs(y.exact) + 1, y.error, 0.5)
        carried = (x.error + x.most * below.error) / np.maximum(below.exact - below.error, 0.5)
        return rounded(x.handle / below.handle, x.exact / below.exact, carried, 0.5)

    def draw_extreme(self) -> Tracked:
        name, x = self.one(["maximum", "minimum"]), self.one(self.values)
        y = self.fitting(x)
        exact = getattr(np, name)(x.exact, y.exact)
        return Tracked(lookup(name)(x.handle, y.handle), exact, np.maximum(x.error, y.error))

    def draw_total(self) -> Tracked:
        x = self.one(self.values)
        axes = self.one([(0,), (1,), (0, 1)])
        shape = tuple(1 if i in axes else dim for i, dim in enumerate(x.exact.shape))
        rows, columns = x.exact.shape
        # Axes of size 1 do not count: what is behind the last axis that is kept is the run.
        kept = [i for i, dim in enumerate(x.exact.shape) if i not in axes and dim > 1]
        outer, run = (rows, 1) if kept == [1] else (1, rows * columns)
        own = depth(outer, run) * UNIT * x.most.sum(axes, keepdims=True)
        handle = lookup("reshape")(lookup("sum")(x.handle, axes=axes), shape=shape)
        carried = x.error.sum(axes, keepdims=True)
        return Tracked(handle, x.exact.sum(axes, keepdims=True), carried + own)

    def draw_best(self) -> Tracked:
        name, x, axis = self.one(["max", "min"]), self.one(self.values), self.one([0, 1])
        shape = tuple(1 if i == axis else dim for i, dim in enumerate(x.exact.shape))
        handle = lookup("reshape")(lookup(name)(x.handle, axes=(axis,)), shape=shape)
        exact = getattr(np, name)(x.exact, axis=axis, keepdims=True)
        return Tracked(handle, exact, x.error.max(axis=axis, keepdims=True))

    def draw_matrix_product(self) -> Tracked:
        x = self.one(self.values)
        k = x.exact.shape[1]
        y = self.one([v for v in self.values if k in v.exact.shape] or [self.draw_transpose(x)])
        y = y if y.exact.shape[0] == k else self.draw_transpose(y)
        roundings = min(k, CHAIN) + math.ceil(k / CHAIN)
        carried = np.abs(x.exact) @ y.error + x.error @ y.most
        error = carried + roundings * UNIT * (x.most @ y.most)
        return Tracked(x.handle @ y.handle, x.exact @ y.exact, error)

    def draw_product_of_halves(self) -> Tracked:
        return self.tracked(narrow.product_of_halves(self.maker, *self.sizes(), self.inner()))

    def draw_product_of_bytes(self) -> Tracked:
        return self.tracked(narrow.product_of_bytes(self.maker, *self.sizes(), self.inner()))

    def draw_product_of_blocks(self) -> Tracked:
        return self.tracked(narrow.product_of_blocks(self.maker, *self.sizes(), self.inner()))

    def draw_product_with_few_bits(self) -> Tracked:
        _, columns = self.sizes()
        x = self.widened(self.inner())
        return self.tracked(narrow.product_with_weight(self.maker, x, columns, gguf=False))

    def draw_product_with_blocks(self) -> Tracked:
        """Of GGUF's kinds."""
        _, columns = self.sizes()
        x = self.widened(int(self.one([32, 64, 96, 256, 512])))
        return self.tracked(narrow.product_with_weight(self.maker, x, columns, gguf=True))

    def draw_convolution_of_halves(self) -> Tracked:
        return self.tracked(narrow.convolution_of_halves(self.maker))

    def draw_convolution_of_bytes(self) -> Tracked:
        return self.tracked(narrow.convolution_of_bytes(self.maker))

    def draw_attention(self) -> Tracked:
        return self.tracked(narrow.attention(self.maker))

    def tracked(self, x: narrow.Product) -> Tracked:
        return Tracked(x.handle, x.exact, x.error)

    def sizes(self) -> tuple[int, int]:
        rows, columns = self.random.choice(self.dims, 2)
        return int(rows), int(columns)

    def inner(self) -> int:
        return int(self.one(DIMS))

    def widened(self, k: int) -> narrow.Product:
        """A value of k columns: those it has, and drawn ones behind them."""
        x = self.one(self.values)
        rows, columns = x.exact.shape
        columns = min(k, columns)
        size = {"start": (0, 0), "size": (rows, columns), "step": (1, 1)}
        handle, exact, error = (
            lookup("slice")(x.handle, **size), x.exact[:, :columns], x.error[:, :columns],
        )  # fmt: skip
        if k > columns:
            more = self.maker.floats(rows, k - columns)
            handle = lookup("concat")(handle, self.maker.input(more), axis=1)
            exact = np.concatenate([exact, more.astype(np.float64)], 1)
            error = np.concatenate([error, np.zeros(more.shape)], 1)
        return narrow.Product(handle, exact, error)

    def draw_transpose(self, x: Tracked | None = None) -> Tracked:
        x = x or self.one(self.values)
        return Tracked(lookup("transpose")(x.handle, permutation=(1, 0)), x.exact.T, x.error.T)

    def program(self) -> tuple[graphc.Graph, list[Array], list[Tracked]]:
        kinds = sorted(name for name in dir(self) if name.startswith("draw_"))
        for _ in range(self.steps):
            drawn = getattr(self, self.one(kinds))()
            if drawn.exact.size <= LIMIT and np.max(drawn.most, initial=0) < GREATEST:
                self.values.append(drawn)
        outputs = [self.values[-1], *(self.one(self.values) for _ in range(2))]
        return self.builder.finish(*(value.handle for value in outputs)), self.arrays, outputs


Case = tuple[int, int]  # the seed of a program, how many steps it has


def draw(random: np.random.Generator, size: int) -> Case:
    return int(random.integers(1 << 30)), size


def check(case: Case) -> str:
    with np.errstate(all="ignore"):
        graph, arrays, outputs = Drawer(*case).program()
    for result, value in zip(graphc.compile(graph)(*arrays), outputs):
        off = np.abs(result - value.exact)
        # What underflows is off by a denormal number; the float64 side has roundings of its own.
        allowed = value.error * (1 + 1e-6) + 1e-12 * np.abs(value.exact) + 1e-42
        if not (off <= allowed).all():
            worst = np.unravel_index(np.argmax(off / allowed), off.shape)
            raise Broken(
                f"{result[worst]} at {worst} is {off[worst]} off, of {allowed[worst]} allowed"
            )
    return "within bounds"


def program(case: Case) -> str:
    graph, _, _ = Drawer(*case).program()
    lines = "".join(f"# {line}\n" for line in str(graph).splitlines())
    return f"{lines}from tests.fuzz import kernels\nkernels.check({case!r})"


FUZZER = Fuzzer("kernels", draw, check, program)
