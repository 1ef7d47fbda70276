"""However many sizes come: specializations, instances and types that are kept are bounded."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from frontend.engine.outside.check import ModuleMembers
from graphc.ir import types
from graphc.ir.types import DType, TensorType
from graphc.runtime.native_call import slot_table


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


def test_a_further_size_asks_no_module_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards that held in an epoch hold for the program at every size; a written parameter is seen
    at once, and at the next size too."""
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    compiled = torch.compile(model, fullgraph=True)
    asked: list[Any] = []
    holds = ModuleMembers.holds

    def counted(self: ModuleMembers, now: dict[str, object]) -> bool:
        asked.append(now)
        return holds(self, now)

    monkeypatch.setattr(ModuleMembers, "holds", counted)
    with torch.no_grad():
        for rows in (2, 3, 5):
            compiled(torch.ones(rows, 3))
        asked.clear()
        compiled(torch.ones(7, 3))
        assert not asked
        model[0].weight.fill_(1.0)
        model[2] = nn.Linear(4, 2)
        for rows in (7, 9):
            x = torch.ones(rows, 3)
            assert torch.equal(compiled(x), model(x))
    assert asked


def test_slots_of_a_further_size_are_those_that_differ() -> None:
    types = [TensorType(DType.f32, shape) for shape in ((2, 3), (4,), (5, 1))]
    first = slot_table(types, {1}, [3])
    others = [TensorType(DType.f32, (7, 3)), *types[1:]]
    again, anew = slot_table(others, {1}, [3], first), slot_table(others, {1}, [3])
    assert again.alive[1] is first.alive[1] and again.alive[0] is not first.alive[0]
    for one, other in zip(again.slots, anew.slots, strict=True):
        for name in ("descriptor", "rank", "flags", "nbytes", "updated", "entry", "strides"):
            assert getattr(one, name) == getattr(other, name)
    assert [list(dimensions) for dimensions, _ in again.alive] == [[7, 3], [4], [5, 1]]
