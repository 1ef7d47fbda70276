"""examples/transformer.py, with a small model: it trains, judges itself and writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import frontend

FILE = Path(__file__).resolve().parents[2] / "examples" / "transformer.py"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = spec_from_file_location("transformer_example", FILE)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


@pytest.fixture(scope="module")
def text(example: Any) -> Any:
    return example.read_text()


@pytest.fixture(autouse=True)
def small(example: Any, text: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    sizes = {"CONTEXT": 16, "BATCH": 8, "WIDTH": 24, "HEADS": 2, "LAYERS": 1, "PEAK": 0.02}
    for name, size in sizes.items():
        monkeypatch.setattr(example, name, size)
    monkeypatch.setattr(example, "read_text", lambda: text)
    before = frontend.get_eager_backend()
    yield
    frontend.set_eager_backend(before)


def test_it_learns_and_writes(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status = example.main(["--steps", "60", "--threads", "1", "--sample", "30"])
    lines = capsys.readouterr().out.splitlines()
    losses = {line[:22].strip(): float(line[22:27]) for line in lines if line.startswith("  the")}
    assert status == 0
    assert losses["the 16 before"] < losses["their frequencies"] < losses["their number"]
    assert len("\n".join(lines).partition("(this one)\n\n")[2]) == 16 + 30


def test_a_loss_above_its_bound_is_a_failure(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "bound_after", lambda steps: "the one before")
    assert example.main(["--steps", "2", "--threads", "1", "--sample", "0"]) == 1


@pytest.mark.slow
def test_compiled_and_on_native_kernels_it_is_the_same_run_bit_for_bit(
    example: Any, text: Any
) -> None:

    def run(backend: str, compile: Any) -> tuple[list[float], str]:
        frontend.set_eager_backend("numpy")
        frontend.manual_seed(3)
        model = example.Transformer(len(text.alphabet))
        frontend.set_eager_backend(backend)
        losses: list[float] = []
        example.train(model, text, 6, compile, losses.append)
        return losses, example.written(model, text, 12, 0.8, compile)[1]

    compiled = run("numpy", lambda function: frontend.compile(function, threads=1))
    assert compiled == run("native", lambda function: function)
