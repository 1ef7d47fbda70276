"""Executable: a compiled graph of fixed sizes that is called with NumPy arrays.

One call is one foreign call (`native_call`): the arrays' pointers go into a table, the driver runs
the kernels over a block of planned memory. Memory of a call belongs to that call, so Python threads
may call one executable at once.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.codegen.program.barrier import PADDING
from graphc.codegen.program.host_kernels import calling_back
from graphc.codegen.program.native_program import verdict_start
from graphc.codegen.target import Target
from graphc.errors import ArgumentError, GraphError
from graphc.ir.builder import user_location
from graphc.ir.nodes import Graph
from graphc.ir.types import Shape, TensorType
from graphc.runtime.allocator import keep_freed_memory
from graphc.runtime.blocks import uninitialised
from graphc.runtime.native_call import NO_WORKERS, CallFrame, SlotTable, entering, slot_table
from graphc.runtime.pool import CELL, ensure
from graphc.runtime.program import Details, Program
from graphc.schedule.memory import summary
from graphc.schedule.plan import Plan
from graphc.system import IMPORTING

Array = np.ndarray[Any, Any]

CACHE_LINE = 64
ALIGNED_FROM = 1 << 16
"""Bytes from which an output is worth aligning."""


class Executable:
    """Call it with one array per graph input: `outputs = executable(*arrays)`.

    Arrays must have the inputs' shapes and dtypes, or be complex numbers for pairs of reals along a
    last axis; any strides are accepted. Outputs are fresh
    arrays, except those that update an input in place: that input's array is written and returned.
    Raises ArgumentError for arrays that do not fit, IndexRangeError for an index out of range;
    then no argument has been written.
    """

    def __init__(
        self,
        graph: Graph,
        program: Program,
        details: Details,
        target: Target,
        timings: dict[str, float],
        like: Executable | None = None,
    ):
        """`like`: that of the same program at other sizes."""
        keep_freed_memory()
        self._graph = graph
        self.target = target
        self.timings = timings
        self.schedule = program.native.schedule
        self._program = program
        self._details = details
        self._types = [(type.dtype.numpy, type.shape) for type in program.argument_types]
        self._updated = {target: output for output, target in program.aliases}
        aliased = dict(program.aliases)
        self._fresh_outputs = fresh_outputs = [
            i for i in range(len(program.output_types)) if i not in aliased
        ]
        self._fresh = [
            (_aligned if type.nbytes >= ALIGNED_FROM else np.empty, type.shape, type.dtype.numpy)
            for type in (program.output_types[output] for output in fresh_outputs)
        ]
        first = len(program.argument_types)
        self._slots: SlotTable = slot_table(
            program.argument_types, set(self._updated),
            [first + output for output in fresh_outputs], None if like is None else like._slots,
        )  # fmt: skip
        # Where each output lies among the arguments and the fresh arrays behind them.
        at = {output: first + number for number, output in enumerate(fresh_outputs)}
        results = [{**aliased, **at}[i] for i in range(len(program.output_types))]
        self._results = _tuple_of(results)
        self._frames: list[CallMemory] = []

    @property
    def graph(self) -> Graph:
        """The graph as it was given."""
        return self._graph

    @property
    def _names(self) -> tuple[str, ...]:
        """Names of the inputs, for messages."""
        return tuple(self._graph.input_names)

    def __repr__(self) -> str:
        program = self._program
        return (
            f"<Executable {self.graph.name}: {program.launches} kernels, "
            f"{program.arena_bytes} bytes>"
        )

    @property
    def memory_bytes(self) -> int:
        """Bytes of a call's own memory: intermediate values, and scratch of each thread."""
        return self._program.native.block_bytes

    def explain_memory(self) -> str:
        """One line on the memory plan."""
        return summary(self._program.arena_bytes, self._program.arena_lower_bound)

    def explain_layouts(self) -> list[str]:
        """One line for each matrix that is stored as the products that read it like it."""
        with IMPORTING:
            from graphc.passes.layouts import described

        return described(self.optimised)

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self._read()[1]

    @property
    def optimised(self) -> Graph:
        """The graph after all passes."""
        return self._read()[0]

    @property
    def loaded_plan(self) -> Plan:
        """The plan whose kernels are loaded: that of unknown sizes, where `sizes` are given."""
        return self.plan

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that the loaded plan leaves open, and what they are here."""
        return {}

    def _read(self) -> tuple[Graph, Plan]:
        """The details, read once."""
        details = self._details()
        self._details = lambda: details
        return details

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        return self.run(list(arrays))

    def run(
        self, arrays: list[Any], places: Sequence[Array | None] | None = None
    ) -> tuple[Array, ...]:
        """The same for a list, which is used up. Where an interrupt comes when native code has run,
        what was raised has the results as its attribute `written`: inputs are updated. `places[i]`
        is where output i is written that updates no input, if it is a contiguous array of its type
        (in which no argument lies), else a fresh one."""
        if places is None:
            for make, shape, dtype in self._fresh:
                arrays.append(make(shape, dtype))
        else:
            self._append_places(arrays, places)
        try:
            frame = self._frames.pop()  # one step, so that two threads never get the same frame
        except IndexError:
            frame = self._new_frame()
        frame.calls += 1
        try:
            status = frame.enter(arrays)
            if status:
                self._recover(frame, status, arrays)
            self._frames.append(frame)
            return self._results(arrays)
        except BaseException as error:  # an interrupt, also one that waited for native code to end
            if frame.has_finished:
                error.written = self._results(arrays)  # type: ignore[attr-defined]
            raise

    def _append_places(self, arrays: list[Any], places: Sequence[Array | None]) -> None:
        for (make, shape, dtype), output in zip(self._fresh, self._fresh_outputs):
            place = places[output]
            if (
                place is None
                or not place.flags.carray
                or (place.shape, place.dtype) != (shape, dtype)
            ):
                place = make(shape, dtype)
            arrays.append(place)

    def _new_frame(self) -> CallMemory:
        return CallMemory(self, self._block(self._program.native.block_bytes + PADDING))

    @property
    def result_types(self) -> tuple[TensorType, ...]:
        """The types of the results."""
        return self._program.output_types

    def memory_of_direct_calls(self) -> CallMemory | None:
        """Memory for calls that do not come through `run` (see `direct_call`). None where a call
        does more than to read its arguments and fill small new arrays."""
        program = self._program
        small = all([make is np.empty for make, _, _ in self._fresh])
        small &= program.native.block_bytes < ALIGNED_FROM
        return (
            self._new_frame() if small and not self._updated and not program.native.hosts else None
        )

    def _block(self, count: int) -> Array:
        """Memory of so many bytes for a call."""
        return uninitialised(count)

    def _recover(self, frame: CallMemory, status: int, arrays: list[Any]) -> None:
        """What native code could not take as it is: arrays of other layouts are copied and the call
        is made again, as it is where workers had to be made; the rest is an error."""
        if status == NO_WORKERS:
            status = self._entered(arrays, frame)
            if not status:
                return
        if status < 0 and self._view_pairs(arrays):
            status = self._entered(arrays, frame)
            if not status:
                return
        if status > 0:
            raise self._failure(frame, status - 1)
        arguments = arrays[: len(arrays) - len(self._fresh)]
        if len(arguments) != len(self._types):
            raise self._refused(
                f"takes {len(self._types)} arrays ({', '.join(self._names)}), not {len(arguments)}"
            )
        ready = [self._prepared(slot, array) for slot, array in enumerate(arguments)]
        self._check_overlap(arguments)
        items = [*ready, *arrays[len(arguments) :]]
        status = self._entered(items, frame)
        if status < 0:
            raise self._refused(f"internal: native code refused prepared arrays ({status})")
        if status:
            raise self._failure(frame, status - 1)
        for slot in self._updated:
            if ready[slot] is not arguments[slot]:
                arguments[slot][...] = ready[slot]

    def _entered(self, arrays: list[Any], frame: CallMemory) -> int:
        """A call with workers made first, where they are missing and can be had."""
        if frame.threads > max(CELL.size, 1) and not ensure(frame.threads):
            frame.threads = 1
        return int(frame.enter(arrays))

    def _refused(self, message: str, hint: str | None = None) -> ArgumentError:
        """The error for arguments that cannot be taken, with the caller's line."""
        return ArgumentError(f"{self.graph.name}: {message}", hint=hint, location=user_location())

    def _view_pairs(self, arrays: list[Any]) -> bool:
        """Put views of their parts in place of arrays of complex numbers, for inputs of pairs.
        Whether there were such arrays."""
        has_pairs = False
        for slot, ((dtype, shape), array) in enumerate(zip(self._types, arrays)):
            if isinstance(array, np.ndarray) and array.dtype.kind == "c":
                if array.real.dtype == dtype and (*array.shape, 2) == shape:
                    arrays[slot] = array[..., None].view(dtype)
                    has_pairs = True
        return has_pairs

    def _prepared(self, slot: int, array: Any) -> Array:
        """The array itself if native code can take it as it is, else a contiguous copy."""
        dtype, shape = self._types[slot]
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
            raise self._refused(
                f"argument {self._names[slot]!r} is {described(array)}, "
                f"expected {dtype.name}{list(shape)}"
            )
        if slot in self._updated and not array.flags.writeable:
            raise self._refused(
                f"argument {self._names[slot]!r} is updated in place, "
                "and the array given is read-only"
            )
        if type(array) is not np.ndarray or array.dtype is not dtype:
            array = np.asarray(array).view(dtype)  # the same memory, as a plain array
        if not (array.flags.c_contiguous and array.flags.aligned):
            array = np.require(array, requirements=("C", "A"))
        ready: Array = array
        return ready

    def _check_overlap(self, arguments: list[Array]) -> None:
        """An updated argument must not share memory with another one."""
        spans = sorted(
            (*np.lib.array_utils.byte_bounds(array), slot) for slot, array in enumerate(arguments)
        )
        for position, (_, end, slot) in enumerate(spans):
            for start, _, other in spans[position + 1 :]:
                if start >= end:
                    break
                updated = [i for i in (slot, other) if i in self._updated]
                if updated and _share_memory(arguments[slot], arguments[other]):
                    first = updated[0]
                    raise self._refused(
                        f"argument {self._names[first]!r} is updated in place "
                        f"and shares memory with {self._names[slot + other - first]!r}",
                        hint="pass a copy of one",
                    )

    def _failure(self, frame: CallMemory, number: int) -> GraphError:
        least, greatest = frame.verdict()
        return self._program.checks[number].error(least, greatest)


