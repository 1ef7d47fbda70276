"""What the tools tell of random graphs is what is so: decisions are those of the plan that runs, on
one thread and on two, and lead to its launches; the nodes that a report has are the graph's; a copy
of a program under other names is told to be the same. tests/test_random_graphs.py draws the graphs,
which get the places of a program with layers; hypothesis makes smaller what it finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np

import graphc
from graphc.debug.decisions import decisions
from graphc.debug.flat_graph import flat_plan, launch_nodes
from graphc.debug.report.data import chained
from graphc.debug.report.graph_data import Dictionary, stages
from graphc.debug.summary import as_json, from_json, summary
from graphc.debug.summary_diff import difference
from graphc.ir.nodes import PHASES, Graph, Location
from graphc.passes.recorder import Recorder
from graphc.records import replace
from graphc.schedule import threads
from graphc.schedule.plan import Launch, all_steps, kernels
from tests.fuzz.frame import Broken, Fuzzer

GRAPHS = 3  # of a case
Case = int  # a seed


def draw(random: np.random.Generator, size: int) -> Case:
    return int(random.integers(1 << 30))


def placed(graph: Graph, place: Callable[[int], Location]) -> Graph:
    """The graph with a place for each node of its own."""
    nodes = [replace(node, location=place(i)) for i, node in enumerate(graph.nodes)]
    return replace(graph, nodes=tuple(nodes))


def here(number: int) -> Location:
    layer = f"net.blocks.{number // 3}.fc" if number % 3 else ""
    return Location("/a/model.py", 3 + number % 5, "forward", layer, PHASES[number % 7 % 3])


def there(number: int) -> Location:
    """The same in a copy of the program."""
    place = here(number)
    module = place.module.replace("net", "model", 1)
    return Location("/b/copy.py", 90 + place.line, "run", module, place.phase)


def hold(graph: Graph) -> None:
    """Raises Broken for what is told and is not so."""
    one, other = placed(graph, here), placed(graph, there)
    for most in (1, 2):
        recorder = Recorder()
        decided = decisions(one, threads=most, recorder=recorder)
        plan = graphc.compile(one, threads=most).plan
        if recorder.plan != plan:
            raise Broken(f"another plan than that which runs on {most} threads")
        strategies = [each.what for each in decided if each.kind == "strategy"]
        if strategies != list(kernels(plan).values()):
            raise Broken(f"{strategies} are not the kernels {list(kernels(plan).values())}")
        _flat(plan)
    first = summary(one, threads=1)
    for second in (summary(other, threads=1), from_json(as_json(first))):
        lines = list(difference(first, second))
        if len(lines) != 1 or not lines[0].startswith("compiled alike"):
            raise Broken("\n".join(["a copy is told to differ:", *lines]))
    texts = Dictionary()
    ends = stages(chained(recorder.passes), flat_plan(recorder.plan), texts)
    ops = texts.columns()["ops"]
    for stage, expected in ((ends[0], one), (ends[-1], recorder.plan.graph)):
        if [ops[op] for op in stage.columns["op"]][: len(expected.nodes)] != [
            node.op for node in expected.nodes
        ]:
            raise Broken(f"the stage {stage.name!r} has other nodes")


def _flat(plan: Any) -> None:
    """What a launch is said to compute is what its kernel's body has."""
    flat = flat_plan(plan)
    nodes = [node for _, node in flat.nodes]
    for step, computed in zip(all_steps(plan), launch_nodes(plan, flat), strict=True):
        if isinstance(step, Launch) and step.nodes:  # copies that the scheduler adds are no nodes
            body = [node.op for node in step.kernel.body.nodes[len(step.reads) :]]
            if [nodes[number].op for number in computed] != body:
                raise Broken(f"{computed} are not the nodes of {step}")


def check(case: Case) -> str:
    from hypothesis import HealthCheck, given, seed, settings

    from tests import test_random_graphs as random_graphs

    @seed(case)
    @settings(max_examples=GRAPHS, deadline=None, database=None, print_blob=False,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(case=random_graphs.graphs())
    def run(case: Any) -> None:
        with patch.multiple(threads, STEP_NS=0.0, PART_NS=0.0, CALL_NS=-1e9, ALONE_SHARE=0.0):
            hold(case[0])  # small steps too run on threads, in another order

    run()
    return f"{GRAPHS} graphs"


def program(case: Case) -> str:
    return f"from tests.fuzz import told\ntold.check({case!r})"


FUZZER = Fuzzer("told", draw, check, program)
