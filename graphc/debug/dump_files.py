"""A compiled graph as a folder of files: all stages, the ledger, and a program that runs it again.

in : a graph and what it was compiled with; arrays to run it on, or none: then they are drawn
out: a folder with

| file | content |
|---|---|
| `00_graph.graph` | the graph as it was given; `graphc.parse` reads it back |
| `01_dead_code.graph`, … | the graph after each pass that changed it |
| `…_plan.txt`, `…_nests.txt`, `…_loops.txt`, `…_llvm.ll`, `…_asm.s` | the stages below |
| `ledger.txt`, `ledger.json` | every decision, and why |
| `whole.graph` | of a part of a graph that is cut for other processes: that graph |
| `graph.dot`, `plan.dot` | the optimised graph and the plan, for Graphviz |
| `inputs.npz`, `outputs.txt` | the bytes of each input, a digest of those of each output |
| `repro.py` | compiles and runs it from these files alone, and compares every bit of the outputs |

With the setting GRAPHC_DUMP=folder every graph that `graphc.compile` is given is written there.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphc.codegen.llvm.jit import assembly, llvm_text
from graphc.codegen.program.link import plan_kernels
from graphc.debug import ledger
from graphc.debug.cut_decisions import cut_decisions
from graphc.debug.decisions import decisions
from graphc.debug.dot import graph_dot, plan_dot
from graphc.debug.dump import nest_text
from graphc.debug.summary import as_json, summary_of
from graphc.errors import ArgumentError, GraphError
from graphc.ir.nodes import Graph
from graphc.passes.recorder import Recorder
from graphc.passes.split_exchanges import ExchangeSplit
from graphc.runtime.executable import Executable
from graphc.schedule.plan import kernels as named_kernels

Array = np.ndarray[Any, Any]

REPRO = '''"""Compiles and runs the graph of this folder, and compares every bit of its outputs with
what they were when the folder was written. Exit code 0: all are the same."""

import hashlib
import sys
from pathlib import Path

import numpy as np

import graphc

HERE = Path(__file__).resolve().parent
OPTIONS = {options!r}
EXPECTED = (HERE / "outputs.txt").read_text("utf-8").split()

graph = graphc.parse((HERE / "00_graph.graph").read_text("utf-8"))
stored = np.load(HERE / "inputs.npz")
arrays = [
    np.frombuffer(stored[f"input_{{i}}"].tobytes(), type.dtype.numpy).reshape(type.shape).copy()
    for i, type in enumerate(graph.input_types)
]
try:
    outputs = graphc.compile(graph, **OPTIONS)(*arrays)
    found = [hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest() for x in outputs]
except graphc.GraphError as error:
    found = [type(error).__name__]
    print(error)
print("the same bits" if found == EXPECTED else f"expected {{EXPECTED}}, found {{found}}")
sys.exit(found != EXPECTED)
'''


def write_dump(
    folder: Path | str, executable: Executable, level: str, *, threads: int | None = None,
    arrays: Sequence[Array] | None = None, whole: ExchangeSplit | None = None,
    names: Sequence[str] = (), **options: Any,
) -> Path:  # fmt: skip
    """Write a compiled graph into a new folder inside of `folder`, which is returned. `level`,
    `threads` and `options` are those it was compiled with; `arrays` its inputs, which are copied;
    `whole` what the graph is a part of, and `names` what is exchanged between those.
    Raises ArgumentError for a folder that cannot be written."""
    graph, target = executable.graph, executable.target
    arrays = drawn(graph) if arrays is None else [np.array(array) for array in arrays]
    recorder = Recorder()
    decided = decisions(graph, level, target=target, threads=threads, recorder=recorder, **options)
    decided = [*(cut_decisions(whole, names) if whole else ()), *decided]
    told = {"level": level, "threads": threads, "target": target.name, **options}
    try:
        place = _new_folder(Path(folder), graph.name)
        for number, (name, text) in enumerate(_stages(graph, recorder, executable)):
            (place / f"{number:02}_{name}").write_text(text + "\n", "utf-8")
        if whole is not None:
            (place / "whole.graph").write_text(str(whole.graph) + "\n", "utf-8")
        (place / "ledger.txt").write_text("\n".join(ledger.text(decided)) + "\n", "utf-8")
        (place / "ledger.json").write_text(
            as_json(summary_of(graph, recorder.plan, decided)) + "\n", "utf-8"
        )
        (place / "graph.dot").write_text(graph_dot(executable.optimised) + "\n", "utf-8")
        (place / "plan.dot").write_text(plan_dot(executable.plan) + "\n", "utf-8")
        stored = {f"input_{i}": _bytes(array) for i, array in enumerate(arrays)}
        np.savez(place / "inputs.npz", **stored)  # type: ignore[arg-type]
        (place / "outputs.txt").write_text("\n".join(_digests(executable, arrays)), "utf-8")
        (place / "repro.py").write_text(REPRO.format(options=told), "utf-8")
    except OSError as error:
        raise ArgumentError(f"{folder} cannot be written: {error}") from error
    return place


def _stages(graph: Graph, recorder: Recorder, executable: Executable) -> Iterator[tuple[str, str]]:
    yield "graph.graph", str(graph)
    for record in recorder.passes:
        if record.after is not record.before and str(record.after) != str(record.before):
            yield f"{record.name}.graph", str(record.after)
    yield "plan.txt", str(executable.plan)
    named, target = named_kernels(executable.plan), executable.target
    nests = [nest_text(spec, name, target) for spec, name in named.items() if spec.has_loops]
    yield "nests.txt", "\n\n".join(nests)
    kernels = plan_kernels(executable.plan, target)
    yield "loops.txt", "\n\n".join(map(str, kernels))
    yield "llvm.ll", "\n".join(llvm_text(kernel, target) for kernel in kernels)
    yield "asm.s", "\n".join(assembly(kernel, target) for kernel in kernels)


def _new_folder(folder: Path, name: str) -> Path:
    """`000_name`, or with the next number that is free, also where other processes write."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = [path.name.partition("_")[0] for path in folder.iterdir() if path.is_dir()]
    number = max((int(text) + 1 for text in taken if text.isdecimal()), default=0)
    while True:
        place = folder / f"{number:03}_{name}"
        try:
            place.mkdir()
        except FileExistsError:
            number += 1
        else:
            return place


