"""State around compiled functions: what a call leaves behind, and what it takes, is as in eager
mode, whoever changed it in between."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn, optim
from frontend.optim.groups import OptimizerSource
from graphc.errors import GraphError, TraceError

ONES = torch.ones(2)


def leaf(*values: float) -> Any:
    return torch.tensor(values, requires_grad=True)


def plain(value: Any) -> Any:
    """Values to compare."""
    if isinstance(value, torch.Tensor):
        return value.detach().tolist(), value.requires_grad
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def same(run: Callable[[Any], Any]) -> Any:
    """`run(compile)` gives the same eager and compiled."""
    want = plain(run(lambda function: function))
    assert plain(run(torch.compile)) == want
    return want


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_are_cleared_inside_and_made_outside(set_to_none: bool) -> None:
    def run(compile: Any) -> Any:
        w = leaf(1.0, 2.0)
        optimizer = optim.SGD([w], lr=0.1)

        def loss(x: Any) -> Any:
            optimizer.zero_grad(set_to_none)
            return (w * w * x).sum()

        compiled, seen = compile(loss), []
        for _ in range(3):
            compiled(ONES).backward()
            seen.append(w.grad.clone())
            optimizer.step()
        return seen

    assert same(run)[0] == ([2.0, 4.0], False)


def test_gradients_that_are_left_beside_a_result_to_differentiate() -> None:
    def run(compile: Any) -> Any:
        w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)

        def some(x: Any) -> Any:
            loss = (w * w * x * v).sum()
            loss.backward(inputs=[w], retain_graph=True)
            return loss

        def assigned(x: Any) -> Any:
            loss = (v * v * x).sum()
            v.grad = torch.autograd.grad(loss, [v], retain_graph=True)[0]
            return loss, v.grad

        one, other = compile(some), compile(assigned)
        one(ONES)
        result = one(ONES)
        result.backward()
        loss, grad = other(ONES)
        return w.grad, v.grad, loss, grad is v.grad

    same(run)


def test_what_no_given_result_depends_on_has_no_gradient() -> None:
    def run(compile: Any) -> Any:
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        pair = compile(lambda x: ((a * x).sum(), (a * b * x).sum()))
        first, second = pair(ONES)
        first.backward(retain_graph=True)
        alone = b.grad
        second.backward()
        return alone, a.grad, b.grad

    assert same(run)[0] is None


def test_gradients_of_arguments_are_those_of_the_arguments() -> None:
    """`.grad` of an argument is read from what is given, not from what was traced."""

    def run(compile: Any) -> Any:
        step = compile(lambda x: (x * x).sum().backward())
        first, second = leaf(1.0, 2.0), leaf(3.0, 4.0)
        for x in (first, first, first, second, second, second):
            step(x)
        return first.grad, second.grad

    assert same(run) == [([6.0, 12.0], False), ([18.0, 24.0], False)]


def test_what_a_step_returns_is_not_differentiated_again() -> None:
    w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)

    @torch.compile
    def step(x: Any) -> Any:
        (w * x).sum().backward()
        return (v * x).sum()

    result = step(ONES)
    assert result.requires_grad and result.item() == 7
    with pytest.raises(GraphError, match="a result of the compiled step, which calls backward"):
        (result + w.sum()).backward()


def test_two_grads_that_are_one_tensor_are_refused() -> None:
    w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    w.grad = v.grad = torch.zeros(2)
    with pytest.raises(TraceError, match=r"the \.grad of another tensor"):
        torch.compile(lambda x: (w * v * x).sum().backward(), fullgraph=True)(ONES)


def test_a_flag_that_is_only_read_is_guarded() -> None:
    def run(compile: Any) -> Any:
        parameters = [leaf(1.0, 2.0), leaf(3.0, 4.0)]
        decay = compile(lambda x: x + sum((p * p).sum() for p in parameters if p.requires_grad))
        results = [decay(ONES)]
        parameters[0].requires_grad_(False)
        results.append(decay(ONES))
        parameters[0].requires_grad_(True)
        return [*results, decay(ONES)]

    same(run)


# -- hooks of tensors ------------------------------------------------------------------------------


@pytest.mark.parametrize("captured", [True, False])
def test_hooks_of_leaves_trace_again(captured: bool) -> None:
    def run(compile: Any) -> Any:
        w, seen = leaf(1.0, 2.0), []
        used = compile(lambda x, *more: (w * x if captured else more[0] * x).sum().backward())
        factor = 3.0

        def doubled(parameter: Any) -> None:
            with torch.no_grad():
                parameter.grad.mul_(2)

        def step() -> None:
            w.grad = None
            used(ONES, *([] if captured else [w]))
            seen.append(w.grad)

        step()
        handle = w.register_hook(lambda gradient: gradient * factor)
        step()
        factor = 5.0
        step()
        handle.remove()
        w.register_post_accumulate_grad_hook(doubled)
        step()
        return seen

    assert [values[0] for values, _ in same(run)] == [1.0, 3.0, 5.0, 2.0]


def test_a_hook_of_a_leaf_from_outside_is_refused_in_a_trace() -> None:
    w = leaf(1.0, 2.0)
    with pytest.raises(TraceError, match="a hook is registered while tracing"):
        torch.compile(lambda x: (w.register_hook(print), w * x)[1], fullgraph=True)(ONES)
    assert not w._hooks


# -- values from outside ---------------------------------------------------------------------------


def test_a_view_whose_base_was_changed_before_the_trace_is_as_before_it() -> None:
    base = torch.ones(5, 3)
    view = base[3:]
    base.add_(1)
    double = torch.compile(lambda x: view * x)
    assert double(torch.ones(2, 3)).tolist() == [[2.0] * 3] * 2
    assert isinstance(view._value, np.ndarray) and view._base is base
    base.add_(1)
    assert double(torch.ones(2, 3)).tolist() == (view * 1).tolist() == [[3.0] * 3] * 2


def test_an_argument_that_the_function_also_reads_from_outside() -> None:
    w, u = leaf(1.0, 2.0), leaf(5.0, 6.0)
    product = torch.compile(lambda a: (a * w).sum())
    assert [product(w).item(), product(u).item(), product(w).item()] == [5, 17, 5]
    step = torch.compile(lambda a: (a * w).sum().backward())
    for a in (u, w, u):
        w.grad = u.grad = None
        step(a)
        assert w.grad.tolist() == ([2, 4] if a is w else [5, 6])


def test_the_class_of_an_argument_belongs_to_the_signature() -> None:
    chosen = torch.compile(lambda a: a * 2 if isinstance(a, nn.Parameter) else a * 3)
    parameter, plain = nn.Parameter(torch.ones(1)), torch.ones(1, requires_grad=True)
    assert [chosen(parameter).item(), chosen(plain).item(), chosen(parameter).item()] == [2, 3, 2]


def test_signs_of_zero_and_nan_among_arguments() -> None:
    inverse = torch.compile(lambda x, k: x / torch.full((1,), k))
    one = torch.ones(1)
    assert [inverse(one, k).item() for k in (0.0, -0.0)] == [float("inf"), -float("inf")]
    for _ in range(3):
        inverse(one, float("nan") + len(inverse.specializations))
    assert len(inverse.specializations) == 2


def test_history_of_a_tensor_from_outside_is_refused() -> None:
    w, buffer = leaf(1.0, 2.0), torch.zeros(2)
    with pytest.raises(TraceError, match="changed in place by one that requires gradients"):
        torch.compile(lambda x: buffer.add_(w * x).sum(), fullgraph=True)(ONES)
    assert buffer.tolist() == [0, 0]
    torch.compile(lambda x: buffer.add_((w * x).detach()).sum(), fullgraph=True)(ONES)
    assert buffer.tolist() == [1, 2]


def test_shapes_of_tensors_that_are_not_read_otherwise() -> None:
    buffer = torch.ones(3)
    counted = torch.compile(lambda x: x * buffer.shape[0] * len(buffer))
    assert counted(torch.ones(1)).item() == 9
    buffer.data = torch.ones(5)
    assert counted(torch.ones(1)).item() == 25


def test_random_numbers_of_python_and_numpy_are_refused() -> None:
    held = random.Random(1), np.random.default_rng(1), np.random.RandomState(1)
    for draw in (random.random, np.random.rand, held[0].random, held[1].random, held[2].rand):
        message = r"draws random numbers(.*\n.*)draw with frontend\.rand"
        with pytest.raises(TraceError, match=message):
            torch.compile(lambda x, draw=draw: x * draw(), fullgraph=True)(ONES)


def test_groups_of_an_optimizer_that_are_changed_past_its_methods() -> None:
    w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    optimizer = optim.SGD([w, v], lr=1.0)

    @torch.compile
    def step(x: Any) -> None:
        optimizer.zero_grad()
        (w * v * x).sum().backward()
        optimizer.step()

    step(ONES)
    optimizer.param_groups[0]["params"].pop()
    before = v.tolist()
    step(ONES)
    assert v.tolist() == before and w.tolist() != [-2.0, -2.0]
    sources = [guard.source for guard in step.specializations[0].guards]
    assert any(isinstance(source, OptimizerSource) for source in sources)


# -- results ---------------------------------------------------------------------------------------


def test_what_is_returned_twice_is_one_tensor() -> None:
    w = leaf(1.0, 2.0)

    def step(x: Any) -> Any:
        (w * x).sum().backward()
        result = x * 2
        return {"all": [result, w.grad], "first": result}

    for function in (step, torch.compile(step)):
        w.grad = None
        out = function(ONES)
        assert out["all"][0] is out["first"] and out["all"][1] is w.grad


def test_copies_and_pickles_compile_anew() -> None:
    layer = torch.compile(nn.Linear(2, 2), level="none")
    want = layer(ONES).tolist()
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert copied.options.level == "none" and not copied.specializations
        with torch.no_grad():
            layer.weight.zero_()
        assert copied(ONES).tolist() == want


# -- branches and loops ----------------------------------------------------------------------------


def test_what_a_branch_read_may_be_changed_afterwards() -> None:
    def run(compile: Any) -> Any:
        w, buffer = leaf(1.0, 2.0), torch.ones(2)

        def step(x: Any) -> Any:
            branch = torch.cond(
                x.sum() > 0,
                lambda x: x * 2 + w + buffer.mul_(0.5).sum() * w, lambda x: x + w, (x,),
            )  # fmt: skip
            x.mul_(0.25)
            branch.sum().backward()

        compiled, x = compile(step), torch.ones(2)
        compiled(x)
        compiled(x)
        return w.grad, buffer, x

    same(run)


# -- threads ---------------------------------------------------------------------------------------


def test_first_calls_from_several_threads() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x, results = torch.ones(2, 3), []
    want = model(x).tolist()
    compiled, start = torch.compile(model), threading.Barrier(4)

    def work() -> None:
        start.wait()
        for _ in range(5):
            result = compiled(x)
            torch.autograd.grad(result.sum(), [model[0].weight])
            results.append(np.allclose(result.tolist(), want))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 20 and len(compiled.specializations) == 1
