"""Drawn programs that read and change Python state of every kind between the calls of a function,
compiled against eager: the same results and the same state after each call, or a refusal.

The pieces of programs are in state_pieces.txt. Of each: `setup` runs once, lines with `>` stand in
the function, where `y` is what is computed; those with `~` are changes that may come between calls;
`=` is what is compared after a call beside results, `^` puts back what programs share. `_k` is the
number of the piece in its program. What goes into `A` is an argument, what into `EXTRA` a result.
"""

from __future__ import annotations

import functools
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import frontend as torch
import graphc
from frontend.engine.compiled import program as compiled_program
from graphc.errors import ArgumentError, TraceError
from tests.fuzz.frame import Broken, Fuzzer

REFUSALS = (TraceError, ArgumentError)
AFTER_A_STEP = "which calls backward() itself"  # in the error of a backward through its results
NATIVE = 50  # one program in so many runs as native code; the others are interpreted


@dataclass(slots=True)
class Piece:
    setup: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    shown: str = "None"
    undo: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        mark, text = line[:2], line[2:]
        if mark == "= ":
            self.shown = text
            return
        lists = {"> ": self.body, "~ ": self.changes, "^ ": self.undo}
        lists.get(mark, self.setup).append(text if mark in lists else line)


@functools.cache
def pieces() -> dict[str, Piece]:
    """Pieces of programs, by name."""
    by_name: dict[str, Piece] = {}
    piece = Piece()
    for line in Path(__file__).with_name("state_pieces.txt").read_text().splitlines():
        if line.startswith("["):
            piece = by_name[line.strip("[]")] = Piece()
        elif line:
            piece.add(line)
    return by_name


@dataclass(frozen=True, slots=True)
class Case:
    """A program: its pieces with their numbers, and what is changed ahead of each call (the number
    of the piece, the number of the change; None is nothing)."""

    parts: tuple[tuple[int, str], ...]
    steps: tuple[tuple[int, int] | None, ...]
    native: bool = False

    def numbered(self, number: int, line: str) -> str:
        return re.sub(r"_k\b", f"_{number}", line)

    def lines(self) -> Iterator[str]:
        """The program, with `compile`, `A`, `X`, `EXTRA` and `seen` given."""
        known = pieces()
        for number, name in self.parts:
            yield from (self.numbered(number, line) for line in known[name].setup)
        yield "def f(x, a):"
        yield "    EXTRA, y = [], x * 1"
        for number, name in self.parts:
            yield from (f"    {self.numbered(number, line)}" for line in known[name].body)
        yield "    return y, EXTRA"
        yield "f = compile(f)"
        shown = [self.numbered(number, known[name].shown) for number, name in self.parts]
        yield f"def state(): return [{', '.join(f'({text})' for text in shown)}]"
        for step in self.steps:
            if step is not None:
                yield self.numbered(step[0], known[dict(self.parts)[step[0]]].changes[step[1]])
            yield "seen(f, state)"

    def undo(self) -> list[str]:
        known = pieces()
        return [self.numbered(i, line) for i, name in self.parts for line in known[name].undo]


class Seen:
    """What came of the calls of a program: results and state, or what was raised."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.error: Exception | None = None
        self.x = torch.arange(6.0).reshape(2, 3) * 0.25 + 1
        self.attributes: dict[str, Any] = {}

    def __call__(self, function: Any, state: Any) -> None:
        y, extra = function(self.x, self.attributes)
        results = [y, *extra]
        flags = [
            (x.requires_grad, type(x).__name__, x.is_leaf and x.requires_grad) for x in results
        ]
        if y.requires_grad:
            y.sum().backward()
        self.calls.append(([plain(x) for x in results], flags, plain(state())))


def plain(value: Any) -> Any:
    """A value to compare: tensors and arrays as arrays."""
    if isinstance(value, torch.Tensor):
        return np.array(value.detach().numpy())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return [(key, plain(item)) for key, item in value.items()]
    if isinstance(value, float):
        return (type(value).__name__, np.array(value))
    return (type(value).__name__, str(value))


def alike(left: Any, right: Any, exactly: bool) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        if exactly:
            return np.array_equal(left, right, equal_nan=left.dtype.kind in "fc")
        return np.allclose(left, right, rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        same = len(left) == len(right)
        return same and all(alike(x, y, exactly) for x, y in zip(left, right))
    return type(left) is type(right) and bool(left == right)


class Interpreted:
    """A graph, run op by op, in place of what is compiled of it."""

    timings: dict[str, float] = {}

    def __init__(self, graph: Any, options: Any):
        self.graph = graph

    def run(self, arrays: list[Any]) -> list[Any]:
        values = list(graphc.run(self.graph, *[array.copy() for array in arrays]))
        for output, position in self.graph.aliases:
            arrays[position][...] = values[output]
            values[output] = arrays[position]
        return values

    def __call__(self, *arrays: Any) -> list[Any]:
        return self.run(list(arrays))


def outcome(case: Case, compile: Callable[[Any], Any]) -> Seen:
    """What a program gives."""
    seen = Seen()
    module = types.ModuleType("drawn")
    space = vars(module)
    space |= {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "np": np}
    space |= {"compile": compile, "seen": seen, "A": seen.attributes}
    sys.modules["drawn"] = module  # where dataclasses look
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec("\n".join(case.lines()), space)
        except SyntaxError:
            raise
        except Exception as error:
            seen.error = error
        finally:
            for line in case.undo():
                exec(line, space)
            del sys.modules["drawn"]
    return seen


def check(case: Case) -> str:
    """What became of a case. NumPy rounds otherwise than eager mode, which a cancellation makes as
    large as one likes: a difference of an interpreted program counts if native code has one too,
    whose bits are eager mode's."""
    if not case.native:
        try:
            return compared(case)
        except Broken:
            pass
    return compared(replace(case, native=True))


