"""What tests of C programs share: compilers, and what a proof is held to.

`proves` compiles and runs main.c; `paged` writes it with memory that ends where nothing may be
touched, `counting` with a counter of allocations; `holds` is all of it, on `targets`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from graphc.build.building import FROM_OUTSIDE
from graphc.codegen.target import executable

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-O1")
C = ("gcc", "-std=c11", *STRICT, "main.c")
CPP = ("g++", "-std=c++17", *STRICT, "-x", "c++", "main.c", "-x", "none")
ARM = ("aarch64-linux-gnu-gcc", "-std=c11", *STRICT, "main.c")
EMULATED = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
UNDER_VALGRIND = LEVELS[:2]
"""It does not know AVX-512."""


def targets() -> list[str]:
    """What runs here: this machine, its levels of x86-64, and AArch64 under emulation."""
    native = {target.name for target in executable()}
    levels = [name for name in LEVELS if name in native]
    emulated = bool(shutil.which(ARM[0]) and shutil.which(EMULATED[0]))
    return ["host", *levels, *(["aarch64"] if emulated else [])]


def holds(folder: Path, name: str, target: str) -> None:
    """Assert all that is asked of an object for a target, as far as compilers are here."""
    if shutil.which("nm"):
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


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=3000)


def proves(folder: Path, name: str, compiler: tuple[str, ...], *runner: str) -> None:
    linked = run(*compiler, f"{name}.o", "-lm", "-o", "proof", folder=folder)
    assert linked.returncode == 0 and linked.stderr == "", linked.stderr
    ran = run(*runner, "./proof", folder=folder)
    assert (ran.returncode, ran.stdout) == (0, "the same bits\n"), ran.stderr


def needs_only_what_is_listed(folder: Path, name: str, target: str) -> None:
    """Assert what an object needs and defines, and that none of its memory could be written."""
    needed = set(run("nm", "-u", f"{name}.o", folder=folder).stdout.split()) - {"U"}
    allowed = FROM_OUTSIDE - {"sched_yield"}
    if target != "x86-64-v2":
        allowed -= {"fma"}
    assert needed <= allowed
    lines = run("nm", "-g", "--defined-only", f"{name}.o", folder=folder).stdout.splitlines()
    packs = ["prepare"] if f"{name}_prepare(" in (folder / f"{name}.h").read_text() else []
    assert {line.split()[-1] for line in lines} == {
        name, *(f"{name}_{part}" for part in ("init", "save", "work_bytes", "error", *packs)),
    }  # fmt: skip
    kinds = {line.split()[-2] for line in run("nm", f"{name}.o", folder=folder).stdout.splitlines()}
    assert not kinds & set("bBdDC"), "there is memory that could be written"


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


COUNTING = """
#include <stdio.h>
#include <stdlib.h>
static volatile int is_counting, allocations;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
void *malloc(size_t n) { allocations += is_counting; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { allocations += is_counting; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { allocations += is_counting; return __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { allocations += is_counting; return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
static int counted(int status) {
  if (allocations) fprintf(stderr, "%d allocations\\n", allocations);
  return allocations ? 4 : status;
}
"""
"""glibc's functions of allocation, counted while `is_counting`."""


def counting(folder: Path, name: str, change: Callable[[str], str] = lambda text: text) -> None:
    """Write counted.c: main.c, with a counter of allocations that runs while the object does."""
    text = COUNTING + (folder / "main.c").read_text()
    text = re.sub(
        rf"(int64_t )?(status = {name}(?:_init)?\([^;]*;)",
        lambda match: "{}is_counting = 1; {} is_counting = 0;".format(
            f"{match[1]}status; " if match[1] else "", change(match[2])
        ),
        text,
    )
    text = text.replace("return differences != 0;", "return counted(differences != 0);")
    (folder / "counted.c").write_text(text)


def allocates_nothing(folder: Path, name: str) -> None:
    """Assert that no function of allocation is called while the object runs."""
    counting(folder, name)
    assert (folder / "counted.c").read_text().count("is_counting = 1;") > 3
    proves(folder, name, ("gcc", "-std=gnu11", "-O1", "-fno-builtin", "counted.c"))


def is_clean_under_valgrind(folder: Path, name: str) -> None:
    """Assert that valgrind has nothing to say of the proof."""
    proves(folder, name, C)
    # Long stretches of vector code without a jump are more than it translates at once.
    options = ("--vex-guest-max-insns=20", "--error-exitcode=9", "--leak-check=no")
    ran = run("valgrind", *options, "./proof", folder=folder)
    # What comes uninitialised from its memory is compared bit by bit, which valgrind would say.
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "ERROR SUMMARY: 0 errors" in ran.stderr
