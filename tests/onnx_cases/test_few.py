"""A few of ONNX's own cases, and the table of docs/onnx.md, where the package onnx is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
ROOT = Path(__file__).parents[2]


def test_a_few_of_onnxs_own_cases() -> None:
    command = [sys.executable, "-m", "tests.onnx_cases", "--few"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_table_of_operators_is_todays() -> None:
    spec = importlib.util.spec_from_file_location("o", ROOT / "docs" / "onnx_coverage.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if f"ONNX {onnx.__version__}:" not in module.PAGE.read_text("utf-8"):
        pytest.skip("the table is of another version of ONNX")
    assert module.PAGE.read_text("utf-8") == module.page(), "run `python docs/onnx_coverage.py`"


def test_ops_are_written_as_operators_with_their_values() -> None:
    """Those with an `r` and an `e`: a part of the table that has all kinds in it."""
    command = [sys.executable, "-m", "tests.onnx_cases.ops", "-k", "re"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stdout + result.stderr
