"""Normalisations against NumPy in float64; running statistics as state, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from tests.frontend.layer_cases.normalizations import (
    NORMALIZATIONS,
    Normalization,
    channels,
    standard,
)

Array = np.ndarray
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape)


def tensors(*arrays: Array) -> list[Any]:
    return [torch.tensor(array) for array in arrays]


# -- values and gradients ------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 7), (2, 3, 4, 5), (2, 3, 2, 3, 2)], ids=str)
def test_batch_norm(shape: tuple[int, ...], check: Any, check_gradient: Any) -> None:
    x, w, b = normal(*shape), normal(3), normal(3)
    axes = (0, *range(2, x.ndim))
    want = standard(x, axes) * channels(w, x) + channels(b, x)
    check(F.batch_norm(torch.tensor(x), None, None, *tensors(w, b), training=True), want)
    check_gradient(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b)
    mean, var = normal(3), RANDOM.uniform(0.5, 2, 3)
    statistics = tensors(mean, var)
    want = (x - channels(mean, x)) / np.sqrt(channels(var, x) + 1e-5) * channels(w, x)
    check(F.batch_norm(torch.tensor(x), *statistics, *tensors(w, b)), want + channels(b, x))
    check_gradient(lambda x, w, b: F.batch_norm(x, *statistics, w, b), x, w, b)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", NORMALIZATIONS, ids=str)
def test_definitions(case: Normalization, check: Any, check_gradient: Any) -> None:
    layer, x = case.make(nn).double(), normal(*case.shape) * 2 + 1
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.tensor(normal(*parameter.shape)))
    for run in (layer, torch.compile(layer)):
        check(run(torch.tensor(x)), case.definition(x, layer))
    names = [name for name, _ in layer.named_parameters()]
    values = [parameter.detach().numpy().copy() for parameter in layer.parameters()]
    check_gradient(
        lambda x, *leaves: torch.func.functional_call(layer, dict(zip(names, leaves)), (x,)),
        x, *values,
    )  # fmt: skip


@pytest.mark.slow
def test_a_trained_bias_beside_a_frozen_weight() -> None:
    """Only biases are trained, as in BitFit: their gradients are those of training all."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.LayerNorm(6), nn.BatchNorm1d(6), nn.GroupNorm(2, 6), nn.Unflatten(1, (3, 2)),
        nn.InstanceNorm1d(3, affine=True),
        nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0, batch_first=True),
    ).double()  # fmt: skip
    x = torch.tensor(normal(4, 6))

    def loss() -> Any:
        return model(x).square().mean()

    loss().backward()
    expected = {n: p.grad for n, p in model.named_parameters() if n.endswith("bias")}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in expected)
    chosen = [model.get_parameter(name) for name in expected]
    gradients = [torch.autograd.grad(loss(), chosen, create_graph=flag) for flag in (False, True)]
    gradients.append(torch.compile(lambda: torch.autograd.grad(loss(), chosen))())
    for run in gradients:
        for (name, want), got in zip(expected.items(), run, strict=True):
            np.testing.assert_array_equal(got.detach().numpy(), want.numpy(), err_msg=name)


def test_instance_norm_is_group_norm_of_single_channels(check: Any) -> None:
    x, w, b = tensors(normal(2, 6, 4, 3), normal(6), normal(6))
    check(F.instance_norm(x, weight=w, bias=b), F.group_norm(x, 6, w, b).numpy())


def test_rms_norm_has_a_weight_and_no_eps_of_its_own() -> None:
    assert nn.RMSNorm(5).eps is None and list(nn.RMSNorm(5).state_dict()) == ["weight"]


