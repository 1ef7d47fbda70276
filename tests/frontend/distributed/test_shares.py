"""What `set_deterministic` keeps and draws: the arrays that gradients of shares are written to, and
the random numbers of a model's code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.distributed as dist
from frontend import nn
from frontend.distributed.reducer import divided
from frontend.nn.parallel import DistributedDataParallel as DDP
from tests.frontend.distributed.ranks import checked

SHARES = 4
X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)


def own(rank: int, count: int) -> Any:
    rows = len(X) // count
    return torch.from_numpy(X[rank * rows : (rank + 1) * rows].copy())


class Noisy(nn.Module):
    """A layer, and numbers that its code draws; every second call leaves the generator alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 2)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        draws = self.calls <= SHARES  # one process calls it so often in its first step
        return self.layer(x) + (torch.randn(len(x), 2) if draws else 0)


class Gated(nn.Module):
    """A layer that takes part in positive shares alone."""

    def __init__(self) -> None:
        super().__init__()
        self.always, self.at_times = nn.Linear(6, 1), nn.Linear(6, 1)

    def forward(self, x: Any) -> Any:
        y = self.always(x)
        return y + self.at_times(x) if x.sum().item() > 0 else y


def _in_kept_arrays(rank: int, count: int) -> None:
    """From the second step on no array is new, and a gradient that is kept stays as it is."""
    dist.set_deterministic(True, shares=SHARES)
    for compiled in (False, True):
        net = nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 1))
        model = DDP(torch.compile(net) if compiled else net)
        x, held = own(rank, count), []
        for _ in range(4):
            model.zero_grad()
            model(x).square().mean().backward()
            (bucket,) = model.reducer.buckets
            spare = [flat for flats in model._steps.shares.spare for flat in flats]
            held.append({id(flat) for flat in (bucket.flat, *spare)})
            assert all(np.shares_memory(p.grad.numpy(), bucket.flat) for p in net.parameters())
        assert len(held[0]) == 1 + np.log2(SHARES // count)
        assert held[1:] == [held[0]] * 3
        kept = net[0].weight.grad
        before = kept.numpy().tobytes()
        net.zero_grad()
        (3 * model(x)).square().mean().backward()
        assert kept.numpy().tobytes() == before
        np.testing.assert_allclose(net[0].weight.grad, 9 * kept.numpy(), rtol=1e-4)
    dist.set_deterministic(False)


@pytest.mark.slow
def test_gradients_of_shares_lie_in_arrays_that_are_kept() -> None:
    checked(1, _in_kept_arrays)
    checked(2, _in_kept_arrays)


def _in_shared_memory(rank: int, count: int) -> None:
    """A step that is compiled as a whole has the buckets in the memory of all ranks, and no other
    arrays."""
    dist.set_deterministic(True, shares=SHARES)
    net = nn.Linear(6, 3)
    model = DDP(net)

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    (bucket,) = model.reducer.buckets
    for _ in range(3):
        step(own(rank, count))
        assert bucket.is_shared() and np.shares_memory(net.weight.grad.numpy(), bucket.flat)
    dist.set_deterministic(False)


@pytest.mark.slow
def test_a_whole_step_in_shares_takes_no_arrays_of_its_own() -> None:
    checked(2, _in_shared_memory)


def _left_out(rank: int, count: int) -> list[bytes]:
    """Shares that leave a parameter out add zeros, also where several backward passes add up."""
    dist.set_deterministic(True, shares=SHARES)
    torch.manual_seed(0)
    net = Gated()
    model, x = DDP(net, find_unused_parameters=True), own(rank, count)
    for _ in range(2):
        model.zero_grad()
        with model.no_sync():
            model(x).sum().backward()
        model(x).sum().backward()
    dist.set_deterministic(False)
    taken = [part for part in np.split(X.astype(np.float64), SHARES) if part.sum() > 0]
    assert 0 < len(taken) < SHARES
    of_all, of_some = 2 * X.sum(0) / count, 2 * np.sum(taken, (0, 1)) / count
    np.testing.assert_allclose(net.always.weight.grad[0], of_all, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.at_times.weight.grad[0], of_some, rtol=1e-4, atol=1e-5)
    return [(p.grad * count).numpy().tobytes() for p in net.parameters()]


@pytest.mark.slow
def test_shares_that_leave_a_parameter_out() -> None:
    runs = [each for count in (1, 2, 4) for each in checked(count, _left_out)]
    assert all(run == runs[0] for run in runs)


def _drawn(rank: int, count: int) -> list[Any]:
    dist.set_deterministic(True, shares=SHARES)
    torch.manual_seed(0)
    model, x = DDP(Noisy()), own(rank, count)
    model.module.calls = SHARES - SHARES // count  # so all draw in the first step alone
    results = []
    for _ in range(2):
        model.zero_grad()
        model(x).square().mean().backward()
        grads = [p.grad.numpy().tobytes() for p in model.parameters()]
        results.append((grads, torch.get_rng_state().numpy().tobytes()))
    dist.set_deterministic(False)
    return results


@pytest.mark.slow
def test_what_the_code_of_a_model_draws() -> None:
    """The same on any number of ranks, and the stream goes on behind it where there was any."""
    runs = [each for count in (1, 2, 4) for each in checked(count, _drawn)]
    assert all(run == runs[0] for run in runs)
    torch.manual_seed(0)
    before = torch.get_rng_state().numpy().tobytes()
    (_, first), (_, second) = runs[0]
    assert before != first == second


@pytest.mark.parametrize("by", [2, 3, 4, 7, 64])
def test_sums_are_divided_exactly(by: int) -> None:
    """By a power of two too, where they are multiplied: to the bits of the division, denormal
    results, infinities and NaN among them."""
    bits = np.random.default_rng(by).integers(0, 2**32, 4096, dtype=np.uint32)
    part = bits.view(np.float32)
    with np.errstate(all="ignore"):
        expected = part / np.float32(by)
        divide = divided(by)
        assert divide is not None and divided(1) is None
        divide(part)
    same = (part == expected) & (np.signbit(part) == np.signbit(expected))
    assert (same | (np.isnan(part) & np.isnan(expected))).all()
