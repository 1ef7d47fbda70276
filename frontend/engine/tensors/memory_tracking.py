"""Whether every write to a tensor's memory is counted, and who is told of one: what copies that
are kept of weights rest on (`compiled.packing`).

A version counter is a list `[count]`, shared by a tensor and its views; who writes raises it behind
the write. A counter that somebody asked about has a second item, the `Memory` it counts for. Writes
go uncounted where memory is *exposed*, taken in from outside or handed out; and they are counted by
another counter where `.data` made a tensor over it that counts for itself.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Protocol

import numpy as np

from graphc.references import other_references
from graphc.system import after_fork

Counter = list[Any]


class Copy(Protocol):
    """Something kept that was computed from a tensor's memory."""

    def drop(self) -> None:
        """Be kept no longer: the memory was, or may be, written."""


class Memory:
    """What is known of the memory that a counter counts for. `exposed`: it may be written without
    being counted, from now on. `generation` rises with each tensor that counts for itself, whose
    counters are `others`; `plain` says whether a counter is among them that cannot be observed.
    `copies` are told of writes."""

    __slots__ = ("copies", "exposed", "generation", "others", "plain")

    def __init__(self) -> None:
        self.exposed = False
        self.generation = 0
        self.plain = True
        self.others: list[weakref.ref[ObservedCounter]] = []
        self.copies: list[weakref.ref[Any]] = []

    def written(self) -> None:
        """Have all copies dropped."""
        while self.copies:
            copy = self.copies.pop()()
            if copy is not None:
                copy.drop()

    def keep_told(self, copy: Copy) -> None:
        """Tell `copy` of the next write."""
        alive = [each for each in self.copies if each() is not None]
        self.copies = [*alive, weakref.ref(copy)]

    def counts_all(self, counter: Counter) -> bool:
        """Whether `counter` alone counts all writes."""
        if self.exposed:
            return False
        alive = [each for each in (each() for each in self.others) if each is not None]
        if counter.__class__ is ObservedCounter:
            return not self.plain and all(each is counter for each in alive)
        return not alive

    def observed(self, count: int) -> ObservedCounter:
        """One more counter, of a tensor that counts for itself."""
        counter = ObservedCounter((count, self))
        with _LOCKS.others:
            alive = [each for each in self.others if each() is not None]
            self.others = [*alive, weakref.ref(counter)]
            self.generation += 1
        self.written()
        return counter


class ObservedCounter(list[Any]):
    """A counter of which can be told whether a tensor still has it."""

    __slots__ = ("__weakref__",)


class _Locks:
    """`others` is held while lists of counters change."""

    def __init__(self) -> None:
        self.others = threading.Lock()


_LOCKS = _Locks()
after_fork(_LOCKS.__init__)  # type: ignore[misc]


def memory_of(counter: Counter) -> Memory:
    """What is known of the memory that `counter` counts for."""
    if len(counter) == 1:
        counter.append(Memory())  # of threads that come at once, the first one's stays the second
    memory: Memory = counter[1]
    return memory


def count_write(counter: Counter) -> None:
    """Count a write, behind it."""
    counter[0] += 1
    if counter[-1] is not counter[0]:
        counter[-1].written()


def expose(counter: Counter) -> None:
    """The memory is taken in or handed out: it may be written without being counted."""
    memory = memory_of(counter)
    memory.exposed = True
    memory.written()


def exposed_counter() -> Counter:
    """The counter of a tensor over memory from outside."""
    memory = Memory()
    memory.exposed = True
    return [0, memory]


def own_counter(counter: Counter) -> Counter:
    """A counter for one more tensor over the same memory, which counts its writes for itself."""
    return memory_of(counter).observed(counter[0])


def adopted_counter(counter: Counter, new: Any) -> Counter:
    """The counter of a tensor that had `counter` and takes over the memory of the tensor `new`: its
    versions go on. Both count for themselves from then on."""
    memory = memory_of(new._counter)
    if memory_of(counter) is memory:
        return counter
    memory_of(counter).written()
    if memory.plain and not other_references(
        new._instance_state, "_counter"
    ):  # nobody else counts by it
        new._counter = memory.observed(new._counter[0])
        memory.plain = False
    return memory.observed(counter[0])


def put_back_count(counter: Counter, count: int) -> None:
    """Have a counter go back to `count`, as the memory has the content of then. What was kept since
    is of another content."""
    memory = memory_of(counter)
    memory.generation += 1
    memory.written()
    counter[0] = count


def whole_array(array: Any) -> np.ndarray:
    """The array that `array` is a view of, through all views between."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    whole: np.ndarray = array
    return whole


def offset_in_memory(array: Any) -> int:
    """How many elements of its memory lie in front of the first of `array`."""
    if not array.size:
        return 0
    low, _ = np.lib.array_utils.byte_bounds(whole_array(array))
    return int(array.ctypes.data - low) // int(array.itemsize)


def place_in_memory(array: Any) -> tuple[int, int] | None:
    """How many elements the memory of `array` has, and how many of them lie in front of its first;
    None for memory that is no row of elements of its dtype."""
    whole = whole_array(array)
    if whole.dtype != array.dtype or not whole.flags.c_contiguous:
        return None
    return whole.size, offset_in_memory(array)


def is_private(counter: Counter, array: np.ndarray) -> bool:
    """Whether `counter` counts all writes to the memory of `array`, the value of a tensor that has
    it: nobody else holds the memory, and no other tensor over it counts for itself."""
    whole = whole_array(array)
    if whole.__class__ is not np.ndarray or whole.base is not None or not whole.flags.owndata:
        return False
    return memory_of(counter).counts_all(counter)
