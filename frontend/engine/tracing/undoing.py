"""What Python did at a trace that ended without a program is undone.

in : what a trace reaches, as it is found, ahead of running it
out: attributes, items, arrays, generators of random numbers and caches as they were

Containers stand in containers.py: those are looked at for guards, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import MemberDescriptorType
from typing import Any

import numpy as np

from frontend.engine.outside.check import Same, is_plain
from frontend.engine.outside.containers import (
    can_be_put_back,
    container_of,
    contents,
    refill,
    size_of,
)
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.kinds import (
    CACHED,
    OURS,
    is_generator,
    is_namespace,
    is_nn_module,
    package_of,
    state_of,
)
from frontend.engine.outside.reads import is_unassigned
from frontend.engine.outside.source import MISSING, LookupSource, PlaceSource
from frontend.engine.tensors.epoch import changed
from frontend.engine.tensors.tensor import Tensor

MOST_OBJECTS = 10_000
"""Objects behind those of libraries whose attributes are kept."""
MOST_BYTES = 1 << 24
"""Bytes up to which a NumPy array's are kept."""
_MISSING = object()


class BeforeTrace:
    """Of one trace: states of what code can reach. Those of the frontend's own objects, tensors and
    Modules the session keeps itself."""

    def __init__(self) -> None:
        self._states: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._classes: dict[int, tuple[type, dict[str, Any]]] = {}
        self._arrays: list[tuple[np.ndarray, np.ndarray]] = []
        self._containers: list[tuple[Any, list[Any]]] = []
        self._caches: list[tuple[Any, int]] = []
        self._generators: list[tuple[Any, Any]] = []
        self._known: set[int] = set()
        self.global_generators()

    def global_generators(self) -> None:
        """Those of Python's `random` and of `numpy.random`, where they are imported."""
        for name in ("random", "numpy.random"):
            if name in sys.modules:
                module = sys.modules[name]
                self._generators.append((module, _generator_state(module)))

    def note_class(self, kind: type) -> None:
        """A class whose attributes code reads."""
        if id(kind) not in self._classes:
            self._classes[id(kind)] = kind, dict(vars(kind))

    def note(self, value: Any, inside: bool = False) -> None:
        """A value that code names; `inside`: what it holds, too, since nothing else looks there."""
        left = [value]
        while left and len(self._known) < MOST_OBJECTS:
            left += self._noted(left.pop(), inside)

    def _noted(self, value: Any, inside: bool) -> Iterable[Any]:
        kind = type(value)
        if id(value) in self._known or is_plain(value) or issubclass(kind, type | Tensor):
            return ()
        if issubclass(kind, np.ndarray):
            writeable = value.dtype != object and value.flags.writeable
            if writeable and value.nbytes <= MOST_BYTES:
                self._known.add(id(value))
                self._arrays.append((value, value.copy()))
            return ()
        if is_generator(value):
            self._known.add(id(value))
            self._generators.append((value, _generator_state(value)))
            return ()
        if kind is CACHED:
            self._known.add(id(value))
            self._caches.append((value, value.cache_info().misses))
            return ()
        if is_nn_module(kind) or is_namespace(value) or package_of(kind) in OURS:
            return ()
        held: list[Any] = []
        if inside and container_of(value) is not None:
            self._known.add(id(value))
            held = contents(value) if size_of(value) <= MOST_OBJECTS else []
            if can_be_put_back(value):
                self._containers.append((value, contents(value)))
        state = state_of(value)
        if state is not None:
            self._known.add(id(value))
            self._states.append((state, dict(state)))
            held += state.values() if inside else ()
        return held

    def put_back(
        self, guards: Iterable[Guard], new: Iterable[tuple[Any, str]], open_keys: Any
    ) -> bool:
        """Let all be as it was; `guards` tell what stood at places that were read by name, `new`
        which names of dicts were not there, `open_keys(dict)` where numbers are read anew at each
        call. Whether anything was not."""
        done = [self._read_back(guard) for guard in guards]
        done += [names.pop(name, _MISSING) is not _MISSING for names, name in new]
        done += [_dict_back(*each, open_keys(each[0])) for each in self._states]
        done += [_class_back(*each) for each in self._classes.values()]
        done += [_array_back(*each) for each in self._arrays]
        for generator in self._generators:
            _generator_back(*generator)
        done.append(refill(self._containers))
        for function, misses in self._caches:
            if function.cache_info().misses > misses:
                function.cache_clear()  # there may be traced tensors among it
                done.append(True)
        if any(done):
            changed()
        return any(done)

    def _read_back(self, guard: Guard) -> bool:
        source, check = guard.source, guard.check
        if not isinstance(source, LookupSource) or type(check) is not Same:
            return False
        if check.then is MISSING or check.holds(source.read()):
            return False
        if isinstance(source, PlaceSource):
            source.put(check.then)
            return True
        if source.getter is is_unassigned:
            del source.key.cell_contents  # type: ignore[attr-defined]
            return True
        slot = getattr(source.getter, "__self__", None)
        if isinstance(slot, MemberDescriptorType):
            slot.__set__(source.key, check.then)
            return True
        return False


def _dict_back(state: dict[str, Any], before: dict[str, Any], open_: set[Any]) -> bool:
    """`open_`: what was a name of a number when it was noted, or is one now."""
    changed_ones = [
        name
        for name in state.keys() | before.keys()
        if name not in open_ and state.get(name, _MISSING) is not before.get(name, _MISSING)
    ]
    for name in changed_ones:
        if name in before:
            state[name] = before[name]
        else:
            del state[name]
    return bool(changed_ones)


def _class_back(kind: type, before: dict[str, Any]) -> bool:
    now = vars(kind)
    names = [name for name in now.keys() | before.keys() if now.get(name) is not before.get(name)]
    for name in names:
        if name in before:
            type.__setattr__(kind, name, before[name])
        else:
            type.__delattr__(kind, name)
    return bool(names)


def _array_back(array: np.ndarray, before: np.ndarray) -> bool:
    if array.tobytes() == before.tobytes():
        return False
    array[...] = before
    return True


def _generator_state(value: Any) -> Any:
    if hasattr(value, "getstate"):
        return value.getstate()
    return value.get_state() if hasattr(value, "get_state") else value.bit_generator.state


def _generator_back(value: Any, before: Any) -> None:
    if hasattr(value, "setstate"):
        value.setstate(before)
    elif hasattr(value, "set_state"):
        value.set_state(before)
    else:
        value.bit_generator.state = before
