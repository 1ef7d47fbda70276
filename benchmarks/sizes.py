"""What sizes cost: a further batch size of a compiled step, and a step for any size beside one for
its own size.

For each training workload, in this process, on one thread:

- `first`: seconds of the first call, and of the second, whose batch size differs (that one is
  compiled for any size);
- `further`: the most milliseconds that a call with a batch size not seen before takes beyond a
  call with that size later, over some sizes below the first ones (a larger one also takes memory
  that was never touched); and how many programs there are in the end;
- `any / own`: the time of a step compiled for any size over that of one compiled for its own size,
  interleaved, the minimum of many.

    python benchmarks/sizes.py                   # all training workloads
    python benchmarks/sizes.py mlp --steps 50    # those with that in their name
    python benchmarks/sizes.py --json
    python benchmarks/sizes.py mlp --random 10000   # instead: that many batches of random sizes

`generation.py` has text that is generated, where every step has another size.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from steps import training
from workloads import WORKLOADS, Workload, chosen, initial_state, load

import frontend

Step = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """What was measured of one workload; times in the units of their names."""

    workload: str
    first_s: float
    second_s: float
    further_ms: float
    programs: int
    any_us: float
    own_us: float

    @property
    def ratio(self) -> float:
        return self.any_us / self.own_us


def step_of(workload: Workload, dynamic: bool | None) -> Step:
    """A compiled training step, on one thread."""
    model = workload.model(frontend)
    load(frontend, model, initial_state(workload))
    model.train()
    return frontend.compile(training(workload, model), dynamic=dynamic, threads=1, fullgraph=True)


def batch(workload: Workload, rows: int) -> list[Any]:
    """A batch of so many rows."""
    sizes = {**workload.batch, "rows": rows}
    return [frontend.tensor(array) for array in workload.data(np.random.default_rng(rows), **sizes)]


def seconds(step: Step, arguments: list[Any]) -> float:
    started = time.perf_counter()
    step(*arguments)
    return time.perf_counter() - started


def measured(workload: Workload, steps: int) -> Row:
    rows = workload.batch["rows"]
    any_size, own_size = step_of(workload, None), step_of(workload, False)
    first = seconds(any_size, batch(workload, rows + 1))
    full = batch(workload, rows)
    second = seconds(any_size, full)
    beyond = []
    for size in dict.fromkeys((rows - 1, rows // 2, rows // 3, 3, 5)):
        arguments = batch(workload, size)
        new = seconds(any_size, arguments)
        beyond.append(new - min(seconds(any_size, arguments) for _ in range(5)))
    for _ in range(5):
        own_size(*full), any_size(*full)
    times: dict[str, list[float]] = {"any": [], "own": []}
    for _ in range(steps):
        times["any"].append(seconds(any_size, full))
        times["own"].append(seconds(own_size, full))
    return Row(
        workload.name, first, second, 1e3 * max(beyond), programs_of(any_size),
        1e6 * min(times["any"]), 1e6 * min(times["own"]),
    )  # fmt: skip


def programs_of(step: Any) -> int:
    """How many programs a compiled function has, those of one size and those of any."""
    told = step.explain().splitlines()
    return sum("first call" in line or "new signature" in line for line in told)


def table(rows: list[Row]) -> str:
    """The rows in words, with the geometric mean of the ratios."""
    heads = (
        "workload",
        "first s",
        "second s",
        "further ms",
        "programs",
        "any us",
        "own us",
        "any / own",
    )
    lines = [heads]
    for row in rows:
        lines.append((
            row.workload, f"{row.first_s:.2f}", f"{row.second_s:.2f}", f"{row.further_ms:.2f}",
            str(row.programs), f"{row.any_us:.0f}", f"{row.own_us:.0f}", f"{row.ratio:.3f}",
        ))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines)]
    text = [
        "  ".join(
            part.ljust(w) if i == 0 else part.rjust(w)
            for i, (part, w) in enumerate(zip(line, widths))
        )
        for line in lines
    ]
    mean = float(np.exp(np.mean([np.log(row.ratio) for row in rows])))
    return "\n".join([*text, f"geometric mean of any / own: {mean:.3f}"])


def random_sizes(workload: Workload, count: int) -> str:
    """How many programs so many steps on batches of random sizes take, and the memory of the
    process after the first tenth and after all."""
    step, draw = step_of(workload, None), np.random.default_rng(0)
    memory = []
    for i in range(count):
        step(*batch(workload, int(draw.integers(1, 2 * workload.batch["rows"]))))
        if i + 1 in (max(count // 10, 1), count):
            gc.collect()
            memory.append(f"{resident_megabytes():.0f}")
    traced = f"{programs_of(step)} traces"
    return f"{workload.name}: {count} steps, {traced}, {' and '.join(memory)} MB"


def resident_megabytes() -> float:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pattern", nargs="?", default="", help="workloads with this in their name")
    parser.add_argument("--steps", type=int, default=100, help="steps of each that are timed")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--random", type=int, help="steps on batches of random sizes instead")
    arguments = parser.parse_args()
    workloads = [w for w in chosen(arguments.pattern) if w.trains and w in WORKLOADS]
    if arguments.random:
        for workload in workloads:
            print(random_sizes(workload, arguments.random), flush=True)
        return
    rows = []
    for workload in workloads:
        rows.append(measured(workload, arguments.steps))
        if not arguments.json:
            print(table(rows[-1:]).splitlines()[1], flush=True)
    print(json.dumps([asdict(row) for row in rows]) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
