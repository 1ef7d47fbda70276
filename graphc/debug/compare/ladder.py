"""A ladder measured: a process for each rung, all in turns, the least of many times.

in : what is run, and how often
out: plain data: for each rung its times, memory, launches, bytes and compile time, or why it has
     none; whether the machine was quiet; what else times depend on

Turns go round, each round beginning with another rung, so that a slow phase of the machine falls on
all. Compiled code is not taken from disk: what compiling takes is measured.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

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
from graphc.debug.program import AS_IT_IS, ProgramOptions
from graphc.debug.traced import DrawnInput
from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph

TOLERANCE = 1e-3
"""Of what came out after two steps: rounding differs between NumPy and native code."""
TURN_SECONDS = 0.15
PAUSE_SECONDS = 0.05
"""For the threads of the rung before to stop spinning."""
Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """What is run, by the words of a command line."""

    reference: str
    inputs: tuple[str, ...] = ()
    program: ProgramOptions = AS_IT_IS
    title: str = ""


def climb(
    what: Measured, rounds: int = 6, seconds: float = TURN_SECONDS, told: Told | None = None
) -> dict[str, Any]:
    """One ladder. Raises ArgumentError for no rounds, and what loading the object raises."""
    if rounds < 1:
        raise ArgumentError(f"{rounds} rounds: at least 1")
    trains = _trains(what)
    around = surroundings()
    processors = around["processors"]
    chosen = [
        (number, rung) for number, rung in enumerate(rungs(processors))
        if trains or not rung.trains_only
    ]  # fmt: skip
    outcomes: dict[str, Any] = {rung.name: {} for _, rung in chosen}
    tell = told or (lambda line: None)
    with ExitStack() as stack:
        present: list[tuple[RungProcess, dict[str, Any]]] = []
        for number, rung in chosen:
            process = stack.enter_context(RungProcess(what, number, rung, processors))
            outcomes[rung.name] |= process.greeting
            tell(f"{rung.name}: {process.told()}")
            if "missing" not in process.greeting:
                present.append((process, outcomes[rung.name]))
        _take_turns(present, rounds, seconds)
    ladder = {
        "name": what.reference, "title": what.title or what.reference, "rounds": rounds,
        "surroundings": around | {"load_after": load()}, "rungs": outcomes,
    }  # fmt: skip
    _judge(ladder)
    return ladder


def _trains(what: Measured) -> bool:
    """Whether the object has more than one phase; it is traced once, so that what is wrong with it
    is told before anything is measured."""
    inputs = [DrawnInput.parse(text) for text in what.inputs]
    with loaded_object(what.reference, inputs, what.program) as (traced, _):
        graph = traced if isinstance(traced, Graph) else traced.graph
        return len(phase_parts(graph)) > 1


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
            facts["steps"] = sum(answer["steps"] for answer in answers)
            facts["on_processor"] = statistics.median(a["on_processor"] for a in answers)


def _judge(ladder: dict[str, Any]) -> None:
    """Add what the times mean together: gains, rungs that were disturbed, values that are off."""
    timed = {name: rung for name, rung in ladder["rungs"].items() if "us" in rung}
    first = before = None
    for rung in timed.values():
        first, before = first or rung["us"], before or rung["us"]
        rung["gain"], rung["of_first"] = before / rung["us"], first / rung["us"]
        slowed = rung["median_us"] > QUIET * rung["us"]
        rung["disturbed"] = slowed or rung["on_processor"] < ON_PROCESSOR
        before = rung["us"]
    ladder["quiet"] = bool(timed) and not any(rung["disturbed"] for rung in timed.values())
    values = {n: rung["value"] for n, rung in timed.items() if rung.get("value") is not None}
    middle = statistics.median_low(values.values()) if values else 0.0
    ladder["wrong"] = [
        name for name, value in values.items() if not abs(value - middle) <= TOLERANCE * abs(middle)
    ]


class RungProcess:
    """The process of a rung. `greeting` is what it says of itself, or why it is `missing`."""

    def __init__(self, what: Measured, number: int, rung: Rung, processors: int):
        self.rung = rung
        task = Task(
            what.reference, what.inputs, number, processors, what.program.alias,
            what.program.arguments,
        )  # fmt: skip
        limits = {variable: str(rung.threads) for variable in THREAD_VARIABLES}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "graphc.debug.compare.worker", task.text()],
            env={**os.environ, **limits, "GRAPHC_CACHE": "off", "GRAPHC_DUMP": ""},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.greeting = self._answer()

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
