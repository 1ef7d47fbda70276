"""`frontend.compile`: the same function, run as native code.

The first call with a new signature traces and compiles; later ones look the entry up, check its
guards, bind arrays and run. A function that calls `backward()` itself (a training step) becomes
one entry; one whose results require gradients becomes a forward and a backward entry.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from frontend import tree
from frontend.graph_function import TracedFunction
from frontend.guards import GradGuard, TensorsGuard
from frontend.on_tape import Elided
from frontend.sources import ArgumentSource, CapturedSource, GradSource, HostSource, Source
from frontend.state import STATE
from frontend.tensor import Tensor, make
from frontend.tracer import Trace, name_of, run_trace
from graphc.errors import ArgumentError, TraceError
from graphc.ir.builder import user_location
from graphc.ir.nodes import Graph

LEVELS = ("none", "exact", "relaxed")


def compile_graph(graph: Graph, level: str) -> Any:
    """An executable of a graph (replaceable in tests)."""
    import graphc

    return graphc.compile(graph, level)


class Entry:
    """One compiled signature: inputs and where they come from, guards, where results go."""

    def __init__(self, traced: Trace, owner: CompiledFunction, grad_enabled: bool):
        self.owner = owner
        self.calls = 0
        self.seconds = 0.0
        self.executables: list[Any] = []
        session = traced.session
        slots = sorted(session.slots, key=lambda slot: _ORDER[type(slot.source)])
        order = {id(slot): position for position, slot in enumerate(slots)}
        self.names = [slot.name for slot in slots]
        self.sources = [slot.source for slot in slots]
        self.structure = traced.structure
        self.returned = [(r.position, r.source) for r in traced.returned]
        self.updated = [order[id(slot)] for slot in traced.updated]
        self.grads = traced.grads
        self.taps = [fn for _, fn in session.taps]
        self.first_tap = traced.first_tap
        self.first_update = traced.first_update
        self.positions = [s.position for s in self.sources if isinstance(s, ArgumentSource)]
        self.captured = [s.captured for s in self.sources if isinstance(s, CapturedSource)]
        self.others = self.sources[len(self.positions) + len(self.captured) :]
        loose = [target for target, _, _ in self.grads if isinstance(target, Tensor)]
        self.guards = [*session.guards, TensorsGuard([*self.captured, *loose])]
        self.grad_guards = [
            GradGuard(_source_of(session, tensor), none) for tensor, none in session.grad_guards
        ]
        self.trains = session.backward_called
        self.function: TracedFunction | None = None
        with session:
            results = [r.tensor for r in traced.returned if r.source is None]
            differentiable = grad_enabled and not self.trains
            differentiable &= any(tensor._requires_grad for tensor in results)
            inputs = [(slot.name, slot.tensor, slot.var) for slot in slots]
            first = traced.first_update
            updates = [
                (traced.outputs[first + i], position) for i, position in enumerate(self.updated)
            ]
            if not differentiable:
                aliases = [(first + i, position) for i, position in enumerate(self.updated)]
                outputs = traced.outputs
                if not owner.keep_grads:
                    outputs = self._without_grads(traced)
                named = [(name, var) for name, _, var in inputs]
                self.graph = session.builder.snapshot(named, outputs, aliases)
                self.types = self.graph.output_types
        if differentiable:
            tapped = [tensor for tensor, _ in session.taps]
            self.function = TracedFunction(
                session, session.builder.name, inputs, [*results, *tapped], updates, self._compile
            )
            self.results = len(results)
        else:
            self.executable = self._compile(self.graph)

    def _without_grads(self, traced: Trace) -> list[Any]:
        """The outputs without gradients; taps move up."""
        self.grads = [(target, None if p is None else -1, kind) for target, p, kind in self.grads]
        count = self.first_update + len(self.updated)
        self.first_tap = count
        return traced.outputs[:count] + traced.outputs[traced.first_tap :]

    def _compile(self, graph: Graph) -> Any:
        started = time.perf_counter()
        made = compile_graph(graph, self.owner.level)
        self.seconds += time.perf_counter() - started
        self.executables.append(made)
        return made

    # -- guards ------------------------------------------------------------------------------

    def holds(self, arguments: Sequence[Tensor]) -> bool:
        if not all([guard.holds() for guard in self.guards]):
            return False
        return all([guard.holds_for(arguments) for guard in self.grad_guards])

    def broken(self, arguments: Sequence[Tensor]) -> str:
        """Why the entry does not hold."""
        reasons = [guard.reason() for guard in self.guards if not guard.holds()]
        reasons += [g.reason() for g in self.grad_guards if not g.holds_for(arguments)]
        return "; ".join(reasons)

    # -- calling -----------------------------------------------------------------------------

    def call(self, arguments: Sequence[Tensor]) -> Any:
        self.calls += 1
        arrays = [arguments[position]._value for position in self.positions]
        arrays += [tensor._value for tensor in self.captured]
        arrays += [source.array(arguments) for source in self.others]
        if self.function is not None:
            return self._call_differentiable(self.function, arguments, arrays)
        values = self.executable(*arrays)
        self._count_updates(arguments)
        for target, position, kind in self.grads:
            tensor: Any = target if isinstance(target, Tensor) else target.tensor(arguments)
            if position is None:
                tensor._grad = None
            elif position < 0:
                tensor._grad = ELIDED
            else:
                tensor._grad = make(values[position], kind)
        for fn, position in zip(self.taps, range(self.first_tap, len(values))):
            fn(make(values[position], self.types[position]))
        return self._built(
            [
                make(values[position], self.types[position])
                if source is None
                else source.tensor(arguments)
                for position, source in self.returned
            ]
        )

    def _call_differentiable(
        self, function: TracedFunction, arguments: Sequence[Tensor], arrays: Sequence[Any]
    ) -> Any:
        tensors = [source.tensor(arguments) for source in self.sources]
        made = function(tensors, arrays)
        self._count_updates(arguments)
        for fn, value in zip(self.taps, made[self.results :]):
            fn(value)
        results = [
            made[position] if source is None else source.tensor(arguments)
            for position, source in self.returned
        ]
        return self._built(results)

    def _count_updates(self, arguments: Sequence[Tensor]) -> None:
        first, last = len(self.positions), len(self.positions) + len(self.captured)
        for position in self.updated:
            tensor: Any = (
                self.captured[position - first]
                if first <= position < last
                else self.sources[position].tensor(arguments)
            )
            tensor._counter[0] += 1

    def _built(self, results: list[Any]) -> Any:
        return results[0] if self.structure is tree.TENSOR else tree.build(
            self.structure, iter(results)
        )  # fmt: skip


ELIDED = Elided()
_ORDER = {ArgumentSource: 0, CapturedSource: 1, GradSource: 2, HostSource: 3}


def _source_of(session: Any, tensor: Tensor) -> Source:
    noted = session.noted.get(id(tensor))
    slot = noted.slot if noted is not None else None
    return slot.source if slot is not None else CapturedSource(tensor)


MANY_TRACES = 8
"""Traces of one signature after which a warning says what keeps changing."""


class CompiledFunction:
    """A function or Module that runs as native code; made by `frontend.compile`."""

    def __init__(self, function: Callable[..., Any], level: str, keep_grads: bool):
        self.function = function
        self.level = level
        self.keep_grads = keep_grads
        self._entries: dict[Any, list[Entry]] = {}
        self._history: list[str] = []
        if hasattr(function, "__name__"):
            functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if STATE.session is not None:
            return self.function(*arguments, **keywords)
        leaves: list[Tensor] = []
        structure = tree.flatten((arguments, keywords), leaves)
        identities = [id(leaf) for leaf in leaves]
        distinct = len(set(identities)) == len(identities)
        key = (
            structure,
            tuple([leaf.tensor_type for leaf in leaves]),
            tuple([leaf._requires_grad for leaf in leaves]),
            () if distinct else tuple([identities.index(i) for i in identities]),
            STATE.grad_enabled,
            STATE.default_dtype,
        )
        try:
            entries = self._entries.get(key)
        except TypeError as error:
            raise TypeError(
                f"an argument of compiled {name_of(self.function)} is neither tensor nor hashable: "
                f"{error}"
            ) from None
        for entry in entries or ():
            if entry.holds(leaves):
                return entry.call(leaves)
        return self._new_entry(key, leaves, structure).call(leaves)

    def _new_entry(self, key: Any, leaves: list[Tensor], structure: Any) -> Entry:
        entries = self._entries.get(key, [])
        if entries:
            reason = "again: " + (entries[0].broken(leaves) or "a guard failed")
        else:
            reason = "first call" if not self._entries else "new signature"
        traced = run_trace(self.function, leaves, structure, name_of(self.function))
        _check_overlap(traced, leaves)
        entry = Entry(traced, self, STATE.grad_enabled)
        # The newest first: alternating signatures keep their entries.
        self._entries[key] = [entry, *entries]
        types = ", ".join(map(str, key[1]))
        self._history.append(f"{reason} ({types}) at {user_location()}")
        _log(f"{name_of(self.function)} traced: {self._history[-1]}")
        if len(entries) + 1 == MANY_TRACES:
            warnings.warn(
                f"compiled {name_of(self.function)} was traced {MANY_TRACES} times for one "
                f"signature, last {reason}; explain() lists all reasons",
                stacklevel=3,
            )
        return entry

    @property
    def entries(self) -> list[Entry]:
        """All compiled entries."""
        return [entry for entries in self._entries.values() for entry in entries]

    @property
    def compile_seconds(self) -> float:
        """Time spent in the compiler so far (tracing not included)."""
        return sum(entry.seconds for entry in self.entries)

    def explain(self) -> str:
        """Each compiled entry, what it froze, and why it was traced."""
        lines = [f"{name_of(self.function)}: {len(self.entries)} entries, level {self.level}"]
        lines += [f"traced {i + 1}: {text}" for i, text in enumerate(self._history)]
        for number, (key, entry) in enumerate(
            (key, entry) for key, entries in self._entries.items() for entry in entries
        ):
            kind = "one entry, with backward" if entry.trains else "one entry"
            if entry.function is not None:
                kind = "forward and backward entries"
            lines.append(f"entry {number}: ({', '.join(map(str, key[1]))}) {kind}, "
                         f"{entry.calls} calls, compiled in {entry.seconds:.3f} s")  # fmt: skip
            lines.append(f"  inputs: {', '.join(entry.names)}")
            updated = [entry.names[position] for position in entry.updated]
            if updated:
                lines.append(f"  updated in place: {', '.join(updated)}")
            lines += [f"  frozen: {guard}" for guard in entry.guards]
        return "\n".join(lines)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "function" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {name_of(self.function)}: {len(self.entries)} entries>"


def _log(message: str) -> None:
    """Say so on the logger `frontend.compile`, imported here since few programs listen."""
    import logging

    logging.getLogger("frontend.compile").info(message)


def _check_overlap(traced: Trace, leaves: Sequence[Tensor]) -> None:
    """Raise where an input changed in place shares memory with another input."""
    import numpy as np

    arrays = [
        (slot, slot.source.array(leaves))
        for slot in traced.session.slots
        if not isinstance(slot.source, HostSource)
    ]
    for slot in traced.updated:
        array = next(array for other, array in arrays if other is slot)
        for other, second in arrays:
            if other is not slot and np.may_share_memory(array, second):
                raise ArgumentError(
                    f"{slot.name!r} is changed in place and shares memory with {other.name!r}",
                    hint="pass a copy of one of them",
                    location=user_location(),
                )


def is_compiling() -> bool:
    """Whether a trace is under way."""
    return STATE.session is not None


def disable(function: Any = None, recursive: bool = True) -> Any:
    """A function (or Module) that always runs eagerly: `compile` leaves it as it is, and calling it
    inside a compiled function is a TraceError, since a graph has no place for it."""
    if function is None:
        return disable
    target = getattr(function, "forward", function)
    name = name_of(function)

    @functools.wraps(target)
    def eager(*arguments: Any, **keywords: Any) -> Any:
        if STATE.session is not None:
            raise TraceError(
                f"{name} is marked to run eagerly (compiler.disable) and was called in a trace",
                hint="compile the parts before and after it, or run the whole eagerly: "
                "compile(..., disable=True)",
                location=user_location(),
            )
        return target(*arguments, **keywords)

    eager._runs_eagerly = True  # type: ignore[attr-defined]
    if target is function:
        return eager
    function.forward = eager
    return function


def compile(
    function: Any = None, *, level: str = "exact", keep_grads: bool = True, disable: bool = False,
    **ignored: Any,
) -> Any:  # fmt: skip
    """`function` (or a Module) as native code: `compile(model)`, `@compile`, `@compile(level=…)`.

    `level`: "none" (one kernel per op), "exact" (same bits as any other exact run), "relaxed".
    With `keep_grads=False` gradients a training step leaves behind are not written to `.grad`, so
    the update can be fused with what makes them; reading `.grad` then raises. With `disable` the
    function stays as it is. PyTorch's other options (`mode`, `backend`, …) are accepted and have no
    effect. Raises ValueError for an unknown level.
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    unknown = ignored.keys() - {"fullgraph", "dynamic", "backend", "mode", "options"}
    if unknown:
        raise TypeError(f"compile() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    if function is None:
        return lambda target: compile(
            target, level=level, keep_grads=keep_grads, disable=disable
        )
    if not callable(function):
        raise TypeError(f"compile() takes a function or Module, not {type(function).__name__}")
    if disable or getattr(getattr(function, "forward", function), "_runs_eagerly", False):
        return function
    return CompiledFunction(function, level, keep_grads)
