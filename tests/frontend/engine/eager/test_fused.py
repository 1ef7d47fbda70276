"""Formulas as one kernel that changes tensors in place: what the ops one by one give, counted as a
change, for every optimizer's options; and by ops where a kernel cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.engine.eager.fused import Fused
from frontend.engine.tensors.state import STATE


@Fused
def _blend(x: Any, y: Any, share: Any, *, negated: bool) -> tuple[Any, Any]:
    y = -y if negated else y
    return x + y * share, y * share


def by_ops(x: Any, y: Any, share: float, negated: bool) -> tuple[Any, Any]:
    y = -y if negated else y
    return x + y * share, y * share


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (300,)], ids=str)
@pytest.mark.parametrize("negated", [False, True])
def test_bits_are_those_of_the_ops(kind: Any, shape: tuple[int, ...], negated: bool) -> None:
    x, y = (torch.randn(shape, dtype=torch.float64).to(kind) for _ in range(2))
    wanted = by_ops(x, y, 0.3, negated)
    versions = x._version, y._version
    with torch.no_grad():
        _blend((x, y), (0.3,), negated=negated)
    for have, want in zip((x, y), wanted, strict=True):
        assert have.to(torch.float64).numpy().tobytes() == want.to(torch.float64).numpy().tobytes()
    assert (x._version, y._version) == tuple(v + 1 for v in versions)


def test_numbers_may_be_tensors_and_large() -> None:
    for number in (torch.tensor(0.1, dtype=torch.float64), 1e300, float("nan"), 3):
        x, y = torch.randn(5), torch.randn(5)
        wanted = by_ops(x, y, number, False)
        with torch.no_grad():
            _blend((x, y), (number,), negated=False)
        assert np.array_equal(x.numpy(), wanted[0].numpy(), equal_nan=True)


def test_what_is_no_plain_memory_goes_by_ops() -> None:
    for x, y in (
        (torch.randn(4, 3).t(), torch.randn(3, 4)), (torch.randn(8)[::2], torch.randn(4)),
        (torch.randn(3), torch.randn(3, dtype=torch.float64).float()),
    ):  # fmt: skip
        wanted = by_ops(x, y, 0.5, True)
        with torch.no_grad():
            _blend((x, y), (0.5,), negated=True)
        assert torch.equal(x, wanted[0]) and torch.equal(y, wanted[1])
    frozen = torch.zeros(3).freeze() if hasattr(torch.Tensor, "freeze") else None
    if frozen is not None:
        with torch.no_grad(), pytest.raises(RuntimeError, match="frozen"):
            _blend((frozen, torch.ones(3)), (0.5,), negated=False)


OPTIONS: list[tuple[Any, dict[str, Any]]] = [
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    (torch.optim.SGD, {"lr": torch.tensor(0.1), "weight_decay": 0.1}),
    (torch.optim.Adam, {"lr": 0.1}),
    (torch.optim.Adam, {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True}),
    (torch.optim.Adam, {"lr": torch.tensor(0.1), "maximize": True}),
    (torch.optim.AdamW, {"lr": 0.1}),
    (torch.optim.AdamW, {"lr": 0.1, "amsgrad": True, "maximize": True}),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "options"), OPTIONS, ids=str)
def test_steps_of_optimizers(kind: Any, options: dict[str, Any]) -> None:
    """By kernels, by ops (with NumPy's would be other bits: the ops are watched), and compiled."""
    results = []
    for way in ("fused", "by ops", "compiled"):
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5))]
        optimizer = kind(parameters, **options)
        step = torch.compile(optimizer.step) if way == "compiled" else optimizer.step
        for turn in range(3):
            for p in parameters:
                p.grad = torch.full_like(p, 0.5 + turn) * p.detach()
            if way == "by ops":
                STATE.saved_hooks = (lambda x: x, lambda x: x)  # what watches ops
            try:
                step()
            finally:
                STATE.saved_hooks = None
        held = [value for p in parameters for value in optimizer.state[p].values()]
        results.append([x.detach().numpy().tobytes() for x in (*parameters, *held)])
    assert results[0] == results[1] == results[2]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", [{"amsgrad": True}, {"weight_decay": 0.1}, {}], ids=str)
def test_a_parameter_without_dimensions_has_one_meaning_eager_and_compiled(
    options: dict[str, Any],
) -> None:
    """Numbers that a compiled step reads are 0-d tensors there, and yield to it all the same."""
    values = []
    for compiled in (False, True):
        p = torch.nn.Parameter(torch.tensor(0.3))
        optimizer = torch.optim.Adam([p], lr=0.01, **options)

        def step(x: Any, p: Any = p, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (p * x).sin().sum()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compiled else step
        values.append([float(run(torch.tensor([1.0, 2.0]))) for _ in range(4)] + [p.item()])
    assert values[0] == values[1]
