"""The kernels of an executable for Linux's perf: a file of where each one's code lies.

perf looks for `/tmp/perf-PID.map` when it meets code that no file holds. Each line is an address
and a size in hexadecimal, and a name.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from graphc.codegen.llvm.loading import code_bytes
from graphc.codegen.program.link import native_kernel
from graphc.codegen.program.native_kernel import NativeKernel, with_variants
from graphc.runtime.executable import Executable
from graphc.schedule.plan import kernels


def perf_map(executable: Executable) -> list[str]:
    """A line for each kernel, in order of addresses. No two overlap."""
    names: dict[NativeKernel, str] = {}  # kernels with the same loops share their code
    for spec, name in kernels(executable.loaded_plan).items():
        for kernel in with_variants([native_kernel(spec, executable.target, {})]):
            names.setdefault(kernel, name)
    order = sorted(names, key=lambda kernel: kernel.address)
    ends = [kernel.address for kernel in order[1:]] + [1 << 64]
    return [
        f"{kernel.address:x} {min(code_bytes(kernel.symbol), end - kernel.address):x} "
        f"{executable.graph.name}.{names[kernel]}"
        for kernel, end in zip(order, ends)
    ]


def write_perf_map(executable: Executable, path: Path | None = None) -> Path:
    """Add the kernels to the map of this process, where perf looks for it by default."""
    chosen = path or Path(tempfile.gettempdir()) / f"perf-{os.getpid()}.map"
    with chosen.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in perf_map(executable))
    return chosen
