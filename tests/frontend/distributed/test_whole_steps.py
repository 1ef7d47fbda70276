"""Steps of several ranks that are compiled as a whole: against eager ones, bit for bit; what they
refuse; and what is as before where an exchange fails."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.distributed as dist
import frontend.nn.functional as F
from frontend import nn
from frontend.distributed.algorithms.ddp_comm_hooks import default_hooks
from frontend.distributed.share_state import mixed
from frontend.distributed.traced_shares import mixed_in_trace
from frontend.nn.parallel import DistributedDataParallel as DDP
from graphc.errors import TraceError
from tests.frontend.distributed.ranks import checked
from tests.frontend.distributed.test_data_parallel import (
    IMAGES,
    Branches,
    X,
    Y,
    convolutions,
    digest,
    mlp,
    own,
)

KINDS = ("eager", "compiled backward", "whole", "whole, in place", "whole, accumulating")


def step_of(model: Any, optimizer: Any, kind: str = "") -> Any:
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad(set_to_none="in place" not in kind)
        if "accumulating" in kind:
            with model.no_sync():
                F.cross_entropy(model(x), y).backward()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if kind != "compiled backward":
            if kind:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return loss

    return step


def trained(kind: str, model: Any, x: Any, y: Any, steps: int = 4) -> Any:
    """Losses of steps, what the weights and gradients are at the end, and the step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = step_of(model, optimizer, kind)
    call = step if kind.startswith("eager") else torch.compile(step)
    losses = []
    for _ in range(steps):
        losses.append(call(x, y).item())
        if kind == "compiled backward":
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return losses, digest(model, buffers=False), [p.grad.tolist() for p in model.parameters()], call


def _modes(rank: int, count: int) -> Any:
    results = {}
    x, y = own(X, rank, count), own(Y, rank, count)
    for kind in (*KINDS, "eager, accumulating"):
        torch.manual_seed(rank)
        model = DDP(mlp(0.3), bucket_cap_mb=1e-3)  # several buckets
        torch.manual_seed(5 + rank)  # dropout of its own on each rank
        *results[kind], call = trained(kind, model, x, y)
        if kind == "whole":
            assert len(model.reducer.buckets) > 1
            _seen(call, model, x, y)
    for kind in KINDS[1:-1]:
        assert results[kind] == results["eager"], kind
    assert results["whole, accumulating"] == results["eager, accumulating"]
    return [each[1] for each in results.values()]


def _seen(step: Any, model: Any, x: Any, y: Any) -> None:
    """What is to be seen of the cut; nothing of it needs the other ranks."""
    before = digest(model)
    (one,) = step.specializations
    assert [each.graph.name for each in one.executables] == ["step_part1", "step_part2"]
    assert "cut behind part 1: the gradients of 6 parameters" in step.explain()
    with tempfile.TemporaryDirectory() as folder:
        first, second = step.dump(folder)
        assert "exchange" in (first / "whole.graph").read_text()
        assert "exchange 0, of the gradients of" in (second / "ledger.txt").read_text()
        step.report(Path(folder) / "page.html", x, y, seconds=0.01)
        assert (Path(folder) / "page.html").stat().st_size > 10_000
    assert step.verify(x, y)
    assert digest(model) == before


