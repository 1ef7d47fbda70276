"""Gradient rules that backward runs on arrays: the bits of the rules' ops run one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.engine.eager.tape import FreedError, ModifiedError
from frontend.nn import functional as F
from frontend.nn.recurrent import fixed_of, gates_of, step_of, weights_of


def drawn(*shape: int) -> torch.Tensor:
    values = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    return torch.tensor(values, requires_grad=True)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "two shapes": (lambda x, y, z: (x * y - z) / (y.exp() + 2), ((3, 4), (4,), ())),
    "view and product": (lambda x, y: x.t() @ y.view(3, 5), ((3, 4), (15,))),
    "linear": (lambda x, w, b: F.relu(F.linear(x, w, b)), ((2, 3), (4, 3), (4,))),
    "one use twice": (lambda x: x * x + x, ((5,),)),
    "part of an array": (lambda x: x[1:].sum(0) + x.max(0)[0], ((3, 4),)),
    "positions": (lambda x: x[torch.tensor([0, -1, 0]), torch.tensor([1, 2, 1])], ((3, 4),)),
    "topk": (lambda x: x.topk(2, 1)[0], ((3, 4),)),
    "normal": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), ((6, 4), (4,), (4,))),
    "one operand in vain": (lambda x, y: torch.where(x > 0, x, y).relu(), ((3, 4), (3, 4))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_have_the_bits_of_recorded_ones(name: str) -> None:
    program, shapes = PROGRAMS[name]
    operands = [drawn(*shape) for shape in shapes]
    weight = drawn(*program(*operands).shape).detach()
    recorded = torch.autograd.grad((program(*operands) * weight).sum(), operands, create_graph=True)
    for times in (1, 2):  # the second is added to the first
        (program(*operands) * weight).sum().backward()
        for operand, expected in zip(operands, recorded):
            assert operand.grad is not None
            sum_of_all = expected.detach() if times == 1 else expected.detach() + expected.detach()
            assert operand.grad.numpy().tobytes() == sum_of_all.numpy().tobytes()


def test_what_was_changed_or_freed_is_told() -> None:
    x, y = drawn(3), drawn(2, 3)
    scaled = x * 2
    product = scaled * y
    scaled.detach().zero_()
    with pytest.raises(ModifiedError, match="MulBackward0, is at version 1; expected version 0"):
        product.sum().backward()
    total = (x * y).sum()
    total.backward()
    with pytest.raises(FreedError, match="a second time"):
        total.backward()


def test_a_gradient_belongs_to_its_leaf_alone() -> None:
    """Two leaves of one gradient, and a later sum, share no memory with each other."""
    x, y = drawn(4), drawn(4)
    (x + y).backward(torch.ones(4))
    assert x.grad is not None and y.grad is not None
    x.grad.mul_(5)
    assert y.grad.tolist() == [1.0] * 4
    before = x.grad
    version = before._version
    (x + y).backward(torch.ones(4))
    assert x.grad is before and before._version == version + 1
    assert before.tolist() == [6.0] * 4 and y.grad.tolist() == [2.0] * 4


def test_hooks_see_and_replace_gradients_on_the_way() -> None:
    x = drawn(3)
    doubled, seen = x * 2, []
    doubled.register_hook(lambda gradient: seen.append(gradient.tolist()) or gradient * 10)
    node = (doubled + drawn(2, 3)).sum().grad_fn
    assert node is not None
    (doubled + drawn(2, 3)).sum().backward()
    assert seen == [[2.0, 2.0, 2.0]] and x.grad.tolist() == [40.0] * 3


def test_the_rule_of_two_shapes_is_differentiated_again() -> None:
    x, y = drawn(3, 2), drawn(2)
    (first,) = torch.autograd.grad((x * y * y).sum(), y, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), y)
    np.testing.assert_allclose(second.numpy(), 2 * x.detach().numpy().sum(0), rtol=1e-6)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
@pytest.mark.parametrize("bias", [True, False])
def test_a_cell_has_the_bits_of_the_layers_step(kind: Any, bias: bool) -> None:
    torch.manual_seed(0)
    cell, x = kind(3, 4, bias=bias), drawn(2, 3)
    mode = "LSTM" if kind is nn.LSTMCell else "GRU"
    states = (drawn(2, 4), drawn(2, 4) * 2)[: 2 if mode == "LSTM" else 1]
    leaves = [x, *cell.parameters()]

    def total(results: Any) -> Any:
        return sum((each * each).sum() for each in results)

    now = cell(x, states if mode == "LSTM" else states[0])
    now = now if mode == "LSTM" else (now,)
    weights = weights_of(cell)
    steps, _ = step_of(mode, fixed_of(mode, weights))(states, gates_of(mode, weights, x))
    assert [each.detach().numpy().tobytes() for each in now] == [
        each.detach().numpy().tobytes() for each in steps
    ]
    for own, expected in zip(
        torch.autograd.grad(total(now), leaves, retain_graph=True),
        torch.autograd.grad(total(steps), leaves),
    ):
        np.testing.assert_allclose(own.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert now[0].grad_fn is not None
    assert now[0].grad_fn.next_functions[0][0].name() == "AccumulateGrad"  # one node


def test_a_number_is_written_by_a_mask() -> None:
    x = torch.arange(6.0).view(2, 3)
    version = x._version
    x[x > 2] = 0
    assert x.tolist() == [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]] and x._version == version + 1
    x[torch.tensor([False, True])] = 1.5
    assert x[1].tolist() == [1.5] * 3
    with pytest.raises(IndexError, match="does not match"):
        x[torch.tensor([True, False, True])] = 1.0
