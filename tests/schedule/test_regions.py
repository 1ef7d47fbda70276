"""Loops and branches of a plan: the text, the rules, and the runners against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.program.run_plan import run_plan_by_loops
from graphc.ops import elementwise as e
from graphc.ops import indexing, reduce
from graphc.ops.control import cond, scan, while_loop
from graphc.records import replace
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Branch, Check, Loop, Plan, all_checks
from graphc.schedule.plan_verifier import verify_plan
from graphc.schedule.run_plan import run_plan

Array = np.ndarray[Any, Any]
V = "f32[3]"


def region(function: Callable[..., Any], *types: str, name: str = "body") -> graphc.Graph:
    g = graphc.GraphBuilder(name)
    with g.at(None):
        out = function(*[g.input(f"x{i}", type) for i, type in enumerate(types)])
    return g.finish(*(out if isinstance(out, tuple) else (out,)))


def total(x: Any) -> Any:
    return reduce.sum(x, axes=(0,))


def running() -> graphc.Graph:
    body = region(lambda c, x, w: (e.tanh(c * w + x), c), V, V, V)
    return region(
        lambda c, xs, w: scan(
            c, xs, w, carry=1, sequences=1, length=4, reverse=True, body=body
        ),
        V, "f32[4,3]", V, name="running",
    )  # fmt: skip


def doubling() -> graphc.Graph:
    condition = region(lambda x, top: total(x) < top, V, "f32[]", name="condition")
    body = region(lambda x, top: x * 2, V, "f32[]")
    return region(
        lambda x, top: while_loop(x, top, carry=1, condition=condition, body=body),
        V, "f32[]", name="doubling",
    )  # fmt: skip


def choosing() -> graphc.Graph:
    then = region(lambda x, w: (x * w, total(x)), V, V, name="then")
    otherwise = region(lambda x, w: (x + e.exp(w), total(w)), V, V, name="otherwise")
    return region(
        lambda x, w: cond(total(x) < 0, x, w, then=then, otherwise=otherwise), V, V,
        name="choosing",
    )  # fmt: skip


def looking_up() -> graphc.Graph:
    """A loop with a content check, and state that is updated in place before and behind it."""
    body = region(
        lambda c, i, table: (c + indexing.take(table, i, axis=0), c), V, "i64[]", "f32[5,3]"
    )
    g = graphc.GraphBuilder("looking_up")
    with g.at(None):
        c, ix, table = g.input("c", V), g.input("ix", "i64[4]"), g.input("table", "f32[5,3]")
        state = g.input("state", V)
        last, ys = scan(c, ix, table, carry=1, sequences=1, length=4, body=body)
        return g.finish(ys, state * 2, last, aliases=[(1, 3), (2, 0)])


def nested() -> graphc.Graph:
    inner = region(lambda c, x, w: (c * w + x, c), V, V, V)

    def outer(c: Any, xs: Any, w: Any) -> Any:
        last, ys = scan(c, xs, w, carry=1, sequences=1, length=2, body=inner)
        kept = cond(
            total(last) > 0, last, w, then=region(lambda a, b: a * b, V, V),
            otherwise=region(lambda a, b: a - b, V, V),
        )  # fmt: skip
        return kept, ys

    return region(
        lambda c, xs, w: scan(
            c, xs, w, carry=1, sequences=1, length=3, body=region(outer, V, "f32[2,3]", V)
        ),
        V, "f32[3,2,3]", V, name="nested",
    )  # fmt: skip


def keeping(*, reverse: bool = False) -> graphc.Graph:
    """Two carries that are handed out as they began and as they were left, and read afterwards."""

    def step(c: Any, d: Any, x: Any, w: Any) -> tuple[Any, ...]:
        new = e.tanh(c * w + x)
        return new, d + new, new, c, d

    body = region(step, V, V, V, V)

    def whole(c: Any, d: Any, xs: Any, w: Any) -> tuple[Any, ...]:
        c, d, left, begun, others = scan(
            c, d, xs, w, carry=2, sequences=1, length=4, reverse=reverse, body=body
        )
        return c, d * 2, left * begun, others * 3

    return region(whole, V, V, "f32[4,3]", V, name="keeping")


def keeping_reversed() -> graphc.Graph:
    return keeping(reverse=True)


def swapping() -> graphc.Graph:
    """One carry becomes the other; a stack is that of either."""
    body = region(lambda c, d, x: (d + x, c, c, d), V, V, V)

    def whole(c: Any, d: Any, xs: Any) -> tuple[Any, ...]:
        c, d, first, second = scan(c, d, xs, carry=2, sequences=1, length=4, body=body)
        return c, d, first + 1, second + 1, first

    return region(whole, V, V, "f32[4,3]", name="swapping")


def arrays_for(graph: graphc.Graph) -> tuple[Array, ...]:
    random = np.random.default_rng(0)
    return tuple(
        np.asarray(random.standard_normal(type.shape), np.float32) if type.dtype.is_float
        else random.integers(0, 4, type.shape)
        for type in graph.input_types
    )  # fmt: skip


def arrays(graph: graphc.Graph) -> tuple[Array, ...]:
    contents = arrays_for(graph)
    return (
        (np.abs(contents[0]), np.asarray(50, np.float32)) if graph.name == "doubling" else contents
    )


ALL = [
    running, doubling, choosing, looking_up, nested, keeping, keeping_reversed, swapping,
]  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("level", ["none", "exact"])
@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_every_runner_computes_the_same(make: Any, level: str, same_bits: Any) -> None:
    """reference = plan by reference; plan by loops = native code, bit by bit."""
    graph = make()
    inputs = arrays(graph)
    want = graphc.run(graph, *inputs)
    _, plan = plan_graph(graph, level)
    native = graphc.compile(graph, level)(*[array.copy() for array in inputs])
    by_bodies = run_plan(plan, inputs)
    for got, exact in zip(by_bodies, want, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-6)
    same_bits(run_plan_by_loops(plan, inputs), native)
    for got, exact in zip(native, want, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-6)


def test_levels_agree_bit_by_bit(same_bits: Any) -> None:
    for make in ALL:
        graph = make()
        runs = [
            graphc.compile(graph, level)(*[a.copy() for a in arrays(graph)])
            for level in ("none", "exact")
        ]
        same_bits(*runs, make.__name__)


# -- text -----------------------------------------------------------------------------------------


def test_text_of_a_scan() -> None:
    """The carry lies in its result; a y that is the carry is copied before that is overwritten."""
    _, plan = plan_graph(running())
    assert (
        without_kernels(str(plan))
        == """\
