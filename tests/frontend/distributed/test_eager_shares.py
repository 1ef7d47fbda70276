"""The shares of an eager model as one program: what Python does in it stays as it is, and where
that cannot be its shares go one by one."""

from __future__ import annotations

import contextlib
import io
import pdb
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.distributed as dist
from frontend import nn
from frontend.distributed.compiled_shares import MOST_TRACES
from frontend.nn.parallel import DistributedDataParallel as DDP
from tests.frontend.distributed.ranks import checked

SHARES = 4
X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)
KEPT: dict[str, Any] = {}
FACTOR = {"now": 1.0}


class Net(nn.Module):
    """A layer and a norm, and what a user's code does besides."""

    def __init__(self, body: Callable[..., Any]):
        super().__init__()
        self.layer, self.norm, self.body = nn.Linear(6, 3), nn.BatchNorm1d(3), body
        self.calls, self.log, self.words, self.at_backward = 0, [], iter("abcdefghij" * 9), 0

    def forward(self, x: Any) -> Any:
        return self.norm(self.body(self, x))

    def seen(self, gradient: Any) -> None:
        self.at_backward += 1
        KEPT["gradient"] = gradient


class Doubled(torch.autograd.Function):
    """Counts how often backward comes here."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        KEPT["backwards"] = KEPT.get("backwards", 0) + 1
        return 2 * gradient


def counts(net: Any, x: Any) -> Any:
    net.calls += 1
    return net.layer(x) * net.calls


def prints(net: Any, x: Any) -> Any:
    hidden = net.layer(x)
    print("forward", tuple(x.shape), hidden.sum())
    return hidden


def appends(net: Any, x: Any) -> Any:
    hidden = net.layer(x)
    net.log.append(hidden.mean().item())
    return hidden


def reads_a_global(net: Any, x: Any) -> Any:
    return net.layer(x) * FACTOR["now"]


def keeps_a_tensor(net: Any, x: Any) -> Any:
    KEPT["hidden"] = hidden = net.layer(x)
    return hidden


def advances_an_iterator(net: Any, x: Any) -> Any:
    return net.layer(x) * ord(next(net.words))


def chooses_by_value(net: Any, x: Any) -> Any:
    return net.layer(x) if x.sum() > 0 else 2 * net.layer(x)


def stops(net: Any, x: Any) -> Any:
    breakpoint()
    return net.layer(x)


def hooked(net: Any, x: Any) -> Any:
    hidden = net.layer(x)
    hidden.register_hook(net.seen)
    return hidden


def own_backward(net: Any, x: Any) -> Any:
    return Doubled.apply(net.layer(x))


def raises(net: Any, x: Any) -> Any:
    net.calls += 1
    if net.calls > 2 * SHARES + 1:
        raise ValueError(f"call {net.calls}")
    return net.layer(x)


PROGRAMS = (counts, prints, appends, reads_a_global, raises)
ONE_BY_ONE = {
    keeps_a_tensor: "keeps a tensor",
    advances_an_iterator: "is an iterator",
    chooses_by_value: "bool() needs the value",
    stops: "is an effect",
    hooked: "hooks look at gradients",
    own_backward: "Doubled is an autograd.Function",
}


def _trained(body: Any, one_program: bool, compiled: bool = False) -> tuple[Any, Any]:
    """What five steps leave behind everywhere; and the model."""
    KEPT.clear()
    torch.manual_seed(0)
    net = Net(body)
    model, printed, found = DDP(torch.compile(net) if compiled else net), io.StringIO(), []
    dist.set_deterministic(True, shares=SHARES, one_program=one_program)
    for step in range(5):
        FACTOR["now"] = 1.0 + step
        model.zero_grad()
        try:
            with contextlib.redirect_stdout(printed):
                model(torch.from_numpy(X)).square().mean().backward()
            found += [p.grad.numpy().tobytes() for p in net.parameters()]
        except ValueError as error:
            found.append(str(error))
    dist.set_deterministic(False)
    kept = {name: str(getattr(x, "tolist", lambda x=x: x)()) for name, x in KEPT.items()}
    buffers = [buffer.numpy().tobytes() for buffer in net.buffers()]
    state = (net.calls, net.log, "".join(net.words), net.at_backward)
    return (found, buffers, kept, printed.getvalue(), state), model


def _the_same(rank: int, count: int, bodies: Any) -> None:
    """Bits, what is printed, kept, counted and raised are the same."""
    sys.breakpointhook = lambda: pdb.Pdb().set_trace(sys._getframe(1))
    sys.stdin = io.StringIO("continue\n" * 99)
    for body in bodies:
        by_share, _ = _trained(body, False)
        found, model = _trained(body, True)
        assert found == by_share, body.__name__
        told = model.explain_shares()
        assert ("could not be traced" in told) == (body in ONE_BY_ONE), told
        assert ONE_BY_ONE.get(body, "") in " ".join(told.split()), told


def _compiled(rank: int, count: int) -> None:
    for body in (prints, appends):
        by_share, _ = _trained(body, False)
        found, model = _trained(body, True, compiled=True)
        assert found == by_share and not model._steps.shares.told


@pytest.mark.slow
def test_a_compiled_model_prints_and_appends_in_each_step_too() -> None:
    checked(1, _compiled)


@pytest.mark.slow
def test_python_in_a_model_does_what_it_does_share_by_share() -> None:
    checked(1, _the_same, PROGRAMS)


@pytest.mark.slow
def test_shares_go_one_by_one_where_a_program_would_lose_what_python_does() -> None:
    checked(1, _the_same, tuple(ONE_BY_ONE))


def _seen(rank: int, count: int) -> list[bytes]:
    """Rank 0 has a debugger, which sees each share; the other a program."""
    dist.set_deterministic(True, shares=SHARES)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Dropout(0.3))
    model, rows = DDP(net), len(X) // count
    before = sys.gettrace()
    sys.settrace((lambda *event: None) if rank == 0 else None)
    for _ in range(2):
        model.zero_grad()
        model(torch.from_numpy(X[rank * rows : (rank + 1) * rows])).square().mean().backward()
    sys.settrace(before)
    assert ("a debugger" in model.explain_shares()) == (rank == 0)
    dist.set_deterministic(False)
    return [*[p.grad.numpy().tobytes() for p in net.parameters()], net[1].running_var.numpy()]


@pytest.mark.slow
def test_ranks_may_run_shares_in_different_ways() -> None:
    first, second = checked(2, _seen)
    (alone,) = checked(1, _seen)
    assert str(first) == str(second) == str(alone)


def _frozen_statistics(rank: int, count: int) -> None:
    """A norm that is switched to eval between steps keeps its statistics, and takes them again."""
    net = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))
    model, seen = DDP(net), []
    dist.set_deterministic(True, shares=SHARES)
    for training in (True, False, True):
        net[1].train(training)
        for _ in range(2):
            model(torch.from_numpy(X)).square().mean().backward()
        seen.append((int(net[1].num_batches_tracked), net[1].running_mean.numpy().tobytes()))
    dist.set_deterministic(False)
    assert [tracked for tracked, _ in seen] == [2 * SHARES, 2 * SHARES, 4 * SHARES]
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.slow
def test_norms_are_looked_for_again_where_a_module_changed() -> None:
    checked(1, _frozen_statistics)


def _reasons(rank: int, count: int) -> None:
    """Whoever asks for shares one by one, or is to see them, has them so, and is told."""
    x, backward = torch.from_numpy(X), lambda loss: loss.square().mean().backward()
    dist.set_deterministic(True, shares=SHARES)
    model = DDP(nn.Linear(6, 3))
    with pytest.raises(RuntimeError, match="no step"):
        model.explain_shares()
    with torch.autograd.detect_anomaly():
        backward(model(x))
    with torch.compiler.set_stance("force_eager"):
        backward(model(x))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        backward(model(x))
    assert not model._steps.shares.program.trace_reasons
    told = model.explain_shares()
    assert "2 calls: a mode, detect_anomaly()" in told and "1 calls: compiler.set_stance" in told

    foreign = type("Foreign", (nn.Linear,), {"__module__": "pytest"})
    for each, reason in (
        (nn.Sequential(foreign(6, 3)), "Foreign is of an installed package"),
        (torch.compile(nn.Linear(6, 3), level="relaxed"), "relaxed"),
    ):
        model = DDP(each)
        backward(model(x))
        assert reason in model.explain_shares()

    net = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 3))
    model = DDP(net)
    for _ in range(MOST_TRACES + 2):
        net[0].register_forward_hook(lambda *_: None)
        backward(model(x))
    assert f"2 calls: traced {MOST_TRACES} times" in model.explain_shares()
    dist.set_deterministic(False)


@pytest.mark.slow
def test_why_shares_went_one_by_one_is_told() -> None:
    checked(1, _reasons)
