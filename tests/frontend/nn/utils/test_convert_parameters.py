"""Parameters as one vector, and back."""

from __future__ import annotations

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.nn.utils import parameters_to_vector, vector_to_parameters


def test_there_and_back() -> None:
    net = nn.Linear(2, 3)
    vector = parameters_to_vector(net.parameters())
    assert vector.shape == (9,) and vector.requires_grad
    np.testing.assert_array_equal(vector[:6].detach(), net.weight.detach().reshape(-1))
    flat = torch.arange(9.0)
    weight = net.weight
    vector_to_parameters(flat, net.parameters())
    assert net.weight is weight and weight.is_leaf and net.bias.tolist() == [6.0, 7.0, 8.0]
    flat.fill_(1.0)
    assert net.bias.tolist() == [1.0] * 3


def test_it_is_differentiable() -> None:
    net = nn.Linear(2, 1)
    (parameters_to_vector(net.parameters()) ** 2).sum().backward()
    np.testing.assert_allclose(net.weight.grad, 2 * net.weight.detach())


def test_wrong_vectors_change_nothing() -> None:
    net = nn.Linear(2, 2)
    before = net.weight.tolist()
    with pytest.raises(TypeError, match=r"expected torch.Tensor, but got: list"):
        vector_to_parameters([1.0], net.parameters())
    with pytest.raises(RuntimeError, match=r"shape '\[2\]' is invalid for input of size 1"):
        vector_to_parameters(torch.ones(5), net.parameters())
    assert net.weight.tolist() == before


def test_compiled() -> None:
    net = nn.Linear(2, 2)
    other = torch.compile(lambda scale: parameters_to_vector(net.parameters()) * scale)
    expected = (parameters_to_vector(net.parameters()) * 2).detach()
    np.testing.assert_allclose(other(torch.tensor(2.0)).detach(), expected, rtol=1e-6)
    write = torch.compile(lambda vector: vector_to_parameters(vector, net.parameters()))
    write(torch.arange(6.0))
    assert net.weight.tolist() == [[0.0, 1.0], [2.0, 3.0]] and net.bias.tolist() == [4.0, 5.0]
