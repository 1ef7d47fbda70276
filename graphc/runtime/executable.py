"""Executable: a compiled graph that is called with NumPy arrays.

One call is one foreign call: pointers to arguments and outputs go into a table, the driver runs
the kernels over a block of planned memory. Memory of a call belongs to that call, so Python threads
may call one executable at once.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np

from graphc.codegen.link import Entry, link
from graphc.codegen.target import Target, host
from graphc.errors import ArgumentError, GraphError
from graphc.ir.builder import user_location
from graphc.ir.nodes import Graph
from graphc.schedule.build import Observer, plan_graph
from graphc.schedule.plan import Check, Plan

Array = np.ndarray[Any, Any]

# Stands in `_Frame.bound` for no array; None would be equal to an argument of None.
_UNBOUND: Any = object()

_DRIVER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


def compile(
    graph: Graph,
    level: str = "exact",
    *,
    target: Target | None = None,
    observer: Observer | None = None,
) -> Executable:
    """Compile a graph to native code.

    `level`: `none` (a kernel per op), `exact` (all passes and fusion, same bits for any layout and
    number of threads), `relaxed`. `observer(stage, object)` is called between the stages with the
    graph after each pass and the plan. Raises GraphError for a graph that breaks the rules.
    """
    if not isinstance(graph, Graph):
        raise GraphError(
            f"graphc.compile takes a Graph, not {type(graph).__name__}",
            hint="frontend.compile for a Python function or Module",
        )
    started = time.perf_counter()
    optimised, plan = plan_graph(graph, level, observer)
    planned = time.perf_counter()
    chosen = target or host()
    entry = link(plan, chosen)
    timings = {"plan": planned - started, **entry.timings}
    return Executable(graph, optimised, plan, entry, chosen, timings)


class Executable:
    """Call it with one array per graph input: `outputs = executable(*arrays)`.

    Arrays must have the inputs' shapes and dtypes; any strides are accepted. Outputs are fresh
    arrays, except those that update an input in place: that input's array is written and returned.
    Raises ArgumentError for arrays that do not fit, IndexRangeError for an index out of range;
    then no argument has been written.
    """

    def __init__(
        self,
        graph: Graph,
        optimised: Graph,
        plan: Plan,
        entry: Entry,
        target: Target,
        timings: dict[str, float],
    ):
        self.graph = graph
        self.optimised = optimised
        self.plan = plan
        self.target = target
        self.timings = timings
        self._entry = entry
        self._driver = _DRIVER(entry.address)
        self._names = graph.input_names
        self._types = [(type.dtype.numpy, type.shape) for type in plan.argument_types]
        self._updated = {target: output for output, target in plan.aliases}
        self._fresh = [
            (position, type.shape, type.dtype.numpy)
            for position, type in enumerate(plan.output_types)
            if position not in dict(plan.aliases)
        ]
        self._frames: list[_Frame] = []

    def __repr__(self) -> str:
        kernels = sum(not isinstance(step, Check) for step in self.plan.steps)
        return f"<Executable {self.graph.name}: {kernels} kernels, {self.plan.arena_bytes} bytes>"

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        if len(arrays) != len(self._types):
            raise self._refused(
                f"takes {len(self._types)} arrays ({', '.join(self._names)}), not {len(arrays)}"
            )
        try:
            frame = self._frames.pop()  # one step, so that two threads never get the same frame
        except IndexError:
            frame = _Frame(self.plan, self._entry.block_bytes)
        try:
            return self._run(frame, arrays)
        except BaseException:
            # Half bound: the next call must not take an argument for checked.
            frame.bound = [_UNBOUND] * len(arrays)
            raise
        finally:
            frame.copies.clear()
            self._frames.append(frame)

    def _run(self, frame: _Frame, arrays: tuple[Any, ...]) -> tuple[Array, ...]:
        table, bound = frame.table, frame.bound
        late: list[tuple[Array, Array]] = []
        rebound = False
        for slot, array in enumerate(arrays):
            if array is bound[slot] and self._still_fits(slot, array):
                continue
            ready = self._prepared(slot, array)
            table[slot] = ready.ctypes.data
            rebound = True
            if ready is array:
                bound[slot] = array
            else:
                # A copy lives for this call only; an updated argument gets its content back.
                bound[slot] = _UNBOUND
                frame.copies[slot] = ready
                if slot in self._updated:
                    late.append((array, ready))
        if rebound and self._updated:
            self._check_overlap(frame, arrays)
        outputs: list[Any] = [None] * len(self.plan.output_types)
        first = len(arrays)
        for position, shape, dtype in self._fresh:
            fresh = outputs[position] = np.empty(shape, dtype)
            table[first + position] = fresh.ctypes.data
        failed = self._driver(frame.table_address, frame.block_address)
        if failed:
            raise self._failure(frame, failed - 1)
        for array, ready in late:
            array[...] = ready
        for slot, position in self._updated.items():
            outputs[position] = arrays[slot]
        return tuple(outputs)

    def _refused(self, message: str, hint: str | None = None) -> ArgumentError:
        """The error for arguments that cannot be taken, with the caller's line."""
        return ArgumentError(f"{self.graph.name}: {message}", hint=hint, location=user_location())

    def _still_fits(self, slot: int, array: Array) -> bool:
        """Whether an array seen before can be used again: its shape and flags may be set."""
        writeable = slot not in self._updated or array.flags.writeable
        return writeable and array.shape == self._types[slot][1]

    def _prepared(self, slot: int, array: Any) -> Array:
        """The array itself if native code can take it as it is, else a contiguous copy."""
        dtype, shape = self._types[slot]
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
            raise self._refused(
                f"argument {self._names[slot]!r} is {_described(array)}, "
                f"expected {dtype.name}{list(shape)}"
            )
        if slot in self._updated and not array.flags.writeable:
            raise self._refused(
                f"argument {self._names[slot]!r} is updated in place, "
                "and the array given is read-only"
            )
        if array.flags.c_contiguous and array.flags.aligned:
            return array
        return np.require(array, requirements=("C", "A"))

    def _check_overlap(self, frame: _Frame, arrays: tuple[Array, ...]) -> None:
        """An updated argument must not share memory with another one."""
        spans = [
            (*np.lib.array_utils.byte_bounds(arrays[slot]), slot) if slot in frame.copies
            else (frame.table[slot] or 0, (frame.table[slot] or 0) + type.nbytes, slot)
            for slot, type in enumerate(self.plan.argument_types)
        ]  # fmt: skip
        spans.sort()
        for position, (_, end, slot) in enumerate(spans):
            for start, _, other in spans[position + 1 :]:
                if start >= end:
                    break
                updated = [i for i in (slot, other) if i in self._updated]
                if updated and _share_memory(arrays[slot], arrays[other]):
                    first = updated[0]
                    raise self._refused(
                        f"argument {self._names[first]!r} is updated in place "
                        f"and shares memory with {self._names[slot + other - first]!r}",
                        hint="pass a copy of one",
                    )

    def _failure(self, frame: _Frame, position: int) -> GraphError:
        check = self.plan.steps[position]
        assert isinstance(check, Check)
        least, greatest = (
            frame.view(self.plan.buffers[i]).item() for i in (check.least, check.greatest)
        )
        return check.error(least, greatest)


