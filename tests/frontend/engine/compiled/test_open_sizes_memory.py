"""However many sizes come: specializations, instances and types that are kept are bounded."""

from __future__ import annotations

import gc

import pytest

import frontend as torch
from graphc.ir import types


def test_hundreds_of_sizes_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontend.engine.compiled.specializations.MOST_INSTANCES", 64)
    monkeypatch.setattr("graphc.runtime.sized_executable.INSTANCES", 64)
    compiled = torch.compile(lambda x: (x * 2).sum(0))
    counts = []
    for n in range(2, 602):
        assert compiled(torch.ones(n, 2)).tolist() == [2 * n] * 2
        if n in (401, 601):
            types._forget_unused()
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert len(compiled._history.lines) <= 3
    assert len(compiled.specializations) == 64 + 1  # that of the first size alone
    assert counts[1] - counts[0] < 200
