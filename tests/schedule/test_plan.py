"""Plans: the verifier's rules, the text, and the runners against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.program.run_plan import run_plan_by_loops
from graphc.ops import elementwise as e
from graphc.ops import indexing, reduce
from graphc.ops.nn import losses
from graphc.records import replace
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Check, Launch, Plan, PlanBuffer, kernels
from graphc.schedule.plan_verifier import verify_plan
from graphc.schedule.run_plan import run_plan

Array = np.ndarray[Any, Any]


def training_step() -> graphc.Graph:
    """An MLP's forward, backward and momentum update, in place."""
    g = graphc.GraphBuilder("step")
    x, y = g.input("x", "f32[6,5]"), g.input("y", "i64[6]")
    shapes = {"w1": "f32[5,9]", "b1": "f32[9]", "w2": "f32[9,4]", "b2": "f32[4]"}
    weights = {name: g.input(name, type) for name, type in shapes.items()}
    hidden = e.relu(x @ weights["w1"] + weights["b1"])
    loss = losses.cross_entropy(hidden @ weights["w2"] + weights["b2"], y)
    forward = g.finish(loss)
    joint = graphc.joint(forward, list(shapes))

    g = graphc.GraphBuilder("step")
    inputs = [g.input(str(node.attribute("name")), node.types[0]) for node in joint.inputs]
    momenta = [g.input(f"m_{name}", type) for name, type in shapes.items()]
    values: dict[Any, Any] = {}
    remaining = iter(inputs)
    for identity, node in enumerate(joint.nodes):
        if node.op == "input":
            values[graphc.Value(identity)] = next(remaining)
        elif node.op == "constant":
            values[graphc.Value(identity)] = g.constant(node.attribute("value"))
        else:
            operands = tuple(values[operand] for operand in node.operands)
            op = getattr(graphc.ops, node.op)
            for index, result in enumerate(g.apply(op, operands, dict(node.attributes))):
                values[graphc.Value(identity, index)] = result
    loss, *gradients = (values[output] for output in joint.outputs)
    outputs, aliases = [loss], []
    for position, (gradient, momentum) in enumerate(zip(gradients, momenta, strict=True)):
        moved = momentum * 0.9 + gradient
        aliases += [(len(outputs), 6 + position), (len(outputs) + 1, 2 + position)]
        outputs += [moved, inputs[2 + position] - moved * 0.1]
    return g.finish(*outputs, aliases=aliases)


def arrays_for(graph: graphc.Graph) -> tuple[Array, ...]:
    random = np.random.default_rng(0)
    return tuple(
        random.standard_normal(type.shape).astype(type.dtype.numpy) if type.dtype.is_float
        else random.integers(0, 4, type.shape).astype(type.dtype.numpy)
        for type in graph.input_types
    )  # fmt: skip


