"""Where code and its constants lie in memory."""

from __future__ import annotations

import mmap
import subprocess
import sys

import pytest

FAR = """
import ctypes, mmap
from graphc.codegen.llvm.loading import load
from graphc.codegen.llvm.native import compile_text
from graphc.codegen.target import running

PAGE, GIGABYTE = mmap.PAGESIZE, 1 << 30
ABSENT, PRIVATE, ANONYMOUS, WITHOUT_SWAP = 0, 2, 0x20, 0x4000
system = ctypes.CDLL(None, use_errno=True)
system.mmap.restype = ctypes.c_void_p
system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
system.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def reserved(size):
    return system.mmap(None, size, ABSENT, PRIVATE | ANONYMOUS | WITHOUT_SWAP, -1, 0)

terms = [f"%x{i + 1} = fadd double %x{i}, 0.3" for i in range(PAGE)]
text = "\\n".join(["define double @total(double %x0) {", *terms, f"ret double %x{PAGE}", "}"])
code = compile_text(text, running())
first = "define double @first(double %x) { ret double %x }"
load({"first": compile_text(first, running())})  # what LLVM itself needs is there from now on
pages = [reserved(PAGE) for _ in range(2000)]
distance = [reserved(GIGABYTE) for _ in range(4)]
for size in (64 * PAGE, 16 * PAGE, 4 * PAGE, 2 * PAGE, PAGE):  # what is free above it
    while (at := reserved(size)) > min(distance):
        pass
    system.munmap(at, size)
for page in pages[::2]:
    system.munmap(page, PAGE)
function = load({"total": code})["total"]
print(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(function.address)(0.0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="places memory by Linux's mmap")
def test_constants_lie_beside_their_code_in_memory_of_many_holes() -> None:
    """Where only single pages are free near the top, and whatever is longer lies gigabytes below:
    what reads constants 2 GB away at most would be out of reach of them."""
    run = subprocess.run([sys.executable, "-c", FAR], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert float(run.stdout) == pytest.approx(0.3 * mmap.PAGESIZE)
