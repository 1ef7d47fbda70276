"""Random graphs over the op table. For each: it verifies, its text parses back to it, every pass
keeps what the reference computes, and all levels agree: plan = reference, loops = native bit for
bit, native = reference, without passes = with passes bit for bit."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphc
from graphc import DType, ops
from graphc.codegen.run_plan_loops import run_plan_by_loops
from graphc.ir.handle import broadcast_to
from graphc.passes.pipelines import LEVELS, optimize
from graphc.schedule.build import make_plan
from graphc.schedule.plan import run_plan, verify_plan

f32, f64, i64, boolean = DType.f32, DType.f64, DType.i64, DType.bool

# Smooth and well-conditioned near the values drawn, so that results can be compared.
UNARY = ["neg", "tanh", "sigmoid", "erf", "abs", "relu", "sin", "sign"]
BINARY = ["add", "sub", "mul", "minimum", "maximum"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
DIMS = st.sampled_from([0, 1, 1, 2, 3, 3, 4, 5, 7, 8, 9, 17])


class Nothing(Exception):
    """No value made so far fits."""


class Drawer:
    """Draws nodes into a builder from the values made so far."""

    def __init__(self, draw: Any, builder: graphc.GraphBuilder, values: list[Any]):
        self.draw = draw
        self.builder = builder
        self.values = values

    def pick(self, wanted: Any = lambda v: True) -> Any:
        found = [v for v in self.values if wanted(v)]
        if not found:
            raise Nothing
        return self.draw(st.sampled_from(found))

    def floats(self, wanted: Any = lambda v: True) -> Any:
        return self.pick(lambda v: v.dtype.is_float and wanted(v))

    def partner(self, x: Any) -> Any:
        """A value of x's dtype that broadcasts with it."""

        def fits(v: Any) -> bool:
            if v.dtype is not x.dtype:
                return False
            tail = zip(reversed(v.shape), reversed(x.shape), strict=False)
            return len(v.shape) <= len(x.shape) and all(a in (1, b) for a, b in tail)

        return broadcast_to(self.pick(fits), x.shape)

    def node(self) -> None:
        kind = self.draw(st.sampled_from(sorted(n for n in dir(self) if n.startswith("draw_"))))
        try:
            self.values.append(getattr(self, kind)())
        except Nothing:
            return

    # -- elementwise -------------------------------------------------------------------------

    def draw_unary(self) -> Any:
        x = self.floats()
        return ops_named(self.draw(st.sampled_from(UNARY)))(x)

    def draw_binary(self) -> Any:
        x = self.pick(lambda v: v.dtype is not boolean)
        return ops_named(self.draw(st.sampled_from(BINARY)))(x, self.partner(x))

    def draw_comparison(self) -> Any:
        x = self.pick(lambda v: v.dtype is not boolean)
        return ops_named(self.draw(st.sampled_from(COMPARISONS)))(x, self.partner(x))

    def draw_where(self) -> Any:
        p = self.pick(lambda v: v.dtype is boolean)
        x = self.pick(lambda v: v.shape == p.shape)
        return ops_named("where")(p, x, self.partner(x))

    def draw_cast(self) -> Any:
        x = self.pick()
        return ops_named("cast")(x, dtype=self.draw(st.sampled_from([f32, f64, i64])))

    def draw_scalar(self) -> Any:
        x = self.floats()
        number = self.draw(st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 2.0]))
        return self.draw(st.sampled_from([x * number, x + number, number - x, x / 2.0]))

    # -- movement ----------------------------------------------------------------------------

    def draw_transpose(self) -> Any:
        x = self.pick()
        order = self.draw(st.permutations(range(len(x.shape))))
        return ops_named("transpose")(x, permutation=tuple(order))

    def draw_reshape(self) -> Any:
        x = self.pick()
        size = int(np.prod(x.shape))
        shapes = [(size,), (1, size), (size, 1), (*x.shape, 1), (1, *x.shape)]
        shapes += [(d, size // d) for d in (2, 3, 4) if size % d == 0 and size]
        return ops_named("reshape")(x, shape=self.draw(st.sampled_from(shapes)))

    def draw_broadcast(self) -> Any:
        x = self.pick(lambda v: np.prod(v.shape) <= 64)
        lead = self.draw(st.lists(st.integers(0, 3), max_size=1))
        wide = tuple(self.draw(st.integers(1, 9)) if d == 1 else d for d in x.shape)
        return broadcast_to(x, (*lead, *wide))

    def draw_slice(self) -> Any:
        x = self.pick()
        start, size, step = [], [], []
        for dim in x.shape:
            count = self.draw(st.integers(0, dim))
            stride = self.draw(st.sampled_from([1, 1, 2, -1]))
            while count and (count - 1) * abs(stride) >= dim:
                count -= 1
            room = dim - (max(count - 1, 0)) * abs(stride)
            first = self.draw(st.integers(0, max(room - 1, 0)))
            start.append(first if stride > 0 else dim - 1 - first if dim else 0)
            size.append(count)
            step.append(stride)
        return ops_named("slice")(x, start=tuple(start), size=tuple(size), step=tuple(step))

    def draw_pad(self) -> Any:
        x = self.floats(lambda v: np.prod(v.shape) <= 200)
        fill = self.pick(lambda v: v.dtype is x.dtype and v.shape == ())
        if len(x.shape) > 3:
            raise Nothing
        amounts = st.integers(0, 2)
        low, high, interior = (tuple(self.draw(amounts) for _ in x.shape) for _ in range(3))
        return ops_named("pad")(x, fill, low=low, high=high, interior=interior)

    def draw_concat(self) -> Any:
        x = self.pick(lambda v: len(v.shape) > 0)
        axis = self.draw(st.integers(0, len(x.shape) - 1))

        def fits(v: Any) -> bool:
            if v.dtype is not x.dtype or len(v.shape) != len(x.shape):
                return False
            return all(a == axis or v.shape[a] == x.shape[a] for a in range(len(x.shape)))

        return ops_named("concat")(x, self.pick(fits), axis=axis)

    # -- the rest ----------------------------------------------------------------------------

    def draw_reduce(self) -> Any:
        x = self.pick(lambda v: v.dtype is not boolean)
        axes = tuple(a for a in range(len(x.shape)) if self.draw(st.booleans()))
        name = self.draw(st.sampled_from(["sum", "max", "min"]))
        if name != "sum" and any(x.shape[a] == 0 for a in axes):
            raise Nothing
        return ops_named(name)(x, axes=axes)

    def draw_argmax(self) -> Any:
        x = self.floats(lambda v: v.shape and v.shape[-1])
        return ops_named("argmax")(x, axes=(len(x.shape) - 1,))

    def draw_matmul(self) -> Any:
        x = self.floats(lambda v: len(v.shape) == 2)
        y = self.pick(lambda v: v.dtype is x.dtype and len(v.shape) == 2
                            and x.shape[1] in v.shape)  # fmt: skip
        if y.shape[0] != x.shape[1]:
            y = ops_named("transpose")(y, permutation=(1, 0))
        return ops_named("matmul")(x, y)

    def draw_take(self) -> Any:
        x = self.pick(lambda v: v.shape and v.shape[0])
        index = self.pick(lambda v: v.dtype is i64 and np.prod(v.shape) <= 32)
        bound = self.builder.constant(np.int64(x.shape[0]))
        safe = ops_named("mod")(index, broadcast_to(bound, index.shape))
        return ops_named("take")(x, safe, axis=0)

    def draw_softmax(self) -> Any:
        x = self.floats(lambda v: v.shape and v.shape[-1])
        name = self.draw(st.sampled_from(["softmax", "log_softmax"]))
        return ops_named(name)(x, axis=len(x.shape) - 1)

    def draw_mean(self) -> Any:
        x = self.floats(lambda v: v.shape and v.shape[0])
        return ops_named("mean")(x, axes=(0,))


def ops_named(name: str) -> Any:
    from graphc.ir.registry import lookup

    return lookup(name)


@st.composite
def graphs(draw: Any) -> tuple[graphc.Graph, list[np.ndarray]]:
    """A random graph and arrays for its inputs; some outputs update an input in place."""
    builder = graphc.GraphBuilder("random")
    shapes = draw(st.lists(st.lists(DIMS, max_size=3), min_size=1, max_size=3))
    dtypes = [draw(st.sampled_from([f32, f32, f64, i64, boolean])) for _ in shapes]
    inputs = [
        builder.input(f"x{i}", graphc.TensorType(dtype, tuple(shape)))
        for i, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=True))
    ]
    drawer = Drawer(draw, builder, list(inputs))
    for _ in range(draw(st.integers(1, 10))):
        drawer.node()
    made = drawer.values[len(inputs) :] or inputs
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=4))
    aliases, taken = [], set()
    for position, output in enumerate(outputs):
        for slot, given_input in enumerate(inputs):
            if output.type == given_input.type and slot not in taken and draw(st.booleans()):
                aliases.append((position, slot))
                taken.add(slot)
                break
    graph = builder.finish(*outputs, aliases=aliases)
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    return graph, [_array(random, input.type) for input in inputs]


