"""Writes what is built into a folder.

in : a source, a target and a kind
out: NAME.h, NAME.safetensors, and NAME.o, with main.c and main.data, which prove the bits; or
     libNAME.so and NAME.py; or a wheel; for WebAssembly NAME.wasm and NAME.mjs, with main.mjs; or a
     page
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphc.build.built_programs import BuiltPrograms
from graphc.build.built_source import ObjectSource
from graphc.build.header import header_text
from graphc.build.identifiers import TAKEN, identifier
from graphc.build.javascript import main_text as javascript_main
from graphc.build.javascript import module_text, tables_text, wasm_module
from graphc.build.object_file import object_code, programs_of
from graphc.build.page import page_text
from graphc.build.proof import CALLS, data_of, main_text, proven
from graphc.build.shared_library import (
    LEVELS,
    BuiltLibrary,
    check_module_name,
    flags_of,
    linked,
    linker_of,
    python_module,
    wheel,
)
from graphc.build.state_layout import layout_for, state_file
from graphc.codegen.llvm.fma import RELAXED_NAME
from graphc.codegen.target import Target, named
from graphc.errors import ArgumentError
from graphc.records import record

KINDS = ("object", "shared", "wheel", "page")
_LINKED = ("shared", "wheel")
FROM_OUTSIDE = frozenset(("fma", "fmod", "fmodf", "pow", "sched_yield"))
"""All that an object may need: functions of the C library's mathematics, the last one where threads
wait for each other."""
FROM_WINDOWS = frozenset(("fmod", "fmodf", "SwitchToThread", "___chkstk_ms"))
"""The same for Windows, where what calls a function with a large frame looks at its pages first: a
function that compilers bring with them. Its `pow` has other bits."""
_NO_NAMES = TAKEN | FROM_OUTSIDE | FROM_WINDOWS
MOST_THREADS = 1024
EMBEDDED = 1 << 20
"""Bytes of saved state up to which the object has its initial values."""


@record
class BuiltFiles:
    """What was written: paths, the programs in the object, and what it refuses."""

    folder: Path
    name: str
    files: tuple[Path, ...]
    programs: int
    refused: tuple[str, ...]

    def __str__(self) -> str:
        sizes = ", ".join(f"{path.name} {path.stat().st_size:,}" for path in self.files)
        count = f"{self.programs} program{'' if self.programs == 1 else 's'}"
        lines = [f"{self.folder}: {sizes} bytes; {count}"]
        return "\n".join([*lines, *(f"refused: {text}" for text in self.refused)])


def build(
    source: ObjectSource, folder: str | os.PathLike[str], *, target: str | None = None,
    kind: str = "object", name: str | None = None, calls: int = CALLS, threads: int = 1,
    data: Sequence[Any] | None = None,
) -> BuiltFiles:  # fmt: skip
    """Build a source for a target ("host", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64",
    "x86_64-windows", "wasm32", "wasm32+relaxed", None for the host) into a folder, which is made
    where there is none. `kind`: "object", or, linked by a C compiler, "shared" with a Python
    module, "wheel" with a library for each level of x86-64 where no other target is named; or
    "page", an HTML file that runs in a browser. `calls`: of the proof. `threads`: of an object,
    which the caller may bring. `data`: of a page, an array for each argument, of whose rows it
    makes batches (those of the example where there are none). Raises ArgumentError for an unknown
    kind, what a kind or target does not have, a missing linker, a name that is no C identifier or
    that Python has, data that do not fit, or a folder that cannot be written, TargetError for an
    unknown target, LoweringError for what Python computes. Nothing is written then."""
    chosen = target_of(kind, target)
    _check_threads(threads, kind, chosen)
    if name is not None and (name in _NO_NAMES or identifier(name) != name):
        raise ArgumentError(f"{name!r} is no name of a C function")
    name = name or name_for(source)
    if kind in _LINKED:
        check_module_name(name)
        linker_of(chosen)  # a missing one is told before anything is compiled
    if kind == "page":
        text, built = page_text(name, source, calls, data)
        contents = {f"{name}.html": text.encode()}
    else:
        contents, built = _contents(name, source, chosen, kind, calls, threads)
    files = _written(Path(folder), contents)
    return BuiltFiles(Path(folder), name, files, len(built.programs), built.refused)


def target_of(kind: str, target: str | None) -> Target:
    """The target of this name, for what is built. Raises ArgumentError for a kind that is not
    built, or not for it, TargetError for an unknown target."""
    if kind not in KINDS:
        raise ArgumentError(f"kind {kind!r} is not built yet", hint=f"one of {', '.join(KINDS)}")
    if kind == "page" and target not in (None, "wasm32"):
        raise ArgumentError(f"a page runs WebAssembly, not {target}", hint="leave out the target")
    chosen = named(target or "host")
    if kind in _LINKED and chosen.is_wasm:
        raise ArgumentError(f"a {kind} is not built for {chosen.name}", hint="object or page")
    if kind in _LINKED and chosen.is_windows:
        raise ArgumentError(f"a {kind} is not built for {chosen.name}", hint="build an object")
    return chosen


def _check_threads(threads: int, kind: str, target: Target) -> None:
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise ArgumentError(f"threads are from 1 to {MOST_THREADS}, not {threads!r}")
    if threads > 1 and target.is_wasm:
        raise ArgumentError(f"{target.name} has no threads")
    if threads > 1 and kind != "object":
        raise ArgumentError(f"a {kind} runs on one thread", hint="threads are of the kind object")


def name_for(source: ObjectSource) -> str:
    """The name of the function where none is given."""
    plain = identifier(source.name)
    return f"{plain}_1" if plain in _NO_NAMES else plain


def _contents(
    name: str, source: ObjectSource, target: Target, kind: str, calls: int, threads: int
) -> tuple[dict[str, bytes], BuiltPrograms]:
    """All files by name, and the programs."""
    if kind == "wheel":
        return _wheel_contents(name, source, target)
    if target.is_wasm:
        return _wasm_contents(name, source, target, calls)
    built = programs_of(source, target, threads)
    layout = layout_for(source, built)
    embeds = layout.saved_bytes <= EMBEDDED
    code = object_code(name, source, built, layout, target, embeds)
    contents = {
        f"{name}.h": header_text(name, source, built, layout, target, embeds).encode(),
        f"{name}.safetensors": state_file(layout),
    }
    if kind == "shared":
        library = BuiltLibrary(f"lib{name}.so", flags_of(target), layout)
        module = python_module(name, source, built, [library])
        contents |= {library.file: linked(code, name, target), f"{name}.py": module.encode()}
        return contents, built
    proof = proven(source, built, calls)
    contents |= {
        f"{name}.o": code,
        "main.c": main_text(name, source, built, layout, proof, embeds).encode(),
        "main.data": data_of(proof, layout),
    }
    return contents, built


def _wasm_contents(
    name: str, source: ObjectSource, target: Target, calls: int
) -> tuple[dict[str, bytes], BuiltPrograms]:
    """A module of WebAssembly, the script that loads it, and the proof for node."""
    built = programs_of(source, target)
    layout = layout_for(source, built)
    module = wasm_module(name, source, built, layout, target)
    tables = tables_text(name, source, built, layout, module.data_end)
    proof = proven(source, built, calls)
    contents = {
        f"{name}.wasm": module.code,
        f"{name}.mjs": module_text(name, tables, target.fma == RELAXED_NAME).encode(),
        f"{name}.safetensors": state_file(layout),
        "main.mjs": javascript_main(name, proof).encode(),
        "main.data": data_of(proof, layout),
    }
    return contents, built


def _wheel_contents(
    name: str, source: ObjectSource, target: Target
) -> tuple[dict[str, bytes], BuiltPrograms]:
    """A wheel with a library for each level of the processor, or for the target that is named."""
    machine = target.triple.partition("-")[0]
    is_any = target.name == "host" and machine == "x86_64"
    targets = [named(level) for level in LEVELS] if is_any else [target]
    every = [programs_of(source, each) for each in targets]
    files = dict[str, bytes]()
    libraries = []
    for each, built in zip(targets, every):
        layout = layout_for(source, built)  # each packs weights as it likes them
        files[f"{name}.safetensors"] = state_file(layout)
        file = f"lib{name}_{identifier(each.name)}.so"
        code = object_code(name, source, built, layout, each, embeds=False)
        files[file] = linked(code, name, each)
        libraries.append(BuiltLibrary(file, flags_of(each), layout))
    module = python_module(name, source, every[0], libraries)
    files["__init__.py"] = module.encode()
    file, content = wheel(name, files, machine)
    return {file: content}, every[0]


def _written(folder: Path, contents: dict[str, bytes]) -> tuple[Path, ...]:
    """Files with these contents, each of which appears whole."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporaries: list[tuple[str, Path]] = []
        try:
            for name, content in contents.items():
                handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
                temporaries.append((temporary, folder / name))
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.chmod(temporary, 0o644)
            for temporary, path in temporaries:
                os.replace(temporary, path)
        except BaseException:
            for temporary, _ in temporaries:
                Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ArgumentError(f"{folder} cannot be written: {error}") from error
    return tuple(path for _, path in temporaries)
