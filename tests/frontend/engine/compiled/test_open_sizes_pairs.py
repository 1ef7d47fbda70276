"""Forward/backward pairs whose sizes are left open: the bits of code for each size alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.engine.compiled.specialization import nothing

SIZES = (5, 7, 3, 9)


def drawn(*shape: int) -> Any:
    values = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
    return torch.from_numpy(values)


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4))


def both(run: Any) -> list[list[bytes]]:
    """What `run(model, compiled)` gives with sizes left open and with code for each size."""
    results = []
    for dynamic in (None, False):
        model = network()
        results.append([x.detach().numpy().tobytes() for x in run(model, model_of(model, dynamic))])
    return results


def model_of(model: Any, dynamic: Any, **options: Any) -> Any:
    return torch.compile(model, dynamic=dynamic, **options)


@pytest.mark.slow
def test_one_trace_serves_backward_of_all_sizes() -> None:
    def run(model: Any, compiled: Any) -> Any:
        for n in SIZES:
            x = drawn(n, 6).requires_grad_()
            y = compiled(x)
            y.pow(2).sum().backward()
            yield y
            yield x.grad
        yield from [p.grad for p in model.parameters()]
        counts.append(len(compiled._history.lines))

    counts: list[int] = []
    open_, numbers = both(run)
    assert open_ == numbers
    assert counts == [2, len(SIZES)]


def test_calls_of_other_sizes_in_flight() -> None:
    def run(model: Any, compiled: Any) -> Any:
        flight = [(n, compiled(drawn(n, 6))) for n in SIZES]
        for n, y in flight[::-1]:
            assert y.shape == (n, 4)
            y.sum().backward()
        yield from [p.grad for p in model.parameters()]

    open_, numbers = both(run)
    assert open_ == numbers


@pytest.mark.slow
def test_the_derivative_of_the_derivative() -> None:
    def run(model: Any, compiled: Any) -> Any:
        for n in SIZES:
            x = drawn(n, 6).requires_grad_()
            (g,) = torch.autograd.grad(compiled(x).pow(2).sum(), x, create_graph=True)
            g.pow(2).sum().backward()
            yield g
            yield x.grad
        yield from [p.grad for p in model.parameters()]

    open_, numbers = both(run)
    assert open_ == numbers


def test_without_gradients_nothing_is_kept() -> None:
    compiled = model_of(network(), None)
    with torch.no_grad():
        for n in SIZES:
            assert not compiled(drawn(n, 6)).requires_grad
    assert compiled(drawn(4, 6)).requires_grad


def test_what_is_saved_keeps_to_the_budget_at_every_size() -> None:
    """Beyond the size that the first choice keeps to there is another."""

    def run(model: Any, compiled: Any) -> Any:
        for n in SIZES:
            compiled(drawn(n, 6)).sum().backward()
        yield from [p.grad for p in model.parameters()]

    model, other = network(), network()
    compiled = model_of(model, None, saved_bytes=7 * 4 * 16)
    kept = [x.numpy().tobytes() for x in run(model, compiled)]
    assert kept == [x.numpy().tobytes() for x in run(other, model_of(other, False))]
    for each in compiled.specializations:
        assert each.function.saved_bytes <= 7 * 4 * 16
    assert len(compiled._history.lines) == 2


def test_a_budget_of_a_training_step_is_a_guard() -> None:
    losses = []
    for dynamic in (None, False):
        model = network()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, model: Any = model, opt: Any = opt) -> Any:
            loss = model(x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        compiled = torch.compile(step, dynamic=dynamic, saved_bytes=500)
        losses.append([compiled(drawn(n, 6)).item() for n in (3, 2, 4, 50)])
        if dynamic is None:
            assert "not " in compiled._history.lines[-1] and "<= 500" in compiled._history.lines[-1]
    assert losses[0] == losses[1]


def test_frozen_tensors_at_all_sizes() -> None:
    model = torch.freeze(nn.Sequential(nn.Linear(50, 70), nn.ReLU()).eval())
    compiled, alone = model_of(model, None), model_of(model, False)
    for n in SIZES:
        assert compiled(drawn(n, 50)).numpy().tobytes() == alone(drawn(n, 50)).numpy().tobytes()


def test_a_first_call_of_a_further_size_undoes_nothing() -> None:
    """What Python did at the trace was done then: a later failure does not undo it."""
    compiled = torch.compile(lambda x: x * 2)
    for n in (3, 4):
        compiled(drawn(n))
    (program,) = compiled._open_sizes.all()
    compiled(drawn(6))
    specialization = compiled.specializations[-1]
    assert specialization.program is program and specialization.undo is nothing


def test_an_error_of_the_user_leaves_sizes_open() -> None:
    compiled = model_of(network(), None)
    compiled(drawn(5, 6))
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(5x7 and 6x8\)"):
        compiled(drawn(5, 7))
    for n in SIZES:
        compiled(drawn(n, 6))
    assert not compiled._history.notes
