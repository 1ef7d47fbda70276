"""What a tracer hands to the commands that run things: graphs, their arrays, an eager runner.

A tracer (an entry point of the group `graphc.tracers`) gives a `TracedObject`, or the graph alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.ir.nodes import Graph
from graphc.ir.types import TensorType
from graphc.records import field, record

if TYPE_CHECKING:
    from graphc.build.built_source import ObjectSource
    from graphc.debug.ledger import Decision
    from graphc.runtime.executable import Executable

_NAMED = re.compile(r"([A-Za-z]\w*)\s*=")
Array = np.ndarray[Any, Any]
EagerRunner = Callable[[str], list[Array | None]]


@record
class CallOptions:
    """How a call is compiled: as for `graphc.compile`."""

    level: str = "exact"
    threads: int | None = None
    target: str | None = None
    max_bytes: int | None = None


@record
class OpenedGraph:
    """A graph that leaves sizes open, those of a call, and the example it is compiled for."""

    graph: Graph
    sizes: Mapping[str, int]
    example: Mapping[str, int]


@record
class TracedCall:
    """One native call of a traced object: its graph before all passes, and an array for each input.

    `eager(backend)` runs the object itself, each op by "numpy" or by its own kernel ("native"), and
    gives the graph's outputs, None for those it does not know; all state is as before afterwards.
    None: there is nothing to run. `opened`: what the call runs, where that leaves sizes open.
    `around`: what was decided of it before it was compiled, of a part of a graph that was cut."""

    graph: Graph
    arrays: tuple[Array, ...]
    options: CallOptions
    eager: EagerRunner | None = None
    opened: OpenedGraph | None = None
    around: tuple[Decision, ...] = ()

    def fresh(self) -> list[Array]:
        """Copies of the arrays, for a call that may write them."""
        return [np.array(array) for array in self.arrays]

    def executable(self, threads: int | None = None) -> Executable:
        """The call compiled; `threads` instead of those of its options."""
        from graphc.runtime.compile import compile
        from graphc.runtime.executable import Executable

        options, opened = self.options, self.opened
        executable = compile(
            self.graph if opened is None else opened.graph, options.level, target=options.target,
            threads=threads or options.threads, max_bytes=options.max_bytes,
            example=None if opened is None else opened.example,
        )  # fmt: skip
        if opened is not None and not isinstance(executable, Executable):
            return executable.at(**opened.sizes)
        assert isinstance(executable, Executable), "a traced call has the sizes of its arrays"
        return executable


@record
class WayToRun:
    """How an object is run again and again: eagerly, by the backend `eager` ("numpy", "native"); or
    compiled, by `compile`, which is called as `graphc.compile` is, and gives something with a
    method `run(arrays)`. `keep_grads`:
    compiled, it leaves gradients behind as eagerly it does."""

    eager: str | None = None
    compile: Callable[..., Any] | None = None
    keep_grads: bool = True


@record
class ObjectRun:
    """An object run again and again, as its program calls it; what it changes stays changed.
    `step()` runs it once, `read(result)` gives the arrays that came out, `counted()` runs it once
    more and gives how many ops computed something, eagerly, and the bytes they read and wrote.
    `watched()` runs it twice more eagerly and gives its ops: name, type of what they read first,
    nanoseconds from the beginning when each began and was over, and how many bytes the step held
    then."""

    step: Callable[[], Any]
    read: Callable[[Any], list[Array]]
    counted: Callable[[], tuple[int, int]]
    watched: Callable[[], list[tuple[str, str, int, int, int]]] | None = None


@record
class TracedObject:
    """What a tracer found. `calls(arguments, level, threads)` are the native calls one run of the
    object makes on these arguments: one, or a forward and a backward. Level and threads are those
    of the object where they are None. `running(arguments, way)` runs it on these arguments,
    `sweep(arguments, seconds)` on one set of them after the other, as far as sizes are left open;
    `source(arguments, names, level, keep_grads)` is what `graphc build` takes, with `names` of open
    sizes by axis for each argument; None where the tracer knows no way to. Where it could not be
    traced there is an error in place of the graph, which `traced()` raises."""

    graph: Graph | Exception
    calls: Callable[[Sequence[Array], str | None, int | None], list[TracedCall]]
    running: Callable[[Sequence[Array], WayToRun], ObjectRun] | None = None
    sweep: Callable[[Sequence[Sequence[Array]], float], list[dict[str, Any]]] | None = None
    source: (
        Callable[[Sequence[Array], Sequence[Mapping[int, str]], str | None, bool], ObjectSource]
        | None
    ) = None

    def traced(self) -> Graph:
        """The graph. Raises what tracing raised."""
        if isinstance(self.graph, Exception):
            raise self.graph
        return self.graph


@record
class DrawnInput:
    """An input to draw: `f32[2,3]` is standard normal, `i64[4]` zeros, `i64[4]<10` from 0 to 9.
    `names`: of sizes that stay open in what is built, by axis: `f32[batch=2,3]`."""

    type: TensorType
    below: int | None = None
    names: Mapping[int, str] = field(default_factory=dict, hash=False)

    @staticmethod
    def parse(text: str) -> DrawnInput:
        """Raises ParseError for a text that is no type, or whose bound is no positive number."""
        from graphc.errors import ParseError

        extents = text.partition("[")[2].partition("]")[0].split(",")
        matches = [(axis, _NAMED.match(extent.strip())) for axis, extent in enumerate(extents)]
        names = {axis: match[1] for axis, match in matches if match is not None}
        kind, sign, bound = (_NAMED.sub("", text) if names else text).partition("<")
        type = TensorType.parse(kind.strip())
        if not sign:
            return DrawnInput(type, names=names)
        number = bound.strip()
        if not number.isdecimal() or int(number) < 1 or type.dtype.is_float:
            raise ParseError(
                f"{text!r}: behind < stands a whole number from 1 on, for integers",
                hint="i64[16]<10 is drawn from 0 to 9",
            )
        return DrawnInput(type, int(number), names)

    def draw(self, generator: np.random.Generator) -> Array:
        dtype, shape = self.type.dtype.numpy, self.type.shape
        if self.below is not None:
            return np.asarray(generator.integers(0, self.below, shape)).astype(dtype)
        if self.type.dtype.is_float:
            return np.asarray(generator.standard_normal(shape)).astype(dtype)
        return np.zeros(shape, dtype)


def drawn(inputs: Sequence[DrawnInput], seed: int = 0) -> list[Array]:
    """An array for each input, the same ones for the same seed."""
    generator = np.random.default_rng(seed)
    return [each.draw(generator) for each in inputs]
