"""What each option of the compiler gains: one training step, each rung one more option.

    python benchmarks/ladder.py
    python benchmarks/ladder.py --only 'gpt*' --rounds 4 --json

The same model, weights, batch and optimizer on every rung; each rung is a process of its own on one
processor (on all for the last), and all take turns in one run. No rung is handicapped: each runs
the best of what its options allow, on the kernels of today.

| rung | what is new |
|---|---|
| eager, NumPy | the frontend's eager mode |
| eager, native | each op by the kernel that the compiler makes for it alone |
| static graph | forward, backward, optimizer are a call each; a kernel per op |
| + passes | the passes of level `exact` |
| + fusion | several ops in a kernel |
| + memory | buffers share places in the arena |
| + layouts | matrices that a loop reads unchanged are packed ahead of it |
| + whole step | forward, backward and optimizer in one call |
| + threads | all processors |

Packing inside of a kernel has no rung: each packs what its own cost model says, and what would be
left of a product without it is not a kernel that anybody would ship. `contractions.py` says how
near to the core's peak products come.

Memory is the arenas' size, and what a step allocates besides, at its greatest: values saved between
forward and backward where they are two calls, gradients, all intermediate values in eager mode.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import tracemalloc
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import plan_facts
from harness import Worker, processor, stay_on
from workloads import BY_NAME, Workload, chosen, initial_state, prepare

LADDERS = ("mlp-sgd", "lenet-sgd", "resnet18-sgd", "gpt-adamw", "lstm-adam")
TURN_MS = 150.0


@dataclass(frozen=True)
class Rung:
    """`backend` of eager mode, or None where the step is compiled, with `options` for
    `graphc.compile`."""

    name: str
    backend: str | None = None
    level: str = "exact"
    options: dict[str, bool] = field(default_factory=dict)
    whole: bool = False
    threads: int = 1


def rungs() -> list[Rung]:
    plain = {"layouts": False}
    unplanned = {"plan_memory": False, **plain}
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return [
        Rung("eager, NumPy", "numpy"),
        Rung("eager, native", "native"),
        Rung("static graph", level="none", options={"fusion": False, **unplanned}),
        Rung("+ passes", options={"fusion": False, **unplanned}),
        Rung("+ fusion", options=unplanned),
        Rung("+ memory", options=plain),
        Rung("+ layouts"),
        Rung("+ whole step", whole=True),
        Rung(f"+ {processors} threads", whole=True, threads=processors),
    ]


# -- a rung's process -----------------------------------------------------------------------------


class Unavailable(Exception):
    """This version cannot do what the rung asks for; the message says what is missing."""


class Climber:
    """The step of a workload on one rung."""

    def __init__(self, workload: Workload, rung: Rung) -> None:
        import frontend

        self.compiled: list[Any] = []
        self.frontend = frontend
        self.rung = rung
        if rung.backend is not None:
            self._set_backend(rung.backend)
        else:
            self._set_options(rung)
        compile = self._compile if rung.backend is None else (lambda function: function)
        made = prepare(
            frontend, workload, initial_state(workload), compile=compile, whole=rung.whole,
            separate_optimizer=compile,
        )  # fmt: skip
        self.step = made.step

    def _set_backend(self, backend: str) -> None:
        choose = getattr(self.frontend, "set_eager_backend", None)
        if choose is not None:
            choose(backend)
        elif backend != "numpy":
            raise Unavailable("there is no frontend.set_eager_backend")

    def _set_options(self, rung: Rung) -> None:
        import frontend.compiled.specialization
        import graphc

        def compile_graph(graph: Any, level: str, *_: Any, **__: Any) -> Any:
            return graphc.compile(graph, level, **rung.options)

        frontend.compiled.specialization.compile_graph = compile_graph

    def _compile(self, function: Any) -> Any:
        kept = not self.rung.whole  # in one call gradients pass from backward to the optimizer
        made = self.frontend.compile(function, level=self.rung.level, keep_grads=kept)
        self.compiled.append(made)
        return made

    def facts(self) -> dict[str, Any]:
        """Kernels, launches, native calls a step, bytes of the arenas and of what a step allocates.
        To be asked for after the first step."""
        made = [one for function in self.compiled for one in plan_facts.executables(function)]
        calls = [0]
        for executable in made:
            _count(executable, calls)
        tracemalloc.start()
        self.step()
        allocated = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        for executable in made:
            del executable.run
        facts: dict[str, Any] = {"allocated_bytes": allocated}
        if self.rung.backend is None:
            facts |= {"calls": calls[0], **plan_facts.facts(self.compiled)}
        return facts


def _count(executable: Any, calls: list[int]) -> None:
    plain = executable.run

    def run(arrays: list[Any]) -> Any:
        calls[0] += 1
        return plain(arrays)

    executable.run = run


def serve(options: argparse.Namespace) -> None:
    rung = rungs_by_name()[options.worker]
    stay_on(rung.threads)
    try:
        climber = Climber(BY_NAME[options.workload], rung)
        started = time.perf_counter()
        climber.step()
        first = time.perf_counter() - started
        facts = climber.facts()
        loss = float(climber.step().detach().numpy())
    except Unavailable as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    except Exception as error:
        # The other rungs can still be measured; this one is printed as failed.
        print(json.dumps({"missing": f"FAILED {type(error).__name__}: {error}"[:400]}), flush=True)
        return
    print(json.dumps({"ready": True, "loss": loss, "first_s": first, **facts}), flush=True)
    for line in sys.stdin:
        times: list[int] = []
        stop = time.perf_counter_ns() + float(line.split()[1]) * 1e6
        while len(times) < 2 or time.perf_counter_ns() < stop:
            start = time.perf_counter_ns()
            climber.step()
            times.append(time.perf_counter_ns() - start)
        answer = {"min_us": min(times) / 1e3, "median_us": statistics.median(times) / 1e3}
        print(json.dumps(answer), flush=True)


def rungs_by_name() -> dict[str, Rung]:
    return {rung.name: rung for rung in rungs()}


# -- the measuring side ---------------------------------------------------------------------------


def climb(workload: Workload, rounds: int) -> dict[str, Any]:
    """One ladder: for each rung its time and facts, or why it is missing."""
    ladder: dict[str, Any] = {"name": workload.name, "title": workload.title, "rungs": {}}
    with ExitStack() as stack:
        present = []
        for rung in rungs():
            arguments = ["--workload", workload.name]
            worker = stack.enter_context(Worker(rung.name, arguments, rung.threads))
            ladder["rungs"][rung.name] = dict(worker.greeting)
            present += [worker] if not worker.missing else []
        for index in range(rounds if present else 0):
            first = index % len(present)
            for worker in present[first:] + present[:first]:
                worker.run(round(TURN_MS))
        for worker in present:
            ladder["rungs"][worker.name]["us"] = worker.min_us
            ladder["rungs"][worker.name]["median_us"] = worker.median_us
    return ladder


def text(ladder: dict[str, Any]) -> str:
    titles = ("µs", "gain", "of first", "arena MB", "step MB", "kernels", "launches", "calls",
              "compile s", "loss")  # fmt: skip
    lines = [ladder["title"], f"{'':<16}" + "".join(f"{title:>11}" for title in titles)]
    first = before = None
    for name, rung in ladder["rungs"].items():
        if "us" not in rung:
            lines.append(f"{name:<16}not available: {rung['missing']}")
            continue
        us = rung["us"]
        first, before = first or us, before or us
        cells = [
            f"{us:.0f}", f"{before / us:.2f}", f"{first / us:.2f}", _megabytes(rung, "arena_bytes"),
            _megabytes(rung, "allocated_bytes"),
            *(str(rung.get(key, "-")) for key in ("kernels", "launches", "calls")),
            f"{rung['compile_s']:.2f}" if "compile_s" in rung else "-", f"{rung['loss']:.5f}",
        ]  # fmt: skip
        lines.append(f"{name:<16}" + "".join(f"{cell:>11}" for cell in cells))
        before = us
    return "\n".join(lines)


def _megabytes(rung: dict[str, Any], key: str) -> str:
    return f"{rung[key] / 1e6:.2f}" if key in rung else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description="What each option of the compiler gains")
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a name, or *")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each rung (default: 6)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.add_argument("--worker", choices=list(rungs_by_name()), help=argparse.SUPPRESS)
    parser.add_argument("--workload", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options)
        return
    if options.rounds < 1:
        parser.error("at least 1 round")
    wanted = [workload for workload in chosen(options.only) if workload.name in LADDERS]
    if not wanted:
        parser.error(f"no ladder is named like {options.only!r}: there are {', '.join(LADDERS)}")
    ladders = []
    for workload in wanted:
        ladders.append(climb(workload, options.rounds))
        if not options.json:
            print(text(ladders[-1]), end="\n\n", flush=True)
    if options.json:
        facts = {"processor": processor(), "rounds": options.rounds, "ladders": ladders}
        print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