def test_normalize(check: Any, check_gradient: Any) -> None:
    x = normal(3, 4)
    check(F.normalize(torch.tensor(x)), x / np.sqrt((x**2).sum(1, keepdims=True)))
    check(F.normalize(torch.tensor(x), p=1, dim=0), x / abs(x).sum(0))
    check_gradient(lambda x: F.normalize(x, p=3), x)
    zero = torch.zeros(2, 3, requires_grad=True)
    F.normalize(zero).sum().backward()
    assert np.isfinite(zero.grad.numpy()).all()
    out = torch.zeros(3, 4, dtype=torch.float64)
    assert F.normalize(torch.tensor(x), out=out) is out


def test_a_great_mean_does_not_spoil_the_variance() -> None:
    x = (normal(64, 3) + 1e4).astype(np.float32)
    want = standard(x.astype(np.float64), (0,))
    for run in (F.batch_norm, torch.compile(F.batch_norm)):
        out = run(torch.tensor(x), None, None, training=True).numpy()
        np.testing.assert_allclose(out, want, atol=2e-3)


def test_one_tape_node() -> None:
    x = torch.randn(4, 3, requires_grad=True)
    out = nn.BatchNorm1d(3)(x)
    assert any(edge[0] is x or "Accumulate" in str(edge[0]) for edge in out.grad_fn.next_functions)


# -- running statistics --------------------------------------------------------------------------


def followed(batches: list[Array], momentum: float | None) -> tuple[Array, Array]:
    """The definition: the running mean and unbiased variance after these batches."""
    mean, var = np.zeros(3), np.ones(3)
    for number, x in enumerate(batches, 1):
        m = 1 / number if momentum is None else momentum
        axes = (0, *range(2, x.ndim))
        mean = (1 - m) * mean + m * x.mean(axes)
        var = (1 - m) * var + m * x.var(axes, ddof=1)
    return mean, var


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("momentum", [0.1, 0.7, None])
def test_running_statistics(momentum: float | None, mode: str, check: Any) -> None:
    layer = nn.BatchNorm2d(3, momentum=momentum).double()
    run = layer if mode == "eager" else torch.compile(layer)
    batches = [normal(4, 3, 2, 5) for _ in range(4)]
    buffers = dict(layer.named_buffers())
    for x in batches:
        run(torch.tensor(x))
    mean, var = followed(batches, momentum)
    check(layer.running_mean, mean)
    check(layer.running_var, var)
    assert layer.num_batches_tracked.item() == 4
    assert layer.num_batches_tracked.dtype == torch.int64
    assert all(layer.get_buffer(name) is buffer for name, buffer in buffers.items())
    layer.eval()
    x = normal(2, 3, 2, 2)
    want = (x - channels(mean, x)) / np.sqrt(channels(var, x) + 1e-5)
    check(run(torch.tensor(x)), want)
    assert layer.num_batches_tracked.item() == 4


