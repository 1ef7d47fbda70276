"""A few of PyTorch's operators with its own samples, where PyTorch and its tests' needs are
installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

MISSING = [name for name in ("torch", "expecttest") if find_spec(name) is None]


@pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (tests/zoo/requirements.txt)"
)
@pytest.mark.parametrize("mode", [[], ["--compiled"]], ids=["eager", "compiled"])
def test_samples_agree(mode: list[str]) -> None:
    names = "add,where,linalg.qr,masked.softmax,special.airy_ai,topk,normal,polygamma,nonzero"
    command = [sys.executable, "-m", "tests.zoo.opdb", "--dtype", "float32", "--ops", names, *mode]
    root = Path(__file__).parents[2]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "100.00 %" in result.stdout, result.stdout
