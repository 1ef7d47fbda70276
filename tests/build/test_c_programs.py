"""What is built, compiled and linked by a C compiler: main.c proves the bits, on this machine and,
under user emulation, on AArch64. Skipped where there is no gcc (Debian's gcc, g++; qemu-user and
gcc-aarch64-linux-gnu; valgrind)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphc.build.building import FROM_OUTSIDE
from tests.build.c_programs import (
    ARM,
    CPP,
    EMULATED,
    C,
    allocates_nothing,
    counting,
    is_clean_under_valgrind,
    needs_only_what_is_listed,
    paged,
    proves,
    run,
)
from tests.build.conftest import Built
from tests.build.models import cases, compiled

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")

OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("x86-64-v2", "x86-64-v3")]
FOREIGN = pytest.param("aarch64", marks=pytest.mark.slow)


@pytest.mark.parametrize("compiler", [C, CPP], ids=["c", "cpp"])
@pytest.mark.parametrize("target", ["host", *OTHERS])
@pytest.mark.parametrize("name", cases("mlp", "lenet", "lstm", "gpt", "inference", "dropout"))
def test_main_proves_the_bits(
    built: Built, name: str, target: str, compiler: tuple[str, ...]
) -> None:
    if not shutil.which(compiler[0]):
        pytest.skip(f"needs {compiler[0]}")
    proves(built(name, target), name, compiler)


@pytest.mark.parametrize("name", cases("mlp", "lenet", "lstm", "gpt"))
def test_main_proves_the_bits_on_aarch64(built: Built, name: str) -> None:
    if not (shutil.which(ARM[0]) and shutil.which(EMULATED[0])):
        pytest.skip("needs a C compiler and an emulator for AArch64")
    proves(built(name, "aarch64"), name, ARM, *EMULATED)


@pytest.mark.parametrize("target", ["host", *OTHERS, FOREIGN])
@pytest.mark.parametrize("name", cases("mlp", "lenet", "lstm", "gpt"))
def test_an_object_needs_and_defines_what_stands_in_a_list(
    built: Built, name: str, target: str
) -> None:
    needs_only_what_is_listed(built(name, target), name, target)


@pytest.mark.parametrize("name", cases("mlp", "lenet", "gpt"))
def test_main_proves_the_bits_on_threads(tmp_path: Path, name: str) -> None:
    function, draw = compiled(name)
    batch = 64 if name != "mlp" else 4096  # of fewer rows threads do not pay
    function.build(tmp_path, *draw(batch), name=name, calls=7, threads=3)
    proves(tmp_path, name, (*C, "-pthread"))
    needed = set(run("nm", "-u", f"{name}.o", folder=tmp_path).stdout.split()) - {"U"}
    assert needed <= FROM_OUTSIDE


def test_other_data_is_told(built: Built) -> None:
    folder = built("mlp", "host")
    proves(folder, "mlp", C)
    data = bytearray((folder / "main.data").read_bytes())
    data[-1] ^= 1
    (folder / "main.data").write_bytes(data)
    ran = run("./proof", folder=folder)
    data[-1] ^= 1
    (folder / "main.data").write_bytes(data)
    assert (ran.returncode, ran.stdout) == (1, "other bits\n") and " differs" in ran.stderr


@pytest.mark.parametrize("target", ["host", *OTHERS])
@pytest.mark.parametrize("name", cases("mlp", "lenet", "lstm", "gpt"))
def test_nothing_beside_the_memory_of_a_call_is_touched(
    built: Built, name: str, target: str
) -> None:
    folder = built(name, target)
    paged(folder, name)
    compiler = ("gcc", "-std=gnu11", "-O1", "paged.c")
    proves(folder, name, compiler)


def test_a_planted_overrun_is_found(built: Built) -> None:
    folder = built("mlp", "host")
    paged(folder, "mlp", lambda text: text.replace("memory(bytes < 0 ? 0 : (size_t)bytes)",
                                                   "memory((size_t)bytes / 2)"))  # fmt: skip
    linked = run("gcc", "-std=gnu11", "paged.c", "mlp.o", "-lm", "-o", "over", folder=folder)
    assert linked.returncode == 0, linked.stderr
    assert run("./over", folder=folder).returncode < 0  # a signal


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("name", cases("mlp", "lenet", "lstm", "gpt"))
def test_valgrind_finds_nothing(built: Built, name: str, target: str) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("needs valgrind")
    folder = built(name, target)
    is_clean_under_valgrind(folder, name)


@pytest.mark.parametrize("name", cases("mlp", "lenet", "lstm", "gpt", "dropout"))
def test_a_call_allocates_nothing(built: Built, name: str) -> None:
    allocates_nothing(built(name, "host"), name)


def test_a_planted_allocation_is_counted(built: Built) -> None:
    folder = built("inference", "host")
    counting(folder, "inference", lambda call: f"{call} free(malloc(9));")
    command = ("gcc", "-std=gnu11", "-fno-builtin", "counted.c", "inference.o", "-lm", "-o", "over")
    linked = run(*command, folder=folder)
    assert linked.returncode == 0, linked.stderr
    ran = run("./over", folder=folder)
    assert ran.returncode == 4 and "allocations" in ran.stderr
