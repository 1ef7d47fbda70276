"""What a compiled function computes from weights alone, kept between its calls: packed copies.

in : a graph, which of its inputs are captured tensors, and their arrays and counters at a call
out: a graph that takes the packed values as further inputs, and these, computed where a weight was
     written since

Frozen tensors do not change. Any other weight is taken where all writes to its memory are counted
(`tensors.memory_tracking`), and a packed copy belongs to an array, a counter and its count: who
writes raises the count, and tells the copy to go. A function whose weights are written between all
of its calls gains nothing and goes back to one graph.
"""

from __future__ import annotations

import hashlib
import operator
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from frontend.engine.compiled.options import Options
from frontend.engine.compiled.packed_copies import PACKED, PackedCopy
from frontend.engine.sizes.sized_memo import executable_at, remembered_at
from frontend.engine.tensors.memory_tracking import is_private, memory_of
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.instances import type_at
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import SizeGuard
from graphc.ir.symbols import symbols_of
from graphc.ir.types import TensorType
from graphc.system import IMPORTING

PATIENCE = 3
"""Calls one after the other that each found most packed bytes outdated, after which a function runs
as one graph."""
RETRY = 100
"""Calls after which such a function tries again, when something makes it look."""


class _Part(NamedTuple):
    """One packed value: which of the captured tensors it is computed from, its type, the graph
    that computes it alone, and a digest of that graph and how it is compiled."""

    sources: tuple[int, ...]
    type: TensorType
    graph: Graph
    digest: str


class Bound(NamedTuple):
    """What a call takes of captured tensors: `arrays`, behind those of the arguments, are handed to
    `executable`, as long as each of the counters `watched` has its count of `counts`."""

    arrays: list[Any]
    executable: Any
    watched: Sequence[Any] = ()
    counts: Sequence[Any] = ()


count_of = operator.itemgetter(0)
_NEVER: tuple[Any, Any] = ([0], None)  # a counter and a count that it does not have


class PackingPlan:
    """Which values of a program are packed, and what computes them. `main` takes them."""

    def __init__(
        self, split: Any, whole: Graph, tensors: Sequence[Tensor], sources: Sequence[int],
        compiler: Any, sizes: Mapping[str, int],
    ):  # fmt: skip
        self.whole = whole  # the graph in one piece
        self.constants: Graph = split.constants  # computes all values
        self.tensors = tensors  # all that are captured
        self.parts = list(_parts(split.constants, sources, compiler.options))
        self.sources = sources
        self.sized = [bool(symbols_of(part.graph)) for part in self.parts]
        self.read = sorted({i for part in self.parts for i in part.sources})
        self._compiler = compiler
        self._example = sizes  # that it is compiled for, where some are left open
        self.main = compiler(split.graph, sizes)
        self._executables: dict[str, Any] = {}

    def executable(self, name: str, graph: Graph) -> Any:
        """The executable of one of its graphs, made when first needed: for any size."""
        if name not in self._executables:
            self._executables[name] = self._compiler(graph, self._example)
        return self._executables[name]


