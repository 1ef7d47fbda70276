"""`frontend.compile`: the same function, run as native code.

The first call with a new signature traces and compiles; later ones look the entry up, check its
guards, bind arrays and run. A function that calls `backward()` itself (a training step) becomes
one entry; one whose results require gradients becomes a forward and a backward entry.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from frontend.compiled.specialization import LastCall, Specialization
from frontend.tensors.epoch import TRACING
from frontend.tensors.state import STATE
from frontend.tensors.tensor import Tensor
from frontend.tracing import tree
from frontend.tracing.sources import HostSource
from frontend.tracing.tracer import Trace, name_of, run_trace
from graphc.errors import ArgumentError, TraceError
from graphc.ir.builder import user_location
from graphc.runtime.processors import checked_threads

LEVELS = ("none", "exact", "relaxed")


MANY_TRACES = 8
"""Traces of one signature after which a warning says what keeps changing."""


class CompiledFunction:
    """A function or Module that runs as native code; made by `frontend.compile`."""

    def __init__(
        self, function: Callable[..., Any], level: str, keep_grads: bool,
        threads: int | None = None, max_bytes: int | None = None,
        saved_bytes: int | None = None,
    ):  # fmt: skip
        self.function = function
        self.saved_bytes = saved_bytes
        self.threads = threads
        self.max_bytes = max_bytes
        self.level = level
        self.keep_grads = keep_grads
        self._last: LastCall | None = None
        self._entries: dict[Any, list[Specialization]] = {}
        self._history: list[str] = []
        if hasattr(function, "__name__"):
            functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        last = self._last
        if last is not None and not keywords and last.fits(arguments):
            return last.entry.call(arguments)
        if STATE.session is not None:
            return self.function(*arguments, **keywords)
        leaves: list[Tensor] = []
        structure = tree.flatten((arguments, keywords), leaves)
        identities = [id(leaf) for leaf in leaves]
        distinct = len(set(identities)) == len(identities)
        key = (
            structure,
            tuple([leaf.tensor_type for leaf in leaves]),
            tuple([leaf.__class__ for leaf in leaves]),
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
                break
        else:
            entry = self._entry(key, leaves, structure)
            if not entry.holds(leaves):
                raise TraceError(
                    f"tracing {name_of(self.function)} changed what the trace relies on: "
                    f"{entry.broken(leaves)}",
                    hint="compiled code does not repeat what Python does: assign it outside, or "
                    "keep what changes from call to call in a tensor that is changed in place",
                    location=user_location(),
                )
        plain = not keywords and len(leaves) == len(arguments) and distinct
        self._last = LastCall(entry, leaves) if plain else None
        return entry.call(leaves)

    def _entry(self, key: Any, leaves: list[Tensor], structure: Any) -> Specialization:
        """A new entry, or one that another thread made in the meantime."""
        with TRACING.making:
            for entry in self._entries.get(key, ()):
                if entry.holds(leaves):
                    return entry
            return self._new_entry(key, leaves, structure)

    def _new_entry(self, key: Any, leaves: list[Tensor], structure: Any) -> Specialization:
        entries = self._entries.get(key, [])
        if entries:
            reason = "again: " + (entries[0].broken(leaves) or "a guard failed")
        else:
            reason = "first call" if not self._entries else "new signature"
        traced = run_trace(self.function, leaves, structure, name_of(self.function))
        _check_overlap(traced, leaves)
        entry = Specialization(traced, self, bool(STATE.grad_enabled))
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
    def entries(self) -> list[Specialization]:
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
            lines += [f"  {text}" for text in entry.explain_saved()]
            for executable in entry.executables:
                phases = (f"{name} {time:.3f} s" for name, time in executable.timings.items())
                lines.append(f"  {executable.graph.name}: {', '.join(phases)}")
                lines += [f"  {executable.schedule}", f"  {executable.explain_memory()}"]
                lines += [f"  {line}" for line in executable.explain_layouts()]
            lines += [f"  frozen: {t}" for guard in entry.guards for t in str(guard).splitlines()]
        return "\n".join(lines)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "function" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> Any:
        """Copies and pickles have the function and the options; they compile anew."""
        options = self.level, self.keep_grads, self.threads, self.max_bytes, self.saved_bytes
        return type(self), (self.function, *options)

    def __repr__(self) -> str:
        return f"<compiled {name_of(self.function)}: {len(self.entries)} entries>"


def _log(message: str) -> None:
    """Say so on the logger `frontend.compile`, imported here since few programs listen."""
    import logging

    logging.getLogger("frontend.compile").info(message)


def _check_overlap(traced: Trace, leaves: Sequence[Tensor]) -> None:
    """Raise where an input changed in place shares memory with another input."""
    import numpy as np

    slots = [s for s in traced.session.slots if not isinstance(s.source, HostSource)]
    updated = {id(slot) for slot in traced.updated}
    arrays = [slot.source.array(leaves) for slot in slots]
    spans = sorted(
        (*np.lib.array_utils.byte_bounds(array), place)
        for place, array in enumerate(arrays) if array.size
    )  # fmt: skip
    for number, (_, end, place) in enumerate(spans):
        for start, _, other in spans[number + 1 :]:
            if start >= end:
                break
            changed = [i for i in sorted((place, other)) if id(slots[i]) in updated]
            if changed:
                beside = slots[place + other - changed[0]]
                raise ArgumentError(
                    f"{slots[changed[0]].name!r} is changed in place and shares memory with "
                    f"{beside.name!r}",
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
    threads: int | None = None, max_bytes: int | None = None, saved_bytes: int | None = None,
    **ignored: Any,
) -> Any:  # fmt: skip
    """`function` (or a Module) as native code: `compile(model)`, `@compile`, `@compile(level=…)`.

    `level`: "none" (one kernel per op), "exact" (same bits as any other exact run), "relaxed".
    With `keep_grads=False` gradients a training step leaves behind are not written to `.grad`, so
    the update can be fused with what makes them; reading `.grad` then raises. With `disable` the
    function stays as it is. `threads`: the most threads a call may run on, None for all processors
    this process may use; small work runs on one, and the bits are the same on any. `max_bytes`: the
    most memory a call may take for what lies between its inputs and results; a function that needs
    more raises MemoryLimitError at its first call and has run nothing. `saved_bytes`: the most
    memory for what forward keeps for backward (of each `backward()`, in a training step); what does
    not fit is computed again, to the same bits; MemoryLimitError where it cannot be. PyTorch's
    other options (`mode`, `backend`, …) are accepted and have no effect. Raises ValueError for an
    unknown level, TypeError or ValueError for `threads` and `saved_bytes`.
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    threads = checked_threads(threads)
    if saved_bytes is not None and (type(saved_bytes) is not int or saved_bytes < 0):
        kind = ValueError if type(saved_bytes) is int else TypeError
        raise kind(f"saved_bytes must be a number of bytes, 0 or more, not {saved_bytes!r}")
    unknown = ignored.keys() - {"fullgraph", "dynamic", "backend", "mode", "options"}
    if unknown:
        raise TypeError(f"compile() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    if function is None:
        return lambda target: compile(
            target, level=level, keep_grads=keep_grads, disable=disable, threads=threads,
            max_bytes=max_bytes, saved_bytes=saved_bytes,
        )  # fmt: skip
    if not callable(function):
        raise TypeError(f"compile() takes a function or Module, not {type(function).__name__}")
    if disable or getattr(getattr(function, "forward", function), "_runs_eagerly", False):
        return function
    return CompiledFunction(function, level, keep_grads, threads, max_bytes, saved_bytes)
