"""Pruned parameters, their masks and hooks, without PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.nn.utils import prune

WEIGHT = np.array([[1.0, -4.0, 2.0], [0.5, 3.0, -0.25]], np.float32)


def layer() -> Any:
    made = nn.Linear(3, 2, bias=False)
    made.load_state_dict({"weight": torch.tensor(WEIGHT)})
    return made


def test_the_least_elements_are_pruned_and_stay_so_in_compiled_training() -> None:
    net = prune.l1_unstructured(layer(), "weight", 2)
    mask = np.array([[1, 1, 1], [0, 1, 0]], np.float32)
    np.testing.assert_array_equal(net.weight_mask.numpy(), mask)
    assert [name for name, _ in net.named_parameters()] == ["weight_orig"]
    run, optimizer = torch.compile(net), torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.ones(4, 3)
    for _ in range(2):
        optimizer.zero_grad()
        run(x).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(net.weight_orig.detach().numpy(), WEIGHT - 0.8 * mask, rtol=1e-6)
    prune.ln_structured(net, "weight", 1, n=1, dim=0)
    np.testing.assert_array_equal(net.weight_mask.numpy(), mask * [[1], [0]])
    expected = (WEIGHT - 0.8 * mask)[0].sum()
    np.testing.assert_allclose(run(x).detach().numpy(), [[expected, 0]] * 4, rtol=1e-6)
    kept = prune.remove(net, "weight").weight
    assert isinstance(kept, nn.Parameter) and not prune.is_pruned(net)
    np.testing.assert_array_equal(kept.detach().numpy()[1], 0)


def test_a_mask_that_cannot_be_made_leaves_the_module_as_it_was() -> None:
    net = prune.identity(layer(), "weight")
    hooks = dict(net._forward_pre_hooks)
    with pytest.raises(ValueError, match="amount=7 should be smaller than the number of"):
        prune.l1_unstructured(net, "weight", 7)
    assert net._forward_pre_hooks == hooks and net.weight_mask.min() == 1
    with pytest.raises(ValueError, match=r"'bias' of module .* has to be pruned before"):
        prune.remove(net, "bias")


def test_parameters_are_pruned_as_one() -> None:
    nets = [layer(), layer()]
    nets[1].weight.data *= 10
    prune.global_unstructured(
        [(net, "weight") for net in nets], pruning_method=prune.L1Unstructured, amount=0.5
    )
    # Left are 4 of the first, and all but 2.5 of the second.
    kept = [int(net.weight_mask.sum()) for net in nets]
    assert kept == [1, 5]