class _Frame:
    """The memory of one call: pointer table, and the block of arena and scratch."""

    def __init__(self, plan: Plan, block_bytes: int):
        count = len(plan.argument_types) + len(plan.output_types) + len(plan.constants)
        self.table: Any = (ctypes.c_void_p * max(count, 1))()
        self.table_address = ctypes.addressof(self.table)
        self.bound: list[Any] = [_UNBOUND] * len(plan.argument_types)
        self.copies: dict[int, Array] = {}
        self._memory = np.empty(block_bytes + 64, np.uint8)
        start = -self._memory.ctypes.data % 64
        self._block = self._memory[start:]
        self.block_address = self._memory.ctypes.data + start
        first = len(plan.argument_types) + len(plan.output_types)
        self._constants = [constant.array for constant in plan.constants]
        for slot, array in enumerate(self._constants):
            self.table[first + slot] = array.ctypes.data

    def view(self, buffer: Any) -> Array:
        """An arena buffer's content after a run."""
        raw = self._block[buffer.slot : buffer.slot + buffer.type.nbytes]
        content: Array = raw.view(buffer.type.dtype.numpy).reshape(buffer.type.shape)
        return content


def _share_memory(one: Array, other: Array) -> bool:
    """Whether two arrays whose bounds overlap have an element in common; yes where that is too
    hard to tell."""
    effort: Any = 1000  # any number is taken; NumPy's annotations list two
    try:
        return bool(np.shares_memory(one, other, max_work=effort))
    except np.exceptions.TooHardError:
        return True


def _described(array: Any) -> str:
    """An argument in messages, whatever it is."""
    if not isinstance(array, np.ndarray):
        return f"a {type(array).__name__}"
    return f"{array.dtype.name}{list(array.shape)}"
