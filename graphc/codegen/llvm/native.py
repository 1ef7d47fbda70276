"""LLVM text → object code.

LLVM aborts the process on a malformed module, so every module is verified first. None of its passes
over IR runs: loops arrive vectorised and tiled, constants folded, values and addresses in the
outermost loop that knows them. llvmlite is imported when first needed.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

from graphc.codegen.target import Target
from graphc.errors import LoweringError
from graphc.system import IMPORTING, forks_wait_for

CODEGEN_LEVEL = 3
DRIVER_LEVEL = 0
"""Of a plan's driver, which calls kernels one after the other: many lines, run once a call."""
CALL_LEVEL = 1
"""Of the functions that check a call's arguments and enter a driver: they run as fast as at level
3, and take two thirds of its time to compile."""
RARE_LEVEL = 0
"""Of what hardly ever runs, see cold_paths.py."""
SEVERAL = b"graphc-objects\n"


LOCK = threading.RLock()
# A fork in the middle of what LLVM does would leave its state half changed in the child.
forks_wait_for(LOCK)
_machines: dict[tuple[str, int], Any] = {}


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


def emit_linked(texts: Sequence[str], target: Target, exported: Sequence[str]) -> bytes:
    """One object of several modules, the functions of which may call each other. Only `exported`
    are seen from outside. Raises LoweringError where a text is malformed."""
    with IMPORTING:
        from llvmlite import binding

    with LOCK:
        machine = machine_of(target)
        module, *others = (_module(text, machine, {}) for text in texts)
        try:
            for other in others:
                module.link_in(other)
        except RuntimeError as error:
            raise LoweringError(f"modules that do not go together: {error}") from error
        for value in (*module.functions, *module.global_variables):
            if not value.is_declaration and value.name not in exported:
                value.linkage = binding.Linkage.internal
        code: bytes = machine.emit_object(module)
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


def machine_of(target: Target, level: int = CODEGEN_LEVEL) -> Any:
    """LLVM's target machine, kept: making one is as slow as compiling a small kernel."""
    with IMPORTING:
        from llvmlite import binding

    known = _machines.get((target.key, level))
    if known is not None:
        return known
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    reloc = "static" if target.is_wasm else "pic"
    machine = binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc=reloc, codemodel="small"
    )
    _machines[target.key, level] = machine
    return machine


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
