"""Which nodes become one kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import graphc
from graphc.ops import composite, contract, indexing, movement, reduce
from graphc.ops import elementwise as e
from graphc.ops.nn import losses, normalization
from graphc.schedule.build import make_plan, plan_graph
from graphc.schedule.fusion import Fusion
from graphc.schedule.plan import Launch, Plan
from graphc.schedule.plan_verifier import verify_plan


def planned(
    function: Callable[..., Any], *types: str, level: str = "exact", aliases: Any = ()
) -> Plan:
    g = graphc.GraphBuilder("f")
    out = function(*(g.input(f"x{i}", type) for i, type in enumerate(types)))
    graph = g.finish(*(out if isinstance(out, tuple) else (out,)), aliases=aliases)
    return plan_graph(graph, level)[1]


def launches(plan: Plan) -> list[Launch]:
    return [step for step in plan.steps if isinstance(step, Launch)]


def ops_of(launch: Launch) -> list[str]:
    return [n.op for n in launch.kernel.body.nodes if n.op not in ("input", "constant")]


def linear(x: Any, w: Any, b: Any) -> Any:
    return e.relu(x @ w + b)


LINEAR = ("f32[8,16]", "f32[16,32]", "f32[32]")


def test_linear_with_bias_and_activation_is_one_kernel() -> None:
    plan = planned(linear, *LINEAR)
    (launch,) = launches(plan)
    assert launch.kernel.recipe == "contract"
    assert {"matmul", "add", "relu"} <= set(ops_of(launch))
    assert plan.arena_bytes == 0


def test_a_convolution_takes_its_bias_and_activation() -> None:
    flat = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}

    def layer(x: Any, w: Any, b: Any) -> Any:
        y = contract.conv(x, w, **flat)
        return e.relu(y + reduce.spread(b, (0, 2, 3), y.shape))

    (launch,) = launches(planned(layer, "f32[2,3,6,6]", "f32[8,3,3,3]", "f32[8]"))
    assert launch.kernel.recipe == "contract" and "relu" in ops_of(launch)


def test_a_transposed_operand_is_an_index_map() -> None:
    (launch,) = launches(
        planned(lambda x, w: x @ movement.transpose(w, permutation=(1, 0)), "f32[8,9]", "f32[7,9]")
    )
    assert sorted(launch.reads) == [0, 1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: composite.softmax(x, axis=1),
        lambda x: e.tanh(x - reduce.spread(composite.mean(x, axes=(1,)), (1,), x.shape)),
        lambda x: reduce.sum(e.exp(x), axes=(1,)),
        lambda x: e.sqrt(reduce.sum(x * x, axes=(1,))) + 1,
        lambda x: movement.transpose(e.exp(x) + x, permutation=(1, 0)),
        lambda x: e.sigmoid(e.tanh(e.exp(x))) * x,
    ],
)
def test_row_computations_are_one_kernel(function: Callable[[Any], Any]) -> None:
    plan = planned(function, "f32[8,40]")
    assert len(launches(plan)) == 1
    assert plan.arena_bytes == 0


def test_layer_norm_is_one_kernel() -> None:
    assert len(launches(planned(normalization.layer_norm, "f32[8,40]", "f32[40]", "f32[40]"))) == 1


def test_two_products_are_two_kernels() -> None:
    plan = planned(lambda x, w, v: e.tanh(e.tanh(x @ w) @ v), "f32[8,9]", "f32[9,9]", "f32[9,9]")
    assert [ops_of(launch) for launch in launches(plan)] == [["matmul", "tanh"]] * 2


def test_equal_kernels_are_one() -> None:
    plan = planned(lambda x, y, w: (x @ w, y @ w), "f32[8,9]", "f32[8,9]", "f32[9,9]")
    assert len(launches(plan)) == 2
    assert len({launch.kernel for launch in launches(plan)}) == 1


def test_cheap_values_are_computed_again_costly_ones_are_kept() -> None:
    def cheap(x: Any, w: Any) -> Any:
        y = x + 1
        return y @ w, reduce.sum(y, axes=(0,)), y * 2

    def costly(x: Any, w: Any) -> Any:
        y = e.tanh(e.exp(x))
        return reduce.sum(y, axes=(0,)), y @ w

    for function in (cheap, costly):
        plan = planned(function, "f32[8,16]", "f32[16,4]")
        makers = [launch for launch in launches(plan) if "exp" in ops_of(launch)]
        assert len(makers) <= 1


def training(level: str = "exact") -> Plan:
    """One linear layer: gradient of the weight, and its update in place."""
    g = graphc.GraphBuilder("training")
    x, w, y = g.input("x", "f32[8,16]"), g.input("w", "f32[16,32]"), g.input("y", "f32[8,32]")
    error = x @ w - y
    slope = movement.transpose(x, permutation=(1, 0)) @ error
    return plan_graph(g.finish(w - slope * 0.1, aliases=[(0, 1)]), level)[1]


def test_a_weight_gradient_and_its_update_are_one_kernel_in_place() -> None:
    plan = training()
    first, second = launches(plan)
    assert ops_of(first) == ["matmul", "sub"]
    assert second.kernel.recipe == "contract" and "sub" in ops_of(second)
    (written,) = second.writes
    assert plan.buffers[written].place == "argument" and plan.buffers[written].slot == 1
    assert written in second.reads and plan.outputs == (written,)


def test_an_update_waits_for_readers_of_the_old_content() -> None:
    g = graphc.GraphBuilder("waits")
    x, w = g.input("x", "f32[8,8]"), g.input("w", "f32[8,8]")
    plan = plan_graph(g.finish(w - 1, e.exp(x @ w) @ w, aliases=[(0, 1)]))[1]
    written = {i for launch in launches(plan)[:-1] for i in launch.writes}
    writes_w = [n for n, launch in enumerate(launches(plan)) if 1 in launch.writes]
    reads_w = [n for n, launch in enumerate(launches(plan)) if 1 in launch.reads]
    assert writes_w and reads_w and min(writes_w) >= max(reads_w)
    assert written


def test_merging_never_closes_a_cycle() -> None:
    """exp(x) feeds a product and what is added to the product: the three cannot be one kernel."""

    def diamond(x: Any, w: Any) -> Any:
        y = e.tanh(e.exp(x))
        z = y @ w
        total = reduce.sum(z, axes=(0,))
        return y * reduce.spread(total, (0,), y.shape) + z, y

    for level in ("none", "exact"):
        verify_plan(planned(diamond, "f32[8,8]", "f32[8,8]", level=level))


@pytest.mark.parametrize("seed", range(15))
def test_random_graphs_have_runnable_plans(seed: int) -> None:
    """The quotient is acyclic: every group's reads are made by earlier groups."""
    import random

    choose = random.Random(seed)
    g = graphc.GraphBuilder("random")
    values = [g.input("x", "f32[6,6]"), g.input("y", "f32[6,6]")]
    for _ in range(25):
        a, b = choose.choice(values), choose.choice(values)
        value = choose.choice(
            [
                lambda a, b: a + b,
                lambda a, b: e.tanh(e.exp(a)) * b,
                lambda a, b: a @ b,
                lambda a, b: a * reduce.spread(reduce.sum(b, axes=(1,)), (1,), a.shape),
                lambda a, b: a * reduce.spread(reduce.max(b, axes=(0,)), (0,), a.shape),
                lambda a, b: movement.transpose(a, permutation=(1, 0)) - b,
                lambda a, b: composite.softmax(a * b, axis=1),
            ]
        )
        values.append(value(a, b))
    graph = graphc.optimize(g.finish(*choose.sample(values[-12:], 3)), "exact")
    groups = Fusion(graph).groups
    done: set[int] = set()
    inside = {node for group in groups for node in group.nodes}
    assert len(inside) == sum(len(group.nodes) for group in groups)
    for group in groups:
        sources = {read.value.node for read in group.reads} & inside
        assert sources <= done | set(group.nodes)
        done |= set(group.nodes)
    verify_plan(make_plan(graph))


