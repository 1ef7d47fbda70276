"""What a compiled function says of itself, and why it was traced again."""

from __future__ import annotations

from typing import Any

import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from frontend.engine.compiled.explanation import grouped
from frontend.engine.compiled.signature import changes


def reason(compiled: Any) -> str:
    """Why the last trace was made."""
    lines = [line for line in compiled.explain().splitlines() if line.startswith("traced ")]
    return lines[-1]


def scaled(x: Any, k: Any = 3, *, name: str = "a") -> Any:
    return (x[0] if isinstance(x, list) else x) * k


@pytest.mark.parametrize(
    ("arguments", "keywords", "told"),
    [
        ((torch.ones(2), 4), {}, "argument k: 3 became 4"),
        ((torch.ones(5),), {}, "argument x: f32[2] became f32[5]"),
        ((torch.ones(2).requires_grad_(),), {}, "argument x: f32[2] became f32[2], requires grad"),
        ((torch.ones(3), 4.5), {}, "argument x: f32[2] became f32[3]; argument k: 3 became 4.5"),
        ((torch.ones(2),), {"name": "b"}, "argument name: 'a' became 'b'"),
        (([torch.ones(2)],), {}, "argument x is gone: it was f32[2]; argument x[0] is new: f32[2]"),
    ],
)  # fmt: skip
def test_a_new_signature_names_the_argument_and_both_values(
    arguments: Any, keywords: Any, told: str
) -> None:
    compiled = torch.compile(scaled)
    compiled(torch.ones(2))
    compiled(*arguments, **keywords)
    assert f"traced 2: new signature: {told}" in " ".join(reason(compiled).split())


def test_the_mode_of_the_thread_is_told_and_the_nearest_signature_compared() -> None:
    compiled = torch.compile(scaled)
    compiled(torch.ones(2))
    compiled(torch.ones(2, 3), 7)
    with torch.no_grad():
        compiled(torch.ones(2, 3), 7)
    assert "grad_enabled: on became off" in reason(compiled)
    assert "argument" not in reason(compiled)


def test_of_no_signature_there_is_nothing_to_say() -> None:
    compiled = torch.compile(scaled)
    compiled(torch.ones(2))
    (key,) = compiled._known.by_signature
    assert changes(key, [], scaled) == "" and changes(key, [key], scaled) == ""


@pytest.fixture(scope="module")
def step() -> Any:
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)), nn.Linear(8, 2))
    opt = torch.optim.Adam(model.parameters())

    @torch.compile
    def step(x: Any, y: Any) -> Any:
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    step(torch.randn(4, 8), torch.randn(4, 2))
    return step


def test_a_step_is_explained_on_one_screen(step: Any) -> None:
    lines = step.explain().splitlines()
    assert len(lines) <= 40
    text = "\n".join(lines)
    assert lines[1].startswith("traced 1: first call (f32[4,8], f32[4,2]) at test_explain.py:")
    assert lines[2].startswith("program 1: one graph, with backward, 1 call, compiled in")
    assert "  signature: (f32[4,8], f32[4,2])" in lines
    assert "model.0-4.weight" in text and "updated in place: " in text
    graph = step.specializations[0].executable.graph
    optimised = step.specializations[0].executable.optimised
    assert f"step: {len(graph.nodes)} nodes, {len(optimised.nodes)} after passes; " in text
    assert "limit " in text and "compiled: " in text and "memory: " in text
    assert "weightiest decisions:" in text and "not fused: " in text
    assert "frozen: " in text and " things more" in text


def test_names_of_equal_layers_are_one() -> None:
    names = ["x", "b.0.w", "b.1.w", "b.0.v", "b.3.v", "c.7.w"]
    assert grouped(names) == ["x", "b.0-1.w", "b.0,3.v", "c.7.w"]


def test_many_traces_are_summed_up() -> None:
    compiled = torch.compile(scaled, dynamic=False)
    for k in range(12):
        compiled(torch.ones(2), k)
    lines = compiled.explain().splitlines()
    traced = [line for line in lines if line.startswith("traced ")]
    assert len(traced) == 8 and "(4 more)" in lines
    assert traced[-1].startswith("traced 12: new signature: argument k: 10 became 11")
    assert "program 12: one graph" in "\n".join(lines)


def test_a_guard_names_the_module_and_the_parameter() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    compiled = torch.compile(lambda x: model(x))
    compiled(torch.ones(1, 2))
    model[1].eval()
    compiled(torch.ones(1, 2))
    assert "Dropout.training was True, is False (module model.1)" in reason(compiled)
    model[0].weight.requires_grad_(False)
    compiled(torch.ones(1, 2))
    told = " ".join(compiled.explain().split())
    assert "again: requires_grad of model.0.weight was True, is False" in told


SETTINGS: dict[str, Any] = {"scale": 2.0, "names": ["a", "b"]}


def test_an_item_is_named_by_its_key_and_an_open_number_by_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = torch.compile(
        lambda x, k: x * SETTINGS["scale"] * k * len(SETTINGS["names"][0]), dynamic=None
    )
    compiled(torch.ones(4, 2), 2)
    monkeypatch.setitem(SETTINGS, "names", ["longer", "b"])
    compiled(torch.ones(4, 2), 2)
    SETTINGS["names"][0] = "other"
    compiled(torch.ones(4, 2), 2)
    told = " ".join(reason(compiled).split())
    assert "item 0 of item 'names' of global 'SETTINGS' was 'longer', is 'other'" in told
    monkeypatch.setitem(SETTINGS, "scale", 3.0)
    compiled(torch.ones(4, 2), 2)
    assert "item 'scale' of global 'SETTINGS' was 2.0, is 3.0" in reason(compiled)
    compiled(torch.ones(5, 2), 3)
    assert "is item 'scale' of global 'SETTINGS'" in " ".join(compiled.explain().split())


def test_counts_of_programs_and_specializations_agree_with_what_is_listed() -> None:
    compiled = torch.compile(lambda x: x * 2)
    compiled(torch.ones(2))
    assert compiled.explain().startswith("traced: 1 program, 1 specialization, level exact")
    for size in (3, 4, 5):
        compiled(torch.ones(size))
    lines = compiled.explain().splitlines()
    assert lines[0] == "traced: 2 programs, 4 specializations, level exact"
    listed = [line for line in lines if line.startswith("program ")]
    assert len(listed) == 2 and "1 call, compiled" in listed[0]
    assert "3 calls at 3 sizes" in listed[1]


def test_what_is_frozen_is_listed_where_there_is_something() -> None:
    def read(x: Any, k: Any = (), *, scale: float = 2.0) -> Any:
        return x * scale + len(k)

    compiled = torch.compile(lambda x: read(x))
    compiled(torch.ones(2))
    frozen = [line.strip() for line in compiled.explain().splitlines() if "frozen: " in line]
    assert not frozen, frozen


def test_a_default_that_is_replaced_is_named() -> None:
    def read(x: Any, scale: float = 2.0) -> Any:
        return x * scale

    compiled = torch.compile(lambda x: read(x))
    compiled(torch.ones(2))
    assert "frozen: the defaults of read()=(2.0,)" in compiled.explain()
    read.__defaults__ = (3.0,)
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
    assert "the defaults of read() was (2.0,), is (3.0,)" in reason(compiled)
