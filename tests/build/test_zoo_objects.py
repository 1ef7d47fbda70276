"""Models of the zoo's libraries as objects, training and inference: ten calls of seven sizes have
the bits of this process, on this machine and on others. All of it is slow; what needs a library, a
compiler or an emulator is left out where there is none."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.build.c_programs import holds, targets

LIBRARIES = ("torch", "timm", "transformers")
MISSING = [name for name in LIBRARIES if find_spec(name) is None]
ROOT = Path(__file__).resolve().parents[2]
NAMES = ("vit", "resnet", "bert", "gpt", "mobilenet")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


@pytest.mark.parametrize("how", ["infer", "train"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_the_zoo_has_the_bits_of_this_process(
    tmp_path: Path, name: str, how: str
) -> None:
    command = [sys.executable, "-m", "tests.build.zoo_worker", name, how, str(tmp_path), *targets()]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3000)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for target in targets():
        holds(tmp_path / target, name, target)