def test_level_none_has_a_kernel_and_a_buffer_per_op() -> None:
    g = graphc.GraphBuilder("plain")
    x, w, b = (g.input(f"x{i}", type) for i, type in enumerate(LINEAR))
    graph = g.finish(composite.softmax(linear(x, w, b), axis=1))
    expanded = graphc.optimize(graph, "none")
    ops = [n.op for n in expanded.nodes if n.op not in ("input", "constant")]
    plan = plan_graph(graph, "none")[1]
    assert [ops_of(launch) for launch in launches(plan)] == [[op] for op in ops]
    assert all(len(launch.writes) == 1 for launch in launches(plan))
    assert len({launch.writes for launch in launches(plan)}) == len(ops)


def test_an_index_is_checked_before_anything_is_written() -> None:
    from graphc.schedule.plan import Check

    plan = planned(
        lambda table, rows: (indexing.take(table, rows, axis=0), table * 2),
        "f32[5,3]", "i64[4]", aliases=[(1, 0)],
    )  # fmt: skip
    kinds = [isinstance(step, Check) for step in plan.steps]
    last = max(n for n, check in enumerate(kinds) if check)
    writers = [n for n, s in enumerate(plan.steps) if isinstance(s, Launch) and 0 in s.writes]
    assert kinds.count(True) == 1 and min(writers) > last


def test_sums_of_one_form_that_read_one_value_are_one_kernel() -> None:
    def both(x: Any, y: Any) -> Any:
        return reduce.sum(x * y, axes=(0,)), reduce.sum(x, axes=(0,))

    (launch,) = launches(planned(both, "f32[40,30]", "f32[40,30]"))
    assert ops_of(launch).count("sum") == 2


def test_sums_that_read_a_value_behind_a_reshape_are_one_kernel() -> None:
    """As the gradients of a normalisation of [batch, time, channels] behind a product."""

    def both(x: Any, y: Any) -> Any:
        z = movement.reshape(x, shape=(5, 8, 30))
        return reduce.sum(z * y, axes=(0, 1)), reduce.sum(z, axes=(0, 1))

    (launch,) = launches(planned(both, "f32[40,30]", "f32[5,8,30]"))
    assert ops_of(launch).count("sum") == 2


