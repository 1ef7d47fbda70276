"""Orthogonal weights, and parametrizations one on another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.nn.utils import parametrizations, parametrize

MAPS = ("matrix_exp", "cayley", "householder")
SHAPES = [(4, 4), (5, 3), (3, 5)]


def linear(rows: int, columns: int) -> Any:
    torch.manual_seed(0)
    return nn.Linear(columns, rows, bias=False, dtype=torch.float64)


def orthonormal(rows: int, columns: int) -> np.ndarray[Any, Any]:
    drawn = np.random.default_rng(rows).normal(size=(max(rows, columns), min(rows, columns)))
    q = np.linalg.qr(drawn)[0]
    return q if rows >= columns else q.T


def assert_orthonormal(weight: Any) -> None:
    matrix = weight.detach().numpy()
    matrix = matrix.T if matrix.shape[0] < matrix.shape[1] else matrix
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(matrix.shape[1]), atol=1e-12)


@pytest.mark.parametrize("orthogonal_map", [*MAPS, None])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_weights_stay_orthonormal_while_they_are_trained(
    shape: tuple[int, int], orthogonal_map: Any
) -> None:
    layer = linear(*shape)
    parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    x = torch.ones(2, shape[1], dtype=torch.float64)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = (layer(x) - 3.0).square().sum()
        loss.backward()
        optimizer.step()
        assert_orthonormal(layer.weight)
        losses.append(loss.item())
    assert losses[2] < losses[0]


@pytest.mark.parametrize("orthogonal_map", MAPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_orthonormal_matrix_can_be_assigned(
    shape: tuple[int, int], orthogonal_map: str
) -> None:
    layer = linear(*shape)
    parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map)
    target = orthonormal(*shape)
    layer.weight = torch.tensor(target)
    np.testing.assert_allclose(layer.weight.detach(), target, atol=1e-12)
    with pytest.raises(ValueError, match="Expected a matrix or batch of matrices of shape"):
        layer.weight = torch.ones(2, 2, dtype=torch.float64)


def test_reflections_are_found_without_a_base() -> None:
    layer = linear(5, 3)
    parametrizations.orthogonal(layer, orthogonal_map="householder", use_trivialization=False)
    target = orthonormal(5, 3)
    layer.weight = torch.tensor(target)
    np.testing.assert_allclose(layer.weight.detach(), target, atol=1e-12)
    turned = linear(4, 4)
    parametrizations.orthogonal(turned, use_trivialization=False)
    assert_orthonormal(turned.weight)
    with pytest.raises(NotImplementedError, match="not possible to assign to the matrix exp"):
        turned.weight = torch.eye(4, dtype=torch.float64)


@pytest.mark.parametrize("orthogonal_map", MAPS)
def test_gradients_are_those_of_differences(orthogonal_map: str) -> None:
    layer = linear(4, 4)
    parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map)
    (module,) = layer.parametrizations.weight
    kept = layer.parametrizations.weight.original.detach()
    kept = (kept + 0.1 * torch.arange(16.0, dtype=torch.float64).reshape(4, 4)).requires_grad_()
    if orthogonal_map == "householder":  # its signs are the whole numbers on the diagonal
        kept = kept.detach().tril(-1).sub(torch.eye(4, dtype=torch.float64)).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: module(x.tril(-1) - torch.eye(4)), (kept,))
    else:
        assert torch.autograd.gradcheck(module, (kept,))


def test_a_compiled_step_trains_them_to_the_same_bits() -> None:
    layers = [parametrizations.orthogonal(linear(4, 4)) for _ in range(2)]
    weights = []
    for layer, wrap in zip(layers, (lambda f: f, torch.compile), strict=True):
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def step(x: Any, layer: Any = layer, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = layer(x).square().sum() + layer(x).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        for _ in range(3):
            run(torch.ones(2, 4, dtype=torch.float64))
        weights.append(layer.weight.detach().numpy())
    np.testing.assert_array_equal(*weights)


def test_what_orthogonal_refuses() -> None:
    with pytest.raises(ValueError, match="no parameter or buffer with name 'wait'"):
        parametrizations.orthogonal(nn.Linear(2, 2), "wait")
    with pytest.raises(ValueError, match="Got a tensor of 1 dimensions"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="Got: qr"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="qr")
    layer = nn.Linear(2, 2, dtype=torch.complex64)
    with pytest.raises(ValueError, match="does not support complex tensors"):
        parametrizations.orthogonal(layer, orthogonal_map="householder")


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return 2 * x

    def right_inverse(self, y: Any) -> Any:
        return y / 2


class Tripled(nn.Module):
    def forward(self, x: Any) -> Any:
        return 3 * x

    def right_inverse(self, y: Any) -> Any:
        raise NotImplementedError("not to be assigned")


def test_one_that_cannot_be_assigned_takes_the_tensor_as_it_is() -> None:
    layer = nn.Linear(1, 1)
    layer.weight.data.fill_(1.0)
    parametrize.register_parametrization(layer, "weight", Tripled())
    assert layer.weight.item() == 3.0
    with pytest.raises(NotImplementedError, match="not to be assigned"):
        layer.weight = torch.ones(1, 1)


def test_a_further_one_leaves_what_is_kept_as_it_is() -> None:
    layer = nn.Linear(1, 1)
    layer.weight.data.fill_(1.0)
    parametrize.register_parametrization(layer, "weight", Doubled())
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert (layer.weight.item(), layer.parametrizations.weight.original.item()) == (2.0, 0.5)
    layer.weight = torch.full((1, 1), 8.0)
    assert (layer.weight.item(), layer.parametrizations.weight.original.item()) == (8.0, 2.0)
