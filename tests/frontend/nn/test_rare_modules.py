"""Layers that few programs have, against the formulas: adaptive softmax, fractional pooling, a
linear layer with its cross-entropy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn


def test_adaptive_softmax_is_a_softmax_over_all_classes() -> None:
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True)
    x, target = torch.randn(6, 8), torch.tensor([0, 2, 3, 6, 7, 11])
    everything = layer.log_prob(x)
    np.testing.assert_allclose(everything.exp().sum(1).detach().numpy(), 1, rtol=1e-5)
    output, loss = layer(x, target)
    picked = everything.gather(1, target.unsqueeze(1)).squeeze(1)
    assert torch.allclose(output, picked, atol=1e-6) and torch.allclose(loss, -picked.mean())
    assert torch.equal(layer.predict(x), everything.argmax(1))
    compiled = torch.compile(layer)(x, target)
    assert torch.allclose(compiled.loss, loss, atol=1e-6)
    with pytest.raises(RuntimeError, match="Target values should be in"):
        layer(x, target + 1)
    with pytest.raises(ValueError, match="unique, positive integers"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [7, 3])


@pytest.mark.parametrize("count", [2, 3])
def test_fractional_pooling_takes_maxima_of_its_windows(count: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, *(9, 8, 7)[:count])).astype(np.float32)
    samples = np.random.default_rng(1).random((2, 3, count)).astype(np.float32)
    pool = F.fractional_max_pool2d if count == 2 else F.fractional_max_pool3d
    size, kernel = (4, 3, 2)[:count], (2, 3, 2)[:count]
    tensor, drawn = torch.tensor(x, requires_grad=True), torch.tensor(samples)
    values, places = pool(tensor, kernel, size, return_indices=True, _random_samples=drawn)
    flat = x.reshape(2, 3, -1)
    taken = np.take_along_axis(flat, places.numpy().reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(values.detach().numpy(), taken.reshape(values.shape))
    # The last window of each axis ends at the border.
    last = (..., *(slice(n - k, n) for n, k in zip(x.shape[2:], kernel)))
    corner = values.detach().numpy()[(slice(None), slice(None), *(-1,) * count)]
    np.testing.assert_array_equal(corner, x[last].reshape(2, 3, -1).max(-1))
    values.sum().backward()
    assert tensor.grad is not None and tensor.grad.sum() == values.numel()
    layer = (nn.FractionalMaxPool2d if count == 2 else nn.FractionalMaxPool3d)(
        kernel, output_ratio=0.5
    )
    assert layer(tensor).shape[2:] == tuple(n // 2 for n in x.shape[2:])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_linear_layer_with_its_loss_in_pieces(reduction: str) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(7, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    target, scale = torch.tensor([0, 1, 2, 3, 4, 0, 1]), torch.rand(5)
    options = {"weight": scale, "reduction": reduction, "ignore_index": 3}
    want = F.cross_entropy(F.linear(x, w), target, **options)
    pieces = nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    for chosen in (None, pieces):
        got = F.linear_cross_entropy(x, w, target, options=chosen, **options)
        assert torch.allclose(got, want, atol=1e-6)
        pairs = [torch.autograd.grad(value.sum(), (x, w), retain_graph=True) for value in
                 (got, want)]  # fmt: skip
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*pairs))
    assert nn.LinearCrossEntropyOptions().rows(1024, 64, 512) == 64
    with pytest.warns(UserWarning, match="``options`` ignored"):
        F.linear_cross_entropy(x, w, target, options=pieces, label_smoothing=0.1)


def test_the_module_of_a_linear_layer_and_its_loss() -> None:
    layer = nn.LinearCrossEntropyLoss(4, 5, out_features=(2,), bias=True)
    x, target = torch.randn(3, 4), torch.tensor([[0, 1], [2, 3], [4, 0]])
    want = F.cross_entropy(layer.linear(x).reshape(3, 5, 2), target)
    assert torch.allclose(layer(x, target), want)


def test_former_names() -> None:
    x = torch.randn(2, 5, 3, 3)
    assert torch.equal(nn.CrossMapLRN2d(3)(x), F.local_response_norm(x, 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        held = nn.Container(a=nn.Linear(2, 2))
    assert [w.category for w in caught] == [FutureWarning] and list(held._modules) == ["a"]


def test_convolutions_and_means_of_whole_numbers() -> None:
    random = np.random.default_rng(0)
    x = torch.tensor(random.integers(-9, 9, (2, 4, 6, 6)))
    w, b = torch.tensor(random.integers(-9, 9, (4, 2, 3, 3))), torch.tensor([1, 2, 3, 4])

    def convolved(x, w, b):
        return F.conv2d(x, w, b, stride=2, padding=1, groups=2)

    want = convolved(x.double(), w.double(), b.double()).long()
    assert torch.equal(convolved(x, w, b), want)
    assert torch.equal(torch.compile(convolved)(x, w, b), want)
    back = F.conv_transpose2d(x, w, groups=2)
    assert torch.equal(back, F.conv_transpose2d(x.double(), w.double(), groups=2).long())
    means = F.avg_pool2d(x, 2)
    assert torch.equal(means, F.avg_pool2d(x.double(), 2).trunc().long())
