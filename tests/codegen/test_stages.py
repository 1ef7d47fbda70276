"""The stages of a graph are computed once each, by any number of threads, and none waits for those
of another graph."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

import frontend
import graphc
from graphc.codegen.options import CompileOptions
from graphc.codegen.stages import Stages
from graphc.codegen.target import running
from graphc.ir.nodes import Graph
from graphc.lazy import lazy
from graphc.passes.recorder import Recorder


def affine(rows: int) -> Graph:
    g = graphc.GraphBuilder("affine")
    return g.finish(g.input("x", f"f32[{rows},4]") @ g.input("w", "f32[4,3]"))


class Waiting(Recorder):
    """Stands in its first pass until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.goes_on = threading.Event(), threading.Event()

    def run(self, *arguments: object) -> Graph:  # type: ignore[override]
        self.inside.set()
        assert self.goes_on.wait(60)
        return super().run(*arguments)  # type: ignore[arg-type]


def test_a_thread_does_not_wait_for_what_another_one_compiles() -> None:
    """A child that is forked meanwhile, in which the other thread is not, would wait for ever."""
    options = CompileOptions("exact", running())
    recorder = Waiting()
    slow, fast = Stages(affine(8), options, recorder), Stages(affine(16), options)
    threads = [threading.Thread(target=lambda each=each: each.plan) for each in (slow, fast)]
    threads[0].start()
    assert recorder.inside.wait(60)
    threads[1].start()
    threads[1].join(60)
    stands = threads[1].is_alive()
    recorder.goes_on.set()
    for thread in threads:
        thread.join()
    assert not stands and "_scheduled" in vars(fast)


def test_each_stage_is_computed_once() -> None:
    stages = Stages(affine(8), CompileOptions("exact", running()))
    assert stages.plan is stages.plan and stages.loops is stages.loops
    assert (
        isinstance(Stages.loops, lazy) and "loops of each distinct kernel" in Stages.loops.__doc__
    )


def test_no_property_holds_a_lock_while_it_computes() -> None:
    """As `functools.cached_property` of Python 3.11 does, one for all objects of its class."""
    marks, functions = [], 0
    for package in (graphc, frontend):
        for path in sorted(Path(package.__path__[0]).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    functions += 1
                    marks += [
                        f"{path}:{node.lineno}"
                        for mark in node.decorator_list if "cached_property" in ast.unparse(mark)
                    ]  # fmt: skip
    assert functions > 5000 and not marks
