"""frontend.fx: graphs of what functions and Modules call, looked at, changed and run."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from typing import Any

import pytest

import frontend as torch
from frontend import fx, nn
from frontend.fx.node import map_aggregate
from frontend.fx.proxy import TraceError
from frontend.nn import functional as F


def whole(x: Any) -> Any:
    return int(x.sum())


fx.wrap("whole")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.parts = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("shift", torch.full((2,), 0.5))
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Any, y: Any = None, *, double: bool = False) -> Any:
        h = self.parts(torch.tanh(self.first(x))) * self.scale + self.shift
        a, b = torch.split(h, [1, 1], dim=1)
        return {"h": h.view(h.shape[0], -1)[:, :1], "ab": (F.relu(a), 1 - b)}


def traced() -> tuple[Block, fx.GraphModule]:
    module = Block()
    return module, fx.symbolic_trace(module)


def same(x: Any, y: Any) -> bool:
    left: list[Any] = []
    right: list[Any] = []
    map_aggregate(x, left.append)
    map_aggregate(y, right.append)
    return len(left) == len(right) and all(map(torch.equal, left, right))


X = torch.arange(6.0).reshape(2, 3)


def test_a_traced_module_does_the_same() -> None:
    module, graph_module = traced()
    assert same(graph_module(X), module(X))
    kinds = [(n.op, n.target) for n in graph_module.graph.nodes]
    assert kinds[:5] == [
        ("placeholder", "x"), ("placeholder", "y"), ("placeholder", "double"),
        ("call_module", "first"), ("call_function", torch.tanh),
    ]  # fmt: skip
    assert ("call_module", "parts.1") in kinds and ("get_attr", "scale") in kinds
    assert ("call_method", "view") in kinds and ("call_function", F.relu) in kinds
    assert graph_module.scale is module.scale and not hasattr(graph_module, "unused")
    assert "torch.tanh(first);  first = None" in graph_module.code


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "compile", "interpreter", "transformer"])
def test_other_ways_to_run_a_graph(how: str) -> None:
    module, graph_module = traced()
    expected = module(X)
    if how == "deepcopy":
        other = copy.deepcopy(graph_module)
        assert other.first is not module.first and type(other) is not type(graph_module)
    elif how == "pickle":
        other = pickle.loads(pickle.dumps(graph_module))
    elif how == "compile":
        other = torch.compile(graph_module)
        assert torch.allclose(other(X)["h"], expected["h"])
        return
    else:
        runner = fx.Interpreter if how == "interpreter" else fx.Transformer
        run = runner(graph_module)
        other = run.run if how == "interpreter" else run.transform()
    assert same(other(X), expected)


def test_gradients_reach_the_parameters() -> None:
    module, graph_module = traced()
    graph_module(X)["h"].sum().backward()
    assert module.scale.grad is not None and module.first.weight.grad is not None


CONTROL_FLOW = {
    "if": lambda x: x if x.sum() > 0 else -x,
    "and": lambda x: x and 1,
    "in": lambda x: x in [1],
    "not": lambda x: not x,
    "while": lambda x: [x for _ in iter(lambda: bool(x), True)],
}
ITERATION = {
    "for": lambda x: [item for item in x],
    "star": lambda x: torch.cat([*x]),
    "contains": lambda x: 1 in x,
}


@pytest.mark.parametrize("name", [*CONTROL_FLOW, *ITERATION])
def test_decisions_by_value_are_refused(name: str) -> None:
    text = "symbolically traced variables cannot be used as inputs to control flow"
    function = CONTROL_FLOW.get(name) or ITERATION[name]
    with pytest.raises(TraceError, match=text if name in CONTROL_FLOW else "cannot be iterated"):
        fx.symbolic_trace(function)


def test_other_values_that_are_not_there() -> None:
    with pytest.raises(RuntimeError, match="'len' is not supported in symbolic tracing by default"):
        fx.symbolic_trace(lambda x: len(x))
    with pytest.raises(TypeError, match="not 'Proxy'"):
        fx.symbolic_trace(lambda x: int(x))
    with pytest.raises(NotImplementedError, match="argument of type"):
        fx.symbolic_trace(lambda x: torch.add(x, bytearray()))


def test_patches_are_gone_after_an_error() -> None:
    call, sine = nn.Module.__call__, math.sin
    with pytest.raises(TraceError, match="cannot be used as inputs to control flow"):
        fx.symbolic_trace(CONTROL_FLOW["if"])
    assert nn.Module.__call__ is call and math.sin is sine


def test_wrapped_functions_and_math_are_leaves() -> None:
    graph_module = fx.symbolic_trace(lambda x: x * whole(x) + math.sqrt(x.shape[0]))
    targets = [n.target for n in graph_module.graph.nodes if n.op == "call_function"]
    assert math.sqrt in targets and any(getattr(t, "__name__", "") == "whole" for t in targets)
    assert torch.equal(graph_module(X), X * 15 + math.sqrt(2))
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("whole")


def test_arguments_that_take_the_rest() -> None:
    def function(x: Any, *rest: Any, scale: float = 2.0, **named: Any) -> Any:
        return x * scale + rest[0] * named["y"]

    graph_module = fx.symbolic_trace(function)
    one = torch.ones(1)
    assert graph_module(one, one * 3, y=one * 5).tolist() == [17.0]


def test_concrete_arguments() -> None:
    def function(x: Any, flag: bool, n: int = 1) -> Any:
        return x * n if flag else x

    graph_module = fx.symbolic_trace(function, concrete_args={"flag": True})
    assert graph_module(X).equal(X) and graph_module(X, True, 3).equal(X * 3)
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        graph_module(X, False)


def test_assertions_stay_in_the_graph() -> None:
    def function(x: Any) -> Any:
        torch._assert(x.shape[0] == 2, "two rows")
        return x * 2

    graph_module = fx.symbolic_trace(function)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    assert "torch._assert(eq, 'two rows')" in graph_module.code
    assert graph_module(X).equal(X * 2)
    with pytest.raises(AssertionError, match="two rows"):
        graph_module(X[:1])


def test_a_tracer_decides_what_is_a_leaf() -> None:
    class Whole(fx.Tracer):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return module_qualified_name == "parts" or super().is_leaf_module(
                m, module_qualified_name
            )

    module = Block()
    graph = Whole().trace(module)
    assert [n.target for n in graph.find_nodes(op="call_module")] == ["first", "parts"]
    assert same(fx.GraphModule(module, graph)(X), module(X))


def test_constants_become_attributes() -> None:
    constant = torch.tensor([1.0, 2.0, 3.0])
    graph_module = fx.symbolic_trace(lambda x: x + constant)
    assert graph_module._tensor_constant0 is constant
    assert graph_module(X).equal(X + constant)


def test_operators_on_either_side() -> None:
    def function(x: Any) -> Any:
        return (-(x**2), 2**-x, (x > 1) & ~(x < 0), 7 // (x + 1), X @ x.T, x[..., 1:], X - x)

    assert same(fx.symbolic_trace(function)(X), function(X))


# -- changing ------------------------------------------------------------------------------------


def test_changing_a_graph() -> None:
    graph_module = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    graph = graph_module.graph
    (relu,) = graph.find_nodes(op="call_function", target=torch.relu)
    with graph.inserting_after(relu):
        negative = graph.call_function(torch.neg, (relu,))
    relu.replace_all_uses_with(negative, lambda user: user is not negative)
    with graph.inserting_before():
        first = graph.call_function(torch.ones, (1,))
    assert next(iter(graph.nodes)) is first and negative.prev is relu and relu.next is negative
    relu.target = torch.sigmoid
    graph.lint()
    graph_module.recompile()
    assert torch.equal(graph_module(X), 1 - torch.sigmoid(X))
    assert graph.eliminate_dead_code() and first not in list(graph.nodes)
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(relu)


def test_users_follow_arguments() -> None:
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    total = graph.call_function(operator.add, ([x, {"k": y}], slice(y, None)))
    assert total.all_input_nodes == [x, y] and list(y.users) == [total]
    total.replace_input_with(y, x)
    assert total.all_input_nodes == [x] and not y.users
    total.args = (y,)
    total.insert_arg(1, 3)
    assert total.args == (y, 3) and list(y.users) == [total] and not x.users
    with pytest.raises(NotImplementedError, match="does not support mutation"):
        graph.call_function(torch.cat, ([x, y],)).args[0].append(x)


def test_lint_finds_what_is_out_of_order() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_method("abs", (x,))
    y.append(x)
    with pytest.raises(RuntimeError, match="was used before it has been defined"):
        graph.lint()


def test_names_hide_nothing() -> None:
    graph = fx.Graph()
    names = [graph.create_node("call_method", t).name for t in ("sum", "sum", "view", "view", "if")]
    assert names == ["sum_1", "sum_2", "view", "view_1", "if_1"]


def test_a_function_and_its_value_have_names_of_their_own() -> None:
    def twice(x: Any) -> Any:
        return x * 2

    graph = fx.Graph()
    value = graph.placeholder("x")
    for _ in range(2):
        value = graph.call_function(twice, (value,))
    graph.output(graph.call_function(torch.ops.aten.add.Tensor, (value, 1)))
    module = fx.GraphModule(nn.Module(), graph)
    assert "torch.ops.aten.add.Tensor(twice_1, 1)" in module.code
    assert torch.equal(module(X), X * 4 + 1)


def test_blocks_of_the_profiler_as_calls_of_a_graph() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    block = graph.call_function(torch.ops.profiler._record_function_enter, ("foo",))
    y = graph.call_function(torch.relu, (x,))
    graph.call_function(torch.ops.profiler._record_function_exit, (block,))
    graph.output(y)
    module = fx.GraphModule(nn.Module(), graph)
    with torch.profiler.profile() as profile:
        module(X)
    assert {event.key for event in profile.key_averages()} >= {"foo", "relu"}
    with pytest.raises(AttributeError, match="profiler"):
        torch.ops.profiler.nothing  # noqa: B018


def test_graphs_are_texts_and_tables(capsys: Any) -> None:
    graph = fx.symbolic_trace(lambda x, k=2: torch.relu(x).sum(dim=1)).graph
    assert str(graph).splitlines() == [
        "graph():",
        "    %x : [num_users=1] = placeholder[target=x]",
        "    %k : [num_users=0] = placeholder[target=k](default=2)",
        "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})",
        "    %sum_1 : [num_users=1] = call_method[target=sum](args = (%relu,), kwargs = {dim: 1})",
        "    return sum_1",
    ]
    graph.print_tabular()
    assert capsys.readouterr().out.splitlines()[0].split() == [
        "opcode", "name", "target", "args", "kwargs",
    ]  # fmt: skip


def test_submodules_come_and_go() -> None:
    _, graph_module = traced()
    assert graph_module.add_submodule("extra.deep", nn.Linear(1, 1))
    graph_module.delete_all_unused_submodules()
    assert not hasattr(graph_module, "extra") and hasattr(graph_module, "parts")
    assert graph_module.delete_submodule("first") and not graph_module.delete_submodule("first")


def test_a_pattern_is_replaced() -> None:
    def pattern(a: Any, b: Any) -> Any:
        return torch.relu(a) + b

    def replacement(a: Any, b: Any) -> Any:
        return torch.maximum(a, b)

    graph_module = fx.symbolic_trace(lambda x, y: (torch.relu(torch.relu(x) + y) + x) * 2)
    matches = fx.replace_pattern(graph_module, pattern, replacement)
    assert len(matches) == 2
    graph_module.graph.lint()
    y = torch.ones(2, 3)
    assert torch.equal(graph_module(X, y), torch.maximum(torch.maximum(X, y), X) * 2)


def test_a_transformer_changes_what_is_called() -> None:
    class Swapped(fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_function(torch.cos if target is torch.sin else target, args, kwargs)

    graph_module = Swapped(fx.symbolic_trace(lambda x: torch.sin(x) + 1)).transform()
    assert torch.equal(graph_module(X), torch.cos(X) + 1)


def test_an_interpreter_names_the_node_of_an_error() -> None:
    graph_module = fx.symbolic_trace(lambda x, y: x @ y)
    with pytest.raises(RuntimeError) as raised:
        fx.Interpreter(graph_module).run(X, X)
    assert any("%matmul" in note for note in raised.value.__notes__)


def test_einsum_is_recorded_with_its_operands_one_by_one() -> None:
    def product(a: Any, b: Any) -> Any:
        return torch.einsum("ij,jk->ik", (a, b))

    module = fx.symbolic_trace(product)
    call = next(node for node in module.graph.nodes if node.op == "call_function")
    assert [str(arg) for arg in call.args] == ["ij,jk->ik", "a", "b"]
    x, y = torch.ones(2, 3), torch.ones(3, 4)
    assert module(x, y).tolist() == (x @ y).tolist()
