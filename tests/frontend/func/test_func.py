"""frontend.func without PyTorch: in traces, with random numbers, and what stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

import frontend as torch
from frontend import nn
from frontend.func import functional_call, grad, hessian, jacfwd, jacrev, vjp, vmap


def test_derivatives_of_a_polynomial() -> None:
    x = torch.tensor([1.0, 2.0])
    assert grad(lambda a: (a**3).sum())(x).tolist() == [3.0, 12.0]
    assert jacrev(lambda a: a**2)(x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert jacfwd(lambda a: a**2)(x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert hessian(lambda a: (a**3).sum())(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_what_does_not_depend_on_an_argument_has_zeros() -> None:
    x, y = torch.ones(2), torch.ones(3)
    assert grad(lambda a, b: a.sum(), argnums=1)(x, y).tolist() == [0.0, 0.0, 0.0]
    assert jacfwd(lambda a: y)(x).shape == (3, 2)
    _, pull = vjp(lambda a: (y, a * 2), x)
    assert pull((y, x))[0].tolist() == [2.0, 2.0]


def test_a_compiled_module_function_keeps_its_specialization() -> None:
    layer = nn.Linear(3, 2)
    weight, bias = layer.weight, layer.bias

    def step(parameters: Any, x: Any) -> Any:
        return grad(lambda p: functional_call(layer, p, (x,)).square().sum())(parameters)

    compiled = torch.compile(step)
    for scale in (1.0, 2.0):
        weights = {"weight": torch.ones(2, 3) * scale, "bias": torch.zeros(2)}
        x = torch.ones(4, 3)
        eager, mine = step(weights, x), compiled(weights, x)
        assert all(torch.allclose(mine[name], eager[name]) for name in eager)
    assert len(compiled.specializations) == 1
    assert layer.weight is weight and layer.bias is bias and weight.grad is None


def test_an_error_puts_the_parameters_back() -> None:
    layer = nn.Linear(3, 2)
    weight = layer.weight
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        functional_call(layer, {"weight": torch.ones(2, 4)}, (torch.ones(1, 3),))
    assert layer.weight is weight


@pytest.mark.parametrize("compiled", [False, True])
def test_random_numbers_of_a_batch(compiled: bool) -> None:
    def draw(x: Any, how: str) -> Any:
        return vmap(lambda a: a + torch.rand(2), randomness=how)(x)

    draw = torch.compile(draw) if compiled else draw
    x = torch.zeros(3, 2)
    same, different = draw(x, "same"), draw(x, "different")
    assert same[0].tolist() == same[1].tolist() == same[2].tolist()
    assert len({tuple(row) for row in different.tolist()}) == 3
    assert draw(x, "same")[0].tolist() != same[0].tolist()
    with pytest.raises(RuntimeError, match="called random operation while in randomness error"):
        draw(x, "error")


def test_a_mapped_function_may_decide_by_value() -> None:
    choose = vmap(lambda a: a * 2 if a.sum() > 0 else -a)
    assert choose(torch.tensor([[1.0], [-1.0]])).tolist() == [[2.0], [1.0]]


def test_a_tape_is_swept_for_every_example_and_freed_for_the_last() -> None:
    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = (weight * weight).sum(1)

    def rows(seeds: Any) -> Any:
        return torch.autograd.grad(y, weight, seeds)[0]

    (first, second) = vmap(rows)(torch.eye(2))
    assert first.tolist() == [[2.0, 4.0], [0.0, 0.0]]
    assert second.tolist() == [[0.0, 0.0], [6.0, 8.0]]
    with pytest.raises(RuntimeError, match="a second time"):
        vmap(rows)(torch.eye(2))


def test_a_tape_is_freed_where_an_example_fails() -> None:
    x = torch.ones(2, requires_grad=True)

    def fails(seed: Any) -> Any:
        raise KeyError("in an example")

    with pytest.raises(KeyError, match="in an example"):
        vmap(fails)(torch.eye(2))
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()