plan running {
  arena 64 bytes
  buffer b0: f32[3] in argument 0
  buffer b1: f32[4,3] in argument 1
  buffer b2: f32[3] in argument 2
  buffer b3: f32[3] in output 0
  buffer b4: f32[4,3] in output 1
  buffer b5: bool[64] in arena+0
  b3 = k0_copy(b0)
  for t = 4 - 1 down to 0 (b3, b1[t], b2) -> (b3, b4[t]) in b5 {
    arena 64 bytes
    buffer b0: f32[3] in argument 0
    buffer b1: f32[3] in argument 1
    buffer b2: f32[3] in argument 2
    buffer b3: f32[3] in arena+0
    buffer b4: f32[3] in output 1
    b3 = k1_tanh(b0, b2, b1)
    b4 = k0_copy(b0)
    b0 = k0_copy(b3)
    return b0, b4
  }
  return b3, b4
}"""
    )


def test_a_carry_whose_values_are_kept_lies_in_their_stack() -> None:
    """Run t reads slice t and writes slice t + 1; nothing is copied."""
    _, plan = plan_graph(keeping())
    assert (
        without_kernels(str(plan))
        == """\
plan keeping {
  arena 128 bytes
  buffer b0: f32[3] in argument 0
  buffer b1: f32[3] in argument 1
  buffer b2: f32[4,3] in argument 2
  buffer b3: f32[3] in argument 3
  buffer b4: f32[3] in output 1
  buffer b5: f32[4,3] in output 2
  buffer b6: f32[4,3] in output 3
  buffer b7: f32[5,3] in arena+0
  buffer b8: f32[4,3] in arena+0, part of b7
  buffer b9: f32[4,3] in arena+12, part of b7
  buffer b10: f32[3] in arena+0, part of b7
  buffer b11: f32[3] in arena+48, part of b7
  buffer b12: f32[5,3] in arena+64
  buffer b13: f32[4,3] in arena+64, part of b12
  buffer b14: f32[4,3] in arena+76, part of b12
  buffer b15: f32[3] in arena+64, part of b12
  buffer b16: f32[3] in arena+112, part of b12
  buffer b17: f32[3] in output 0
  b10 = k0_copy(b0)
  b15 = k0_copy(b1)
  for t = 0 to 4 (b8[t], b13[t], b2[t], b3) -> (b9[t], b14[t]) {
    arena 0 bytes
    buffer b0: f32[3] in argument 0
    buffer b1: f32[3] in argument 1
    buffer b2: f32[3] in argument 2
    buffer b3: f32[3] in argument 3
    buffer b4: f32[3] in output 0
    buffer b5: f32[3] in output 1
    b4, b5 = k1_add(b0, b3, b2, b1)
    return b4, b5
  }
  b4 = k2_mul(b16)
  b5 = k3_mul(b9, b8)
  b6 = k4_mul(b13)
  b17 = k0_copy(b11)
  return b17, b4, b5, b6
}"""
    )


def test_text_of_a_while_loop() -> None:
    _, plan = plan_graph(doubling())
    assert (
        without_kernels(str(plan))
        == """\
