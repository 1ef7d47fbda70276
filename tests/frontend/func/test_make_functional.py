"""Modules as functions of tuples of tensors, as the package functorch had them."""

from __future__ import annotations

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend._functorch.make_functional import (
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)


def test_a_module_as_a_function_of_its_parameters() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    function, params = make_functional(net)
    x = torch.randn(5, 3)
    assert function(params, x).tolist() == net(x).tolist()
    assert all(a is not b for a, b in zip(params, net.parameters(), strict=True))
    grads = torch.func.grad(lambda *params: function(params, x).sum(), argnums=(0, 1, 2, 3))
    net(x).sum().backward()
    for mine, p in zip(grads(*params), net.parameters(), strict=True):
        np.testing.assert_array_equal(mine.detach().numpy(), p.grad.numpy())
    with pytest.raises(ValueError, match="shorter"):
        function(params[:1], x)
    _, without = make_functional(net, disable_autograd_tracking=True)
    assert not any(p.requires_grad for p in without)


def test_buffers_are_given_too() -> None:
    net = nn.BatchNorm1d(3).eval()
    with pytest.raises(RuntimeError, match="has buffers"):
        make_functional(net)
    function, params, buffers = make_functional_with_buffers(net)
    mean, variance, count = buffers
    x = torch.randn(4, 3)
    shifted = function(params, (mean + 1, variance, count), x)
    np.testing.assert_allclose(
        shifted.detach().numpy(), (x.numpy() - 1) / np.sqrt(1 + 1e-5), rtol=1e-5
    )
    assert net.running_mean.tolist() == [0.0, 0.0, 0.0]


def test_an_ensemble_is_one_function_of_stacked_parameters() -> None:
    nets = [nn.Linear(3, 2) for _ in range(4)]
    function, params, buffers = combine_state_for_ensemble(nets)
    x = torch.randn(5, 3)
    every = torch.func.vmap(function, in_dims=(0, 0, None))(params, buffers, x)
    for each, net in zip(every, nets, strict=True):
        np.testing.assert_allclose(each.detach().numpy(), net(x).detach().numpy(), rtol=1e-5)
    assert all(p.is_leaf and p.requires_grad for p in params)
    with pytest.raises(RuntimeError, match="at least one"):
        combine_state_for_ensemble([])
    with pytest.raises(RuntimeError, match="same class"):
        combine_state_for_ensemble([nets[0], nn.Linear(3, 2, bias=False), nn.Tanh()])
    with pytest.raises(RuntimeError, match="same training"):
        combine_state_for_ensemble([nets[0], nn.Linear(3, 2).eval()])
