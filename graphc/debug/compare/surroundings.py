"""What times depend on besides the code: processor, load, versions, NumPy's BLAS."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from graphc.codegen.target import host, llvm_version
from graphc.debug.profile.machine import processor
from graphc.runtime.processors import available

QUIET = 1.1
"""The median of a rung over its minimum up to which the machine counts as quiet."""
ON_PROCESSOR = 0.95
"""The part of a turn from which on a rung counts as having had a processor to itself."""
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip


def surroundings() -> dict[str, Any]:
    """All of it, as plain data."""
    return {
        "processor": processor(), "processors": available(), "code_for": host().cpu,
        "system": platform.system(), "python": platform.python_version(),
        "numpy": np.__version__, "llvm": llvm_version(), "blas": blas(), "load": load(),
    }  # fmt: skip


def load() -> float | None:
    """Processes that wanted to run, on average over the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except (OSError, AttributeError):
        return None


def blas() -> str:
    """What NumPy multiplies matrices with: the library, and the processor its kernels are for."""
    (np.ones((2, 2)) @ np.ones((2, 2))).sum()  # loads it
    try:
        configured: Any = np.show_config(mode="dicts")
        library = configured["Build Dependencies"]["blas"]
        named = f"{library['name']} {library['version']}"
    except (KeyError, TypeError):
        named = "unknown"
    kernels = _openblas_kernels()
    return f"{named}, kernels for {kernels}" if kernels else named


def _openblas_kernels() -> str:
    """The processor that OpenBLAS has chosen kernels for, where that is what is loaded."""
    for path in _loaded("openblas"):
        library = ctypes.CDLL(path)
        for prefix in ("scipy_openblas", "openblas"):
            for suffix in ("64_", ""):
                function = getattr(library, f"{prefix}_get_corename{suffix}", None)
                if function is not None:
                    function.restype = ctypes.c_char_p
                    return str((function() or b"").decode("ascii", "replace"))
    return ""


def _loaded(part: str) -> list[str]:
    """The libraries of this process whose names contain `part`."""
    maps = Path("/proc/self/maps")
    if sys.platform != "linux" or not maps.exists():
        return []
    words = (line.split(maxsplit=5) for line in maps.read_text().splitlines())
    paths = {each[5] for each in words if len(each) == 6}
    return sorted(path for path in paths if part in os.path.basename(path))