def drawn(graph: Graph) -> list[Array]:
    """Inputs of a graph: floats of the standard normal distribution, seeded; zeros for the rest."""
    random = np.random.default_rng(0)
    arrays = []
    for type in graph.input_types:
        if type.dtype.is_float:
            arrays.append(random.standard_normal(type.shape).astype(type.dtype.numpy))
        else:
            arrays.append(np.zeros(type.shape, type.dtype.numpy))
    return arrays


def _bytes(array: Array) -> Array:
    """The bytes of an array: .npz has no bfloat16."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def _digests(executable: Executable, arrays: Sequence[Array]) -> list[str]:
    """A digest of each output, or the name of the error that these inputs give."""
    try:
        outputs = executable(*(array.copy() for array in arrays))
    except GraphError as error:
        return [type(error).__name__]
    return [hashlib.sha256(_bytes(output).tobytes()).hexdigest() for output in outputs]


def dumping(compile: Callable[..., Executable], folder: str) -> Callable[..., Executable]:
    """`graphc.compile`, which also writes what it compiles to `folder`."""

    @functools.wraps(compile)
    def compiled(graph: Graph, level: str = "exact", **options: Any) -> Executable:
        executable = compile(graph, level, **options)
        known = ("threads", "fusion", "plan_memory", "layouts")
        told = {name: options[name] for name in known if name in options}
        write_dump(folder, executable, level, **told)
        return executable

    return compiled