@pytest.mark.parametrize("level", ["none", "exact"])
def test_the_same_step_through_every_level(level: str) -> None:
    """reference = plan by reference = plan by loops = native code; the last two bit by bit."""
    graph = training_step()
    arrays = arrays_for(graph)
    originals = [array.copy() for array in arrays]
    expected = graphc.run(graph, *arrays)
    _, plan = plan_graph(graph, level)
    by_bodies, by_loops = run_plan(plan, arrays), run_plan_by_loops(plan, arrays)
    for array, original in zip(arrays, originals, strict=True):
        np.testing.assert_array_equal(array, original)
    native = graphc.compile(graph, level)(*arrays)
    for one, two, three, four in zip(expected, by_bodies, by_loops, native, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(three, one, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(four, three)
    for output, target in graph.aliases:
        np.testing.assert_array_equal(arrays[target], native[output])


def test_levels_give_the_same_bits() -> None:
    graph = training_step()
    arrays = arrays_for(graph)
    results = [
        run_plan_by_loops(plan_graph(graph, level)[1], arrays)
        for level in ("none", "exact", "relaxed")
    ]
    for other in results[1:]:
        for actual, wanted in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(actual, wanted)


def test_the_whole_step_is_few_kernels_all_updates_in_place() -> None:
    _, plan = plan_graph(training_step())
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    assert len(launches) <= 12
    assert not [launch for launch in launches if launch.kernel.body.name == "copy"]
    updated = {target for _, target in plan.aliases}
    assert {plan.buffers[plan.outputs[o]].slot for o, _ in plan.aliases} == updated
    assert plan.arena_lower_bound <= plan.arena_bytes <= 1.3 * plan.arena_lower_bound


def test_the_text_of_a_plan() -> None:
    g = graphc.GraphBuilder("looked_up")
    table, rows, w = g.input("t", "f32[5,3]"), g.input("r", "i64[4]"), g.input("w", "f32[3,3]")
    picked = e.tanh(e.exp(indexing.take(table, rows, axis=0)))
    _, plan = plan_graph(g.finish(picked @ w, reduce.sum(picked, axes=(0,))))
    text = str(plan)
    lines = text.split("\n")
    assert lines[0] == "plan looked_up {" and lines[-1] == "}"
    assert lines[1].startswith(f"  arena {plan.arena_bytes} bytes")
    assert sum(line.startswith("  buffer b") for line in lines) == len(plan.buffers)
    assert sum(line.startswith("  kernel k") for line in lines) == len(kernels(plan))
    assert any(line.startswith("  check b") and "in [0, 5)" in line for line in lines)
    assert any("matmul(" in line and "test_plan.py:" in line for line in lines)
    assert "return b" in lines[-2]


# -- rules ----------------------------------------------------------------------------------------


def sound() -> Plan:
    """A check, three kernels, two arena buffers, an update in place, an output."""
    g = graphc.GraphBuilder("sound")
    x, w = g.input("x", "f32[6,6]"), g.input("w", "f32[6,6]")
    rows = g.input("rows", "i64[6]")
    first = e.tanh(indexing.take(x, rows, axis=0) @ w)
    second = e.tanh(first @ first)
    _, plan = plan_graph(g.finish(w - first @ second, reduce.sum(second, axes=(0,)),
                                  aliases=[(0, 1)]))  # fmt: skip
    return plan


def buffer_changed(plan: Plan, index: int, **changes: Any) -> Plan:
    buffers = list(plan.buffers)
    buffers[index] = replace(buffers[index], **changes)
    return replace(plan, buffers=tuple(buffers))


def step_changed(plan: Plan, index: int, **changes: Any) -> Plan:
    steps = list(plan.steps)
    steps[index] = replace(steps[index], **changes)
    return replace(plan, steps=tuple(steps))


def launches_of(plan: Plan) -> list[int]:
    return [i for i, step in enumerate(plan.steps) if isinstance(step, Launch)]


def arena_of(plan: Plan, *, nbytes: int = 144) -> list[int]:
    return [i for i, b in enumerate(plan.buffers) if b.place == "arena" and b.type.nbytes == nbytes]


def wrong_type(plan: Plan) -> Plan:
    return buffer_changed(plan, arena_of(plan)[0], type=graphc.TensorType.parse("f32[36]"))


def too_few_reads(plan: Plan) -> Plan:
    last = launches_of(plan)[-1]
    return step_changed(plan, last, reads=plan.steps[last].reads[:-1])


def writes_a_constant(plan: Plan) -> Plan:
    return buffer_changed(plan, arena_of(plan)[0], place="constant", slot=0)


def reversed_steps(plan: Plan) -> Plan:
    checks = [step for step in plan.steps if isinstance(step, Check)]
    others = [step for step in plan.steps if not isinstance(step, Check)]
    return replace(plan, steps=(*reversed(others), *checks))


def check_of_nothing(plan: Plan) -> Plan:
    (position,) = [i for i, step in enumerate(plan.steps) if isinstance(step, Check)]
    return step_changed(plan, position, least=arena_of(plan)[-1])


def overlapping(plan: Plan) -> Plan:
    one, other = arena_of(plan)[:2]
    return buffer_changed(plan, one, slot=plan.buffers[other].slot + 64)


def outside(plan: Plan) -> Plan:
    return replace(plan, arena_bytes=plan.arena_bytes - 128)


def negative(plan: Plan) -> Plan:
    return buffer_changed(plan, arena_of(plan)[0], slot=-64)


def late_check(plan: Plan) -> Plan:
    checks = tuple(step for step in plan.steps if isinstance(step, Check))
    return replace(plan, steps=(*(s for s in plan.steps if s not in checks), *checks))


def unwritten_output(plan: Plan) -> Plan:
    fresh = PlanBuffer(plan.output_types[1], "output", 1)
    return replace(plan, buffers=(*plan.buffers, fresh), outputs=(plan.outputs[0],
                                                                  len(plan.buffers)))  # fmt: skip


BROKEN: dict[str, list[Callable[[Plan], Plan]]] = {
    "P1": [wrong_type, too_few_reads, writes_a_constant],
    "P2": [reversed_steps, check_of_nothing],
    "P3": [overlapping, outside, negative],
    "P4": [late_check],
    "P5": [unwritten_output],
}


def test_a_sound_plan_is_returned() -> None:
    plan = sound()
    assert verify_plan(plan) is plan
    assert len(arena_of(plan)) >= 2 and any(isinstance(step, Check) for step in plan.steps)


@pytest.mark.parametrize(
    ("rule", "change"), [(rule, change) for rule, all_ in BROKEN.items() for change in all_]
)
def test_each_rule_is_held(rule: str, change: Callable[[Plan], Plan]) -> None:
    with pytest.raises(graphc.VerifyError, match=f"^plan rule {rule} broken"):
        verify_plan(change(sound()))


def test_an_index_out_of_range_stops_each_runner() -> None:
    plan = sound()
    x = np.ones((6, 6), np.float32)
    arrays = (x, x.copy(), np.array([0, 1, 2, 3, 4, 6]))
    for runner in (run_plan, run_plan_by_loops):
        with pytest.raises(graphc.IndexRangeError, match="index 6 is out of bounds"):
            runner(plan, arrays)


def test_an_index_is_checked_once_with_the_first_message() -> None:
    """A composite that names its own condition, and the ops inside that have the same one."""
    g = graphc.GraphBuilder("f")
    logits, target = g.input("x", "f32[6,4]"), g.input("y", "i64[6]")
    _, plan = plan_graph(g.finish(losses.cross_entropy(logits, target)))
    checks = [step for step in plan.steps if isinstance(step, Check)]
    assert [check.message for check in checks] == ["Target {} is out of bounds."]
    assert str(checks[0].error(-1, 3)).startswith("Target -1 is out of bounds.")
    assert str(checks[0].error(0, 7)).startswith("Target 7 is out of bounds.")


def test_a_condition_on_content_is_an_error_before_anything_runs() -> None:
    g = graphc.GraphBuilder("f")
    x = g.input("x", "f32[3]")
    valid = indexing.check_all(x > 0.0, message="all must be positive")
    graph = g.finish(e.where(valid, x, x * 2))
    for level in ("none", "exact"):
        executable = graphc.compile(graph, level)
        np.testing.assert_array_equal(executable(np.ones(3, np.float32))[0], 1)
        with pytest.raises(ValueError, match=r"^all must be positive\n  at: test_plan"):
            executable(np.array([1, 0, 1], np.float32))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("matmul", "%1 = matmul(%x, %x) : f32[4,4]\n%2 = exp(%1) : f32[4,4]\nreturn %2"),
        ("sum", "%1 = exp(%x) : f32[4,4]\n%2 = sum(%1) axes=[1] : f32[4]\nreturn %2"),
        ("exp", "%1 = exp(%x) : f32[4,4]\n%2 = reshape(%1) shape=[16] : f32[16]\nreturn %2"),
        ("reshape", "%1 = reshape(%x) shape=[16] : f32[16]\nreturn %1"),
        ("copy", "return %x"),
    ],
)
def test_a_kernel_is_named_by_what_is_inside(name: str, text: str) -> None:
    _, plan = plan_graph(graphc.parse(f"graph g(%x: f32[4,4]) {{\n{text}\n}}"))
    (kernel,) = kernels(plan).values()
    assert kernel == f"k0_{name}"


def test_attention_is_not_called_by_the_index_maps_behind_it() -> None:
    graph = graphc.parse("""
        graph g(%q: f32[2,2,8,16], %k: f32[2,2,8,16], %v: f32[2,2,8,16]) {
          %3 = attention(%q, %k, %v) : f32[2,2,8,16], f32[2,2,8]
          %4 = transpose(%3) permutation=[0, 2, 1, 3] : f32[2,8,2,16]
          %5 = reshape(%4) shape=[16, 32] : f32[16,32]
          return %5
        }""")
    _, plan = plan_graph(graph)
    assert list(kernels(plan).values()) == ["k0_attention"]