def test_reductions_of_what_both_compute_are_one_kernel() -> None:
    """The maximum of each window and its place: the windows are an index map, not a value read."""

    def pooled(x: Any) -> Any:
        windows = movement.reshape(x, shape=(6, 5, 4))
        return reduce.max(windows, axes=(2,)), reduce.argmax(windows, axes=(2,))

    (launch,) = launches(planned(pooled, "f32[6,20]"))
    assert {"max", "argmax"} <= set(ops_of(launch))


def test_sums_of_which_one_needs_the_other_stay_apart() -> None:
    def second_moment(x: Any) -> Any:
        centred = x - reduce.spread(composite.mean(x, axes=(0,)), (0,), x.shape)
        return reduce.sum(e.tanh(e.exp(centred)), axes=(0,)), reduce.sum(x, axes=(0,))

    plan = planned(second_moment, "f32[40,30]")
    assert len(launches(plan)) > 1
    verify_plan(plan)


def test_sums_of_other_shapes_or_values_stay_apart() -> None:
    def apart(x: Any, y: Any) -> Any:
        return reduce.sum(x, axes=(0,)), reduce.sum(y, axes=(0,)), reduce.sum(x, axes=(1,))

    assert len(launches(planned(apart, "f32[40,40]", "f32[40,40]"))) == 3


def test_gradients_of_a_normalisation_take_two_kernels() -> None:
    """One over the rows, with the forward pass; one for the sums over columns. What is normalised
    is computed again from mean and scale, not kept."""
    g = graphc.GraphBuilder("norm")
    inputs = [g.input("x", "f32[24,40]"), g.input("w", "f32[40]"), g.input("b", "f32[40]")]
    joint = graphc.joint(g.finish(normalization.layer_norm(*inputs)), wrt=["x", "w", "b"])
    plan = plan_graph(joint)[1]
    assert len(launches(plan)) == 2
    assert plan.arena_bytes <= 4 * 64 * 4


def test_a_value_that_is_only_picked_from_is_computed_where_it_is_picked() -> None:
    def picked(x: Any, index: Any) -> Any:
        return indexing.gather(composite.log_softmax(x, axis=1), index, axis=1)

    last = launches(planned(picked, "f32[40,30]", "i64[40,1]"))[-1]
    assert "log" in ops_of(last)


def test_the_gradient_of_cross_entropy_is_written_where_softmax_is_computed() -> None:
    """The number of targets that count comes first, so that one kernel takes the rows of logits to
    their gradient; the mean loss, which picks one of each row, comes behind."""
    g = graphc.GraphBuilder("loss")
    logits, target = g.input("logits", "f32[60,40]"), g.input("target", "i64[60]")
    joint = graphc.joint(g.finish(losses.cross_entropy(logits, target)), wrt=["logits"])
    plan = plan_graph(joint)[1]
    (rows,) = [step for step in launches(plan) if "exp" in ops_of(step)]
    (gradient,) = [i for i, type in enumerate(plan.output_types) if type.shape == (60, 40)]
    assert "max" in ops_of(rows) and plan.outputs[gradient] in rows.writes


def training_chain(layers: int = 6) -> graphc.Graph:
    """A chain of products, its gradients, and an update of each weight."""
    g = graphc.GraphBuilder("chain")
    x = g.input("x", "f32[64,16]")
    weights = [g.input(f"w{i}", "f32[16,16]") for i in range(layers)]
    rate = g.input("rate", "f32[]")
    values = [x]
    for w in weights:
        values.append(graphc.ops.tanh(values[-1] @ w))
    gradient = values[-1]
    scale = graphc.ops.broadcast(graphc.ops.exp(rate), shape=(16, 16))
    updated = []
    for w, before, after in zip(weights[::-1], values[-2::-1], values[:0:-1]):
        gradient = gradient * (1 - after * after)
        by_weight = graphc.ops.transpose(before, permutation=(1, 0)) @ gradient
        gradient = gradient @ graphc.ops.transpose(w, permutation=(1, 0))
        updated.append(w - by_weight)
    scaled = [w * scale for w in updated]
    return g.finish(*scaled, aliases=[(i, layers - i) for i in range(layers)])


def test_a_weight_is_updated_where_its_gradient_is_made() -> None:
    """Behind the product that still reads it, so in place, and ahead of the layers before it: what
    its gradient reads is not kept until the end."""
    layers = 6
    plan = plan_graph(training_chain(layers))[1]
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    updates = [
        at for at, launch in enumerate(launches)
        if any(plan.buffers[i].place == "argument" for i in launch.writes)
    ]  # fmt: skip
    assert len(updates) == layers and "copy" not in [one.kernel.body.name for one in launches]
    assert updates[0] < len(launches) - layers
    assert plan.arena_bytes <= (layers + 3) * 64 * 16 * 4
