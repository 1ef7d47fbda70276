"""What the first eager step on native kernels costs, with nothing on disk and with kernels there.

    python benchmarks/eager_first_step.py [--only 'gpt*'] [--rounds 3]

Each step runs in a process of its own, on one thread. Times are of the processor (seconds), which
other work on the machine changes least; the least of all rounds is printed. `later`: a step when
all is compiled, which is part of the first one too.
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
    from graphc.codegen.llvm.native import OBJECTS

    workload = {each.name: each for each in WORKLOADS}[name]
    step = steps.make(workload)
    inputs = [frontend.from_numpy(array) for array in workload.inputs()]
    frontend.set_eager_backend("native")
    before = len(OBJECTS)
    spent = []
    for _ in range(4):
        started = time.process_time()
        step(*inputs)
        spent.append(time.process_time() - started)
    return {"first": spent[0], "later": min(spent[1:]), "kernels": len(OBJECTS) - before}


def in_process(name: str, folder: str) -> dict[str, Any]:
    """The same in a process of its own, with this cache folder."""
    environment = {**os.environ, "GRAPHC_CACHE": folder}
    command = [sys.executable, __file__, "--measure", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


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
    print(f"{'workload':14} {'kernels':>7} {'nothing on disk':>16} {'on disk':>8} {'later':>8}")
    for workload in WORKLOADS:
        if not fnmatch.fnmatch(workload.name, arguments.only):
            continue
        empty, kept = [], []
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as folder:
                empty.append(in_process(workload.name, f"{folder}/kernels"))
                kept.append(in_process(workload.name, f"{folder}/kernels"))
        first, again = min(x["first"] for x in empty), min(x["first"] for x in kept)
        later = min(x["later"] for x in empty + kept)
        line = f"{empty[0]['kernels']:7} {first:16.2f} {again:8.2f} {later:8.3f}"
        print(f"{workload.name:14} {line}", flush=True)


if __name__ == "__main__":
    main()
