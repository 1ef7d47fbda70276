"""Models of the zoo's libraries as objects, training and inference: ten calls of seven sizes have
the bits of this process, on this machine and on others. All of it is slow; what needs a library, a
compiler or an emulator is left out where there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from graphc.codegen.target import executable
from tests.build.c_programs import (
    ARM,
    CPP,
    EMULATED,
    C,
    allocates_nothing,
    is_clean_under_valgrind,
    needs_only_what_is_listed,
    paged,
    proves,
)

LIBRARIES = ("torch", "timm", "transformers")
MISSING = [name for name in LIBRARIES if find_spec(name) is None]
ROOT = Path(__file__).resolve().parents[2]
NAMES = ("vit", "resnet", "bert", "gpt", "mobilenet")
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
UNDER_VALGRIND = LEVELS[:2]
"""It does not know AVX-512."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


def targets() -> list[str]:
    """What runs here: this machine, its levels of x86-64, and AArch64 under emulation."""
    native = {target.name for target in executable()}
    levels = [name for name in LEVELS if name in native]
    emulated = bool(shutil.which(ARM[0]) and shutil.which(EMULATED[0]))
    return ["host", *levels, *(["aarch64"] if emulated else [])]


@pytest.mark.parametrize("how", ["infer", "train"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_the_zoo_has_the_bits_of_this_process(
    tmp_path: Path, name: str, how: str
) -> None:
    command = [sys.executable, "-m", "tests.build.zoo_worker", name, how, str(tmp_path), *targets()]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3000)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for target in targets():
        folder = tmp_path / target
        needs_only_what_is_listed(folder, name, target)
        if target == "aarch64":
            proves(folder, name, ARM, *EMULATED)
        elif shutil.which("gcc"):
            _holds_on_this_machine(folder, name, target)


def _holds_on_this_machine(folder: Path, name: str, target: str) -> None:
    proves(folder, name, C)
    if shutil.which("g++"):
        proves(folder, name, CPP)
    paged(folder, name)
    proves(folder, name, ("gcc", "-std=gnu11", "-O1", "paged.c"))
    allocates_nothing(folder, name)
    if target in UNDER_VALGRIND and shutil.which("valgrind"):
        is_clean_under_valgrind(folder, name)
