"""Weights that transformers saved with PyTorch: loaded, trained, saved here, and loaded there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LIBRARIES = ("torch", "transformers", "safetensors")
MISSING = [name for name in LIBRARIES if find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (tests/zoo/requirements.txt)"
)
ROOT = Path(__file__).parents[2]


def seen(side: str, part: str, folder: Path) -> dict[str, Any]:
    """What a process of one side saw."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    result = subprocess.run(
        [sys.executable, str(ROOT / "tests/zoo/pretrained.py"), side, part, str(folder)],
        env={**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_a_gpt2_goes_from_pytorch_to_the_frontend_and_back(tmp_path: Path) -> None:
    actual = seen("oracle", "make", tmp_path)
    theirs = seen("oracle", "train", tmp_path)
    ours = seen("frontend", "train", tmp_path)
    back = seen("oracle", "read", tmp_path)
    assert len({tuple(line) for line in actual["tokens"]}) == 2, "the prompt matters"
    assert ours["tokens"] == theirs["tokens"] == actual["tokens"]
    assert ours["tied"] and theirs["tied"]
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-4)
    assert ours["losses"][-1] < ours["losses"][0]
    # Adam's steps follow the signs of gradients, so rounding moves what is trained by more.
    np.testing.assert_allclose(ours["logits"], theirs["logits"], rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(back["logits"], ours["logits"], rtol=1e-4, atol=1e-4)
    assert back["tokens"] == ours["tokens after"]
