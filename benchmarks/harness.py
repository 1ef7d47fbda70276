"""Compares peers fairly: each in its own single-threaded process, in turns, the minimum of many.

In: a title and one *setup* per peer, a function that builds the work and returns it as a callable
`step() -> float` (a number that shows the work was done, such as the loss).
Out: a table of microseconds per step, or with `--json` one JSON object.

A script ends with `main(title, {"graphc": setup, "torch": setup})`. It then runs in two roles:

- as the parent, it starts itself once per peer and lets the workers take turns for some rounds;
- with `--worker NAME`, it sets that peer up and speaks a protocol of lines, JSON on stdout: first
  `{"ready": true, "value": ...}` or `{"missing": "torch"}`, then for each line `run N` on stdin
  `{"min_us": ..., "median_us": ...}` of N steps, each timed by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

Step = Callable[[], float]
Setup = Callable[[], Step]

WARM_UP_STEPS = 30
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class Worker:
    """One peer's process. `missing` names the package it lacks, if any. `arguments` are handed to
    the script behind `--worker NAME`."""

    def __init__(self, name: str, arguments: Sequence[str] = (), threads: int = 1) -> None:
        self.name = name
        self.rounds: list[dict[str, float]] = []
        limits = {variable: str(threads) for variable in THREAD_VARIABLES}
        self._process = subprocess.Popen(
            [sys.executable, sys.argv[0], "--worker", name, *arguments],
            env={**os.environ, **limits},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.greeting = self._read()
        self.missing: str | None = self.greeting.get("missing")
        self.value: float | None = self.greeting.get("value")

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # it holds nothing worth closing
        self._process.communicate()

    def run(self, steps: int) -> None:
        self.rounds.append(self.ask(f"run {steps}"))

    def ask(self, line: str) -> dict[str, Any]:
        """The worker's answer to one line."""
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        return self._read()

    @property
    def min_us(self) -> float:
        return min(round["min_us"] for round in self.rounds)

    @property
    def median_us(self) -> float:
        return statistics.median(round["median_us"] for round in self.rounds)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise SystemExit(f"worker {self.name!r} ended (exit {code}); its error stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def serve(setup: Setup, clock: Callable[[], int] = time.perf_counter_ns) -> None:
    """The worker's side of the protocol, until stdin ends. `clock`: nanoseconds, of the wall or, by
    `time.process_time_ns`, of the processor."""
    stay_on(1)
    try:
        step = setup()
    except ModuleNotFoundError as error:
        print(json.dumps({"missing": missing_package(error)}), flush=True)
        return
    for _ in range(WARM_UP_STEPS):
        value = step()
    print(json.dumps({"ready": True, "value": value}), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line.split()[1])):
            start = clock()
            step()
            times.append(clock() - start)
        answer = {"min_us": min(times) / 1e3, "median_us": statistics.median(times) / 1e3}
        print(json.dumps(answer), flush=True)


def stay_on(processors: int) -> None:
    """Keeps this process on so many processors, so that no peer gains from threads it was not meant
    to have."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-processors:])


def missing_package(error: ModuleNotFoundError) -> str:
    """The package a peer lacks. Raises `error` again where that is a mistake of ours."""
    if not error.name or error.name.split(".")[0] in {"graphc", "frontend"}:
        raise error
    return error.name


def compare(names: list[str], rounds: int, steps: int) -> tuple[list[Worker], list[Worker]]:
    """Runs the peers in turns, each round beginning with the next one. Returns those that ran, and
    those whose package is missing."""
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(name)) for name in names]
        present = [worker for worker in workers if not worker.missing]
        for index in range(rounds):
            first = index % len(present) if present else 0
            for worker in present[first:] + present[:first]:
                worker.run(steps)
    return present, [worker for worker in workers if worker.missing]


def main(title: str, setups: Mapping[str, Setup]) -> None:
    """The script's command line. The first peer is the one that the others are compared with."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--rounds", type=int, default=10, help="turns of each peer (default: 10)")
    parser.add_argument("--steps", type=int, default=300, help="steps in a turn (default: 300)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.add_argument("--worker", choices=list(setups), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(setups[options.worker])
        return
    if options.rounds < 1 or options.steps < 1:
        parser.error("--rounds and --steps are at least 1")

    present, missing = compare(list(setups), options.rounds, options.steps)
    for worker in missing:
        reason = f"{worker.missing} is not installed; try: pip install '.[peers]'"
        print(f"{worker.name}: left out, {reason}", file=sys.stderr)
    if not present:
        raise SystemExit("no peer is installed: nothing was measured")
    result = summary(title, present, options.rounds, options.steps)
    print(json.dumps(result, indent=2) if options.json else table(result))


def summary(title: str, workers: list[Worker], rounds: int, steps: int) -> dict[str, Any]:
    """`ratio` says how many times the first peer's time each other one takes."""
    base = workers[0]
    return {
        "title": title,
        "processor": processor(),
        "threads": 1,
        "rounds": rounds,
        "steps": steps,
        "base": base.name,
        "peers": {
            worker.name: {
                "step_us": worker.min_us,
                "median_us": worker.median_us,
                "value": worker.value,
                "round_us": [round["min_us"] for round in worker.rounds],
            }
            for worker in workers
        },
        "ratio": {worker.name: worker.min_us / base.min_us for worker in workers[1:]},
    }


def table(result: dict[str, Any]) -> str:
    lines = [
        result["title"],
        f"{result['processor']}, 1 thread, {result['rounds']} rounds of {result['steps']} steps",
        "",
        f"{'':<14}{'min µs':>10}{'median µs':>12}{'/ ' + result['base']:>12}{'value':>12}",
    ]
    for name, peer in result["peers"].items():
        ratio = result["ratio"].get(name, 1.0)
        lines.append(
            f"{name:<14}{peer['step_us']:>10.1f}{peer['median_us']:>12.1f}"
            f"{ratio:>11.2f}x{peer['value']:>12.6f}"
        )
    return "\n".join(lines)


def processor() -> str:
    """The processor's name; its architecture where the system does not tell."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