class Packing:
    """The packed values of one instance: a plan at certain sizes, and what is kept."""

    def __init__(self, plan: PackingPlan, owner: Any, sizes: Mapping[str, int]):
        self._owner = weakref.ref(owner)
        self.plan = plan
        self.parts, self.tensors, self.read = plan.parts, plan.tensors, plan.read
        self.main = owner.executable
        self.sizes = sizes
        self.bytes = [type_at(part.type, sizes).nbytes for part in self.parts]
        named = tuple(sizes.items())
        parts = zip(self.parts, plan.sized)
        self.names = [(part.digest, named if sized else ()) for part, sized in parts]
        self._copies: dict[int, PackedCopy] = {}
        self.computed = 0
        self.forgotten = 0
        self._in_row = 0
        self._last = 0  # the call that last found most of them outdated
        self._gave_up: int | None = None  # the call since which it is one graph
        self._seen = self._used = 0

    # -- binding -----------------------------------------------------------------------------

    def bound(self, arrays: list[Any], counters: Sequence[Any], calls: int) -> Bound:
        """What the call number `calls` takes. `arrays` and `counters` are those of all captured
        tensors, read together."""
        self._seen, PACKED.time = calls + 1, PACKED.time + 1
        self._used = PACKED.time
        if self._gave_up is not None and calls - self._gave_up < RETRY:
            return self._in_one_piece(arrays)
        self._gave_up = None
        states = {i: self._state(i, arrays[i], counters[i]) for i in self.read}
        keys = [
            _key(name, [states[i] for i in part.sources])
            for name, part in zip(self.names, self.parts)
        ]
        values = {i: self._reused(i, key) for i, key in enumerate(keys)}
        outdated = [i for i, value in values.items() if value is None]
        watched = [(counters[i], state[1]) for i, state in states.items() if state and state[1:]]
        if self._is_most(number for number in outdated if keys[number] is None):
            # Until a weight is written: who held its memory may hold it no longer.
            watched = [(counters[i], counters[i][0]) for i in self.read]
            return self._in_one_piece(arrays)._replace(**_unzipped(watched))
        if self._gives_up(outdated, calls):
            self._gave_up = calls
            return self._in_one_piece(arrays)
        kept = self._compute(outdated, values, keys, arrays, counters)
        # Who handed memory out in between told a copy that was not yet kept, or not yet used here.
        again = [self._state(i, arrays[i], counters[i]) for i in states]
        watched += [] if kept and again == [*states.values()] else [_NEVER]
        return Bound([*arrays, *values.values()], self.main, **_unzipped(watched))

    def _state(self, i: int, array: Any, counter: Any) -> Any:
        """What tells the content of a captured tensor from any other; None where nothing does."""
        if self.tensors[i]._frozen is not None:
            return (id(array),)
        if not is_private(counter, array):
            return None
        # The count first: what is read behind it may be newer, and is then computed again.
        return (id(counter), counter[0], id(array), memory_of(counter).generation)

    def _reused(self, number: int, key: Any) -> Any:
        """The packed value of part `number` for this key, None where there is none; it is used from
        then on."""
        with PACKED.lock:
            copy = None if key is None else PACKED.counted.get(key) or PACKED.frozen.get(key)
            if copy is None:
                self._copies.pop(number, None)
                return None
            copy.users.add(self)
            self._copies[number] = copy
            return copy.array

    def _compute(
        self, outdated: list[int], values: dict[int, Any], keys: list[Any], arrays: list[Any],
        counters: Sequence[Any],
    ) -> bool:  # fmt: skip
        """Compute the values that are outdated. Whether all of them could be kept."""
        all_kept = True
        for number, array in self._computed(outdated, arrays):
            self.computed += 1
            if values[number] is None:
                values[number] = array
                all_kept &= self._keep(number, keys[number], array, arrays, counters)
        return all_kept

    def _computed(self, outdated: list[int], arrays: list[Any]) -> Iterator[tuple[int, Any]]:
        """Parts with their values: all of them, where it is most that are asked for."""
        if not outdated:
            return
        if self._is_most(outdated):
            ahead = self._executable("all", self.plan.constants)
            yield from enumerate(ahead.run([arrays[i] for i in self.plan.sources]))
            return
        for number in outdated:
            part = self.parts[number]
            alone = self._executable(part.digest, part.graph)
            yield number, *alone.run([arrays[i] for i in part.sources])

    def _executable(self, name: str, graph: Graph) -> Any:
        """The executable of one of its graphs at its sizes. Those of `explain()` are counted as
        the instance's."""
        owner: Any = self._owner()
        executable = executable_at(self.plan.executable(name, graph), self.sizes)
        shown = {"all": 0, "one piece": len(owner.executables)}
        if name in shown and all(each is not executable for each in owner.executables):
            owner.executables.insert(shown[name], executable)
        return executable

    def _keep(
        self, number: int, key: Any, array: Any, arrays: list[Any], counters: Sequence[Any]
    ) -> bool:
        """Keep a value that was computed. False where that cannot be."""
        if key is None:
            return False
        sources = self.parts[number].sources
        changing = [i for i in sources if self.tensors[i]._frozen is None]
        copy = PackedCopy(array, [(arrays[i], counters[i]) for i in sources])
        copy.users.add(self)
        with PACKED.lock:
            if changing and not PACKED.make_room(array.nbytes, self):
                return False
            for i in changing:
                memory_of(counters[i]).keep_told(copy)
            (PACKED.counted if changing else PACKED.frozen)[key] = copy
            self._copies[number] = copy
        return True

    def _in_one_piece(self, arrays: list[Any]) -> Bound:
        self._release()
        return Bound(arrays, self._executable("one piece", self.plan.whole))

    # -- giving up ---------------------------------------------------------------------------

    def _is_most(self, numbers: Iterable[int]) -> bool:
        return 2 * sum(self.bytes[number] for number in numbers) >= sum(self.bytes)

    def _gives_up(self, outdated: list[int], calls: int) -> bool:
        """Whether keeping copies does not pay: most were outdated at each of the last calls."""
        if not self._is_most(outdated):
            return False
        if calls > self._last:
            self._in_row = self._in_row + 1 if calls == self._last + 1 else 0
        self._last = calls
        return self._in_row >= PATIENCE

    # -- letting go --------------------------------------------------------------------------

    def forget(self, copy: PackedCopy) -> None:
        """Use a copy no longer."""
        with PACKED.lock:
            for number, each in list(self._copies.items()):
                if each is copy:
                    del self._copies[number]
            copy.users.discard(self)
        self.forgotten += 1
        owner = self._owner()
        if owner is not None:
            owner.bound = None

    def _release(self) -> None:
        with PACKED.lock:
            for copy in self._copies.values():
                copy.users.discard(self)
            self._copies.clear()
        self._in_row = 0

    def last_used(self) -> int:
        """A number that is greater the later its function was called, as far as one looked."""
        owner = self._owner()
        if owner is not None and owner.calls != self._seen:
            self._seen = owner.calls
            PACKED.time += 1
            self._used = PACKED.time
        return self._used

    def copies(self) -> list[PackedCopy]:
        """The packed copies that are kept."""
        return [copy for _, copy in sorted(self._copies.items())]

    def explain(self) -> Iterator[str]:
        """What is kept, for `explain()`."""
        if self._gave_up is not None:
            yield "packed copies: none kept, since weights were written between all calls"
            return
        copies = self.copies()
        size = sum(copy.array.nbytes for copy in copies)
        yield (
            f"packed copies: {size:,} bytes kept of {len(copies)} of {len(self.parts)} values, "
            f"{self.computed} computed so far; {PACKED.bytes:,} of at most {PACKED.limit:,} bytes "
            "in this process"
        )


