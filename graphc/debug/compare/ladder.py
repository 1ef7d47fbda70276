"""A ladder measured: a process for each rung, all in turns, the least of many times.

in : what is run, and how often
out: plain data: for each rung its times, memory, launches, bytes and compile time, or why it has
     none; peers and a sweep over sizes, if they are asked for; after how many calls compiling is
     made up for; whether the machine was quiet; what else times depend on

Turns go round, each round beginning with another rung, so that a slow phase of the machine falls on
all. Compiled code is not taken from disk: what compiling takes is measured.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from graphc.debug.compare.peers import check_peers
from graphc.debug.compare.phase_parts import phase_parts
from graphc.debug.compare.rungs import Rung, rungs
from graphc.debug.compare.surroundings import (
    ON_PROCESSOR,
    QUIET,
    THREAD_VARIABLES,
    load,
    surroundings,
)
from graphc.debug.compare.worker import Task
from graphc.debug.load import loaded_object
from graphc.debug.program import AS_IT_IS, LoadError, ProgramOptions, blaming
from graphc.debug.traced import DrawnInput
from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph
from graphc.records import record

TOLERANCE = 1e-3
"""Of what came out after two steps: rounding differs between NumPy and native code."""
TURN_SECONDS = 0.15
PAUSE_SECONDS = 0.05
"""For the threads of the rung before to stop spinning."""
Told = Callable[[str], None]


@record
class Measured:
    """What is run, by the words of a command line: by which `peers` besides, at which `sizes`."""

    reference: str
    inputs: tuple[str, ...] = ()
    program: ProgramOptions = AS_IT_IS
    title: str = ""
    peers: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    def task(self, processors: int, **rest: Any) -> Task:
        program = self.program
        return Task(self.reference, self.inputs, processors=processors, alias=program.alias,
                    arguments=program.arguments, **rest)  # fmt: skip


def climb(
    what: Measured, rounds: int = 6, seconds: float = TURN_SECONDS, told: Told | None = None
) -> dict[str, Any]:
    """One ladder. Raises ArgumentError for no rounds, and what loading the object raises."""
    if rounds < 1:
        raise ArgumentError(f"{rounds} rounds: at least 1")
    if any(size < 0 for size in what.sizes):
        raise ArgumentError(f"sizes {', '.join(map(str, what.sizes))}: 0 or more")
    check_peers(what.peers)
    trains, broken = _trains(what)
    around = surroundings()
    processors = around["processors"]
    chosen = [
        (rung, what.task(processors, rung=number))
        for number, rung in enumerate(rungs(processors))
        if (trains or not rung.trains_only) and not (broken and rung.compiled)
    ]  # fmt: skip
    chosen += [(Rung(peer), what.task(processors, rung=0, peer=peer)) for peer in what.peers]
    outcomes: dict[str, Any] = {rung.name: {} for rung, _ in chosen}
    tell = told or (lambda line: None)
    with ExitStack() as stack:
        present: list[tuple[RungProcess, dict[str, Any]]] = []
        for rung, task in chosen:
            process = stack.enter_context(RungProcess(rung, task))
            outcomes[rung.name] |= process.greeting
            tell(f"{rung.name}: {process.told()}")
            if "missing" not in process.greeting:
                present.append((process, outcomes[rung.name]))
        _take_turns(present, rounds, seconds)
    ladder = {
        "name": what.reference, "title": what.title or what.reference, "rounds": rounds,
        "surroundings": around | {"load_after": load()}, "rungs": outcomes,
        "peers": list(what.peers), "broken": broken,
    }  # fmt: skip
    if what.sizes and not broken:
        with RungProcess(Rung("sizes"), what.task(processors, rung=0, sizes=what.sizes)) as process:
            ladder["sizes"] = process.turn(seconds)
    _judge(ladder)
    return ladder


def _trains(what: Measured) -> tuple[bool, str]:
    """Whether the object has more than one phase. It is traced once: why it cannot be, with the
    line that breaks, is told, and eager rungs and peers are measured all the same."""
    inputs = [DrawnInput.parse(text) for text in what.inputs]
    with loaded_object(what.reference, inputs, what.program) as (loaded, _):
        if isinstance(loaded, Graph):
            return len(phase_parts(loaded)) > 1, ""
        path, _, name = what.reference.rpartition(":")
        try:
            with blaming(Path(path), f"{name} cannot be traced"):
                return len(phase_parts(loaded.traced())) > 1, ""
        except LoadError as error:
            return False, str(error)


def _take_turns(
    present: Sequence[tuple[RungProcess, dict[str, Any]]], rounds: int, seconds: float
) -> None:
    turns: list[list[dict[str, Any]]] = [[] for _ in present]
    for index in range(rounds if present else 0):
        first = index % len(present)
        order = [*range(first, len(present)), *range(first)]
        for position in order:
            process, facts = present[position]
            answer = process.turn(seconds)
            if "missing" in answer:
                facts["missing"] = answer["missing"]
                continue
            turns[position].append(answer)
            time.sleep(PAUSE_SECONDS if process.rung.threads > 1 else 0)
    for (_, facts), answers in zip(present, turns, strict=True):
        if "missing" not in facts and answers:
            facts["us"] = min(answer["min_us"] for answer in answers)
            facts["median_us"] = statistics.median(answer["median_us"] for answer in answers)
            facts["p99_us"] = statistics.median(answer["p99_us"] for answer in answers)
            facts["steps"] = sum(answer["steps"] for answer in answers)
            facts["on_processor"] = statistics.median(a["on_processor"] for a in answers)


def _judge(ladder: dict[str, Any]) -> None:
    """Add what the times mean together: gains, rungs that were disturbed, values that are off."""
    timed = {name: rung for name, rung in ladder["rungs"].items() if "us" in rung}
    first = before = None
    peers = ladder.get("peers", ())
    for name, rung in timed.items():
        before = first if name in peers else before  # each beside eager mode, no rung of the ladder
        first, before = first or rung["us"], before or rung["us"]
        rung["gain"], rung["of_first"] = before / rung["us"], first / rung["us"]
        slowed = rung["median_us"] > QUIET * rung["us"]
        rung["disturbed"] = slowed or rung["on_processor"] < ON_PROCESSOR
        before = rung["us"]
    ladder["quiet"] = bool(timed) and not any(rung["disturbed"] for rung in timed.values())
    values = {
        n: rung["value"] for n, rung in timed.items()
        if rung.get("value") is not None and n not in peers  # which draw weights of their own
    }  # fmt: skip
    ladder["even"] = _even(timed, peers)
    middle = statistics.median_low(values.values()) if values else 0.0
    ladder["wrong"] = [
        name for name, value in values.items() if not abs(value - middle) <= TOLERANCE * abs(middle)
    ]


def _even(timed: dict[str, Any], peers: Sequence[str]) -> dict[str, int | None]:
    """After how many calls the fastest compiled rung of one thread has made up for its first, by
    what runs at once; None where it never does."""
    compiled = [
        rung for name, rung in timed.items() if "compile_s" in rung and "threads" not in name
    ]  # fmt: skip
    if not compiled:
        return {}
    best = min(compiled, key=lambda rung: rung["us"])
    at_once = [name for name, rung in timed.items() if "tape" in rung or name in peers]
    result: dict[str, int | None] = {}
    for name in at_once:
        gained = timed[name]["us"] - best["us"]
        spent = (best["first_s"] - timed[name]["first_s"]) * 1e6
        result[name] = max(1, math.ceil(spent / gained)) if gained > 0 else None
    return result


class RungProcess:
    """The process of a rung. `greeting` is what it says of itself, or why it is `missing`; of a
    sweep it is there when a turn was made."""

    def __init__(self, rung: Rung, task: Task):
        self.rung = rung
        limits = {variable: str(rung.threads) for variable in THREAD_VARIABLES}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "graphc.debug.compare.worker", task.text()],
            env={**os.environ, **limits, "GRAPHC_CACHE": "off", "GRAPHC_DUMP": ""},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.greeting = {} if task.sizes else self._answer()

    def __enter__(self) -> RungProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # it holds nothing worth closing
        self._process.communicate()

    def told(self) -> str:
        """The greeting in words."""
        if "missing" in self.greeting:
            return str(self.greeting["missing"])
        return f"first step {self.greeting['first_s']:.2f} s"

    def turn(self, seconds: float) -> dict[str, Any]:
        """Times of one turn, or why there are none."""
        assert self._process.stdin is not None
        try:
            print(f"turn {seconds}", file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return {"missing": f"its process ended (exit {self._process.wait()})"}
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            return {"missing": f"its process ended (exit {self._process.wait()})"}
        answer: dict[str, Any] = json.loads(line)
        return answer
