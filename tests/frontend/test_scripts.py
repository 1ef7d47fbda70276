"""Whole scripts written for PyTorch: they run here with only the import lines changed, or unchanged
under `install_as`, and give and print what PyTorch gives and prints.

`scripts/expected.json` holds what each gave under PyTorch, so that nobody needs it to run these
tests; with PyTorch installed it is held against that, and `python tests/frontend/test_scripts.py`
writes it anew.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "scripts"
EXPECTED = FOLDER / "expected.json"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
TRAINS = [name for name in NAMES if "torch.compile(" in (FOLDER / f"{name}.py").read_text()]
TOLERANCE = 1e-4  # of a number's magnitude, at least of 1

IMPORTS = (
    (r"^import torch$", "import frontend as torch"),
    (r"^import torch\.", "import frontend."),
    (r"^(\s*)from torchvision\b", r"\1from frontend.vision"),
    (r"^(\s*)from torch\b", r"\1from frontend"),
)


def ported(source: str) -> str:
    """A script with its import lines changed, and nothing else."""
    for old, new in IMPORTS:
        source = re.sub(old, new, source, flags=re.MULTILINE)
    return source


def load(name: str, change: Callable[[str], str] = lambda source: source) -> Callable[..., Any]:
    """The `main` of a script."""
    path = FOLDER / f"{name}.py"
    names = {"__name__": name, "__file__": str(path)}
    exec(compile(change(path.read_text()), str(path), "exec"), names)
    return names["main"]  # type: ignore[return-value]


def outcome(main: Callable[..., Any], **options: Any) -> list[Any]:
    """[what it returns, what it prints], as JSON holds it."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        result = main(**options)
    return json.loads(json.dumps([result, text.getvalue()]))


# -- comparing ------------------------------------------------------------------------------------

NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")


def compare(actual: Any, expected: Any, where: str) -> None:
    """The same structure, texts and truth values; numbers to within the tolerance."""
    if isinstance(expected, dict):
        assert list(actual) == list(expected), where
        for key, value in expected.items():
            compare(actual[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), where
        for position, value in enumerate(expected):
            compare(actual[position], value, f"{where}[{position}]")
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE), where
    else:
        assert actual == expected and type(actual) is type(expected), where


def compare_texts(actual: str, expected: str, name: str) -> None:
    """The same lines; numbers to within the tolerance and the last digit shown. How spaces align
    columns depends on the last digits, so spaces do not count; nor do the names of nodes."""
    mine, theirs = (re.sub(r"\s+", "", _without_nodes(text)) for text in (actual, expected))
    same = NUMBER.sub("#", mine) == NUMBER.sub("#", theirs)
    assert same, f"{name} prints\n{actual}\nnot\n{expected}"
    for left, right in zip(NUMBER.findall(mine), NUMBER.findall(theirs)):
        assert float(left) == pytest.approx(float(right), rel=2e-4, abs=2e-4), name


def _without_nodes(text: str) -> str:
    return re.sub(r",\s*grad_fn=<\w+>", "", text)


def agree(actual: list[Any], name: str) -> None:
    result, text = json.loads(EXPECTED.read_text())[name]
    compare(actual[0], result, name)
    compare_texts(actual[1], text, name)


# -- tests ----------------------------------------------------------------------------------------


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
def test_with_the_imports_changed(name: str) -> None:
    agree(outcome(load(name, ported)), name)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", TRAINS)
def test_training_is_the_same_compiled(name: str) -> None:
    agree(outcome(load(name, ported), compile=True), name)


@pytest.mark.slow
def test_unchanged_under_install_as() -> None:
    """All of them in one fresh process."""
    code = f"""
import importlib.util, json, sys, warnings
warnings.simplefilter("error")
import frontend
frontend.install_as("torch")
spec = importlib.util.spec_from_file_location("scripts", {str(Path(__file__))!r})
tests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tests)
made = {{name: tests.outcome(tests.load(name)) for name in tests.NAMES}}
import torch
assert torch is frontend
json.dump(made, sys.stdout)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    for name, actual in json.loads(run.stdout).items():
        agree(actual, name)


def write_idx(path: Path, array: np.ndarray) -> None:
    """Bytes in the files' own form: two zeros, the type (8: bytes), the rank, the sizes, all of
    them big-endian, then the elements."""
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    with gzip.open(path, "wb") as file:
        file.write(head + array.astype(np.uint8).tobytes())


def test_garments_from_files(tmp_path: Path) -> None:
    """The classifier on files like Fashion-MNIST's: the same losses eager and compiled."""
    pytest.importorskip("frontend.vision")
    random = np.random.default_rng(0)
    for part, count in (("train", 48), ("t10k", 16)):
        labels = random.integers(0, 10, count)
        pictures = random.integers(0, 200, (count, 28, 28)) + 5 * labels[:, None, None]
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", pictures)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", labels)
    main = load("fashion", ported)
    eager, text = outcome(main, folder=str(tmp_path), epochs=1, batch_size=16)
    assert len(eager["losses"]) == 3 and "[   16/   48]" in text
    compiled, _ = outcome(main, folder=str(tmp_path), epochs=1, batch_size=16, compile=True)
    compare(compiled, eager, "compiled")


@pytest.mark.parametrize("name", NAMES)
def test_expected_is_what_pytorch_gives(name: str) -> None:
    pytest.importorskip("torch")
    agree(outcome(load(name)), name)


def test_every_script_has_an_outcome() -> None:
    assert sorted(json.loads(EXPECTED.read_text())) == NAMES
    assert len(NAMES) >= 10


if __name__ == "__main__":
    outcomes = {name: outcome(load(name)) for name in NAMES}
    EXPECTED.write_text(json.dumps(outcomes, indent=1) + "\n")
