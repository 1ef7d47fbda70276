"""What is remembered while questions about sizes are answered does not outlive the answers.

Every function of graphc that remembers is one of three: emptied when those who answer change
(`forgets_answers`), kept with those who answer (`remembered_by_answers`), or listed below, because
nothing that it computes asks. That the listed ones do not ask is looked up in the stack of every
question that a compiled step of open sizes and derivations ask.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend
import graphc
from graphc.autodiff.joint import joint
from graphc.ir import undecided
from graphc.ir.dims import dim
from graphc.ir.nodes import Graph
from graphc.ir.printer import print_graph
from graphc.ir.size_guards import SizeAnswers, answered_by
from graphc.ir.types import DType, TensorType
from graphc.ops import movement, reduce
from graphc.ops.control import scan

ROOT = Path(graphc.__path__[0])
ASK_NOTHING = {
    "build/ctypes_module.py": "a library of this process",
    "codegen/llvm/function_text.py": "texts of opcodes and types",
    "codegen/llvm/memory.py": "texts of types",
    "codegen/cache/object_cache.py": "a folder",
    "codegen/loop_ir/opcodes.py": "opcodes, constants and types of values",
    "codegen/loop_ir/operations.py": "opcodes and types of values",
    "codegen/program/single_launch.py": "a number of arrays",
    "codegen/program/size_table.py": "the text of a function",
    "codegen/kernels/contraction/cost/tiles.py": "numbers, for which costs are compared",
    "codegen/kernels/contraction/strategies/table.py": "costs, at sizes that are typical",
    "codegen/kernels/preferred_layouts.py": "costs, at sizes that are typical",
    "codegen/kernels/winograd/gain.py": "costs, of numbers",
    "codegen/kernels/size_class.py": "bounds, and costs at sizes that are typical",
    "codegen/kernels/elementwise/widths.py": "an op and dtypes",
    "codegen/target.py": "processors",
    "debug/profile/machine.py": "this machine",
    "ir/dims.py": "what bounds decide",
    "ir/own_frames.py": "code of Python functions",
    "ops/kinds/numpy_algebra.py": "dtypes",
    "ops/nn/resampling.py": "numbers: tables of weights",
    "ops/scalar_functions/airy.py": "coefficients",
    "runtime/allocator.py": "this machine",
    "runtime/direct_call.py": "functions of this process",
    "records.py": "how many fields a class has",
    "runtime/native_call.py": "functions of this process",
    "runtime/pool.py": "the code of the pool",
    "runtime/random_words.py": "functions of this process",
    "system.py": "this machine",
}
"""Files whose functions remember what depends on no answer, and on what."""


def remembering(file: Path) -> Iterator[str]:
    """The functions of a module that remember for longer than a call, which those inside of
    functions do not, or than an object, which a `lazy` property does not."""
    outer: list[ast.AST] = [ast.parse(file.read_text("utf-8"))]
    while outer:
        for node in ast.iter_child_nodes(outer.pop()):
            if isinstance(node, ast.ClassDef):
                outer.append(node)
            elif isinstance(node, ast.FunctionDef):
                marks = [ast.unparse(mark) for mark in node.decorator_list]
                names = {mark.partition("(")[0].split(".")[-1] for mark in marks}
                if any("cache" in name for name in names):
                    yield node.name


def forgotten() -> set[Any]:
    return {clear.__self__ for clear in undecided._FORGETTING}  # type: ignore[attr-defined]


def test_every_function_that_remembers_has_answers_in_its_life_or_asks_nothing() -> None:
    unknown, seen = [], set()
    for file in sorted(ROOT.rglob("*.py")):
        path = str(file.relative_to(ROOT))
        for name in remembering(file):
            module = "graphc." + path.removesuffix(".py").replace("/", ".")
            function = getattr(importlib.import_module(module), name)
            if function in forgotten():
                continue
            seen.add(path)
            if path not in ASK_NOTHING:
                unknown.append(f"{path}: {name}")
    assert not unknown, "these remember: with what life of answers?"
    assert seen == set(ASK_NOTHING), "a file of the table remembers nothing any more"


def caches() -> dict[Any, str]:
    """The code of each function whose results outlive all answers."""
    kept = {
        each.__wrapped__.__code__: f"{each.__module__}.{each.__qualname__}"
        for each in gc.get_objects()
        if isinstance(each, functools._lru_cache_wrapper)
        and str(each.__module__).startswith(("graphc", "frontend"))
        and "<locals>" not in each.__qualname__
        and each not in forgotten()
    }
    for function in undecided.BY_ANSWERS:
        kept.pop(function.__wrapped__.__code__, None)  # type: ignore[attr-defined]
    return kept


@pytest.fixture
def breaches(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Functions whose results outlive answers, and that asked."""
    found, kept = set[str](), caches()
    for name in ("ask", "fix"):
        asked = getattr(SizeAnswers, name)

        def look(self: Any, *question: Any, asked: Any = asked) -> Any:
            frame = sys._getframe(1)
            while frame is not None:
                if frame.f_code in kept:
                    found.add(f"{kept[frame.f_code]} asks {question}")
                frame = frame.f_back  # type: ignore[assignment]
            return asked(self, *question)

        monkeypatch.setattr(SizeAnswers, name, look)
    yield found


def test_what_outlives_answers_asks_nothing(breaches: set[str]) -> None:
    n = frontend.nn
    model = n.Sequential(n.Conv1d(2, 4, 3), n.ReLU(), n.MaxPool1d(2), n.Flatten(), n.Linear(20, 8))

    @frontend.compile(dynamic=True)
    def step(x: Any) -> Any:
        y = model(x).softmax(1)
        loss = (y[:, ::2] * y[:, 1::2]).mean() + frontend.cumsum(y, 0).std()
        loss.backward()
        return loss

    model(frontend.zeros(3, 2, 12))
    for rows in (5, 17):
        step(frontend.tensor(np.ones((rows, 2, 12), np.float32)))
    derived(8), derived(5)
    assert not breaches


# -- a scan, derived for one example after another ------------------------------------------------

N = dim("n", 1)


def evens(x: Any) -> Any:
    """Every second element, from the end."""
    count = x.shape[0] // 2
    return movement.slice_(x, start=(x.shape[0] - count * 2,), size=(count,), step=(2,))


def scanned() -> Graph:
    body = graphc.GraphBuilder("body")
    carry, x = body.input("c", "f32[]"), body.input("x", TensorType(DType.f32, (N,)))
    step = body.finish(carry + reduce.sum(evens(x) * evens(x), axes=(0,)))
    g = graphc.GraphBuilder("scanned")
    start, xs = g.input("c", "f32[]"), g.input("x", TensorType(DType.f32, (3, N)))
    return g.finish(scan(start, xs, carry=1, sequences=1, length=3, body=step))


def derived(n: int) -> tuple[str, list[str]]:
    with answered_by({"n": n}) as answers:
        graph = joint(scanned())
        graphc.verify(graph)
    return print_graph(graph, locations=False), sorted(map(str, answers.guards))


def test_a_scan_is_derived_for_each_example_anew() -> None:
    alone = {n: derived(n) for n in (1, 8, 6)}
    assert derived(8) == alone[8] and derived(1) == alone[1]
    assert alone[6] == alone[8] and alone[1] != alone[8]
    assert any("floordiv" in guard for guard in alone[8][1])
    with answered_by({"n": 8}):
        first, second = joint(scanned()), joint(scanned())
    assert first == second, "the same answers, the same graph"
