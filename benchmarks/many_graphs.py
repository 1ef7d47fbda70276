"""Whether a process that goes on meeting new graphs stays as large as it is.

Compiles many small graphs, each another one, runs each once and drops it:

    python benchmarks/many_graphs.py                 # 20,000
    python benchmarks/many_graphs.py --count 2000 --keep 100    # the last 100 stay in use

Prints the megabytes of the process, and functions that are loaded, after each tenth. Nothing is
kept on disk. The suite has a short form (tests/runtime/test_code_lifetime.py).
"""

from __future__ import annotations

import argparse
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

os.environ["GRAPHC_CACHE"] = "off"

import graphc
from graphc.codegen.llvm.loading import loaded_functions


def graph(number: int) -> graphc.Graph:
    """x + c for another constant and extent each."""
    g = graphc.GraphBuilder("small")
    x = g.input("x", f"f32[{number % 997 + 1}]")
    return g.finish(x * float(number) + 1.0)


def run(count: int, keep: int) -> Iterator[tuple[int, float, int, float]]:
    """How many graphs were met, megabytes, loaded functions and seconds, after each tenth."""
    kept: deque[Any] = deque(maxlen=keep)
    started = time.perf_counter()
    for number in range(count):
        executable = graphc.compile(graph(number), threads=1)
        x = np.ones(number % 997 + 1, np.float32)
        (y,) = executable(x)
        assert y[0] == np.float32(number) + np.float32(1)
        kept.append(executable)
        if (number + 1) % max(count // 10, 1) == 0:
            seconds = time.perf_counter() - started
            yield number + 1, resident_megabytes(), loaded_functions(), seconds


def resident_megabytes() -> float:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--keep", type=int, default=0, help="executables that stay in use")
    options = parser.parse_args()
    for met, megabytes, loaded, seconds in run(options.count, options.keep):
        print(f"{met} graphs: {megabytes:.1f} MB, {loaded} functions, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