def _array(random: np.random.Generator, type: graphc.TensorType) -> np.ndarray:
    if type.dtype is boolean:
        return random.integers(0, 2, type.shape).astype(bool)
    if type.dtype is i64:
        return random.integers(-9, 10, type.shape)
    return np.asarray(random.standard_normal(type.shape), type.dtype.numpy)


def same_bits(found: Any, expected: Any, label: str) -> None:
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y, err_msg=label)


def close(found: Any, expected: Any, label: str) -> None:
    """Within rounding of the magnitudes: no op drawn is ill-conditioned by more than that, but
    comparisons, signs and the like may flip where their operands nearly tie."""
    for x, y in zip(found, expected, strict=True):
        if x.dtype.kind != "f":
            assert np.sum(x != y) <= max(0.25 * x.size, 8), label
            continue
        scale = max(float(np.max(np.abs(y[np.isfinite(y)]), initial=0.0)), 1.0)
        tolerance = 2e-4 if x.dtype == np.float32 else 1e-9
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * scale, err_msg=label)


# GRAPHC_EXAMPLES=5000 searches further, from a new seed each time.
EXAMPLES = int(os.environ.get("GRAPHC_EXAMPLES", "80"))
SETTINGS = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large,
                           HealthCheck.filter_too_much],
)  # fmt: skip


