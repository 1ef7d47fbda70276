"""Random graphs over the op table. For each: it verifies, its text parses back to it, every pass
keeps what the reference computes, and all levels agree: plan = reference, loops = native bit for
bit, without passes = with passes = each op alone bit for bit, native = reference within rounding.

Rounding is compared where it means something: in graphs without jumps (comparisons, rounding,
casts to integers, positions of maxima) and without infinities and NaN on the way (0·inf is not
0.0001·inf), relative to the greatest magnitude on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import graphc
from frontend.engine.eager.kernels.native_ops import native_op
from graphc import DType, ops
from graphc.autodiff.joint import Joint, derive_joint
from graphc.autodiff.partition import partition
from graphc.codegen.program.run_plan import run_plan_by_loops
from graphc.ir.handle import broadcast_to
from graphc.ir.nodes import CONSTANT, INPUT, Value
from graphc.ir.registry import lookup, parameters
from graphc.ir.types import COMPILED
from graphc.ops.mersenne_twister import seeded
from graphc.passes.merge_products import merge_products
from graphc.passes.pipelines import LEVELS, Facts, optimize
from graphc.records import replace
from graphc.schedule.build import make_plan
from graphc.schedule.plan_verifier import verify_plan
from graphc.schedule.run_plan import run_plan

f32, f64, i32, i64, boolean = DType.f32, DType.f64, DType.i32, DType.i64, DType.bool

STORAGE = [dtype for dtype in COMPILED if dtype.is_storage]

SMOOTH = ["neg", "tanh", "sigmoid", "erf", "abs", "relu", "sin", "cos", "gelu"]
BINARY = ["add", "sub", "mul", "minimum", "maximum"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
LOGICAL = ["logical_and", "logical_or", "logical_xor"]
# A small change of an operand may change their result by a lot.
JUMPS = {
    *COMPARISONS, "sign", "floor", "ceil", "round", "mod", "floordiv", "argmax", "argmin",
    "argsort", "argtopk", "argcummax", "argcummin", "argmedian", "searchsorted",
}  # fmt: skip
DIMS = st.sampled_from([0, 1, 1, 2, 3, 3, 4, 5, 7, 8, 9, 17, 70])
LIMIT = 3000  # elements of one value: the loops are interpreted


class Nothing(Exception):
    """No value made so far fits."""


class Drawer:
    """Draws nodes into a builder from the values made so far."""

    def __init__(self, draw: Any, builder: graphc.GraphBuilder, values: list[Any]):
        self.draw = draw
        self.builder = builder
        self.values = values

    def pick(self, wanted: Any = lambda v: True) -> Any:
        candidates = [v for v in self.values if wanted(v)]
        if not candidates:
            raise Nothing
        return self.draw(st.sampled_from(candidates))

    def computed(self, wanted: Any = lambda v: True) -> Any:
        """A value of a type ops compute with."""
        return self.pick(lambda v: not v.dtype.is_storage and wanted(v))

    def floats(self, wanted: Any = lambda v: True) -> Any:
        return self.computed(lambda v: v.dtype.is_float and wanted(v))

    def numbers(self, wanted: Any = lambda v: True) -> Any:
        return self.computed(lambda v: v.dtype is not boolean and wanted(v))

    def partner(self, x: Any) -> Any:
        """A value of x's dtype that broadcasts with it."""

        def fits(v: Any) -> bool:
            if v.dtype is not x.dtype:
                return False
            tail = zip(reversed(v.shape), reversed(x.shape), strict=False)
            return len(v.shape) <= len(x.shape) and all(a in (1, b) for a, b in tail)

        return broadcast_to(self.pick(fits), x.shape)

    def index(self, bound: int, wanted: Any = lambda v: True) -> Any:
        """A drawn integer value, brought into [0, bound)."""
        index = self.computed(lambda v: v.dtype.is_integer and np.prod(v.shape) <= 64 and wanted(v))
        limit = self.builder.constant(np.asarray(bound, index.dtype.numpy))
        return lookup("mod")(index, broadcast_to(limit, index.shape))

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def node(self) -> None:
        for _ in range(6):
            try:
                value = getattr(self, self.one(*KINDS))()
            except Nothing:
                continue
            if np.prod(value.shape) <= LIMIT and len(value.shape) <= 5:
                self.values.append(value)
            return

    # -- elementwise -------------------------------------------------------------------------

    def draw_unary(self) -> Any:
        return lookup(self.one(*SMOOTH))(self.floats())

    def draw_tamed(self) -> Any:
        """Functions with a pole or overflow, of operands that keep away from it."""
        e, x = ops.elementwise, self.floats()
        return self.one(
            lambda: e.exp(-e.abs(x)), lambda: e.log(e.abs(x) + 1), lambda: e.sqrt(e.abs(x) + 1),
            lambda: e.rsqrt(x * x + 1), lambda: x / (e.abs(self.partner(x)) + 1),
            lambda: e.pow(e.abs(x) + 1, e.tanh(self.partner(x))),
        )()  # fmt: skip

    def draw_jump(self) -> Any:
        return lookup(self.one("sign", "floor", "ceil", "round"))(self.floats())

    def draw_binary(self) -> Any:
        x = self.numbers()
        return lookup(self.one(*BINARY))(x, self.partner(x))

    def draw_clamp(self) -> Any:
        x = self.numbers()
        return lookup("clamp")(x, self.partner(x), self.partner(x))

    def draw_comparison(self) -> Any:
        x = self.numbers()
        return lookup(self.one(*COMPARISONS))(x, self.partner(x))

    def draw_logical(self) -> Any:
        p = self.pick(lambda v: v.dtype is boolean)
        return self.one(
            lambda: lookup(self.one(*LOGICAL))(p, self.partner(p)), lambda: lookup("logical_not")(p)
        )()

    def draw_where(self) -> Any:
        p = self.pick(lambda v: v.dtype is boolean)
        x = self.computed(lambda v: v.shape == p.shape)
        return lookup("where")(p, x, self.partner(x))

    def draw_cast(self) -> Any:
        return lookup("cast")(self.pick(), dtype=self.one(f32, f64, i32, i64, boolean, *STORAGE))

    def draw_scalar(self) -> Any:
        x = self.floats()
        number = self.one(0.0, -0.0, 1.0, -1.0, 0.5, 2.0)
        return self.one(x * number, x + number, x - number, number - x, x / 2.0)

    # -- movement ----------------------------------------------------------------------------

    def draw_transpose(self) -> Any:
        x = self.pick()
        order = self.draw(st.permutations(range(len(x.shape))))
        return lookup("transpose")(x, permutation=tuple(order))

    def draw_reshape(self) -> Any:
        x = self.pick()
        size = int(np.prod(x.shape))
        shapes = [(size,), (1, size), (size, 1), (*x.shape, 1), (1, *x.shape)]
        shapes += [(d, size // d) for d in (2, 3, 4) if size % d == 0 and size]
        return lookup("reshape")(x, shape=self.one(*shapes))

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
            stride = self.one(1, 1, 2, -1)
            while count and (count - 1) * abs(stride) >= dim:
                count -= 1
            room = dim - (max(count - 1, 0)) * abs(stride)
            first = self.draw(st.integers(0, max(room - 1, 0)))
            start.append(first if stride > 0 else dim - 1 - first if dim else 0)
            size.append(count)
            step.append(stride)
        return lookup("slice")(x, start=tuple(start), size=tuple(size), step=tuple(step))

    def draw_pad(self) -> Any:
        x = self.pick(lambda v: np.prod(v.shape) <= 200 and len(v.shape) <= 3)
        fill = self.pick(lambda v: v.dtype is x.dtype and v.shape == ())
        amounts = st.integers(0, 2)
        low, high, interior = (tuple(self.draw(amounts) for _ in x.shape) for _ in range(3))
        return lookup("pad")(x, fill, low=low, high=high, interior=interior)

    def draw_concat(self) -> Any:
        x = self.pick(lambda v: len(v.shape) > 0)
        axis = self.draw(st.integers(0, len(x.shape) - 1))

        def fits(v: Any) -> bool:
            if v.dtype is not x.dtype or len(v.shape) != len(x.shape):
                return False
            return all(a == axis or v.shape[a] == x.shape[a] for a in range(len(x.shape)))

        return lookup("concat")(*(self.pick(fits) for _ in range(self.one(1, 2, 3))), x, axis=axis)

    def draw_stack(self) -> Any:
        x = self.pick(lambda v: len(v.shape) < 3)
        other = self.pick(lambda v: v.type == x.type)
        return lookup("stack")(x, other, axis=self.draw(st.integers(0, len(x.shape))))

    # -- reductions --------------------------------------------------------------------------

    def some_axes(self, x: Any) -> tuple[int, ...]:
        return tuple(a for a in range(len(x.shape)) if self.draw(st.booleans()))

    def draw_reduce(self) -> Any:
        x = self.computed()
        axes = self.some_axes(x)
        if x.dtype is boolean:
            return lookup(self.one("any", "all"))(x, axes=axes)
        name = self.one("sum", "sum", "max", "min")
        if name != "sum" and any(x.shape[a] == 0 for a in axes):
            raise Nothing
        return lookup(name)(x, axes=axes)

    def draw_arg(self) -> Any:
        x = self.numbers(lambda v: any(v.shape))
        axis = self.one(*(a for a, dim in enumerate(x.shape) if dim))
        return lookup(self.one("argmax", "argmin"))(x, axes=(axis,))

    def draw_mean(self) -> Any:
        x = self.floats()
        return lookup(self.one("mean", "var"))(x, axes=self.some_axes(x))

    def draw_softmax(self) -> Any:
        x = self.floats(lambda v: v.shape)
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        return lookup(self.one("softmax", "log_softmax"))(x, axis=axis)

    def draw_layer_norm(self) -> Any:
        x = self.floats(lambda v: v.shape)
        row = (x.shape[-1],)
        weight, bias = (
            self.pick(lambda v: v.dtype is x.dtype and v.shape == row) for _ in range(2)
        )
        return lookup("layer_norm")(x, weight, bias)

    def draw_pool(self) -> Any:
        x = self.floats(lambda v: v.shape and v.shape[-1] >= 2)
        stride, padding = self.one(1, 2), self.one(0, 1)
        if self.draw(st.booleans()):
            return lookup("max_pool")(
                x, kernel=(2,), stride=(stride,), padding=(padding,), dilation=(1,)
            )
        return lookup("avg_pool")(x, kernel=(2,), stride=(stride,), padding=(padding,))

    # -- contractions and indexing -----------------------------------------------------------

    def draw_matmul(self) -> Any:
        x = self.numbers()
        if len(x.shape) < 2:
            raise Nothing
        y = self.pick(lambda v: v.dtype is x.dtype and len(v.shape) == len(x.shape)
                      and v.shape[:-2] == x.shape[:-2] and x.shape[-1] in v.shape[-2:])  # fmt: skip
        if y.shape[-2] != x.shape[-1]:
            rank = len(y.shape)
            order = (*range(rank - 2), rank - 1, rank - 2)
            y = lookup("transpose")(y, permutation=order)
        return lookup("matmul")(x, y)

    def draw_products_of_one_matrix(self) -> Any:
        """Products that may become one of all their rows, one behind another."""
        matrix = self.filled(40, 40)
        count, rows = self.one((2, 1), (3, 2), (4, 3))
        products = [lookup("matmul")(self.filled(rows, 40), matrix) for _ in range(count)]
        return lookup("concat")(*map(lookup(self.one(*SMOOTH)), products), axis=0)

    def draw_tree_of_products(self) -> Any:
        """Additions that may become one product."""
        count, depth = self.one((4, 1), (4, 4), (8, 2))
        values = [
            lookup("matmul")(
                lookup("transpose")(self.filled(depth, 40), permutation=(1, 0)),
                self.filled(depth, 40),
            )
            for _ in range(count)
        ]
        while len(values) > 1:
            values = [x + y for x, y in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    def filled(self, rows: int, columns: int) -> Any:
        """A matrix of f32 that depends on a drawn value."""
        value = self.pick(lambda v: v.dtype is f32 and np.prod(v.shape) > 0)
        flat = lookup("reshape")(value, shape=(int(np.prod(value.shape)),))
        first = lookup("slice")(flat, start=(0,), size=(1,), step=(1,))
        drawn = np.random.default_rng(self.draw(st.integers(0, 99))).standard_normal(
            (rows, columns)
        )
        noise = self.builder.constant(drawn.astype(np.float32))
        return noise + broadcast_to(lookup("tanh")(first), (rows, columns))

    def draw_conv(self) -> Any:
        x = self.floats(lambda v: len(v.shape) == 3 and all(v.shape) and v.shape[1] <= 9)
        channels, size = x.shape[1:]
        w = self.pick(lambda v: v.dtype is x.dtype and len(v.shape) == 3 and all(v.shape)
                      and v.shape[1] == channels and v.shape[2] <= size)  # fmt: skip
        return lookup("conv")(
            x, w, stride=(self.one(1, 2),), padding=(self.one(0, 1),), dilation=(1,), groups=1
        )

    def draw_take(self) -> Any:
        x = self.pick(lambda v: any(v.shape) and np.prod(v.shape) <= 200)
        axis = self.one(*(a for a, dim in enumerate(x.shape) if dim))
        return lookup("take")(x, self.index(x.shape[axis]), axis=axis)

    def draw_gather(self) -> Any:
        x = self.pick(lambda v: v.shape and v.shape[-1])
        lead = x.shape[:-1]
        index = self.index(x.shape[-1], lambda v: v.shape[:-1] == lead and v.shape)
        return lookup("gather")(x, index, axis=len(lead))

    def draw_scatter_add(self) -> Any:
        source = self.numbers(lambda v: v.shape)
        lead, bound = source.shape[:-1], self.one(1, 3, 9)
        x = broadcast_to(
            self.pick(lambda v: v.dtype is source.dtype and v.shape == ()), (*lead, bound)
        )
        index = self.index(bound, lambda v: v.shape == source.shape)
        return lookup("scatter_add")(x, index, source, axis=len(lead))

    def draw_index_add(self) -> Any:
        source = self.numbers(lambda v: v.shape)
        bound = self.one(1, 3, 9)
        x = broadcast_to(
            self.pick(lambda v: v.dtype is source.dtype and v.shape == ()),
            (bound, *source.shape[1:]),
        )
        index = self.index(bound, lambda v: v.shape == source.shape[:1])
        return lookup("index_add")(x, index, source, axis=0)

    def draw_scatter(self) -> Any:
        source = self.numbers(lambda v: v.shape)
        lead, bound = source.shape[:-1], self.one(1, 3, 9)
        x = broadcast_to(
            self.pick(lambda v: v.dtype is source.dtype and v.shape == ()), (*lead, bound)
        )
        index = self.index(bound, lambda v: v.shape == source.shape)
        name = self.one("scatter_set", "scatter_set", "scatter_max", "scatter_min")
        return lookup(name)(x, index, source, axis=len(lead))

    def draw_index_set(self) -> Any:
        source = self.pick(lambda v: v.shape)
        bound = self.one(1, 3, 9)
        x = broadcast_to(
            self.pick(lambda v: v.dtype is source.dtype and v.shape == ()),
            (bound, *source.shape[1:]),
        )
        index = self.index(bound, lambda v: v.shape == source.shape[:1])
        return lookup("index_set")(x, index, source, axis=0)

    # -- order -------------------------------------------------------------------------------

    def draw_scan(self) -> Any:
        x = self.numbers(lambda v: v.shape)
        name = self.one("cumsum", "cumsum", "argcummax", "argcummin")
        return lookup(name)(x, axis=self.draw(st.integers(0, len(x.shape) - 1)))

    def draw_sort(self) -> Any:
        x = self.numbers(lambda v: v.shape)
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        options = {"axis": axis, "descending": self.draw(st.booleans())}
        if self.draw(st.booleans()):
            return lookup("argtopk")(x, **options, count=self.draw(st.integers(0, x.shape[axis])))
        positions = lookup("argsort")(x, **options)
        if self.draw(st.booleans()) or not x.shape[axis]:
            return positions
        return lookup("gather")(x, positions, axis=axis)

    def draw_search(self) -> Any:
        line = self.numbers(lambda v: v.shape)
        lead = line.shape[:-1]
        x = self.pick(lambda v: v.dtype is line.dtype and v.shape and v.shape[:-1] == lead)
        return lookup("searchsorted")(line, x, right=self.draw(st.booleans()))

    def draw_bits(self) -> Any:
        x = self.numbers(lambda v: v.dtype.is_integer)
        name = self.one("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
        return lookup(name)(x, self.partner(x))

    def draw_diagonal(self) -> Any:
        x = self.pick(lambda v: len(v.shape) >= 2)
        attributes = {"offset": self.one(-1, 0, 0, 2), "axis1": 0, "axis2": len(x.shape) - 1}
        return lookup("diagonal")(x, **attributes)

    def draw_slide(self) -> Any:
        x = self.pick(lambda v: v.shape and v.shape[-1])
        size = self.draw(st.integers(1, min(x.shape[-1], 4)))
        return lookup("slide")(x, axis=len(x.shape) - 1, size=size, step=self.one(1, 2))

    # -- from nothing ------------------------------------------------------------------------

    def draw_constant(self) -> Any:
        x = self.pick(lambda v: np.prod(v.shape) <= 200)
        random = np.random.default_rng(self.draw(st.integers(0, 99)))
        return self.builder.constant(_array(random, x.type))

    def draw_iota(self) -> Any:
        x = self.pick(lambda v: v.shape)
        attributes = {"shape": x.shape, "axis": 0, "dtype": self.one(f32, i64)}
        return self.builder.apply(ops.generate.iota, (), attributes)[0]

    def draw_random(self) -> Any:
        x = self.pick()
        state = self.builder.constant(np.array([7, self.draw(st.integers(0, 2**40))]))
        results = self.builder.apply(
            ops.generate.random_uniform, (state,), {"shape": x.shape, "dtype": self.one(f32, f64)}
        )
        return results[self.one(0, 0, 1)]

    def draw_words(self) -> Any:
        state = seeded(self.draw(st.integers(0, 99)))
        state[-1] = self.draw(st.integers(600, 625))
        count = self.draw(st.integers(0, 40))
        words = ops.mersenne_twister.mersenne_twister(self.builder.constant(state), count=count)
        if self.one(True, False):
            return words
        return ops.mersenne_twister.shuffled(words)


KINDS = sorted(name for name in dir(Drawer) if name.startswith("draw_"))


@st.composite
def graphs(draw: Any) -> tuple[graphc.Graph, list[np.ndarray]]:
    """A random graph and arrays for its inputs; some outputs update an input in place, and some
    arrays hold NaN, infinities and negative zeros."""
    builder = graphc.GraphBuilder("random")
    # Few dimensions and few dtypes, so that values fit each other.
    dims = st.sampled_from(draw(st.lists(DIMS, min_size=1, max_size=3)))
    shapes = draw(st.lists(st.lists(dims, max_size=3), min_size=2, max_size=5))
    main = draw(st.sampled_from([f32, f32, f64]))
    stored = draw(st.sampled_from(STORAGE))
    dtypes = [draw(st.sampled_from([main, main, main, i64, i32, boolean, stored])) for _ in shapes]
    inputs = [
        builder.input(f"x{i}", graphc.TensorType(dtype, tuple(shape)))
        for i, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=True))
        if np.prod(shape) <= LIMIT
    ]
    inputs.append(builder.input("scalar", graphc.TensorType(main, ())))
    drawer = Drawer(draw, builder, list(inputs))
    for _ in range(draw(st.integers(1, 14))):
        drawer.node()
    last = drawer.values[len(inputs) :] or inputs
    outputs = draw(st.lists(st.sampled_from(last), min_size=1, max_size=4))
    if draw(st.booleans()):
        outputs.append(draw(st.sampled_from(inputs)))
    aliases, taken = [], set()
    for position, output in enumerate(outputs):
        for slot, given_input in enumerate(inputs):
            if output.type == given_input.type and slot not in taken and draw(st.booleans()):
                aliases.append((position, slot))
                taken.add(slot)
                break
    graph = builder.finish(*outputs, aliases=aliases)
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    special = draw(st.sampled_from([False, False, True]))
    return graph, [_array(random, input.type, special) for input in inputs]


def _array(random: np.random.Generator, type: graphc.TensorType, special: bool = False) -> Any:
    if type.dtype is boolean:
        return np.asarray(random.integers(0, 2, type.shape).astype(bool))
    if type.dtype.is_integer:
        return np.asarray(random.integers(-9, 10, type.shape), type.dtype.numpy)
    numbers = random.standard_normal(type.shape)
    if special:
        odd = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], type.shape)
        numbers = np.where(random.random(type.shape) < 0.3, odd, numbers)
    return np.asarray(numbers, type.dtype.numpy)