def packing_plan(
    inputs: Any, updated_inputs: Sequence[int], graph: Graph, compiler: Any, automatic: bool,
    sizes: Mapping[str, int],
) -> tuple[PackingPlan | None, tuple[SizeGuard, ...]]:  # fmt: skip
    """The packing of a program's graph, None where nothing depends on weights alone, and the guards
    of the sizes it serves. Frozen tensors are weights; with `automatic` those are too that the
    graph does not update. `sizes` are an example of those that are left open."""
    options: Options = compiler.options
    captured: Sequence[Tensor] = inputs.captured
    automatic = automatic and options.level != "none" and options.max_bytes is None
    frozen = [i for i, tensor in enumerate(captured) if tensor._frozen is not None]
    first = len(inputs.positions)
    updated = {position - first for position in updated_inputs}
    private = [
        i for i, tensor in enumerate(captured)
        if automatic and i not in updated and is_private(tensor._counter, tensor._value)
    ]  # fmt: skip
    guards: tuple[SizeGuard, ...] = ()
    for sources in (sorted({*frozen, *private}), frozen):
        if not sources:
            break
        positions, last = tuple(first + i for i in sources), first + len(captured)
        split, guards = _split(graph, options, positions, last, sizes)
        if split is None:
            break
        size = sum(type_at(type, sizes).nbytes for type in split.constants.output_types)
        if sources == frozen or size <= PACKED.limit:
            return PackingPlan(split, graph, captured, sources, compiler, sizes), guards
    return None, guards


def _split(
    graph: Graph, options: Options, positions: tuple[int, ...], last: int, sizes: Mapping[str, int]
) -> tuple[Any, tuple[SizeGuard, ...]]:
    """The graph without what these inputs alone decide."""
    level, target = options.level, options.target
    return remembered_at(
        sizes, "frozen", graph, (level, positions, last),
        lambda: _split_now(graph, level, positions, last, target), target,
    )  # fmt: skip


def _split_now(
    graph: Graph, level: str, frozen: Sequence[int], last: int, target: str | None
) -> Any:
    with IMPORTING:
        from graphc.codegen.kernels.preferred_layouts import preferred_layouts
        from graphc.codegen.target import running
        from graphc.passes.pipelines import without_frozen

    return without_frozen(graph, level, frozen, last, preferred_layouts(running(target)))


def _parts(constants: Graph, sources: Sequence[int], options: Options) -> Iterator[_Part]:
    """The outputs of the graph that computes all packed values, each with a graph of its own."""
    with IMPORTING:
        from graphc.passes.split_frozen import parts

    for (read, graph), type in zip(parts(constants), constants.output_types):
        how = (str(graph), options.level, options.target)
        digest = hashlib.sha256(repr(how).encode()).hexdigest()
        yield _Part(tuple(sources[i] for i in read), type, graph, digest)


def _unzipped(watched: Sequence[tuple[Any, int]]) -> dict[str, list[Any]]:
    """Counters and their counts, as `Bound` has them."""
    return {"watched": [each for each, _ in watched], "counts": [count for _, count in watched]}


def _key(name: Any, states: list[Any]) -> Any:
    """What a copy of a part is found by; None where it cannot be kept."""
    return None if None in states else (name, tuple(states))