@SETTINGS
@given(graphs())
def test_text_and_passes(drawn: tuple[graphc.Graph, list[np.ndarray]]) -> None:
    graph, arrays = drawn
    graphc.verify(graph)
    assert graphc.parse(str(graph)) == graph
    expected = graphc.run(graph, *arrays)
    for level, passes in LEVELS.items():
        step = graph
        for one in passes:
            step = graphc.verify(one(step))
            same_bits(graphc.run(step, *arrays), expected, f"{level}: {one}\n{graph}\n{step}")
        assert graphc.parse(str(step)) == step


@SETTINGS
@given(graphs())
def test_all_levels_agree(drawn: tuple[graphc.Graph, list[np.ndarray]]) -> None:
    graph, arrays = drawn
    expected = graphc.run(graph, *arrays)
    results = {}
    for level in ("none", "exact"):
        plan = verify_plan(make_plan(optimize(graph, level), fusion=level == "exact"))
        label = f"{level}\n{graph}\n{plan}"
        same_bits(run_plan(plan, tuple(arrays)), expected, f"plan {label}")
        loops = run_plan_by_loops(plan, tuple(arrays))
        given_arrays = [array.copy() for array in arrays]
        native = graphc.compile(graph, level)(*given_arrays)
        same_bits(loops, native, f"loops, native {label}")
        close(native, expected, f"native {label}")
        for position, slot in graph.aliases:
            assert native[position] is given_arrays[slot]
        results[level] = [array.copy() for array in native]
    same_bits(results["none"], results["exact"], f"none, exact\n{graph}")


@pytest.mark.parametrize("level", ["none", "exact"])
def test_two_runs_give_equal_results(level: str) -> None:
    builder = graphc.GraphBuilder("twice")
    x = builder.input("x", "f32[33,17]")
    executable = graphc.compile(builder.finish(ops.composite.softmax(x, axis=1)), level)
    array = _array(np.random.default_rng(0), x.type)
    same_bits(executable(array), executable(array), level)