def test_a_compiled_training_step_moves_the_statistics_once() -> None:
    def trained(compiled: bool) -> dict[str, Array]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compiled else step
        x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
        for _ in range(3):
            run(x, y)
        return {k: v.numpy().copy() for k, v in model.state_dict().items()}

    eager, compiled = trained(False), trained(True)
    assert compiled["1.num_batches_tracked"] == 3
    for name, value in eager.items():
        np.testing.assert_allclose(compiled[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_instance_statistics_are_means_over_the_batch(check: Any) -> None:
    x = normal(4, 3, 6)
    layer = nn.InstanceNorm1d(3, track_running_stats=True).double()
    layer(torch.tensor(x))
    check(layer.running_mean, 0.1 * x.mean(2).mean(0))
    check(layer.running_var, 0.9 + 0.1 * x.var(2, ddof=1).mean(0))
    assert layer.num_batches_tracked.item() == 0  # as in PyTorch
    check(layer.eval()(torch.tensor(x[0])), layer(torch.tensor(x[:1]))[0].numpy())


def test_without_statistics_eval_mode_uses_the_batch(check: Any) -> None:
    layer = nn.BatchNorm1d(3, track_running_stats=False).double().eval()
    x = normal(5, 3)
    check(layer(torch.tensor(x)), standard(x, (0,)))
    assert layer.running_mean is None and list(layer.state_dict()) == ["weight", "bias"]


def test_reset() -> None:
    layer = nn.BatchNorm1d(3)
    layer(torch.randn(4, 3))
    layer.reset_parameters()
    assert (layer.running_mean == 0).all() and (layer.running_var == 1).all()
    assert layer.num_batches_tracked.item() == 0


def test_a_state_dict_of_before_batches_were_counted_loads() -> None:
    layer = nn.BatchNorm1d(3)
    state = layer.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="Missing key"):
        layer.load_state_dict(state)
    layer.load_state_dict(dict(state))  # without the metadata that tells the version


# -- refusals ------------------------------------------------------------------------------------


def test_neighbouring_channels_of_integers() -> None:
    x = torch.tensor([[[3], [-4], [200]]])
    windows = np.array([9, 25, 40016]) // 2  # whole means
    want = np.array([3, -4, 200]) / (windows * 0.5 + 1.0)
    result = F.local_response_norm(x, 2, 0.5, 1.0)
    np.testing.assert_allclose(result.numpy().ravel(), want, 1e-6)


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: nn.BatchNorm1d(3)(torch.zeros(1, 3)), ValueError, "more than 1 value per channel"),
    (lambda: nn.BatchNorm1d(3)(torch.zeros(2, 4)), RuntimeError, "should contain 4 elements not 3"),
    (lambda: nn.BatchNorm2d(3)(torch.zeros(2, 3)), ValueError, r"expected 4D input \(got 2D"),
    (lambda: nn.BatchNorm1d(3)(torch.zeros(3)), ValueError, "expected 2D or 3D input"),
    (lambda: nn.InstanceNorm2d(3)(torch.zeros(2, 3)), ValueError, "expected 3D or 4D input"),
    (lambda: nn.InstanceNorm1d(3, affine=True)(torch.zeros(4, 3)), ValueError, "to match num_feat"),
    (lambda: nn.InstanceNorm1d(3)(torch.zeros(2, 3, 1)), ValueError, "more than 1 spatial element"),
    (lambda: nn.GroupNorm(3, 4), ValueError, "must be divisible by num_groups"),
    (lambda: F.group_norm(torch.zeros(2, 5), 4), RuntimeError, "divisible by num_groups"),
    (lambda: F.batch_norm(torch.zeros(2, 3), None, None), RuntimeError, "must be defined in eval"),
    (lambda: F.rms_norm(torch.zeros(2, 4), (3,)), RuntimeError, "expected input with shape"),
    (lambda: F.local_response_norm(torch.zeros(4), 2), ValueError, "Expected 3D or higher"),
    (lambda: F.normalize(torch.zeros(2, 2).long()), RuntimeError, "Expected a floating point"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refusals(number: int) -> None:
    call, kind, message = REFUSED[number]
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_a_refused_batch_leaves_the_statistics_alone(mode: str) -> None:
    layer = nn.BatchNorm1d(3)
    run = layer if mode == "eager" else torch.compile(layer)
    run(torch.randn(4, 3))
    before = {k: v.numpy().copy() for k, v in layer.state_dict().items()}
    for bad in (torch.zeros(1, 3), torch.zeros(2, 4)):
        with pytest.raises((ValueError, RuntimeError), match=r"per channel|elements not"):
            run(bad)
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])


def test_a_bad_label_leaves_the_statistics_of_a_compiled_step_alone() -> None:
    layer = nn.BatchNorm1d(3)
    step = torch.compile(lambda x, y: F.cross_entropy(layer(x), y))
    x = torch.randn(4, 3)
    step(x, torch.tensor([0, 1, 2, 0]))
    before = {k: v.numpy().copy() for k, v in layer.state_dict().items()}
    with pytest.raises(IndexError, match=r"Target 3 is out of bounds\.\n  at: test_normalization"):
        step(x, torch.tensor([0, 1, 2, 3]))
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