def is_smooth(graph: graphc.Graph) -> bool:
    for node in graph.nodes:
        jumps = node.op in JUMPS and any(graph.type_of(v).dtype.is_float for v in node.operands)
        to = node.types[0].dtype
        steps = node.op == "cast" and (to.is_storage or not to.is_float)
        if jumps or (steps and graph.type_of(node.operands[0]).dtype.is_float):
            return False
    return True


def magnitude(graph: graphc.Graph, arrays: list[np.ndarray]) -> float:
    """The greatest magnitude of any value on the way, at least 1; infinite beside NaN."""
    every = tuple(value for value in graph.values() if graph.type_of(value).dtype.is_float)
    results = graphc.run(replace(graph, outputs=every, aliases=()), *arrays)
    with np.errstate(invalid="ignore"):  # of bf16, NumPy complains of NaN
        magnitudes = [float(np.max(np.abs(x), initial=1.0)) for x in results]
    return max((np.inf if np.isnan(each) else each for each in magnitudes), default=1.0)


def close(actual: Any, expected: Any, scale: float, label: str) -> None:
    """Within rounding of the magnitudes."""
    for x, y in zip(actual, expected, strict=True):
        if x.dtype not in (np.float32, np.float64):
            np.testing.assert_array_equal(x, y, err_msg=label)
            continue
        tolerance = 2e-4 if x.dtype == np.float32 or "f32" in label else 1e-9
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * scale, err_msg=label)


