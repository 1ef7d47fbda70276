"""What compiling a Module leaves behind once the Module and what was compiled are gone."""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch
from frontend import nn


def living() -> Counter[str]:
    """Objects of this project by class."""
    gc.collect()
    names = (f"{type(x).__module__}.{type(x).__qualname__}" for x in gc.get_objects())
    return Counter(n for n in names if n.startswith(("frontend.", "graphc.")))


def inference(x: Any) -> None:
    with torch.no_grad():
        torch.compile(nn.Linear(8, 8))(x)


def trained(x: Any) -> None:
    model = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters())

    def step(x: Any) -> Any:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    torch.compile(step)(x)


def refused(x: Any) -> None:
    model = nn.Linear(8, 8)
    with pytest.raises(RuntimeError, match=r"float\(\) needs the value of a tensor"):
        torch.compile(lambda x: float(model(x).sum()), fullgraph=True)(x)


def fallen_back(x: Any) -> None:
    model = nn.Linear(8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compile(lambda x: float(model(x).sum()))(x)


def left_behind(once: Callable[[Any], None]) -> dict[str, int]:
    """Objects by class of which three runs leave at least three."""
    x = torch.ones(3, 8)
    once(x)
    once(x)
    before = living()
    for _ in range(3):
        once(x)
    more = living() - before
    return {n: k for n, k in more.items() if k >= 3}


@pytest.mark.slow
def test_nothing_is_kept_of_a_module_that_is_gone() -> None:
    def all_of_them(x: Any) -> None:
        inference(x)
        trained(x)
        refused(x)
        fallen_back(x)

    assert not left_behind(all_of_them)


def test_what_is_kept_is_found() -> None:
    kept: list[Any] = []
    found = left_behind(lambda x: kept.append(nn.Linear(8, 8)))
    assert found["frontend.nn.modules.linear.Linear"] == 3