def compared(case: Case) -> str:
    """Eager mode beside the compiled program, native code exactly; Broken where they differ."""
    eager = outcome(case, lambda function: function)
    native = compiled_program.compile_graph if case.native else Interpreted
    with mock.patch.object(compiled_program, "compile_graph", native):
        compiled = outcome(case, functools.partial(torch.compile, fullgraph=True))
    for number, (want, have) in enumerate(zip(eager.calls, compiled.calls)):
        if not alike(want, have, case.native):
            raise Broken(f"call {number}: eager {want}, compiled {have}")
    if isinstance(compiled.error, REFUSALS) or AFTER_A_STEP in str(compiled.error):
        with mock.patch.object(compiled_program, "compile_graph", native):
            check_fallen_back(eager, outcome(case, torch.compile), case.native)
        return "refused"
    if type(compiled.error) is not type(eager.error):
        raise Broken(f"eager {eager.error!r}, compiled {compiled.error!r}")
    return "agrees" if eager.error is None else "raises"


def check_fallen_back(eager: Seen, compiled: Seen, native: bool) -> None:
    """A program that cannot be traced runs as in eager mode; Broken where it does not."""
    if isinstance(compiled.error, ArgumentError) or AFTER_A_STEP in str(compiled.error):
        return
    if len(eager.calls) != len(compiled.calls) or type(compiled.error) is not type(eager.error):
        raise Broken(f"not traced: eager {eager.error!r}, compiled {compiled.error!r}")
    for number, (want, have) in enumerate(zip(eager.calls, compiled.calls)):
        if not alike(want, have, native):
            raise Broken(f"not traced, call {number}: eager {want}, compiled {have}")


def draw(random: np.random.Generator, size: int) -> Case:
    names = sorted(pieces())
    count = int(random.integers(1, min(size, 4) + 1))
    parts = tuple((i, names[int(random.integers(len(names)))]) for i in range(count))
    steps: list[tuple[int, int] | None] = [None]
    for _ in range(int(random.integers(1, min(size, 5) + 1))):
        number = int(random.integers(count))
        changes = pieces()[parts[number][1]].changes
        steps.append((number, int(random.integers(len(changes)))))
    if random.integers(4) == 0:
        steps.append(None)
    return Case(parts, tuple(steps), not random.integers(NATIVE))


def smaller(case: Case) -> Iterator[Case]:
    """The program without one of its pieces, or without one of its calls."""
    for number, _ in case.parts if len(case.parts) > 1 else ():
        parts = tuple(part for part in case.parts if part[0] != number)
        steps = tuple(step for step in case.steps if step is None or step[0] != number)
        yield Case(parts, steps, case.native)
    for at in range(len(case.steps)):
        yield Case(case.parts, case.steps[:at] + case.steps[at + 1 :], case.native)


HEAD = """import numpy as np
import frontend as torch
from frontend import nn
import frontend.nn.functional as F
A, compile = {}, torch.compile
def seen(f, state): print(f(torch.arange(6.0).reshape(2, 3) * 0.25 + 1, A), state())
"""


def program(case: Case) -> str:
    return HEAD + "\n".join(case.lines())


FUZZER = Fuzzer("state", draw, check, program, smaller)
