"""The bytecode scan: what the code of a Python function reads by name. That is globals, closure
variables, and the attributes it reads of them, as paths: `cfg.model.width` is the path
("model", "width") of the global `cfg`.

in : a code object, with those of the functions it defines
out: `BytecodeScan`. What an attribute is read of that is no global, closure variable or `self`
     (another local, the result of a call) is not known: such paths are `loose`.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from types import CodeType

Path = tuple[str, ...]
Paths = frozenset[Path]

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"}
_CELL = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "STORE_DEREF"}
_ATTRIBUTE = {"LOAD_ATTR", "LOAD_METHOD"}
_BETWEEN = {"PUSH_NULL", "COPY", "NOP", "EXTENDED_ARG", "CACHE", "RESUME"}


class BytecodeScan:
    """Paths by global and by closure variable, those of the first argument, and loose ones."""

    __slots__ = ("cells", "first", "globals", "loose")

    def __init__(self) -> None:
        self.globals: dict[str, set[Path]] = {}
        self.cells: dict[str, set[Path]] = {}
        self.first: set[Path] = set()
        self.loose: set[Path] = set()


@functools.lru_cache(maxsize=4096)
def scan_bytecode(code: CodeType) -> BytecodeScan:
    """What a code object reads by name."""
    scan = BytecodeScan()
    _collect(code, scan, scan.first)
    return scan


def _collect(code: CodeType, scan: BytecodeScan, first: set[Path]) -> None:
    for paths, path in _walk(code, scan, first):
        if path:
            paths.add(path)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _collect(constant, scan, scan.loose)


def _walk(code: CodeType, scan: BytecodeScan, first: set[Path]) -> Iterator[tuple[set[Path], Path]]:
    """For each read the paths it belongs to, and its own."""
    argument = code.co_varnames[0] if code.co_argcount else None
    paths = scan.loose
    path: Path = ()
    for instruction in dis.get_instructions(code):
        name, what = instruction.opname, instruction.argval
        if name in _ATTRIBUTE:
            path = (*path, what)
            yield paths, path
        elif name == "STORE_ATTR":
            yield paths, (*path, what)
        elif name in _GLOBAL:
            paths, path = scan.globals.setdefault(what, set()), ()
        elif name in _CELL and what != argument:
            paths, path = scan.cells.setdefault(what, set()), ()
        elif name not in _BETWEEN:
            known = name in _CELL or name.startswith("LOAD_FAST")
            paths, path = first if known and what == argument else scan.loose, ()
