"""What is built, compiled and linked by a C compiler: main.c proves the bits, on this machine and,
under user emulation, on AArch64. Skipped where there is no gcc (Debian's gcc, g++; qemu-user and
gcc-aarch64-linux-gnu; valgrind)."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from graphc.build.building import FROM_OUTSIDE
from tests.build.conftest import Built
from tests.build.models import cases, compiled

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-O1")
C = ("gcc", "-std=c11", *STRICT, "main.c")
CPP = ("g++", "-std=c++17", *STRICT, "-x", "c++", "main.c", "-x", "none")
ARM = ("aarch64-linux-gnu-gcc", "-std=c11", *STRICT, "main.c")
EMULATED = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("x86-64-v2", "x86-64-v3")]
FOREIGN = pytest.param("aarch64", marks=pytest.mark.slow)


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


def proves(folder: Path, name: str, compiler: tuple[str, ...], *runner: str) -> None:
    linked = run(*compiler, f"{name}.o", "-lm", "-o", "proof", folder=folder)
    assert linked.returncode == 0 and linked.stderr == "", linked.stderr
    ran = run(*runner, "./proof", folder=folder)
    assert (ran.returncode, ran.stdout) == (0, "the same bits\n"), ran.stderr


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
    folder = built(name, target)
    needed = set(run("nm", "-u", f"{name}.o", folder=folder).stdout.split()) - {"U"}
    allowed = FROM_OUTSIDE - {"sched_yield"}
    if target != "x86-64-v2":
        allowed -= {"fma", "fmaf"}
    assert needed <= allowed
    lines = run("nm", "-g", "--defined-only", f"{name}.o", folder=folder).stdout.splitlines()
    assert {line.split()[-1] for line in lines} == {
        name, *(f"{name}_{part}" for part in ("init", "work_bytes", "error")),
    }  # fmt: skip
    kinds = {line.split()[-2] for line in run("nm", f"{name}.o", folder=folder).stdout.splitlines()}
    assert not kinds & set("bBdDC"), "there is memory that could be written"


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


PAGES = """
#include <stdio.h>
#include <sys/mman.h>
static void *memory(size_t count) {
  size_t page = 4096, whole = (count + page - 1) / page * page;
  char *block = (char *)mmap(0, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole && mprotect(block + page, whole, PROT_READ | PROT_WRITE)) exit(3);
  return block + page + whole - count;
}
#define free(block) ((void)(block))
#define malloc(count) no_allocation(count)
"""
"""Memory of exact size that ends where a page begins that cannot be touched."""


def paged(folder: Path, name: str, change: Callable[[str], str] = lambda text: text) -> Path:
    """main.c with all memory of calls, and the state, between such pages."""
    text = (folder / "main.c").read_text()
    helper = re.search(r"static void \*memory\(.*?\n}\n", text, re.DOTALL)
    assert helper is not None
    body = text.replace(helper[0], PAGES).replace(
        f"static {name}_state state;", f"static {name}_state *placed;\n#define state (*placed)"
    )
    start = f"  placed = ({name}_state *)memory(sizeof *placed);\n  data = fopen"
    body = body.replace("  data = fopen", start)
    (folder / "paged.c").write_text(change(body))
    return folder / "paged.c"


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
    proves(folder, name, C)
    ran = run("valgrind", "--error-exitcode=9", "--leak-check=no", "./proof", folder=folder)
    # What comes uninitialised from its memory is compared bit by bit, which valgrind would say.
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "ERROR SUMMARY: 0 errors" in ran.stderr
