"""Calling compiled graphs: arguments that do not fit, layouts, updates in place, content checks,
threads, empty and 0-d arrays."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ArgumentError, DType, GraphError, IndexRangeError, ops
from graphc.passes.recorder import Recorder
from graphc.runtime import native_call

f32 = np.float32


def affine() -> graphc.Executable:
    g = graphc.GraphBuilder("affine")
    x, w, b = g.input("x", "f32[4,3]"), g.input("w", "f32[3,5]"), g.input("b", "f32[5]")
    return graphc.compile(g.finish(x @ w + b))


def update(size: int = 8) -> graphc.Executable:
    """state += step, and the sum of the new state."""
    g = graphc.GraphBuilder("update")
    state, step = g.input("state", f"f32[{size}]"), g.input("step", f"f32[{size}]")
    new = state + step
    return graphc.compile(g.finish(new, ops.reduce.sum(new, axes=(0,)), aliases=[(0, 0)]))


def arrays(seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(f32) for shape in [(4, 3), (3, 5), (5,)]]


def test_outputs_are_written_where_they_are_to_lie_if_they_fit() -> None:
    executable, given = affine(), arrays()
    (expected,) = executable(*given)
    flat = np.zeros(40, f32)
    place = flat[3:23].reshape(4, 5)  # at no boundary of a vector
    assert executable.run([*given], [place])[0] is place
    assert place.tobytes() == expected.tobytes() and not flat[:3].any() and not flat[23:].any()
    for other in (None, np.zeros((5, 4), f32), np.zeros((4, 5)), np.zeros((5, 4), f32).T):
        (result,) = executable.run([*given], [other])
        assert result is not other and result.tobytes() == expected.tobytes()
    turned = [given[0].T.copy().T, *given[1:]]  # prepared first: the call is made twice
    place[...] = 0
    assert executable.run(turned, [place])[0] is place and place.tobytes() == expected.tobytes()
    state, total = np.ones(8, f32), np.zeros((), f32)
    results = update().run([state, np.ones(8, f32)], [np.zeros(8, f32), total])
    assert results[0] is state and results[1] is total and total == 16


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "bad", "message"),
    [
        (0, np.zeros((4, 4), f32), r"argument 'x' is float32\[4, 4\], expected float32\[4,"),
        (1, np.zeros((3, 5)), r"argument 'w' is float64\[3, 5\], expected float32\[3, 5\]"),
        (2, [0.0] * 5, r"argument 'b' is a list, expected float32\[5\]"),
        (2, np.zeros(5, ">f4"), r"argument 'b' is .*, expected float32\[5\]"),
        (2, None, r"argument 'b' is a NoneType"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(position: int, bad: Any, message: str) -> None:
    inputs: list[Any] = arrays()
    inputs[position] = bad
    with pytest.raises(ArgumentError, match=message):
        affine()(*inputs)


def test_the_wrong_number_of_arguments() -> None:
    with pytest.raises(ArgumentError, match=r"affine: takes 3 arrays \(x, w, b\), not 2"):
        affine()(*arrays()[:2])


def test_a_callable_is_refused_with_the_way_out() -> None:
    with pytest.raises(GraphError, match=r"takes a Graph, not function[\s\S]*frontend.compile"):
        graphc.compile(lambda x: x)  # type: ignore[arg-type]


def test_an_error_leaves_the_executable_usable() -> None:
    executable = affine()
    (expected,) = executable(*arrays())
    with pytest.raises(ArgumentError, match="argument 'b' is a NoneType"):
        executable(arrays()[0], arrays()[1], None)
    np.testing.assert_array_equal(executable(*arrays())[0], expected)


# -- layouts --------------------------------------------------------------------------------------


def misaligned(array: np.ndarray) -> np.ndarray:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    view = raw[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


LAYOUTS = {
    "fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "misaligned": misaligned,
    "broadcast": lambda a: np.broadcast_to(a, a.shape),
    "subclass": lambda a: a.view(np.ma.MaskedArray),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_of_arguments(layout: str) -> None:
    executable = affine()
    (expected,) = executable(*arrays())
    arguments = [LAYOUTS[layout](array) for array in arrays()]
    np.testing.assert_array_equal(executable(*arguments)[0], expected)
    # The same strided arrays again, changed meanwhile: no stale copy is used.
    if arguments[2].flags.writeable:
        arguments[2][...] += 1
        np.testing.assert_allclose(executable(*arguments)[0], expected + 1, atol=1e-6)


def test_outputs_are_fresh() -> None:
    executable = affine()
    inputs = arrays()
    (first,) = executable(*inputs)
    kept = first.copy()
    (second,) = executable(inputs[0] * 2, *inputs[1:])
    assert first is not second
    assert not np.shares_memory(first, second)
    assert first.flags.owndata
    np.testing.assert_array_equal(first, kept)


def test_an_input_returned_is_a_copy() -> None:
    g = graphc.GraphBuilder()
    x = g.input("x", "f32[4]")
    executable = graphc.compile(g.finish(x, x, g.constant(np.arange(3.0))))
    array = np.arange(4, dtype=f32)
    one, two, constant = executable(array)
    assert not np.shares_memory(one, array)
    assert not np.shares_memory(one, two)
    constant[0] = 9
    np.testing.assert_array_equal(executable(array)[2], np.arange(3.0))


# -- updates in place -----------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["plain", "strided", "reversed", "misaligned"])
def test_updates_in_place(layout: str) -> None:
    executable = update()
    base = np.zeros(16, f32)
    state = {
        "plain": base[:8],
        "strided": base[::2],
        "reversed": base[7::-1],
        "misaligned": misaligned(base[:8]),
    }[layout]
    step = np.arange(8, dtype=f32)
    for count in (1, 2, 3):
        result, total = executable(state, step)
        assert result is state
        np.testing.assert_array_equal(state, count * step)
        assert total == count * step.sum()
    if layout == "strided":
        np.testing.assert_array_equal(base[1::2], 0)


def test_a_read_only_state_is_refused() -> None:
    state = np.zeros(8, f32)
    state.setflags(write=False)
    with pytest.raises(ArgumentError, match=r"'state' is updated in place, and .* read-only"):
        update()(state, np.ones(8, f32))


def test_overlap_with_an_updated_argument_is_refused() -> None:
    executable = update()
    base = np.zeros(12, f32)
    for state, step in [
        (base[:8], base[:8]),
        (base[:8], base[4:]),
        (base[4:], base[:8]),
    ]:
        with pytest.raises(ArgumentError, match="'state' is updated in place and shares memory"):
            executable(state, step)
    np.testing.assert_array_equal(base, 0)
    # Arguments checked in earlier calls are checked again where the other one is new.
    other = base[4:]
    executable(np.zeros(8, f32), other)
    with pytest.raises(ArgumentError, match="shares memory"):
        executable(base[:8], other)
    with pytest.raises(ArgumentError, match="shares memory"):
        executable(base[:8], other)


def test_overlap_is_found_after_a_call_that_failed_half_way() -> None:
    executable = update()
    base = np.zeros(12, f32)
    state, step = base[:8], base[4:]
    executable(np.zeros(8, f32), step)
    with pytest.raises(ArgumentError, match="argument 'step' is a NoneType"):
        executable(state, None)
    with pytest.raises(ArgumentError, match="shares memory"):
        executable(state, step)


def test_two_strided_states_over_the_same_memory_are_refused() -> None:
    g = graphc.GraphBuilder("both")
    a, b = g.input("a", "f32[4]"), g.input("b", "f32[4]")
    executable = graphc.compile(g.finish(a + 1, b + 2, aliases=[(0, 0), (1, 1)]))
    base = np.zeros(8, f32)
    with pytest.raises(ArgumentError, match="shares memory"):
        executable(base[::2], base[::2])
    executable(base[::2], base[1::2])
    np.testing.assert_array_equal(base, [1, 2] * 4)


def test_states_can_be_swapped_and_rotated() -> None:
    g = graphc.GraphBuilder("rotate")
    a, b, c = (g.input(name, "f32[3]") for name in "abc")
    executable = graphc.compile(g.finish(b, c, a, a, aliases=[(0, 0), (1, 1), (2, 2)]))
    arguments = [np.full(3, value, f32) for value in (1, 2, 3)]
    results = executable(*arguments)
    assert [array[0] for array in arguments] == [2, 3, 1]
    assert results[3][0] == 1


# -- content checks -------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["none", "exact"])
@pytest.mark.parametrize("bad", [5, -1, 2**62, -(2**62)])
def test_an_index_out_of_range_leaves_state_untouched(level: str, bad: int) -> None:
    g = graphc.GraphBuilder("lookup")
    table, index = g.input("table", "f32[5,3]"), g.input("index", "i64[4]")
    rows = ops.indexing.take(table, index, axis=0)
    taken = ops.indexing.index_add(table, index, rows * 2, axis=0)
    graph = g.finish(taken, ops.reduce.sum(rows, axes=(0, 1)), aliases=[(0, 0)])
    executable = graphc.compile(graph, level)
    state = np.ones((5, 3), f32)
    with pytest.raises(IndexRangeError) as caught:
        executable(state, np.array([0, 1, bad, 2]))
    assert f"index {bad} is out of bounds for dimension 0 with size 5" in str(caught.value)
    assert "test_executable.py:" in str(caught.value)
    assert caught.value.location.file == "test_executable.py"
    np.testing.assert_array_equal(state, 1)
    with pytest.raises(IndexRangeError, match=f"index {bad} is out of bounds"):
        graphc.run(graph, state, np.array([0, 1, bad, 2]))
    executable(state, np.array([0, 0, 1, 2]))
    np.testing.assert_array_equal(state[:, 0], [5, 3, 3, 1, 1])


@pytest.mark.parametrize("level", ["none", "exact"])
def test_a_computed_index_is_checked_before_it_is_used(level: str) -> None:
    """The index, computed in the graph and also an output, must not share a kernel with the
    gather: the gather would read before the check."""
    g = graphc.GraphBuilder("computed")
    x, i = g.input("x", "f32[5]"), g.input("i", "i64[30]")
    far = i + 10**12
    scalar = ops.elementwise.cast(ops.reduce.sum(x, axes=(0,)), dtype=DType.i64)
    graph = g.finish(
        far, ops.indexing.take(x, far, axis=0), scalar, ops.indexing.take(x, scalar, axis=0)
    )
    executable = graphc.compile(graph, level)
    with pytest.raises(IndexRangeError, match=f"index {10**12} is out of bounds"):
        executable(np.zeros(5, f32), np.zeros(30, np.int64))
    with pytest.raises(IndexRangeError, match=f"index {int(5 * f32(1e15))} is out of"):
        executable(np.full(5, 1e15, f32), np.full(30, -(10**12)))
    result = executable(np.full(5, 0.5, f32), np.full(30, -(10**12)))
    assert result[2] == 2
    np.testing.assert_array_equal(result[1], 0.5)


def test_masked_lanes_read_nothing_through_a_computed_index() -> None:
    """Lanes behind the end of a row load index 0, and 0 + 10**9 is far outside of x."""
    g = graphc.GraphBuilder("tail")
    x, i = g.input("x", "f32[1]"), g.input("i", "i64[3]")
    executable = graphc.compile(g.finish(ops.indexing.take(x, i + 10**9, axis=0)))
    (result,) = executable(np.ones(1, f32), np.full(3, -(10**9)))
    np.testing.assert_array_equal(result, 1)


@pytest.mark.parametrize("level", ["none", "exact"])
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_integer_division(level: str, dtype: str) -> None:
    g = graphc.GraphBuilder("divide")
    x, y = g.input("x", f"{dtype}[7]"), g.input("y", f"{dtype}[7]")
    executable = graphc.compile(
        g.finish(ops.elementwise.floordiv(x, y), ops.elementwise.mod(x, y)), level
    )
    numpy = DType[dtype].numpy
    least = np.iinfo(numpy).min
    a = np.array([7, -7, 7, -7, 0, least, 1], numpy)
    b = np.array([2, 2, -2, -2, 5, 3, least], numpy)
    quotient, rest = executable(a, b)
    np.testing.assert_array_equal(quotient, a // b)
    np.testing.assert_array_equal(rest, a % b)
    with pytest.raises(GraphError, match="division by zero"):
        executable(a, np.array([1, 1, 1, 1, 1, 1, 0], numpy))


# -- threads --------------------------------------------------------------------------------------


def test_threads_may_call_at_once() -> None:
    g = graphc.GraphBuilder("work")
    x = g.input("x", "f32[64,300]")
    executable = graphc.compile(g.finish(ops.composite.softmax(ops.elementwise.tanh(x), axis=1)))
    inputs = [np.random.default_rng(i).standard_normal((64, 300)).astype(f32) for i in range(8)]
    expected = [executable(array)[0] for array in inputs]
    failures: list[Any] = []
    start = threading.Barrier(len(inputs))

    def work(number: int) -> None:
        start.wait()
        for _ in range(40):
            (actual,) = executable(inputs[number])
            if not np.array_equal(actual, expected[number]):
                failures.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_way_into_native_code_stays_where_two_threads_make_it_at_once() -> None:
    """Each makes one, and only one is remembered: functions that point to the other go on."""
    first = affine()
    want = first(*arrays())[0].tolist()
    native_call._method.cache_clear()  # as if another thread had been in the middle of it
    affine()(*arrays())
    gc.collect()
    junk = [native_call._Method(b"x", 0, 0, None) for _ in range(100)]
    assert first(*arrays())[0].tolist() == want and len(junk) == 100


# -- empty and 0-d --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["none", "exact"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_zero_size(level: str, shape: tuple[int, ...]) -> None:
    g = graphc.GraphBuilder("empty")
    x = g.input("x", graphc.TensorType(DType.f32, shape))
    rank = len(shape)
    everything = tuple(range(rank))
    graph = g.finish(
        ops.elementwise.exp(x) + 1.0,
        ops.reduce.sum(x, axes=(rank - 1,)),
        ops.reduce.sum(x, axes=everything),
        ops.reduce.prod(x, axes=everything),
        ops.movement.transpose(x, permutation=tuple(reversed(everything))),
        ops.movement.concat(x, x, axis=0),
        ops.composite.softmax(x, axis=rank - 1),
        ops.movement.pad(x, g.constant(np.float32(7)), low=(1,) * rank, high=(1,) * rank,
                         interior=(0,) * rank),
    )  # fmt: skip
    array = np.zeros(shape, f32)
    executable = graphc.compile(graph, level)
    for actual, expected in zip(executable(array), graphc.run(graph, array), strict=True):
        np.testing.assert_array_equal(actual, expected, strict=True)


def test_products_over_nothing_are_zero() -> None:
    g = graphc.GraphBuilder("nothing")
    x, y = g.input("x", "f32[3,0]"), g.input("y", "f32[0,2]")
    (result,) = graphc.compile(g.finish(x @ y + 1.0))(np.zeros((3, 0), f32), np.zeros((0, 2), f32))
    np.testing.assert_array_equal(result, np.ones((3, 2)))


@pytest.mark.parametrize("level", ["none", "exact"])
def test_zero_d(level: str) -> None:
    g = graphc.GraphBuilder("scalar")
    x, n, p = g.input("x", "f32[]"), g.input("n", "i64[]"), g.input("p", "bool[]")
    e = ops.elementwise
    graph = g.finish(
        e.where(p, e.exp(x), x), n * n, ops.reduce.sum(x, axes=()), e.cast(p, dtype=DType.f64),
        ops.movement.broadcast(x, shape=(2, 2)), x + 1.0, aliases=[(5, 0)],
    )  # fmt: skip
    executable = graphc.compile(graph, level)
    state = np.array(2, f32)
    arguments = (state, np.array(3), np.array(True))
    expected = graphc.run(graph, *arguments)
    actual = executable(*arguments)
    assert actual[5] is state and state == 3
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-7)
        assert one.shape == other.shape and one.dtype == other.dtype


def test_a_graph_without_inputs_or_outputs() -> None:
    g = graphc.GraphBuilder("constant")
    assert graphc.compile(g.finish(g.constant(np.arange(3))))()[0].tolist() == [0, 1, 2]
    g = graphc.GraphBuilder("nothing")
    g.input("x", "f32[2]")
    assert graphc.compile(g.finish())(np.zeros(2, f32)) == ()


# -- the object -----------------------------------------------------------------------------------


def test_what_an_executable_tells() -> None:
    executable = affine()
    assert repr(executable).startswith("<Executable affine: 1 kernels")
    assert {"plan", "driver"} <= executable.timings.keys()
    assert all(seconds >= 0 for seconds in executable.timings.values())


def test_the_recorder_sees_each_pass_and_the_plan() -> None:
    g = graphc.GraphBuilder()
    x = g.input("x", "f32[4]")
    recorder = Recorder()
    graphc.compile(g.finish(x * 2.0), recorder=recorder)
    assert "canonicalize" in [record.name for record in recorder.passes]
    assert recorder.plan.steps


def test_an_unknown_level() -> None:
    g = graphc.GraphBuilder()
    with pytest.raises(GraphError, match="unknown optimization level 'fast'"):
        graphc.compile(g.finish(g.input("x", "f32[1]")), "fast")