def trees(graph: graphc.Graph) -> int:
    """Products that stand for several: NumPy's have the same bits only for the same shapes."""
    return sum(node.op == "tree_matmul" for node in graph.nodes)


def hold_text_and_passes(graph: graphc.Graph, arrays: list[np.ndarray], same_bits: Any) -> None:
    graphc.verify(graph)
    assert graphc.parse(str(graph)) == graph
    smooth, scale = is_smooth(graph), magnitude(graph, arrays)
    for level, passes in LEVELS.items():
        step, expected = graph, graphc.run(graph, *arrays)
        for one in passes:
            before, step = step, graphc.verify(one.run(step, Facts()))
            label = f"{level}: {one.name}\n{graph}\n{step}"
            actual = graphc.run(step, *arrays)
            if trees(step) == trees(before):
                same_bits(actual, expected, label)
            elif smooth and scale < 1e30:
                close(actual, expected, scale, label)
            expected = actual
        assert graphc.parse(str(step)) == step


def hold_levels(graph: graphc.Graph, arrays: list[np.ndarray], same_bits: Any) -> None:
    expected = graphc.run(graph, *arrays)
    smooth, scale = is_smooth(graph), magnitude(graph, arrays)
    results = {}
    for level in ("none", "exact"):
        optimized = optimize(graph, level)
        plan = verify_plan(make_plan(optimized, fusion=level == "exact"))
        label = f"{level}\n{graph}\n{plan}"
        planned = run_plan(plan, tuple(arrays))
        same = graphc.run(optimized, *arrays) if trees(optimized) else expected
        same_bits(planned, same, f"plan {label}")
        loops = run_plan_by_loops(plan, tuple(arrays))
        given_arrays = [array.copy() for array in arrays]
        native = graphc.compile(graph, level)(*given_arrays)
        same_bits(native, loops, f"loops, native {label}")
        if smooth and scale < 1e30:
            close(native, expected, scale, f"native {label}")
        for position, slot in graph.aliases:
            assert native[position] is given_arrays[slot]
        updated = {slot for _, slot in graph.aliases}
        for slot, array in enumerate(given_arrays):
            if slot not in updated:
                same_bits([array], [arrays[slot]], f"input {slot} changed {label}")
        results[level] = [array.copy() for array in native]
    same_bits(results["none"], results["exact"], f"none, exact\n{graph}")
    merged = merge_products(optimize(graph), own_cache=0)  # matrices are small here
    native = graphc.compile(merged, "none")(*[array.copy() for array in arrays])
    same_bits(native, results["none"], f"products merged\n{graph}\n{merged}")


