"""What the first call of a compiled training step costs beyond its run.

    python benchmarks/first_calls.py [--only 'gpt*'] [--rounds 2]

In: the training workloads, and ResNet-50 and MobileNetV2 of torchvision at 224x224, batch 2, where
it is installed (`--no-deps` will do: it is imported over the frontend).
Out: for each, in processes of their own that compile alone, on one thread, seconds of the
processor of the first call less those of a later one and of its imports: with nothing on disk; with
the kernels there but not the program, as where other models brought them; with all of it there. And
those of the whole process until the second call is over, with nothing and with all on disk. The
modules that the first call loads have a column of their own: where the frontend loads them at its
import they count in the process alone.
"""

from __future__ import annotations

import argparse
import builtins
import fnmatch
import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
VISION = ("resnet50", "mobilenet_v2")
SIDE, BATCH = 224, 2
RUNS = {"nothing on disk": "", "new program": "program_*", "all on disk": "none"}
"""The runs of a cache folder in turn, and what is taken out of it before each."""
WHOLE = {"nothing on disk": "process, nothing", "all on disk": "process, all"}
"""Of which of these the whole process is told, and how it is called."""
LOADING = "loading"
"""What the imports of the first call take, with nothing on disk."""


def workload_step(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    import steps
    from workloads import BY_NAME

    import frontend

    workload = BY_NAME[name]
    inputs = tuple([frontend.from_numpy(array) for array in workload.inputs()])
    return steps.make(workload), inputs


def vision_step(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """SGD with momentum on a model of torchvision, built over the frontend."""
    import frontend as torch

    torch.install_as("torch")
    import torchvision

    model = getattr(torchvision.models, name)()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    torch.manual_seed(0)
    return step, (torch.randn(BATCH, 3, SIDE, SIDE), torch.arange(BATCH))


def measured(name: str) -> dict[str, float]:
    """Seconds of the processor, in this process."""
    import frontend

    function, inputs = (vision_step if name in VISION else workload_step)(name)
    compiled = frontend.compile(function, threads=1, keep_grads=False, fullgraph=True)
    imports = Imports()
    ends = [time.process_time()]
    for _ in range(4):
        compiled(*inputs)
        ends.append(time.process_time())
    first, *later = [end - start for start, end in itertools.pairwise(ends)]
    beyond = first - min(later) - imports.seconds
    return {
        "beyond": beyond, "loading": imports.seconds, "run": min(later), "process": ends[2],
    }  # fmt: skip


class Imports:
    """Counts from now on: `seconds` of the processor in imports that load modules."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._inside = False
        builtins.__import__ = self._timed(builtins.__import__)
        importlib.import_module = self._timed(importlib.import_module)

    def _timed(self, load: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            if self._inside:
                return load(*arguments, **options)
            before, started = len(sys.modules), time.process_time()
            self._inside = True
            try:
                return load(*arguments, **options)
            finally:
                self._inside = False
                if len(sys.modules) > before:
                    self.seconds += time.process_time() - started

        return timed


def in_process(name: str, folder: str) -> dict[str, float]:
    """The same in a process of its own, with this cache folder."""
    environment = {**os.environ, "GRAPHC_CACHE": folder, "GRAPHC_PROCESSES": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
    command = [sys.executable, __file__, "--measure", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    spent: dict[str, float] = json.loads(done.stdout)
    return spent


def row(name: str) -> dict[str, float]:
    """Seconds of each of `RUNS`, of loading, of whole processes, and of a step."""
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        for run, gone in RUNS.items():
            taken = [*Path(folder).rglob(gone)] if gone else []
            for path in taken:
                path.unlink()
            if gone == RUNS["new program"] and not taken:
                raise SystemExit("no program was kept: the names of its files have changed")
            spent = in_process(name, folder)
            times[run] = spent["beyond"]
            if not gone:
                times[LOADING] = spent["loading"]
            if run in WHOLE:
                times[WHOLE[run]] = spent["process"]
    return {**times, "a step": spent["run"]}


def main() -> None:
    from workloads import WORKLOADS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="those with such a name")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measured(arguments.measure)))
        return
    names = [workload.name for workload in WORKLOADS if workload.trains]
    names += VISION if find_spec("torchvision") else ()
    titles = (*RUNS, LOADING, "a step", *WHOLE.values())
    print(f"{'seconds':14}", *[f"{title:>18}" for title in titles])
    for name in fnmatch.filter(names, arguments.only):
        rounds = [row(name) for _ in range(arguments.rounds)]
        least = [min(spent[title] for spent in rounds) for title in titles]
        print(f"{name:14}", *[f"{seconds:18.2f}" for seconds in least], flush=True)


if __name__ == "__main__":
    main()
