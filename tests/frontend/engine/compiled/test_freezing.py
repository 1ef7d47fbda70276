"""freeze(): what weights alone decide is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn


def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
        nn.Linear(8 * 16, 10),
    ).eval()  # fmt: skip


def main_inputs(function: Any) -> tuple[str, ...]:
    return function.specializations[0].executable.graph.input_names


@pytest.mark.sampled(4)
@pytest.mark.parametrize("level", ["none", "exact", "relaxed"])
def test_a_frozen_model_gives_the_same(level: str) -> None:
    net, x = model(), torch.randn(2, 3, 4, 4)
    want = net(x).detach().numpy()
    torch.freeze(net)
    run = torch.compile(net, level=level)
    for _ in range(2):
        assert np.allclose(run(x).numpy(), want, atol=1e-5)


def test_exact_results_keep_their_bits() -> None:
    net, x = model(), torch.randn(2, 3, 4, 4)
    run = torch.compile(net)
    with torch.no_grad():
        before = run(x).numpy().copy()
        torch.freeze(net)
        assert run(x).numpy().tobytes() == before.tobytes()
    assert len(run.specializations) == 2, "frozenness is guarded"


def test_the_weight_is_packed_once() -> None:
    layer = torch.freeze(nn.Linear(50, 70).eval())
    run = torch.compile(layer)
    run(torch.ones(2, 50))
    (specialization,) = run.specializations
    copies = specialization.packing.copies()
    (shape,) = (copy.array.shape for copy in copies)
    assert len(shape) == 4 and shape[1] == 50, "[tiles, depth, vectors, lanes]"
    assert "layout: a matrix f32[50,70] is packed as" in run.explain()
    assert [node.op for node in specialization.executable.optimised.nodes].count("unpack") == 1
    run(torch.zeros(2, 50))
    assert specialization.packing.copies() == copies
    assert any(name.endswith("transpose") for name in main_inputs(run))


def test_nothing_to_prepare_is_no_matter() -> None:
    w = torch.freeze(torch.ones(3))
    run = torch.compile(lambda x: x * w)
    assert run(torch.full((3,), 2.0)).tolist() == [2.0, 2.0, 2.0]
    assert run.specializations[0].packing is None


def test_a_training_step_over_a_frozen_backbone() -> None:
    backbone, head = torch.freeze(nn.Linear(4, 6).eval()), nn.Linear(6, 2)
    opt = torch.optim.SGD(head.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = (head(torch.relu(backbone(x))) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    x = torch.randn(5, 4)
    start = {name: value.clone() for name, value in head.state_dict().items()}
    eager = [step(x).item() for _ in range(3)]
    head.load_state_dict(start)
    compiled = torch.compile(step)
    assert np.allclose([compiled(x).item() for _ in range(3)], eager, rtol=1e-5)
    assert compiled.specializations[0].packing is not None


def test_a_frozen_tensor_cannot_be_changed() -> None:
    w = torch.freeze(torch.ones(3, requires_grad=True))
    assert torch.is_frozen(w) and not w.requires_grad
    for change in (
        lambda: w.add_(1), lambda: w.__setitem__(0, 2.0), lambda: setattr(w, "data", torch.ones(3)),
        lambda: w.requires_grad_(), lambda: torch.compile(lambda: w.mul_(2))(),
        lambda: w[:2].zero_(), lambda: w.detach().add_(1), lambda: w.detach()[:1].zero_(),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="frozen"):
            change()
    assert w.tolist() == [1.0, 1.0, 1.0]


def test_unfreezing_brings_all_back() -> None:
    net = model()
    x = torch.randn(1, 3, 4, 4)
    run = torch.compile(net)
    torch.freeze(net)
    first = run(x).numpy().copy()
    torch.unfreeze(net)
    assert all(p.requires_grad for p in net.parameters())
    with torch.no_grad():
        net[4].bias.add_(1.0)
        assert np.allclose(run(x).numpy(), first + 1.0, atol=1e-5)


def test_what_cannot_be_frozen() -> None:
    with pytest.raises(RuntimeError, match="evaluation mode"):
        torch.freeze(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="leaf"):
        torch.freeze(torch.ones(2, requires_grad=True) * 2)
    with pytest.raises(TypeError, match="not int"):
        torch.freeze(3)


def test_memory_is_not_shared_with_what_it_was_made_from() -> None:
    array = np.ones(3, np.float32)
    w = torch.freeze(torch.from_numpy(array))
    array[:] = 5
    assert w.tolist() == [1.0, 1.0, 1.0]