SETTINGS = settings(
    max_examples=24, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
Drawn = tuple[graphc.Graph, list[np.ndarray]]


@SETTINGS
@given(drawn=graphs())
def test_text_and_passes(drawn: Drawn, same_bits: Callable[..., None]) -> None:
    hold_text_and_passes(*drawn, same_bits)


@settings(SETTINGS, max_examples=12)
@given(drawn=graphs())
def test_all_levels_agree(drawn: Drawn, same_bits: Callable[..., None]) -> None:
    hold_levels(*drawn, same_bits)


@pytest.mark.slow
@settings(SETTINGS, max_examples=112)
@given(drawn=graphs())
def test_more_graphs(drawn: Drawn, same_bits: Callable[..., None]) -> None:
    hold_text_and_passes(*drawn, same_bits)
    hold_levels(*drawn, same_bits)


@pytest.mark.parametrize("level", ["none", "exact"])
def test_two_runs_give_equal_results(level: str, same_bits: Callable[..., None]) -> None:
    builder = graphc.GraphBuilder("twice")
    x = builder.input("x", "f32[33,17]")
    executable = graphc.compile(builder.finish(ops.composite.softmax(x, axis=1)), level)
    array = _array(np.random.default_rng(0), x.type)
    same_bits(executable(array), executable(array), level)


@st.composite
def joints(draw: Any) -> tuple[Joint, list[np.ndarray]]:
    """The joint graph of a random one, and its arguments."""
    graph, arrays = draw(graphs())
    assume(any(type.dtype.is_float for type in graph.output_types))
    joint = derive_joint(graph)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    seeds = [joint.graph.input_types[position] for position in joint.cotangents]
    return joint, arrays + [_array(random, type) for type in seeds]


def hold_derived(joint: Joint, arrays: list[np.ndarray], same_bits: Any) -> None:
    """Gradients agree at all levels; forward and backward apart are the joint graph."""
    whole, outputs = joint.graph, joint.outputs
    hold_levels(whole, arrays, same_bits)
    split = partition(joint)
    graphc.verify(split.forward)
    graphc.verify(split.backward)
    count = len(split.forward.inputs)
    expected = graphc.run(whole, *arrays)
    forward = graphc.run(split.forward, *arrays[:count])
    same_bits(forward[:outputs], expected[:outputs], f"forward\n{whole}\n{split.forward}")
    kept = [arrays[position] for position in split.saved_inputs]
    gradients = graphc.run(split.backward, *kept, *forward[outputs:], *arrays[count:])
    same_bits(gradients, expected[outputs:], f"backward\n{whole}\n{split.backward}")


@pytest.mark.slow
@settings(SETTINGS, max_examples=10)
@given(drawn=joints())
def test_derived_graphs(
    drawn: tuple[Joint, list[np.ndarray]], same_bits: Callable[..., None]
) -> None:
    hold_derived(*drawn, same_bits)


@pytest.mark.slow
@settings(SETTINGS, max_examples=48)
@given(drawn=joints())
def test_more_derived_graphs(
    drawn: tuple[Joint, list[np.ndarray]], same_bits: Callable[..., None]
) -> None:
    hold_derived(*drawn, same_bits)


def run_op_by_op(graph: graphc.Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a graph by the kernel of each op alone."""
    values: dict[Value, np.ndarray] = {}
    given_arrays = iter(arrays)
    for identity, node in enumerate(graph.nodes):
        if node.op == INPUT:
            values[Value(identity)] = next(given_arrays)
        elif node.op == CONSTANT:
            values[Value(identity)] = node.attribute("value").array
        else:
            op = lookup(node.op)
            types = tuple(graph.type_of(operand) for operand in node.operands)
            alone = native_op(op, types, op.canonical(parameters(node)))
            results = alone.all(tuple(values[operand] for operand in node.operands))
            values |= {Value(identity, i): result for i, result in enumerate(results)}
    return [values[output] for output in graph.outputs]


def hold_op_by_op(joint: Joint, arrays: list[np.ndarray], same_bits: Any) -> None:
    graph = joint.graph
    alone = run_op_by_op(graph, [array.copy() for array in arrays])
    for level in ("none", "exact"):
        native = graphc.compile(graph, level)(*[array.copy() for array in arrays])
        same_bits(alone, native, f"{level}\n{graph}")


@settings(SETTINGS, max_examples=3)
@given(drawn=joints())
def test_the_kernels_of_ops_alone_give_the_same_bits(
    drawn: tuple[Joint, list[np.ndarray]], same_bits: Callable[..., None]
) -> None:
    hold_op_by_op(*drawn, same_bits)


@pytest.mark.slow
@settings(SETTINGS, max_examples=7)
@given(drawn=joints())
def test_the_kernels_of_ops_of_more_graphs(
    drawn: tuple[Joint, list[np.ndarray]], same_bits: Callable[..., None]
) -> None:
    hold_op_by_op(*drawn, same_bits)
