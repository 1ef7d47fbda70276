"""Objects for Windows: what they need and define, what is refused, and, where the package ziglang
and wine64 are, that a program linked there has the bits of this process."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import frontend as torch
from graphc.build.building import FROM_WINDOWS
from graphc.codegen.target import executable, named, running
from graphc.errors import ArgumentError, LoweringError, TargetError
from tests.build.conftest import Built
from tests.build.models import cases, compiled

TARGET = "x86_64-windows"
AMD64 = 0x8664
EXTERNAL = 2
"""The storage class of what others see."""
ZIG = (sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu", "-std=c11")
STRICT = ("-Wall", "-Wextra", "-Werror", "-O1")
WINE = shutil.which("wine64", path=f"{os.environ['PATH']}:/usr/lib/wine")
"""Debian's package of that name has it beside the path."""
needs_zig = pytest.mark.skipif(find_spec("ziglang") is None, reason="needs the package ziglang")


def symbols(code: bytes) -> tuple[set[str], set[str]]:
    """The names that an object in COFF takes from outside, and those it gives."""
    machine, _, _, table, count = struct.unpack_from("<HHIII", code)
    assert machine == AMD64
    texts = code[table + 18 * count :]
    needed, defined = set(), set()
    number = 0
    while number < count:
        entry = code[table + 18 * number :][:18]
        _, section, _, storage, more = struct.unpack("<IhHBB", entry[8:])
        if entry[:4] == b"\0\0\0\0":
            name = texts[int.from_bytes(entry[4:8], "little") :].partition(b"\0")[0]
        else:
            name = entry[:8].rstrip(b"\0")
        if storage == EXTERNAL:
            (needed if section == 0 else defined).add(name.decode())
        number += 1 + more
    return needed, defined


@pytest.mark.parametrize("name", cases("mlp", "inference", "lenet", "lstm", "gpt", "dropout"))
def test_an_object_needs_and_defines_what_stands_in_a_list(built: Built, name: str) -> None:
    needed, defined = symbols((built(name, TARGET) / f"{name}.o").read_bytes())
    assert needed <= FROM_WINDOWS - {"SwitchToThread"}
    parts = ("init", "save", "work_bytes", "error", *(["prepare"] if name == "inference" else []))
    assert defined == {name, *(f"{name}_{part}" for part in parts)}


def test_threads_that_wait_give_way_as_windows_does(tmp_path: Path) -> None:
    function, draw = compiled("mlp")
    function.build(tmp_path, *draw(4096), name="step", target=TARGET, threads=2)
    needed, defined = symbols((tmp_path / "step.o").read_bytes())
    assert "SwitchToThread" in needed <= FROM_WINDOWS and "step_part" in defined


def test_what_windows_does_not_have_is_refused(tmp_path: Path) -> None:
    function = torch.compile(lambda x: x + 1, threads=1)
    for kind in ("shared", "wheel"):
        with pytest.raises(ArgumentError, match=f"a {kind} is not built for x86_64-windows"):
            function.build(tmp_path / "out", torch.ones(2), kind=kind, target=TARGET)
    power = torch.compile(lambda x, t: x * 0.9**t)
    with pytest.raises(LoweringError, match="pow of the C library has other bits in Windows"):
        power.build(tmp_path / "out", torch.ones(3), 2.0, target=TARGET)
    assert not (tmp_path / "out").exists()


def test_code_for_windows_does_not_run_elsewhere() -> None:
    if named("host").is_windows:
        pytest.skip("this is Windows")
    assert TARGET not in [each.name for each in executable()]
    with pytest.raises(TargetError, match="cannot run code for x86_64-windows: it is "):
        running(TARGET)


@pytest.mark.slow
@needs_zig
@pytest.mark.parametrize("name", [
    name if name in ("mlp", "inference") else pytest.param(name, marks=pytest.mark.long)
    for name in ("mlp", "inference", "lenet", "lstm", "gpt", "dropout")
])  # fmt: skip
def test_a_linked_program_proves_the_bits(built: Built, name: str) -> None:
    folder = built(name, TARGET)
    command = [*ZIG, *STRICT, "main.c", f"{name}.o", "-o", "proof.exe"]
    linked = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1200)
    assert linked.returncode == 0, linked.stderr
    if WINE is None:
        pytest.skip("linked; needs wine64 to run")
    environment = {**os.environ, "WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all"}
    ran = subprocess.run(
        [WINE, "./proof.exe"], cwd=folder, capture_output=True, text=True, timeout=600,
        env=environment,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.strip()) == (0, "the same bits"), ran.stderr
