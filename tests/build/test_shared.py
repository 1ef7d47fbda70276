"""Shared libraries and wheels: linked by the machine's C compiler, called from Python with NumPy
alone, to the bits of this process. Skipped where there is no C compiler."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

import frontend as torch
from graphc.build.shared_library import linker_of
from graphc.codegen.target import named
from graphc.errors import ArgumentError
from tests.build.models import compiled

needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")

PROGRAM = """
import sys
import numpy as np
import built

calls = np.load(sys.argv[1])
state = built.ModelState()
results = []
for number in range(int(sys.argv[2])):
    arrays = [calls[f"{number}_{i}"] for i in range(2)]
    results.append(built.built(state, *arrays))
again = built.ModelState(state.to_bytes())
assert (again.memory == state.memory).all()
copy = state.copy()
assert (built.built(copy, *arrays) == built.built(state, *arrays)).all()
refused = []
for arrays in ([arrays[0], arrays[1] + 99], [arrays[0][:, :3], arrays[1]], [arrays[0]]):
    before = state.memory.copy()
    try:
        built.built(state, *arrays)
    except (ValueError, TypeError) as error:
        refused.append(str(error))
    assert (before == state.memory).all()
assert not [name for name in sys.modules if name.startswith(("graphc", "frontend", "llvmlite"))]
np.savez(sys.argv[3], *results)
open(sys.argv[3] + ".state", "wb").write(again.to_bytes())
print("\\n".join(refused))
"""


def used(folder: Path, where: Path, calls: Sequence[Sequence[Any]]) -> tuple[list[Any], Any, str]:
    """What a fresh process gives that has NumPy and the folder: results, state, and refusals."""
    arrays = {
        f"{n}_{i}": x.numpy() for n, arguments in enumerate(calls) for i, x in enumerate(arguments)
    }
    np.savez(where / "calls.npz", **arrays)
    (where / "use.py").write_text(PROGRAM)
    command = [sys.executable, "use.py", "calls.npz", str(len(calls)), "results.npz"]
    environment = {"PYTHONPATH": str(folder), "PATH": os.environ["PATH"]}
    ran = subprocess.run(command, cwd=where, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    results = np.load(where / "results.npz")
    state = load((where / "results.npz.state").read_bytes())
    return [results[name] for name in results.files], state, ran.stdout


def check(function: Any, draw: Any, folder: Path, where: Path) -> None:
    calls = [draw(n) for n in (5, 1, 32)]
    results, state, refused = used(folder, where, calls)
    for arguments, result in zip(calls, results, strict=True):
        assert function(*arguments).detach().numpy().tobytes() == result.tobytes()
    program = function.specializations[-1].program
    named_sources = dict(zip(program.inputs.names, program.inputs.sources, strict=True))
    assert state["lr"] == 0.001
    for label, array in state.items():
        if label in named_sources:
            assert array.tobytes() == named_sources[label].array(()).tobytes(), label
    lines = refused.splitlines()
    assert "is out of bounds" in lines[0] and lines[1].startswith("x is of shape (32, 3)")
    assert lines[2] == "built takes 2 arrays, not 1"


@needs_cc
def test_a_shared_library_trains_without_graphc(tmp_path: Path) -> None:
    function, draw = compiled("mlp")
    function.build(tmp_path / "library", *draw(4), kind="shared", name="built")
    assert sorted(os.listdir(tmp_path / "library")) == [
        "built.h", "built.py", "built.safetensors", "libbuilt.so",
    ]  # fmt: skip
    check(function, draw, tmp_path / "library", tmp_path)


@needs_cc
def test_a_module_says_which_sizes_are_refused(tmp_path: Path) -> None:
    function = torch.compile(
        lambda x: x.reshape(x.shape[0], -1).sum(1), dynamic={"x": {0: "rows"}}, threads=1
    )
    built = function.build(tmp_path, torch.randn(3, 2, 2), kind="shared", name="summed")
    module = ast.parse((tmp_path / "summed.py").read_text())
    about = (ast.get_docstring(module) or "").splitlines()
    assert built.refused and about[1:] == [f"Refused: {text}" for text in built.refused]
    assert about[1].startswith("Refused: rows 0: ")


@needs_cc
def test_a_wheel_trains_without_graphc(tmp_path: Path) -> None:
    function, draw = compiled("mlp")
    built = function.build(tmp_path, *draw(4), kind="wheel", name="built")
    (wheel,) = built.files
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = archive.read("built-0.0.0.dist-info/RECORD").decode().split()
        archive.extractall(tmp_path / "site")
    assert len(record) == len(names)
    libraries = [name for name in names if name.endswith(".so")]
    assert len(libraries) == (3 if named("host").triple.startswith("x86_64") else 1)
    installed = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target"]
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        folder = tmp_path / "site"  # no pip here: the wheel as it is
    else:
        folder = tmp_path / "installed"
        ran = subprocess.run([*installed, str(folder), str(wheel)], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
    check(function, draw, folder, tmp_path)


def test_without_a_linker_it_is_said_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("graphc.build.shared_library.find_spec", lambda name: None)
    function = torch.compile(lambda x: x + 1, threads=1)
    for kind in ("shared", "wheel"):
        with pytest.raises(ArgumentError, match="is linked by a C compiler, and there is none"):
            function.build(tmp_path / "out", torch.ones(2), kind=kind)
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr("graphc.build.shared_library.find_spec", lambda name: object())
    machine = named("host").triple.partition("-")[0]
    assert linker_of(named("host"))[1:] == [
        "-m",
        "ziglang",
        "cc",
        "-target",
        f"{machine}-linux-gnu",
    ]


def test_names_that_a_module_cannot_have(tmp_path: Path) -> None:
    function = torch.compile(lambda x: x + 1, threads=1)
    for name in ("json", "numpy", "ModelState", "run"):
        with pytest.raises(ArgumentError, match="a Python module cannot be called"):
            function.build(tmp_path, torch.ones(2), kind="shared", name=name)