plan doubling {
  arena 64 bytes
  buffer b0: f32[3] in argument 0
  buffer b1: f32[] in argument 1
  buffer b2: f32[3] in output 0
  buffer b3: bool[] in arena+0
  b2 = k0_copy(b0)
  while b3 of (b2, b1) -> (b2) {
    arena 0 bytes
    buffer b0: f32[3] in argument 0
    buffer b1: f32[] in argument 1
    buffer b2: bool[] in output 0
    b2 = k1_sum(b0, b1)
    return b2
  }
  do {
    arena 0 bytes
    buffer b0: f32[3] in argument 0
    buffer b1: f32[] in argument 1
    b0 = k2_mul(b0)
    return b0
  }
  return b2
}"""
    )


def without_kernels(text: str) -> str:
    """The text of a plan without the kernels' bodies and without comments."""
    lines = []
    inside = False
    for line in text.splitlines():
        inside |= line.startswith("  kernel ")
        if not inside:
            lines.append(line.partition("  //")[0])
        inside &= line != "  }"
    return "\n".join(lines)


# -- rules ----------------------------------------------------------------------------------------


def loop_of(plan: Plan) -> tuple[int, Any]:
    return next((i, s) for i, s in enumerate(plan.steps) if isinstance(s, Loop | Branch))


def broken(plan: Plan, rule: str, **changes: Any) -> None:
    """`plan` with its loop or branch changed breaks `rule`."""
    verify_plan(plan)
    at, step = loop_of(plan)
    steps = (*plan.steps[:at], replace(step, **changes), *plan.steps[at + 1 :])
    with pytest.raises(graphc.VerifyError, match=f"rule {rule} broken"):
        verify_plan(replace(plan, steps=steps))


def test_what_arguments_and_outputs_stand_for_must_fit() -> None:
    plan = plan_graph(running())[1]
    _, step = loop_of(plan)
    carry, sequence, invariant = step.reads
    broken(plan, "P6", sliced=(False, False, False, False, True))
    broken(plan, "P6", count=3)
    broken(plan, "P6", sliced=(False, True, False, False, False))
    broken(plan, "P6", reads=(carry, invariant, sequence))
    broken(plan, "P2", reads=(carry, step.writes[1], invariant))  # what it writes itself
    broken(plan, "P6", reads=(carry, sequence))
    broken(plan, "P6", reads=(invariant, sequence, invariant))  # the carry is another buffer
    broken(plan, "P6", body=replace(step.body, constants=(graphc.Constant(np.zeros(2)),)))


def test_a_part_is_read_where_its_bytes_were_written_and_lies_in_the_whole() -> None:
    plan = plan_graph(keeping())[1]
    at, step = loop_of(plan)
    begun = step.reads[0]
    part = plan.buffers[begun]
    for changed, rule in ((replace(part, slot=part.slot + 12), "P2"),
                          (replace(part, slot=part.slot - 12), "P[23]"),
                          (replace(part, slot=part.slot + 24), "P[23]")):  # fmt: skip
        buffers = (*plan.buffers[:begun], changed, *plan.buffers[begun + 1 :])
        with pytest.raises(graphc.VerifyError, match=f"rule {rule} broken"):
            verify_plan(replace(plan, buffers=buffers))
    # Without one of the first values:
    without = tuple(s for i, s in enumerate(plan.steps) if i != at - 1)
    with pytest.raises(graphc.VerifyError, match="rule P2 broken"):
        verify_plan(replace(plan, steps=without))


