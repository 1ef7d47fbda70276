"""The kernels of attention and of its gradient: one kernel, and the bits of the definition, for any
sizes, masks, layouts and targets, in parts and next to memory that must not be touched."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.target import Target, named
from graphc.ir.handle import broadcast_to
from graphc.ir.types import TensorType
from graphc.ops import movement
from graphc.ops.nn.attention import attention, attention_grad
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec, Launch
from graphc.schedule.run_plan import run_plan

Array = np.ndarray[Any, Any]
Arrays = list[Array]
Graph = graphc.Graph


def built(op: Any, arrays: Arrays, views: Any = None, results: Any = None, **options: Any) -> Graph:
    """`op` of `arrays`, or of what `views` makes of them; all its results, or some."""
    g = graphc.GraphBuilder(op.name)
    inputs = [g.input(f"x{i}", TensorType.of(array)) for i, array in enumerate(arrays)]
    operands = views(*inputs) if views else inputs
    outputs = g.apply(op, tuple(operands), options)
    return g.finish(*(outputs if results is None else [outputs[i] for i in results]))


def assert_same(actual: Any, expected: Any) -> None:
    """Equal bits, NaN payloads aside."""
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
        numbers = ~np.isnan(other)
        np.testing.assert_array_equal(np.signbit(one[numbers]), np.signbit(other[numbers]))


def drawn(
    heads: tuple[int, ...], L: int, S: int, E: int, Ev: int, mask: str = "", dtype: str = "f32",
    seed: int = 0,
) -> Arrays:  # fmt: skip
    """q, k, v, and a mask of the kind asked for."""
    random = np.random.default_rng(seed)
    shapes = (*heads, L, E), (*heads, S, E), (*heads, S, Ev)
    arrays: Arrays = [random.standard_normal(s).astype(graphc.DType[dtype].numpy) for s in shapes]
    square = (*heads, L, S) if "each" in mask else (L, S)
    if "bool" in mask:
        arrays.append(random.random(square) < 0.6)
    if "float" in mask:
        content = random.standard_normal(square)
        arrays.append(np.where(content < -1, -np.inf, content).astype(arrays[0].dtype))
    return arrays


def with_gradient(arrays: Arrays, seed: int = 1, **options: Any) -> Arrays:
    """The operands of `attention_grad` for those of `attention`."""
    q, k, v, *mask = arrays
    out, logsumexp = graphc.compile(built(attention, arrays, **options), "none")(*arrays)
    g = np.random.default_rng(seed).standard_normal(out.shape).astype(out.dtype)
    with np.errstate(invalid="ignore"):
        return [g, q, k, v, logsumexp, (g * out).sum(-1).astype(out.dtype), *mask]


def problems(arrays: Arrays, **options: Any) -> Iterator[tuple[Graph, Arrays]]:
    """Both graphs and their arrays."""
    yield built(attention, arrays, **options), arrays
    operands = with_gradient(arrays, **options)
    yield built(attention_grad, operands, **options), operands


def planned(
    graph: Graph, arrays: Arrays, call: Callable[[KernelSpec, Arrays], None]
) -> tuple[Array, ...]:
    """The plan of level exact with `call(kernel, buffers)` for each kernel."""
    _, plan = plan_graph(graph)
    return run_plan(
        plan, tuple(arrays), lambda kernel, reads, writes: call(kernel, [*reads, *writes])
    )


def kernels(graph: Graph) -> list[str]:
    _, plan = plan_graph(graph)
    return [step.kernel.recipe for step in plan.steps if isinstance(step, Launch)]


def check(arrays: Arrays, **options: Any) -> None:
    """Both kernels give the bits of the definition."""
    for graph, operands in problems(arrays, **options):
        exact = graphc.compile(graph, "exact")(*operands)
        assert_same(exact, graphc.compile(graph, "none")(*operands))


sizes = st.one_of(st.integers(1, 9), st.integers(10, 40), st.sampled_from([48, 63, 64, 65, 100]))
masks = st.sampled_from(["", "", "bool", "float", "bool each", "float each"])


@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(
    heads=st.sampled_from([(), (1,), (3,), (2, 2)]), L=sizes, S=sizes, E=sizes, Ev=sizes,
    mask=masks, causal=st.booleans(), dtype=st.sampled_from(["f32", "f32", "f64"]),
)  # fmt: skip
def test_any_sizes_give_the_bits_of_the_definition(
    heads: tuple[int, ...], L: int, S: int, E: int, Ev: int, mask: str, causal: bool, dtype: str
) -> None:
    check(drawn(heads, L, S, E, Ev, mask, dtype), causal=causal, scale=0.3)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("sizes", [(1100, 40, 9, 5), (30, 1100, 5, 9), (5, 6, 530, 540)])
@pytest.mark.parametrize("causal", [False, True])
def test_sums_longer_than_a_chain_are_cut_like_those_of_products(
    sizes: tuple[int, int, int, int], causal: bool
) -> None:
    check(drawn((2,), *sizes), causal=causal, scale=0.1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("results", [[0], [1], [2], [0, 2], [2, 1]])
def test_only_results_that_are_used_are_written(results: list[int]) -> None:
    arrays = drawn((2,), 20, 30, 8, 24)
    operands = with_gradient(arrays)
    for op, given_arrays in ((attention, arrays), (attention_grad, operands)):
        if max(results) >= len(built(op, given_arrays).outputs):
            continue
        graph = built(op, given_arrays, results=results)
        assert kernels(graph) == [op.recipe]
        exact = graphc.compile(graph)(*given_arrays)
        assert_same(exact, graphc.compile(graph, "none")(*given_arrays))


# -- layouts --------------------------------------------------------------------------------------


def split(x: Any) -> Any:
    """[b, t, h·e] as [b, h, t, e], for 4 heads."""
    b, t, width = x.shape
    parts = movement.reshape(x, shape=(b, t, 4, width // 4))
    return movement.transpose(parts, permutation=(0, 2, 1, 3))


def transposed(x: Any) -> Any:
    rank = len(x.shape)
    return movement.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


def repeated(x: Any) -> Any:
    """One head for 3."""
    return broadcast_to(x, (3, *x.shape[-2:]))


def chunk(x: Any, part: int) -> Any:
    """One of the three of q, k and v in one array, its heads split."""
    b, t, width = x.shape
    size = (b, t, width // 3)
    return split(movement.slice_(x, start=(0, 0, part * width // 3), size=size, step=(1, 1, 1)))


LAYOUTS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "heads split": (lambda q, k, v: (split(q), split(k), split(v)), ((2, 19, 32),) * 3),
    "one array": (lambda x: tuple(chunk(x, part) for part in range(3)), ((2, 21, 96),)),
    "keys transposed": (
        lambda q, k, v: (q, transposed(k), v),
        ((3, 9, 20), (3, 20, 35), (3, 35, 8)),
    ),
    "all transposed": (lambda *x: map(transposed, x), ((3, 20, 9), (3, 20, 35), (3, 8, 35))),
    "keys shared": (lambda q, k, v: (q, repeated(k), repeated(v)), ((3, 9, 8), (17, 8), (17, 5))),
}


@pytest.mark.sampled(18)
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("causal", [False, True])
def test_operands_are_read_through_index_maps(name: str, causal: bool) -> None:
    """No copy of an operand is a kernel of its own."""
    views, shapes = LAYOUTS[name]
    random = np.random.default_rng(3)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    graph = built(attention, arrays, views, causal=causal, scale=0.3)
    assert kernels(graph) == ["attention"]
    assert_same(graphc.compile(graph)(*arrays), graphc.compile(graph, "none")(*arrays))

    rows = graph.output_types[1].shape
    extra = [
        random.standard_normal(shape).astype(np.float32)
        for shape in (graph.output_types[0].shape, rows, rows)
    ]

    def with_rest(g: Any, logsumexp: Any, delta: Any, *rest: Any) -> Any:
        return (g, *views(*rest), logsumexp, delta)

    operands = [*extra, *arrays]
    graph = built(attention_grad, operands, with_rest, causal=causal, scale=0.3)
    assert kernels(graph) == ["attention_grad"]
    assert_same(graphc.compile(graph)(*operands), graphc.compile(graph, "none")(*operands))


# -- what is hidden -------------------------------------------------------------------------------


@pytest.mark.sampled(40)
@pytest.mark.parametrize("operand", ["q", "k", "v", "g", "logsumexp", "delta"])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("row", [0, 17, 69])
def test_what_is_not_finite_counts_also_where_it_is_hidden(
    operand: str, number: float, row: int
) -> None:
    """0·∞ is NaN, whichever tiles a causal kernel skips."""
    arrays = drawn((2,), 70, 70, 12, 20)
    if operand in "qkv":
        arrays["qkv".index(operand)][1, row, 3] = number
        check(arrays, causal=True)
        return
    operands = with_gradient(arrays, causal=True)
    changed = operands[{"g": 0, "logsumexp": 4, "delta": 5}[operand]]
    changed[1, row] = number
    graph = built(attention_grad, operands, causal=True)
    assert_same(graphc.compile(graph)(*operands), graphc.compile(graph, "none")(*operands))


@pytest.mark.parametrize("operand", [0, 2])
def test_finite_numbers_whose_sum_overflows_are_no_special_case(operand: int) -> None:
    """The test for what is not finite adds all it reads."""
    arrays = drawn((2,), 70, 70, 12, 20)
    arrays[operand] = np.abs(arrays[operand]) * np.float32(1e37)
    with np.errstate(all="ignore"):
        check(arrays, causal=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_rows_that_see_nothing_give_zeros(kind: str, causal: bool) -> None:
    arrays = drawn((2,), 9, 20, 8, 8, kind)
    arrays[3][[0, 4]] = False if kind == "bool" else -np.inf
    check(arrays, causal=causal)
    out, logsumexp = graphc.compile(built(attention, arrays, causal=causal))(*arrays)
    assert not out[:, [0, 4]].any()
    assert (logsumexp[:, [0, 4]] == -np.inf).all()


# -- plans, targets, memory -----------------------------------------------------------------------


def test_no_square_of_scores_lies_in_memory() -> None:
    arrays = drawn((4,), 300, 280, 16, 24)
    for graph, _ in problems(arrays, causal=True):
        _, plan = plan_graph(graph)
        (launch,) = plan.steps
        assert isinstance(launch, Launch)
        assert launch.kernel.recipe == graph.name
        assert all(buffer.type.numel < 300 * 280 for buffer in plan.buffers)
        assert plan.arena_bytes == 0
        loops = lower(launch.kernel, named("x86-64-v3"))
        assert all(memory.size < 300 * 280 for memory in loops.scratch)


def test_operands_without_elements_take_the_definition() -> None:
    for sizes in ((0, 3, 4, 5), (3, 0, 4, 5), (3, 4, 0, 5), (3, 4, 5, 0)):
        arrays = drawn((2,), *sizes)
        for graph, operands in problems(arrays, causal=True):
            assert graph.name not in kernels(graph)
            exact = graphc.compile(graph)(*operands)
            assert_same(exact, graphc.compile(graph, "none")(*operands))


def test_few_rows_take_the_definition() -> None:
    """Its products read k as it lies."""
    few, many = (drawn((2,), rows, 100, 16, 16) for rows in (1, 4))
    assert "attention" not in kernels(built(attention, few))
    assert kernels(built(attention, many)) == ["attention"]


def test_equal_kernels_have_equal_loops_whatever_was_lowered_before() -> None:
    """Else they would not be found in the cache."""
    for graph, _ in problems(drawn((2,), 40, 50, 16, 16), causal=True):
        _, plan = plan_graph(graph)
        (launch,) = plan.steps
        assert isinstance(launch, Launch)
        texts = {str(lower(launch.kernel, named("x86-64-v3"))) for _ in range(9)}
        assert len(texts) == 1


SMALL = [
    (drawn((2,), 9, 11, 5, 6), {"causal": True}),
    (drawn((1,), 5, 7, 3, 4, "bool each"), {"causal": False, "scale": 0.5}),
    (drawn((), 6, 4, 2, 3, "float", "f64"), {"causal": True}),
]


@pytest.mark.sampled(6)
def test_native_code_has_the_same_bits_on_every_target(native_target: Target) -> None:
    larger = drawn((2,), 70, 90, 20, 40)
    for arrays, options in [*SMALL, (larger, {"causal": True}), (larger, {"causal": False})]:
        for graph, operands in problems(arrays, **options):
            results = planned(
                graph, operands,
                lambda kernel, buffers: jit.call_kernel(
                    lower(kernel, native_target), buffers, target=native_target
                ),
            )  # fmt: skip
            assert_same(results, graphc.compile(graph)(*operands))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize("number", range(len(SMALL)))
def test_loops_interpreted(number: int, target: str) -> None:
    """The interpreter checks each access, and scratch is NaN at first."""
    arrays, options = SMALL[number]
    for graph, operands in problems(arrays, **options):
        results = planned(
            graph, operands,
            lambda kernel, buffers: interpreter.run(lower(kernel, named(target)), buffers),
        )  # fmt: skip
        assert_same(results, graphc.compile(graph, "none")(*operands))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_a_kernel_give_the_bits_of_the_whole(parts: int, native_target: Target) -> None:
    def call(kernel: KernelSpec, buffers: Arrays) -> None:
        loops = lower(kernel, native_target)
        assert loops.extent == 5
        edges = [loops.extent * part // parts for part in range(parts + 1)]
        for part in reversed(range(parts)):
            jit.call_kernel(loops, buffers, edges[part], edges[part + 1], native_target)

    for graph, operands in problems(drawn((5,), 40, 50, 16, 16), causal=True):
        assert_same(planned(graph, operands, call), graphc.compile(graph)(*operands))


class Guarded:
    """Arrays that end where a page does whose successor must not be touched."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.blocks: list[tuple[ctypes.c_void_p, mmap.mmap]] = []

    def array(self, content: Array) -> Array:
        size = -(-max(content.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        block = mmap.mmap(-1, size + mmap.PAGESIZE)
        behind = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(block)) + size)
        assert self.libc.mprotect(behind, mmap.PAGESIZE, 0) == 0
        self.blocks.append((behind, block))
        raw = np.frombuffer(block, np.uint8)[size - content.nbytes : size]
        result = raw.view(content.dtype).reshape(content.shape)
        result[...] = content
        return result

    def release(self) -> None:
        for behind, _ in self.blocks:
            self.libc.mprotect(behind, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("mask", ["", "bool", "float each"])
@pytest.mark.parametrize("sizes", [(9, 11, 5, 6), (33, 35, 17, 19), (4, 8, 16, 8)])
def test_nothing_beyond_a_buffer_is_touched(
    sizes: tuple[int, ...], mask: str, native_target: Target
) -> None:
    L, S, E, Ev = sizes
    memory = Guarded()

    def call(kernel: KernelSpec, buffers: Arrays) -> None:
        given_buffers = [memory.array(array) for array in buffers]
        jit.call_kernel(lower(kernel, native_target), given_buffers, target=native_target)
        for place, result in zip(buffers, given_buffers, strict=True):
            if place.flags.writeable:
                place[...] = result

    # By turns: both go with each size, mask and target.
    causal = (L // 4 + len(mask) // 4 + native_target.vector_bytes // 16) % 2 == 0
    for graph, operands in problems(drawn((2,), L, S, E, Ev, mask), causal=causal):
        assert_same(planned(graph, operands, call), graphc.compile(graph)(*operands))
    memory.release()