def _memory(rank: int, count: int) -> None:
    """Native code writes gradients where they are reduced; what somebody keeps stays as it is."""
    torch.manual_seed(0)
    model = DDP(nn.Linear(12, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(step_of(model, optimizer))
    x, y = own(X, rank, count), own(Y, rank, count)
    step(x, y)
    kept = model.module.weight.grad
    before = kept.tolist()
    assert np.shares_memory(kept.numpy(), model.reducer.buckets[0].flat)
    step(x, y)
    assert kept.tolist() == before != model.module.weight.grad.tolist()
    del kept
    gc.collect()
    assert not model.reducer.buckets[0].is_shared()
    step(x, y)  # nobody keeps it: the memory that ranks share again
    assert model.reducer.buckets[0].is_shared()
    place = model.reducer.buckets[0].flat.ctypes.data
    step(x, y)  # and the same from then on
    assert model.reducer.buckets[0].flat.ctypes.data == place
    without = torch.compile(step_of(model, optimizer), keep_grads=False, dynamic=True)
    for rows in (4, 8, 12, 12):  # of any size, and without gradients to be seen afterwards
        without(x[:rows], y[:rows])
    assert "left open" in without.explain()
    # A hook of communication that is registered later runs in the steps from then on.
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    step(x, y)
    rounded = model.module.weight.grad
    assert rounded.tolist() == rounded.bfloat16().float().tolist()


def _refused(rank: int, count: int) -> None:
    x, y = own(X, rank, count), own(Y, rank, count)
    model = DDP(mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(step_of(model, optimizer))
    with pytest.raises(RuntimeError, match=r"not used in producing loss: c\.bias, c\.weight"):
        torch.compile(lambda x, other: other(x, True).sum().backward())(
            torch.ones(2, 3), DDP(Branches())
        )
    branches = DDP(Branches(), find_unused_parameters=True)
    part = torch.compile(lambda x: branches(x, False).sum().backward())
    part(torch.ones(2, 3))
    assert branches.module.b.weight.grad is None and branches.module.a.weight.grad is not None
    uneven = torch.compile(lambda x, both: branches(x, both).sum().backward())
    with pytest.raises(RuntimeError, match=r"some ranks do not use b\.weight, b\.bias"):
        uneven(torch.ones(2, 3), rank == 0)
    with pytest.raises(RuntimeError, match=r"goes with backward\(\) outside"), model.join():
        step(x, y)
    # Ranks that call other steps are told so, and nothing has changed; then all goes on.
    step(x, y)
    before, state = digest(model), digest(nn.ParameterList(optimizer_state(optimizer)), False)
    other = DDP(nn.Linear(12, 5))
    wrong = torch.compile(step_of(other, torch.optim.SGD(other.parameters(), lr=0.1)))
    with pytest.raises(dist.DistBackendError, match="do not call the same collective"):
        (step if rank == 0 else wrong)(x, y)
    assert digest(model) == before
    assert digest(nn.ParameterList(optimizer_state(optimizer)), False) == state
    step(x, y)
    assert digest(model) != before


def optimizer_state(optimizer: Any) -> list[Any]:
    return [t for state in optimizer.state.values() for t in state.values() if t is not None]


def _parallel(rank: int, count: int) -> Any:
    modes = _modes(rank, count)
    _memory(rank, count)
    _refused(rank, count)
    return modes


@pytest.mark.slow
def test_a_whole_step_is_what_the_eager_one_is() -> None:
    first, second = checked(2, _parallel)
    assert first == second


# -- the same bits for any number of ranks ---------------------------------------------------------


def _in_shares(rank: int, count: int) -> Any:
    results = []
    dist.set_deterministic(True, shares=4)
    for make, data in ((lambda: mlp(0.3), X), (convolutions, IMAGES)):
        for kind in ("eager", "whole") if make is not convolutions else ("whole",):
            torch.manual_seed(3)
            model = DDP(make())
            _, weights, grads, call = trained(
                kind, model, own(data, rank, count), own(Y, rank, count)
            )
            results.append((weights, digest(model), grads, torch.rand(1).item()))
            if kind == "whole":
                parts = len(call.specializations[0].executables)
                assert parts == (1 if count == 1 else 2)
    results.append(_accumulated(rank, count))
    if count == 2:
        _guarded(rank, count)
    dist.set_deterministic(False)
    return results


def _accumulated(rank: int, count: int) -> Any:
    """no_sync inside, and gradients that stay from step to step."""
    torch.manual_seed(3)
    model = DDP(nn.Linear(12, 5))
    x, y = own(X, rank, count), own(Y, rank, count)

    def step(x: Any, y: Any) -> None:
        with model.no_sync():
            F.cross_entropy(model(x * 2), y).backward()
        F.cross_entropy(model(x), y).backward()

    for call in (step, torch.compile(step)):
        model.zero_grad()
        for _ in range(2):
            call(x, y)
        grads = [p.grad.tolist() for p in model.parameters()]
        if call is step:
            eager = grads
    assert grads == eager
    return grads


def _guarded(rank: int, count: int) -> None:
    """A step is traced again where shares are others; relaxed arithmetic has none."""
    model = DDP(nn.Linear(12, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = own(X, rank, count), own(Y, rank, count)
    step = torch.compile(step_of(model, optimizer))
    step(x, y)
    dist.set_deterministic(False)
    step(x, y)
    assert "shares of set_deterministic was 4, is None" in step.trace_reasons[-1]
    dist.set_deterministic(True, shares=4)
    with pytest.raises(TraceError, match="relaxed"):
        torch.compile(step_of(model, optimizer), level="relaxed", fullgraph=True)(x, y)
    left = torch.compile(lambda x: _without_sync(model, x))
    with pytest.raises(RuntimeError, match="has to follow inside"):
        left(x)
    _without_sync(model, x)
    with pytest.raises(RuntimeError, match="has to be as those before"):
        step(x, y)
    model(x).sum().backward()
    step(x, y)


def _without_sync(model: Any, x: Any) -> None:
    with model.no_sync():
        model(x).sum().backward()


@pytest.mark.slow
def test_the_bits_of_a_whole_step_do_not_know_how_many_ranks_there_are() -> None:
    runs = [checked(count, _in_shares) for count in (1, 2, 4)]
    everywhere = [result for run in runs for result in run]
    assert len(everywhere) == 7
    eager, whole, *_ = everywhere[0]
    assert eager == whole
    for result in everywhere:
        assert result == everywhere[0]


def test_the_seed_of_a_share_is_the_same_in_a_trace() -> None:
    compiled = torch.compile(mixed_in_trace)
    for seed in (0, 5, -3, 2**62, -(2**63)):
        for share in (0, 7, 1000):
            expected = mixed(seed, share)
            assert mixed_in_trace(torch.tensor(seed), share).item() == expected
            assert compiled(torch.tensor(seed), share).item() == expected