def test_the_memory_must_hold_the_arena() -> None:
    plan = plan_graph(nested(), "none")[1]
    _, step = loop_of(plan)
    assert step.memory is not None
    broken(plan, "P6", memory=None)
    size = plan.buffers[step.memory].type
    small = replace(plan.buffers[step.memory], type=size.with_shape((size.shape[0] - 1,)))
    buffers = (*plan.buffers[: step.memory], small, *plan.buffers[step.memory + 1 :])
    with pytest.raises(graphc.VerifyError, match="rule P6 broken"):
        verify_plan(replace(plan, buffers=buffers))


def test_predicate_flag_and_condition() -> None:
    plan = plan_graph(choosing())[1]
    _, step = loop_of(plan)
    broken(plan, "P6", then=replace(step.then, argument_types=step.then.argument_types[:1]))
    broken(plan, "P2", predicate=step.writes[1])
    plan = plan_graph(doubling())[1]
    _, step = loop_of(plan)
    broken(plan, "P6", condition=step.body)


def test_no_argument_is_written_before_a_check_inside_a_loop() -> None:
    plan = plan_graph(looking_up())[1]
    at, _ = loop_of(plan)
    assert any(isinstance(step, Check) for step in all_checks(plan))
    writes = [
        i for i, step in enumerate(plan.steps)
        if any(plan.buffers[b].place == "argument" for b in getattr(step, "writes", ()))
    ]  # fmt: skip
    assert writes and min(writes) > at
    steps = (plan.steps[writes[0]], *(s for i, s in enumerate(plan.steps) if i != writes[0]))
    with pytest.raises(graphc.VerifyError, match=r"rule P[24] broken"):
        verify_plan(replace(plan, steps=steps))


# -- checks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["none", "exact"])
def test_a_check_that_fails_at_step_3_leaves_state(level: str) -> None:
    graph = looking_up()
    c, _, table, state = arrays(graph)
    index = np.array([0, 4, 2, 7])
    before = c.copy(), state.copy()
    run = graphc.compile(graph, level)
    for call in (lambda: run(c, index, table, state),
                 lambda: run_plan(run.plan, (c, index, table, state))):  # fmt: skip
        with pytest.raises(graphc.IndexRangeError, match="7"):
            call()
        np.testing.assert_array_equal(c, before[0])
        np.testing.assert_array_equal(state, before[1])
    run(c, np.array([0, 4, 2, 3]), table, state)
    np.testing.assert_array_equal(state, before[1] * 2)


# -- memory ---------------------------------------------------------------------------------------


def test_a_loop_needs_no_memory_per_step() -> None:
    def plan(length: int) -> Plan:
        body = region(lambda c, x, w: (e.tanh(c @ w) + x,), *["f32[8,8]"] * 3)
        return plan_graph(
            region(
                lambda c, xs, w: scan(
                    c, xs, w, carry=1, sequences=1, length=length, body=body
                ),
                "f32[8,8]", f"f32[{length},8,8]", "f32[8,8]",
            )
        )[1]  # fmt: skip

    assert plan(100).arena_bytes == plan(2).arena_bytes


def test_a_loop_reads_a_reshaped_value_that_is_returned_too(same_bits: Any) -> None:
    """The value lies in memory in the shape that is returned; the loop reads it there."""
    body = region(lambda c, x: (e.tanh(c + x), c), V, V)

    def whole(c: Any, x: Any, w: Any) -> tuple[Any, ...]:
        xs = graphc.ops.reshape(x @ w + 1, shape=(4, 3))
        return (*scan(c, xs, carry=1, sequences=1, length=4, body=body), xs)

    graph = region(whole, V, "f32[2,5]", "f32[5,6]", name="whole")
    inputs = arrays_for(graph)
    native = graphc.compile(graph)(*inputs)
    same_bits(native, graphc.compile(graph, "none")(*inputs))
    same_bits(run_plan_by_loops(plan_graph(graph)[1], inputs), native)