def _tuple_of(positions: list[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """The function that takes these items of a list."""
    if not positions:
        return lambda items: ()
    if len(positions) == 1:
        (only,) = positions
        return lambda items: (items[only],)
    return operator.itemgetter(*positions)


def _aligned(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """An uninitialised array that starts at a cache line. NumPy aligns to 16 bytes, and vectors
    that lie across two lines halve what L1 delivers."""
    count = math.prod(shape)
    spare = CACHE_LINE // dtype.itemsize
    block = np.empty(count + spare, dtype)
    first = -block.__array_interface__["data"][0] % CACHE_LINE // dtype.itemsize
    return block[first : first + count].reshape(shape)


class CallMemory:
    """The memory of one call: the driver's pointer table, and the block of arena and scratch, which
    lies in `memory`."""

    def __init__(self, owner: Executable, memory: Array):
        program = owner._program
        arguments, outputs = len(program.argument_types), len(program.output_types)
        count = arguments + outputs + len(program.constants)
        self.table: Any = (ctypes.c_void_p * (count + 1))()
        native = program.native
        self.memory = memory
        start = -self.memory.ctypes.data % PADDING
        self._verdict = verdict_start(native.arena_bytes)
        self._block = self.memory.ctypes.data + start
        self._constants = [constant.array for constant in program.constants]
        for slot, array in enumerate(self._constants):
            self.table[arguments + outputs + slot] = array.ctypes.data
        self._sizes = (ctypes.c_int64 * max(len(program.table), 1))(*program.table)
        self.table[count] = ctypes.addressof(self._sizes)
        self._call = CallFrame(
            arguments + len(owner._fresh), arguments,
            ctypes.addressof(owner._slots.slots), ctypes.addressof(self.table),
            self._block, native.address, id(np.ndarray),
            bool(owner._updated), owner.schedule.threads, ctypes.addressof(CELL),
        )  # fmt: skip
        self.calls = 0
        self.call_address = ctypes.addressof(self._call)
        self.enter = entering(self._call)
        if native.hosts:
            self.enter = calling_back(self.enter, self._block, self.memory.nbytes)

    @property
    def has_finished(self) -> bool:
        """Whether the last call went through to its end."""
        return int(self._call.finished) == self.calls

    @property
    def threads(self) -> int:
        """Threads of a call with this memory."""
        return int(self._call.threads)

    @threads.setter
    def threads(self, count: int) -> None:
        self._call.threads = count

    def behind(self, start: int) -> Array:
        """The bytes of the block from `start` on."""
        return self.memory[self._block - self.memory.ctypes.data + start :]

    def verdict(self) -> tuple[int, int]:
        """The least and greatest value seen by the content check that failed."""
        start = self._block + self._verdict
        least, greatest = (ctypes.c_int64 * 2).from_address(start)
        return least, greatest


def _share_memory(one: Array, other: Array) -> bool:
    """Whether two arrays whose bounds overlap have an element in common; yes where that is too
    hard to tell."""
    effort: Any = 1000  # any number is taken; NumPy's annotations list two
    try:
        return bool(np.shares_memory(one, other, max_work=effort))
    except np.exceptions.TooHardError:
        return True


def described(array: Any) -> str:
    """An argument in messages, whatever it is."""
    if not isinstance(array, np.ndarray):
        return f"a {type(array).__name__}"
    return f"{array.dtype.name}{list(array.shape)}"
