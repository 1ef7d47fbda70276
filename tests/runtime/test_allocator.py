"""Memory that arrays gave back is kept: the same arrays again need no new pages."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import numpy as np
import graphc

g = graphc.GraphBuilder("double")
x = g.input("x", "f32[1000000]")
double = graphc.compile(g.finish(x + x), threads=1)
array = np.ones(1_000_000, np.float32)
for _ in range(3):
    double(array)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    double(array)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


RESULT = 4_000_000 // resource.getpagesize()
"""Pages of one result. What the interpreter itself takes anew in between is less."""


def faults(**environment: str) -> int:
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )  # fmt: skip
    return int(process.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="speaks of glibc")
def test_fresh_results_reuse_pages() -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    environment.pop("GLIBC_TUNABLES", None)
    assert faults(**environment) < RESULT


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="speaks of glibc")
def test_what_the_user_told_the_allocator_stays() -> None:
    told = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    assert faults(**told) > 40 * RESULT
