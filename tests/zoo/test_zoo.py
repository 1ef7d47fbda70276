"""A few models of the zoo, where its libraries and PyTorch are installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

LIBRARIES = ("torch", "timm", "torchvision", "transformers", "einops")
MISSING = [name for name in LIBRARIES if find_spec(name) is None]


@pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (tests/zoo/requirements.txt)"
)
def test_outputs_are_pytorchs() -> None:
    names = ["timm/test_resnet", "timm/test_vit", "transformers/bert", "einops/layers"]
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.zoo", *names]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stdout + result.stderr
