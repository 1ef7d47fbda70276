"""Object code → functions of this process, for as long as something holds them.

in : object code by symbol, and the functions that it calls
out: `LoadedFunction`s: an address, and what has to stay for it

Code goes when nothing holds its function any more: no executable, no driver that calls it, no memo
of the latest. It is only noted then, on whichever thread, and given back when the next code is
loaded, under the lock that LLVM is called with.

LLVM gives back what it keeps of a library only with the whole engine. So engines have few libraries
each, and end with the last of them.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol
from weakref import WeakValueDictionary

from graphc.codegen.llvm.native import CODEGEN_LEVEL, LOCK, compile_text, machine_of, pieces
from graphc.codegen.target import Target, host, running
from graphc.records import field, record
from graphc.system import IMPORTING

LIBRARIES = 64
"""What is loaded into one engine."""


class ObjectStore(Protocol):
    """Object code kept between processes, by symbol."""

    def get(self, symbol: str) -> bytes | None: ...

    def put(self, symbol: str, object: bytes, facts: Mapping[str, Any]) -> None: ...


@record
class DriverCode:
    """Object code of a function that calls others: its name in the code, and what it calls."""

    entry: str
    object: bytes = field(repr=False)
    calls: tuple[str, ...]


@record(eq=False, weakref_slot=True)
class LoadedFunction:
    """A function of this process. Its code stays as long as anything holds this. `keeps`: what the
    code needs besides itself; `source`: what it was loaded from, if anything."""

    address: int
    keeps: tuple[object, ...] = field(default=(), repr=False)
    source: bytes | DriverCode = field(default=b"", repr=False)


Callees = Mapping[str, LoadedFunction]

_LOADED: WeakValueDictionary[str, LoadedFunction] = WeakValueDictionary()
"""What is loaded now: kernels by symbol, drivers by a hash of their text and what they call."""
_LEFT: deque[tuple[_Engine, Any]] = deque()
"""Libraries that nothing holds any more."""


class _Engine:
    """LLVM's JIT, for some libraries."""

    def __init__(self) -> None:
        with IMPORTING:
            from llvmlite import binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        # The other linker gives each section memory of its own, wherever there is some: constants
        # may lie further from the code than its 32 bits reach, and LLVM then ends the process.
        self.jit = binding.create_lljit_compiler(machine_of(host()), use_jit_link=True)
        self.libraries = 0
        self.loaded = 0

    def link(self, builder: Any) -> _Library:
        tracker = builder.link(self.jit, f"library_{self.libraries}")
        self.libraries += 1
        self.loaded += 1
        return _Library(self, tracker)

    def end_if_done(self) -> None:
        if self.libraries >= LIBRARIES and not self.loaded:
            self.jit.close()


class _Library:
    """Code that was loaded together, and goes together."""

    __slots__ = ("_engine", "tracker")

    def __init__(self, engine: _Engine, tracker: Any):
        self._engine = engine
        self.tracker = tracker

    def __del__(self, left: deque[Any] = _LEFT) -> None:
        if hasattr(self, "tracker"):  # else an interrupt came while it was made
            left.append((self._engine, self.tracker))


_engines: list[_Engine] = []
"""The one that takes more libraries, if any."""


def _give_back() -> None:
    """Give back what nothing holds any more."""
    while _LEFT:
        engine, tracker = _LEFT.popleft()
        tracker.close()
        engine.loaded -= 1
        engine.end_if_done()


def _linked(objects: list[bytes], exports: list[str], callees: Callees) -> _Library:
    """A library of these objects. They may call each other, the callees, and the functions of the
    process (libm, memcpy)."""
    with IMPORTING:
        from llvmlite import binding

    _give_back()
    builder = binding.JITLibraryBuilder().add_current_process()
    for name, callee in callees.items():
        builder.import_symbol(name, callee.address)
    for each in objects:
        builder.add_object_img(each)
    for name in exports:
        builder.export_symbol(name)
    if not _engines or _engines[0].libraries >= LIBRARIES:
        _engines[:] = [_Engine()]
    return _engines[0].link(builder)


def load(objects: Mapping[str, bytes], callees: Callees | None = None) -> dict[str, LoadedFunction]:
    """Object code in memory, each under the symbol it defines.

    The objects may call each other and `callees`. A symbol that is loaded is not loaded again, so a
    symbol must say what it stands for: give a driver loaded this way a name with the hash of its
    text.
    """
    with LOCK:
        known = {symbol: _LOADED.get(symbol) for symbol in objects}
        functions = {symbol: each for symbol, each in known.items() if each is not None}
        missing = [symbol for symbol in objects if symbol not in functions]
        if missing:
            called = {**(callees or {}), **functions}
            code = [piece for symbol in missing for piece in pieces(objects[symbol])]
            library = _linked(code, missing, called)
            keeps = (library, *called.values())
            for symbol in missing:
                address = int(library.tracker[symbol])
                functions[symbol] = LoadedFunction(address, keeps, objects[symbol])
                _LOADED[symbol] = functions[symbol]
        return functions


def loaded_kernel(symbol: str) -> LoadedFunction | None:
    """The function of this symbol, if it is loaded."""
    return _LOADED.get(symbol)


def loaded_functions() -> int:
    """How many functions are loaded."""
    return len(_LOADED)


def compile_driver(
    text: str,
    callees: Callees,
    entry: str = "driver",
    target: Target | None = None,
    store: ObjectStore | None = None,
    level: int = CODEGEN_LEVEL,
) -> LoadedFunction:
    """Function `entry` of a module that calls the functions `callees` names.

    The text's function keeps its name; it is loaded under a hash of the text and the addresses,
    so two drivers may have the same entry name, and the same driver is loaded once. In a store its
    object code has a hash of the text for a name: addresses are bound when it is loaded.
    """
    target = target or running()
    addresses = sorted((name, callee.address) for name, callee in callees.items())
    key = hashlib.sha256(repr((text, addresses, target.key, level)).encode()).hexdigest()
    with LOCK:
        known = _LOADED.get(key)
        if known is None:
            code = _driver_code(text, entry, target, store, level)
            known = _LOADED[key] = load_driver(DriverCode(entry, code, tuple(callees)), callees)
        return known


def load_driver(driver: DriverCode, callees: Callees) -> LoadedFunction:
    """A driver's function, where `callees` are what it calls."""
    with LOCK:
        called = {name: callees[name] for name in driver.calls}
        library = _linked([driver.object], [driver.entry], called)
        address = int(library.tracker[driver.entry])
        return LoadedFunction(address, (library, *called.values()), driver)


def code_bytes(symbol: str) -> int:
    """Bytes of machine code of a kernel that is loaded."""
    with IMPORTING:
        from llvmlite import binding

    with LOCK:
        source = _LOADED[symbol].source
        assert isinstance(source, bytes)
        parts = [binding.ObjectFileRef.from_data(part) for part in pieces(source)]
        return sum(s.size() for part in parts for s in part.sections() if s.is_text())


def _driver_code(
    text: str, entry: str, target: Target, store: ObjectStore | None, level: int
) -> bytes:
    with IMPORTING:
        from llvmlite import binding

    facts = {
        "code": hashlib.sha256(text.encode()).hexdigest()[:32],
        "target": target.key,
        "llvm": ".".join(map(str, binding.llvm_version_info)),
        "settings": repr(level),
    }
    name = hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:32]
    kept = store.get(f"kernel_{name}") if store is not None else None
    if kept is not None:
        return kept
    code = compile_text(text, target, level=level)
    if store is not None:
        store.put(f"kernel_{name}", code, {**facts, "kernel": entry})
    return code
