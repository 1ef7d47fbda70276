"""`nn.utils.prune` beside PyTorch's: the same masks, parameters, hooks and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend

pytest.importorskip("torch.nn.utils.prune")  # torch does not import it by itself

WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "identity": lambda p, m: p.identity(m, "weight"),
    "random": lambda p, m: p.random_unstructured(m, "weight", 0.3),
    "l1": lambda p, m: p.l1_unstructured(m, "weight", 7),
    "l1 of all": lambda p, m: p.l1_unstructured(m, "bias", 1.0),
    "none": lambda p, m: p.l1_unstructured(m, "weight", 0),
    "random slices": lambda p, m: p.random_structured(m, "weight", 0.5, dim=1),
    "slices": lambda p, m: p.ln_structured(m, "weight", 2, n=2, dim=0),
    "slices by maxima": lambda p, m: p.ln_structured(m, "weight", 1, n=float("inf"), dim=-1),
    "again": lambda p, m: p.l1_unstructured(p.l1_unstructured(m, "weight", 5), "weight", 0.25),
    "slices again": lambda p, m: p.ln_structured(
        p.random_unstructured(m, "weight", 3), "weight", 0.4, n=1, dim=0
    ),
    "thrice": lambda p, m: p.random_structured(
        p.ln_structured(p.l1_unstructured(m, "weight", 4), "weight", 1, n=2, dim=1),
        "weight", 1, dim=0,
    ),
    "both": lambda p, m: p.l1_unstructured(p.identity(m, "bias"), "weight", 0.5),
    "removed": lambda p, m: p.remove(p.l1_unstructured(m, "weight", 5), "weight"),
}  # fmt: skip


def built(system: Any, weight: Any, bias: Any) -> Any:
    layer = system.nn.Linear(6, 5)
    layer.load_state_dict({"weight": system.tensor(weight), "bias": system.tensor(bias)})
    return layer


@pytest.mark.parametrize("way", WAYS)
def test_masks_and_steps_are_pytorchs(peer: Any, way: str) -> None:
    weight, bias, x = peer.normal(5, 6), peer.normal(5), peer.normal(3, 6)
    results: list[Any] = []
    for system in (peer.torch, frontend):
        layer = built(system, weight, bias)
        system.manual_seed(0)
        pruned = WAYS[way](system.nn.utils.prune, layer)
        assert pruned is layer
        optimizer = system.optim.SGD(layer.parameters(), lr=0.1)
        run = frontend.compile(layer) if system is frontend else layer
        for _ in range(2):
            optimizer.zero_grad()
            (run(system.tensor(x)) ** 2).mean().backward()
            optimizer.step()
        state = {k: v.numpy() for k, v in layer.state_dict().items()}
        hooks = [type(hook).__name__ for hook in layer._forward_pre_hooks.values()]
        names = [name for name, _ in layer.named_parameters()]
        out = layer(system.tensor(x)).detach().numpy()
        results.append((state, hooks, names, system.nn.utils.prune.is_pruned(layer), out))
    theirs, ours = results
    assert ours[1:4] == theirs[1:4] and ours[0].keys() == theirs[0].keys()
    for name, value in theirs[0].items():
        np.testing.assert_allclose(ours[0][name], value, rtol=2e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(ours[4], theirs[4], rtol=2e-5, atol=1e-6)


def test_parameters_of_several_modules_are_pruned_as_one(peer: Any) -> None:
    arrays = [(peer.normal(5, 6), peer.normal(5)) for _ in range(2)]
    masks = []
    for system in (peer.torch, frontend):
        prune = system.nn.utils.prune
        layers = [built(system, *each) for each in arrays]
        pairs = [(layer, "weight") for layer in layers]
        scores = {pairs[0]: system.tensor(arrays[1][0])}
        prune.global_unstructured(
            pairs, pruning_method=prune.L1Unstructured, importance_scores=scores, amount=0.4
        )
        prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=5)
        masks.append([layer.weight_mask.numpy() for layer in layers])
    np.testing.assert_array_equal(*masks)


def test_what_cannot_be_pruned_is_refused_and_left_as_it_was(peer: Any) -> None:
    for system in (peer.torch, frontend):
        prune, layer = system.nn.utils.prune, system.nn.Linear(6, 5)
        with pytest.raises(ValueError, match="amount=31 should be smaller than the number of"):
            prune.l1_unstructured(layer, "weight", 31)
        assert "weight" in layer._parameters and not prune.is_pruned(layer)
    for call in (
        lambda p, m: p.l1_unstructured(m, "weight", "much"),
        lambda p, m: p.l1_unstructured(m, "weight", 1.5),
        lambda p, m: p.l1_unstructured(m, "weight", -1),
        lambda p, m: p.random_structured(m, "bias", 1, dim=0),
        lambda p, m: p.random_structured(m, "weight", 1, dim=2),
        lambda p, m: p.remove(m, "weight"),
        lambda p, m: p.global_unstructured(3, p.L1Unstructured, amount=1),
        lambda p, m: p.global_unstructured([(m, "weight")], p.LnStructured, amount=1, n=1),
        lambda p, m: p.PruningContainer(3),
        lambda p, m: p.BasePruningMethod(),
        lambda p, m: p.custom_from_mask(m, "weight", m.bias),
    ):
        peer.refusal(lambda t, call=call: call(t.nn.utils.prune, t.nn.Linear(6, 5)))
