"""torch.utils.checkpoint and saved_tensors_hooks: gradients as without, and what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.autograd.graph import register_multi_grad_hook, save_on_cpu, saved_tensors_hooks
from frontend.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential


def _model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3), nn.Sigmoid())


def _gradients(run: Any) -> list[Any]:
    model = _model()
    torch.manual_seed(1)
    x = torch.randn(6, 4, requires_grad=True)
    run(model, x).square().sum().backward()
    return [x.grad.numpy(), *[p.grad.numpy() for p in model.parameters()]]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradients_and_dropout_are_those_without(use_reentrant: bool) -> None:
    expected = _gradients(lambda model, x: model(x))
    again = _gradients(lambda m, x: checkpoint(m, x, use_reentrant=use_reentrant))
    parts = _gradients(lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=use_reentrant))
    for x, y, z in zip(expected, again, parts, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(x, z)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_the_function_runs_twice_eagerly(use_reentrant: bool) -> None:
    calls = []

    def function(x: Any) -> Any:
        calls.append(1)
        return x.exp().sin()

    x = torch.ones(3, requires_grad=True)
    y = checkpoint(function, x, use_reentrant=use_reentrant)
    assert len(calls) == 1
    y.sum().backward()
    assert len(calls) == 2
    np.testing.assert_allclose(x.grad.numpy(), np.e * np.cos(np.e) * np.ones(3), rtol=1e-5)


def test_grad_goes_through_and_a_compiled_step_is_the_same() -> None:
    w = torch.ones(3, requires_grad=True)

    def loss(x: Any) -> Any:
        return checkpoint(lambda x: (x * w).exp(), x, use_reentrant=False).sum()

    (gradient,) = torch.autograd.grad(loss(torch.arange(3.0)), w)
    np.testing.assert_allclose(gradient.numpy(), np.arange(3) * np.exp(np.arange(3)), rtol=1e-6)

    @torch.compile
    def step(x: Any) -> Any:
        value = loss(x)
        value.backward()
        return value

    step(torch.arange(3.0))
    np.testing.assert_allclose(w.grad.numpy(), gradient.numpy(), rtol=1e-6)


def test_a_second_run_that_differs_is_an_error() -> None:
    sizes = iter((2, 3))
    x = torch.ones(3, requires_grad=True)
    y = checkpoint(lambda x: x[: next(sizes)].exp(), x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different metadata"):
        y.sum().backward()


def test_hooks_pack_what_nodes_save() -> None:
    packed = []

    def pack(tensor: Any) -> Any:
        packed.append(tensor.shape)
        return tensor.numpy().copy()

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with saved_tensors_hooks(pack, torch.from_numpy):
        y = (x * x).exp()
    y.sum().backward()
    assert len(packed) >= 2
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach() * np.exp([1.0, 4.0]), rtol=1e-6)
    x.grad = None
    with save_on_cpu():
        z = x.sin()
    z.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([1.0, 2.0]), rtol=1e-6)


def test_a_hook_of_several_gradients() -> None:
    seen: list[Any] = []
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    handle = register_multi_grad_hook([x, y], lambda gradients: seen.append(len(gradients)))
    (x * y).sum().backward()
    handle.remove()
    (x * y).sum().backward()
    assert seen == [2]
