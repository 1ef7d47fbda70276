"""What the first eager step costs, with nothing on disk and with kernels there.

    python benchmarks/eager_first_step.py [--only 'gpt*'] [--rounds 3]

Each step runs in a process of its own, on one thread, its input is there. Times are in seconds, by
the clock; the least of all rounds is printed. `alone`: without a second process that compiles.
`later`: a step when all is compiled, which is part of the first one too.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))


def measured(name: str) -> dict[str, Any]:
    """The first and later steps of a workload, in this process."""
    import steps
    from workloads import WORKLOADS

    import frontend
    from graphc.codegen.llvm.loading import loaded_functions

    workload = {each.name: each for each in WORKLOADS}[name]
    step = steps.make(workload)
    inputs = [frontend.from_numpy(array) for array in workload.inputs()]
    before = loaded_functions()
    spent = []
    for _ in range(4):
        started = time.perf_counter()
        step(*inputs)
        spent.append(time.perf_counter() - started)
    return {"first": spent[0], "later": min(spent[1:]), "kernels": loaded_functions() - before}


def in_process(name: str, folder: str, processes: int) -> dict[str, Any]:
    """The same in a process of its own, with this cache folder and so many that compile."""
    environment = {**os.environ, "GRAPHC_CACHE": folder, "GRAPHC_PROCESSES": str(processes)}
    command = [sys.executable, __file__, "--measure", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def main() -> None:
    from workloads import WORKLOADS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="workloads with such a name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measured(arguments.measure)))
        return
    titles = ("kernels", "nothing on disk", "alone", "on disk", "later")
    print(f"{'workload':14}", *[f"{title:>15}" for title in titles])
    for workload in WORKLOADS:
        if not fnmatch.fnmatch(workload.name, arguments.only):
            continue
        empty, alone, kept = [], [], []
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as folder:
                empty.append(in_process(workload.name, f"{folder}/empty", 2))
                alone.append(in_process(workload.name, f"{folder}/kernels", 1))
                kept.append(in_process(workload.name, f"{folder}/kernels", 1))
        firsts = [min(x["first"] for x in runs) for runs in (empty, alone, kept)]
        later = min(x["later"] for x in empty + alone + kept)
        seconds = " ".join(f"{first:15.2f}" for first in firsts)
        line = f"{alone[0]['kernels']:15} {seconds} {later:15.3f}"
        print(f"{workload.name:14} {line}", flush=True)


if __name__ == "__main__":
    main()
