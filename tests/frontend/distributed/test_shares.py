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
from frontend.utils._pytree import tree_map
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
    for compiled in (False, True):
        dist.set_deterministic(True, shares=SHARES, one_program=compiled)
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
        # A compiled model gives the sums over its shares alone.
        assert len(held[0]) == 1 + (0 if compiled else np.log2(SHARES // count))
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


class Mixed(nn.Module):
    """Statistics, random numbers, rows of a table; and a second output, for a loss to leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.into = nn.Embedding(5, 8), nn.Linear(6, 8)
        self.norm, self.drop, self.out = nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1)
        self.other = nn.Linear(8, 1)

    def forward(self, x: Any, codes: Any) -> Any:
        hidden = self.drop(self.norm(torch.tanh(self.into(x)) + self.table(codes)))
        return self.out(hidden), self.other(hidden)


def _once(model: Any, *batch: Any) -> Any:
    first, second = model(*batch)
    (first.square().mean() + second.sin().mean()).backward()


def _twice(model: Any, x: Any, codes: Any) -> Any:
    (first, _), (_, second) = model(x, codes), model(2 * x, codes)
    (first.square().mean() + second.sin().mean()).backward()


def _left_out_of_the_loss(model: Any, *batch: Any) -> Any:
    model(*batch)[0].square().mean().backward()


def _added_up(model: Any, *batch: Any) -> Any:
    with model.no_sync():
        _once(model, *batch)
    _once(model, *batch)


def _in_two_sweeps(model: Any, *batch: Any) -> Any:
    first, second = model(*batch)
    first.square().mean().add(second.mean()).backward(retain_graph=True)
    second.sin().mean().add(first.mean()).backward()


def _of_inputs(model: Any, x: Any, codes: Any) -> Any:
    x = x.requires_grad_()
    first, second = model(x, codes)
    (asked,) = torch.autograd.grad(first.mean() + second.mean(), x, retain_graph=True)
    (first * asked.sum()).mean().add(second.mean()).backward()


def _hooked(model: Any, *batch: Any) -> Any:
    handle = model.module.out.weight.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
    _once(model, *batch)
    handle.remove()


def _without_a_trace(model: Any, *batch: Any) -> Any:
    with torch.compiler.set_stance("force_eager"):
        _once(model, *batch)


STEPS = (
    _once, _twice, _left_out_of_the_loss, _added_up, _in_two_sweeps, _of_inputs, _hooked,
    _without_a_trace,
)  # fmt: skip


def _of_programs(rank: int, count: int) -> list[str]:
    """The gradients and statistics of each kind of step, from one to the next, of an eager model
    whose shares go one by one, of one whose shares are one program, and of a compiled one."""
    codes = np.arange(len(X)) % 5
    rows = len(X) // count
    told = []
    for step in STEPS:
        found = []
        for compiled, one_program in ((False, False), (False, True), (True, True)):
            dist.set_deterministic(True, shares=SHARES, one_program=one_program)
            torch.manual_seed(0)
            net = Mixed()
            model = DDP(torch.compile(net) if compiled else net, find_unused_parameters=True)
            for each in (_once, step, _once):
                model.zero_grad()
                each(model, own(rank, count), torch.tensor(codes[rank * rows :][:rows]))
            state = [p.grad for p in net.parameters()], [*net.buffers()], torch.get_rng_state()
            found.append(str(tree_map(lambda x: x.numpy().tobytes(), state)))
        assert found[0] == found[1] == found[2], step.__name__
        told.append(found[0])
    dist.set_deterministic(False)
    return told


@pytest.mark.slow
def test_shares_that_are_one_program_have_the_bits_of_others() -> None:
    (alone,) = checked(1, _of_programs)
    assert checked(2, _of_programs) == [alone, alone]


def _one_program(rank: int, count: int) -> None:
    """A step calls one program forward and one backward, whether the model is compiled or not;
    where another backward adds to it shares go one by one from then on, as those do of a model
    that cannot be traced."""
    dist.set_deterministic(True, shares=SHARES)
    for compiled in (False, True):
        net, noisy_net = Mixed(), Noisy()
        model = DDP(torch.compile(net, fullgraph=True) if compiled else net)
        x = own(rank, count)
        codes = torch.zeros(len(x), dtype=torch.int64)
        for _ in range(3):
            _once(model, x, codes)
        shares = model._steps.shares
        assert len(shares.program.specializations) == 1 and not shares.told
        assert "3 calls" in model.explain_shares()
        _twice(model, x, codes)
        assert shares.program is None
        _once(model, x, codes)
        assert "the model was called twice before one backward" in model.explain_shares()
        noisy = DDP(torch.compile(noisy_net) if compiled else noisy_net)
        noisy(x).sum().backward()
        assert not noisy._steps.shares.program.specializations
        assert "draws random numbers by rand()" in noisy.explain_shares()
    dist.set_deterministic(False)


@pytest.mark.slow
def test_the_shares_of_a_model_are_one_program() -> None:
    checked(1, _one_program)


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
