"""Tensors that a compiled function assigns to attributes of Modules, against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from graphc.errors import TraceError


class Layer(nn.Module):
    """A forward from a function of the module and its input."""

    def __init__(self, forward: Callable[[Any, Any], Any]):
        super().__init__()
        self.function = forward
        self.linear = nn.Linear(4, 4)
        self.kept: Any = None
        self.number = 0.5
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("cache", None, persistent=False)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def average(layer: Any, x: Any) -> Any:
    layer.mean = 0.9 * layer.mean + 0.1 * x.mean(0)
    return layer.linear(x - layer.mean)


def cache(layer: Any, x: Any) -> Any:
    if layer.cache is None or len(layer.cache) < len(x):
        layer.cache = torch.arange(len(x)).float()
    return x * layer.cache[: len(x), None]


def keep(layer: Any, x: Any) -> Any:
    layer.kept = layer.linear(x)
    layer.number = layer.kept.sum()  # where a number was
    layer.absent = x * 2
    return layer.kept * 2


def old_one(layer: Any, x: Any) -> Any:
    before = layer.mean
    layer.mean = x[0] + before
    layer.mean.mul_(2)
    return before, layer.mean


def grown(layer: Any, x: Any) -> Any:
    layer.kept = x if layer.kept is None else torch.cat([layer.kept, x])
    return layer.kept.sum(0)


def temporary(layer: Any, x: Any) -> Any:
    layer.kept = x > 2
    result = layer.linear(x) * layer.kept
    layer.kept = None
    return result


def of_a_child(layer: Any, x: Any) -> Any:
    layer.linear.scale = x.mean()
    return layer.linear(x) * layer.linear.scale


def tensors(layer: Any) -> dict[str, Any]:
    """What the attributes hold: arrays, and whether they require gradients."""
    by_name = {}
    for name, module in layer.named_modules():
        held = {**vars(module), **module._buffers}
        for key, value in held.items():
            if isinstance(value, torch.Tensor):
                by_name[f"{name}.{key}"] = (value.detach().numpy(), value.requires_grad)
    return by_name


def same(left: Any, right: Any) -> None:
    left, right = (x if isinstance(x, tuple) else (x,) for x in (left, right))
    for x, y in zip(left, right, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-5, atol=1e-6)


def pair(function: Any) -> tuple[Layer, Layer]:
    layers = Layer(function), Layer(function)
    layers[1].load_state_dict(layers[0].state_dict())
    return layers


@pytest.mark.parametrize(
    ("function", "traces"),
    [
        (average, 1),
        (cache, 2),
        (keep, 2),
        (old_one, 1),
        (grown, 4),
        (temporary, 1),
        (of_a_child, 2),
    ],
)
def test_each_call_assigns(function: Any, traces: int) -> None:
    eager, layer = pair(function)
    compiled = torch.compile(layer)
    for number in range(4):
        x = torch.full((2, 4), number + 1.0)
        same(compiled(x), eager(x))
        for (key, (value, flag)), (name, other) in zip(
            tensors(layer).items(), tensors(eager).items(), strict=True
        ):
            assert (key, flag) == (name, other[1])
            np.testing.assert_allclose(value, other[0], rtol=1e-5, atol=1e-6)
    assert len(compiled.specializations) == traces


def test_what_is_kept_has_its_gradient_and_stays() -> None:
    gradients = []
    for run in (lambda f: f, torch.compile):
        torch.manual_seed(0)
        layer = Layer(keep)
        call, kept = run(layer), []
        for _ in range(3):
            layer.zero_grad()
            (call(torch.ones(2, 4)).sum() + layer.number).backward()
            kept.append(layer.kept)
        call(torch.zeros(2, 4))
        same(kept[0], kept[2])  # later calls leave what an earlier one assigned
        gradients.append(layer.linear.weight.grad.tolist())
    assert gradients[0] == gradients[1]


def test_within_a_training_step() -> None:
    losses = []
    for run in (lambda f: f, torch.compile):
        torch.manual_seed(0)
        layer = Layer(average)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def step(x: Any, layer: Any = layer, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (layer(x) ** 2).mean() + layer.mean.sum()
            loss.backward()
            optimizer.step()
            return loss

        call = run(step)
        losses.append([call(torch.ones(2, 4) * n).item() for n in range(4)])
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_a_user_may_assign_in_between() -> None:
    layer = Layer(average)
    compiled = torch.compile(layer)
    compiled(torch.ones(2, 4))
    layer.mean = torch.full((4,), 10.0)
    compiled(torch.ones(2, 4))
    np.testing.assert_allclose(layer.mean.numpy(), np.full(4, 9.1), rtol=1e-6)
    assert len(compiled.specializations) == 1
    layer.mean = torch.zeros(1)
    compiled(torch.ones(2, 4))
    assert layer.mean.shape == (4,) and "Layer.mean was a tensor f32[4]" in compiled.explain()


def two_names(layer: Any, x: Any) -> Any:
    layer.mean = layer.mean + x[0]
    return layer.mean


def of_a_body(layer: Any, x: Any) -> Any:
    def body(x: Any) -> Any:
        layer.kept = x
        return x

    return torch.cond(x.sum() > 0, body, lambda x: x, (x,))


def raising(layer: Any, x: Any) -> Any:
    layer.mean, layer.kept = x[0], x
    raise KeyError("mine")


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (two_names, TraceError, "Layer.mean is assigned while tracing, and .* is Layer.kept, too"),
        (of_a_body, TraceError, "assigning Layer.kept in the body"),
        (raising, KeyError, "mine"),
    ],
)
def test_what_is_refused_leaves_the_module(function: Any, error: Any, message: str) -> None:
    layer = Layer(function)
    layer.kept = mean = layer.mean
    with pytest.raises(error, match=message):
        torch.compile(layer, fullgraph=True)(torch.ones(2, 4))
    assert layer.mean is mean and layer.kept is mean
    assert mean.tolist() == [0, 0, 0, 0]
