"""`compile(saved_bytes=…)`: a budget for what forward keeps for backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn

F = nn.functional
Array = np.ndarray[Any, Any]


class Normed(nn.Module):
    """Convolutions with batch statistics and dropout: state changes in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(4)])
        self.head = nn.Linear(4 * 36, 5)

    def forward(self, x: Any) -> Any:
        for conv, norm in zip(self.convs, self.norms):
            x = F.dropout(F.gelu(norm(conv(x))), 0.25, self.training)
        return self.head(x.flatten(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.head = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 5))

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...], int]] = {
    "conv": (Normed, (4, 3, 6, 6), 200),
    "recurrent": (Recurrent, (4, 7, 6), 10_000),
    "transformer": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Flatten(), nn.Linear(80, 5)
        ), (4, 5, 16), 200,
    ),
}  # fmt: skip


def trained(name: str, budget: int | None, *, inside: bool) -> tuple[list[Array], Any]:
    """State after three steps, and what was compiled: the step, or the model alone."""
    make, shape, _ = MODELS[name]
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(*shape), torch.randint(0, 5, (shape[0],))
    run = model if inside else torch.compile(model, saved_bytes=budget)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        return loss

    whole = torch.compile(step, saved_bytes=budget, keep_grads=False) if inside else step
    losses = [whole(x, y).detach().numpy() for _ in range(3)]
    state = [value.numpy().copy() for value in model.state_dict().values()]
    return [*losses, *state, torch.get_rng_state().numpy()], whole if inside else run


@pytest.mark.sampled(24)
@pytest.mark.parametrize("inside", [True, False], ids=["whole step", "forward and backward"])
@pytest.mark.parametrize("name", MODELS)
def test_with_a_budget_training_has_the_same_bits(name: str, inside: bool) -> None:
    budget = MODELS[name][2]
    wanted, _ = trained(name, None, inside=inside)
    actual, compiled = trained(name, budget, inside=inside)
    for got, want in zip(actual, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    (line,) = [line for line in compiled.explain().splitlines() if "saved for backward" in line]
    assert int(line.split()[3].replace(",", "")) <= budget


def test_each_backward_of_a_step_keeps_to_the_budget() -> None:
    """As in a GAN: two networks, two optimizers, two backwards."""

    def run(budget: int | None) -> tuple[list[Array], list[str]]:
        torch.manual_seed(1)
        maker = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8))
        judge = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (judge, maker)]
        noise, real = torch.randn(32, 4), torch.randn(32, 8)

        @torch.compile(saved_bytes=budget)
        def step(noise: Any, real: Any) -> Any:
            fake = maker(noise)
            optimizers[0].zero_grad()
            loss = F.softplus(judge(fake.detach())).mean() + F.softplus(-judge(real)).mean()
            loss.backward()
            optimizers[0].step()
            optimizers[1].zero_grad()
            fooled = F.softplus(-judge(fake)).mean()
            fooled.backward()
            optimizers[1].step()
            return loss, fooled

        losses = [value.detach().numpy() for _ in range(3) for value in step(noise, real)]
        weights = [p.detach().numpy() for net in (maker, judge) for p in net.parameters()]
        told = [line for line in step.explain().splitlines() if "saved for backward" in line]
        return [*losses, *weights], told

    wanted, none = run(None)
    actual, told = run(0)
    for got, want in zip(actual, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    assert none == [] and [line.strip() for line in told] == ["saved for backward: 0 bytes"] * 2


def test_a_budget_that_is_too_small_tells_the_least_and_changes_nothing() -> None:
    """The loop of an LSTM is not run again: what its gradient reads is kept."""
    torch.manual_seed(0)
    model = Recurrent()
    before = [p.detach().numpy().copy() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(saved_bytes=100)
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    with pytest.raises(MemoryError, match=r"saves at least [\d,]+ bytes.*saved_bytes is 100"):
        step(torch.randn(4, 7, 6), torch.zeros(4, dtype=torch.int64))
    for p, old in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), old)
        assert p.grad is None


@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_a_budget_is_a_number_of_bytes(value: Any) -> None:
    error = ValueError if value == -1 else TypeError
    with pytest.raises(error, match="saved_bytes must be a number of bytes"):
        torch.compile(lambda x: x, saved_bytes=value)
