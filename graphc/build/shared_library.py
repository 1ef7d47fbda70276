"""Objects → shared libraries for Python: linked by a C compiler, with a module that calls them.

in : object files of one source, by target
out: libNAME.so, NAME.py beside it; or a wheel of both
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from graphc.build import ctypes_module
from graphc.build.built_programs import BuiltPrograms
from graphc.build.built_source import ObjectSource
from graphc.build.header import CSignature
from graphc.build.state_layout import StateLayout
from graphc.codegen.program.size_expressions import python_text
from graphc.codegen.target import Target, host
from graphc.config import VERSION
from graphc.errors import ArgumentError
from graphc.ir.dims import symbol_of
from graphc.ir.types import DType, TensorType

LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
"""Targets of a wheel for x86-64, best first."""
_FLAGS = {"sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "sahf": "lahf_lm", "lzcnt": "abm",
          "bmi": "bmi1"}  # fmt: skip
"""What Linux calls features of processors otherwise than LLVM."""
_TABLES = re.compile(r"# -- tables -+\n.*# -- end of tables -+\n", re.DOTALL)


def linker_of(target: Target) -> list[str]:
    """The command that links for a target: the C compiler that CC names, or that is installed, or
    the one in the package ziglang. Raises ArgumentError where there is none."""
    machine = target.triple.partition("-")[0]
    is_own = machine == host().triple.partition("-")[0]
    chosen = os.environ.get("CC", "").split() if is_own else []
    named = ("cc", "gcc", "clang") if is_own else (f"{machine}-linux-gnu-gcc",)
    for command in (chosen, *([name] for name in named)):
        if command and shutil.which(command[0]):
            return command
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu"]
    raise ArgumentError(
        f"a shared library for {machine} is linked by a C compiler, and there is none of "
        f"{', '.join(named)}",
        hint="install one, or pip install 'graphc[link]', or build the kind object",
    )


def linked(code: bytes, name: str, target: Target) -> bytes:
    """A shared library of an object. Raises ArgumentError with what the linker says."""
    command = linker_of(target)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.o").write_bytes(code)
        options = ["-shared", "-Wl,-z,noexecstack", "-o", f"{name}.so", f"{name}.o", "-lm"]
        ran = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True)
        if ran.returncode:
            raise ArgumentError(f"{command[0]} does not link {name}.o: {ran.stderr.strip()}")
        return (Path(folder) / f"{name}.so").read_bytes()


def check_module_name(name: str) -> None:
    """Raise ArgumentError for a name that a Python module cannot have beside others, or that the
    module uses itself."""
    if name in sys.stdlib_module_names or name in ("numpy", *vars(ctypes_module)):
        raise ArgumentError(f"a Python module cannot be called {name!r}", hint="give it a name=")


def flags_of(target: Target) -> tuple[str, ...]:
    """What a processor has to have, by the names of /proc/cpuinfo."""
    return tuple(_FLAGS.get(need, need) for need in target.needs)


class BuiltLibrary(NamedTuple):
    """A file, what a processor has to have for it, and the state that it takes."""

    file: str
    needs: tuple[str, ...]
    layout: StateLayout


def python_module(
    name: str, source: ObjectSource, built: BuiltPrograms, libraries: Sequence[BuiltLibrary]
) -> str:
    """The text of the module that calls the libraries, the first that fits the processor."""
    signature = CSignature(name, source, built)
    parameters = ", ".join(symbol.name for symbol in source.sizes)
    fields = {
        m.name: (m.field.key, _numpy_text(m.type.dtype), m.type.shape, m.offset)
        for m in libraries[0].layout.members
    }
    rows = [
        (
            each.file, each.needs, each.layout.digest, each.layout.nbytes,
            tuple(m.name for m in each.layout.members if m.is_packed),
        )
        for each in libraries
    ]  # fmt: skip
    arguments = []
    for number, label in enumerate(signature.arguments):
        type = signature.types.get(number)
        shape = "None" if type is None else f"lambda {parameters}: {_shape_text(type)}"
        kind = "" if type is None else _numpy_text(type.dtype)
        arguments.append(f"({label!r}, {kind!r}, {shape}, {number in signature.updated})")
    results = [
        f"({_numpy_text(type.dtype)!r}, lambda {parameters}: {_shape_text(type)})"
        for type in signature.result_types
    ]
    tables = [
        f"NAME = {name!r}", f"LIBRARIES = {tuple(rows)!r}",
        f"INITIAL = {name + '.safetensors'!r}",
        f"FIELDS = {fields!r}", f"SIZES = {_places(source, signature)!r}",
        f"FLOATS = {source.floats!r}", f"ARGUMENTS = {_tuple(arguments)}",
        f"RESULTS = {_tuple(results)}", "",
    ]  # fmt: skip
    text = inspect.getsource(ctypes_module)
    body = text[text.index("from __future__") :]
    about = [f"{name}, built by graphc {VERSION}: `ModelState()` and `{name}(state, …)`."]
    about += [f"Refused: {text}" for text in built.refused]
    head = repr("\n".join(about)) + "\n\n"
    content = "\n".join(tables)
    whole = _TABLES.sub(lambda _: content, body)
    return f"{head}{whole}\n\n{name} = run\n"


def _tuple(items: Sequence[str]) -> str:
    return "(" + "".join(f"{item}, " for item in items) + ")"


def _shape_text(type: TensorType) -> str:
    """The extents of a type as an expression of its sizes."""
    return _tuple([python_text(extent) for extent in type.shape])


def _numpy_text(dtype: DType) -> str:
    """NumPy's name; bf16 are the bits."""
    return "<u2" if dtype is DType.bf16 else dtype.numpy.str


def _places(
    source: ObjectSource, signature: CSignature
) -> tuple[tuple[str, tuple[int, int] | None], ...]:
    """Which argument and axis tells each size."""
    places: dict[str, tuple[int, int]] = {}
    for number, type in signature.types.items():
        for axis, extent in enumerate(type.shape):
            if (symbol := symbol_of(extent)) is not None:
                places.setdefault(symbol.name, (number, axis))
    return tuple((symbol.name, places.get(symbol.name)) for symbol in source.sizes)


# -- a wheel ---------------------------------------------------------------------------------------


def wheel(name: str, files: Mapping[str, bytes], machine: str) -> tuple[str, bytes]:
    """A wheel with a package `name` of these files: its file name, and its bytes."""
    tag = f"py3-none-linux_{machine}"
    info = f"{name}-0.0.0.dist-info"
    contents = {f"{name}/{file}": content for file, content in files.items()}
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.0\n"
        f"Summary: built by graphc {VERSION}\nRequires-Dist: numpy\n"
    ).encode()
    contents[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: graphc {VERSION}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    record = []
    for path, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(content)}\n")
    contents[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in contents.items():
            archive.writestr(zipfile.ZipInfo(path), content, zipfile.ZIP_DEFLATED)
    return f"{name}-0.0.0-{tag}.whl", buffer.getvalue()
