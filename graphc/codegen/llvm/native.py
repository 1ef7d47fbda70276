"""LLVM text → object code → functions loaded into this process.

The tables kept here are memos of pure functions. LLVM aborts the process on a malformed module, so
every module is verified first. None of its passes over IR runs: loops arrive vectorised and tiled,
constants folded, values and addresses in the outermost loop that knows them. llvmlite is imported
when first needed.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from graphc.codegen.target import Target, host, running
from graphc.errors import LoweringError
from graphc.system import IMPORTING, forks_wait_for

CODEGEN_LEVEL = 3
DRIVER_LEVEL = 0
"""Of a plan's driver, which calls kernels one after the other: many lines, run once a call."""
RARE_LEVEL = 0
"""Of what hardly ever runs, see cold_paths.py."""
SEVERAL = b"graphc-objects\n"


@dataclass(frozen=True, slots=True)
class DriverCode:
    """Object code of a function that calls others: its name in the code, and what it calls."""

    entry: str
    object: bytes = field(repr=False)
    calls: tuple[str, ...]


class ObjectStore(Protocol):
    """Object code kept between processes, by symbol."""

    def get(self, symbol: str) -> bytes | None: ...

    def put(self, symbol: str, object: bytes, facts: Mapping[str, Any]) -> None: ...


LOCK = threading.RLock()
# A fork in the middle of what LLVM does would leave its state half changed in the child.
forks_wait_for(LOCK)
OBJECTS: dict[str, bytes] = {}
"""Object code of kernels by symbol."""
_addresses: dict[str, int] = {}
_machines: dict[tuple[str, int], Any] = {}
_drivers: dict[int, DriverCode] = {}
_trackers: list[Any] = []
_engine: list[Any] = []


def compile_text(
    text: str,
    target: Target,
    timings: dict[str, float] | None = None,
    level: int = CODEGEN_LEVEL,
) -> bytes:
    """Object code of a module's text. Raises LoweringError, with the text, when it is malformed."""
    timings = {} if timings is None else timings
    with LOCK:
        machine = machine_of(target, level)
        module = _module(text, machine, timings)
        started = time.perf_counter()
        code: bytes = machine.emit_object(module)
        timings["codegen"] = timings.get("codegen", 0.0) + time.perf_counter() - started
    return code


def assembly_of(text: str, target: Target, level: int = CODEGEN_LEVEL) -> str:
    """The assembly of what `compile_text` makes."""
    with LOCK:
        machine = machine_of(target, level)
        listing: str = machine.emit_assembly(_module(text, machine, {}))
    return listing


def joined(objects: Sequence[bytes]) -> bytes:
    """Object code in several pieces, as one: how long each is, then all of them."""
    if len(objects) == 1:
        return objects[0]
    sizes = " ".join(str(len(each)) for each in objects)
    return b"".join([SEVERAL, sizes.encode(), b"\n", *objects])


def pieces(code: bytes) -> list[bytes]:
    """What was joined."""
    if not code.startswith(SEVERAL):
        return [code]
    sizes, _, rest = code[len(SEVERAL) :].partition(b"\n")
    ends = list(itertools.accumulate(map(int, sizes.split())))
    return [rest[begin:end] for begin, end in zip([0, *ends], ends)]


def load(objects: Mapping[str, bytes], symbols: Mapping[str, int] | None = None) -> dict[str, int]:
    """Loads object code, each under the symbol it defines, and gives the symbols' addresses.

    The objects may call each other, the functions `symbols` names, and those of the process (libm,
    memcpy). A symbol loaded before is not loaded again, so a symbol must say what it stands for:
    give a driver loaded this way a name with the hash of its text. Loaded code stays for the life
    of the process.
    """
    with IMPORTING:
        from llvmlite import binding

    with LOCK:
        missing = [symbol for symbol in objects if symbol not in _addresses]
        if missing:
            builder = binding.JITLibraryBuilder().add_current_process()
            known = {name: _addresses[name] for name in objects if name in _addresses}
            for name, address in {**(symbols or {}), **known}.items():
                builder.import_symbol(name, address)
            for symbol in missing:
                for piece in pieces(objects[symbol]):
                    builder.add_object_img(piece)
                builder.export_symbol(symbol)
            tracker = builder.link(_lljit(), f"library_{len(_trackers)}")
            _trackers.append(tracker)
            _addresses.update({symbol: tracker[symbol] for symbol in missing})
        return {symbol: _addresses[symbol] for symbol in objects}


def compile_driver(
    text: str,
    symbols: Mapping[str, int],
    entry: str = "driver",
    target: Target | None = None,
    store: ObjectStore | None = None,
    level: int = CODEGEN_LEVEL,
) -> int:
    """The address of function `entry` of a module that calls the functions `symbols` names.

    The text's function keeps its name; it is loaded under a hash of the text and the addresses,
    so two drivers may have the same entry name, and the same driver is loaded once. In a store its
    object code has a hash of the text for a name: addresses are bound when it is loaded.
    """
    target = target or running()
    facts = (text, sorted(symbols.items()), target.key, level)
    key = hashlib.sha256(repr(facts).encode()).hexdigest()
    with LOCK:
        if key in _addresses:
            return _addresses[key]
        code = _driver_code(text, entry, target, store, level)
        _addresses[key] = load_driver(DriverCode(entry, code, tuple(symbols)), symbols)
        return _addresses[key]


def load_driver(driver: DriverCode, symbols: Mapping[str, int]) -> int:
    """The address of a driver's function, where `symbols` are the addresses of what it calls."""
    with IMPORTING:
        from llvmlite import binding

    with LOCK:
        builder = binding.JITLibraryBuilder().add_current_process().add_object_img(driver.object)
        for name in driver.calls:
            builder.import_symbol(name, symbols[name])
        builder.export_symbol(driver.entry)
        tracker = builder.link(_lljit(), f"library_{len(_trackers)}")
        _trackers.append(tracker)
        address = int(tracker[driver.entry])
        _drivers[address] = driver
        return address


def driver_code(address: int) -> DriverCode:
    """The object code of a driver that was loaded there."""
    return _drivers[address]


def code_bytes(symbol: str) -> int:
    """Bytes of machine code of a kernel that was loaded."""
    with IMPORTING:
        from llvmlite import binding

    with LOCK:
        parts = [binding.ObjectFileRef.from_data(part) for part in pieces(OBJECTS[symbol])]
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


def machine_of(target: Target, level: int = CODEGEN_LEVEL) -> Any:
    """LLVM's target machine, kept: making one is as slow as compiling a small kernel."""
    with IMPORTING:
        from llvmlite import binding

    known = _machines.get((target.key, level))
    if known is not None:
        return known
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small"
    )
    _machines[target.key, level] = machine
    return machine


def _lljit() -> Any:
    with IMPORTING:
        from llvmlite import binding

    if not _engine:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        _engine.append(binding.create_lljit_compiler(machine_of(host())))
    return _engine[0]


def _module(text: str, machine: Any, timings: dict[str, float]) -> Any:
    with IMPORTING:
        from llvmlite import binding

    started = time.perf_counter()
    try:
        module = binding.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise LoweringError(f"malformed LLVM IR: {error}\n{text}") from error
    timings["parse"] = timings.get("parse", 0.0) + time.perf_counter() - started
    return module
