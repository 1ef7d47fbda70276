"""GGUF files by transformers, with PyTorch and with the frontend, and by examples/generate.py."""

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

LIBRARIES = ("torch", "transformers", "accelerate", "gguf")
MISSING = [name for name in LIBRARIES if find_spec(name) is None]
ROOT = Path(__file__).parents[2]


def seen(side: str, part: str, folder: Path) -> dict[str, Any]:
    """What a process of one side saw."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    result = subprocess.run(
        [sys.executable, str(ROOT / "tests/zoo/gguf_files.py"), side, part, str(folder)],
        env={**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.mark.slow
@pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (tests/zoo/requirements.txt)"
)
def test_a_llama_in_a_file_is_the_same_for_all(tmp_path: Path) -> None:
    logits = seen("oracle", "make", tmp_path)["logits"]
    theirs = seen("oracle", "read", tmp_path)
    ours = seen("frontend", "read", tmp_path)
    example = seen("frontend", "example", tmp_path)
    np.testing.assert_allclose(theirs["plain.gguf"]["logits"], logits, rtol=1e-4, atol=1e-4)
    for name in ("plain.gguf", "packed.gguf"):
        assert ours[name]["tokens"] == theirs[name]["tokens"]
        for other in (ours, example):
            np.testing.assert_allclose(
                other[name]["logits"], theirs[name]["logits"], rtol=1e-4, atol=1e-4
            )
    assert example["packed.gguf"]["kinds"] == ["Q8_0", "plain"]
    assert not np.allclose(ours["packed.gguf"]["logits"], logits, rtol=1e-4, atol=1e-4)
