"""The bytecode scan: what the code of a Python function reads by name. That is globals, closure
variables, and the attributes it reads of them, as paths: `cfg.model.width` is the path
("model", "width") of the global `cfg`.

in : a code object, with those of the functions it defines
out: `BytecodeScan`. What an attribute is read of that is no global, closure variable or `self`
     (another local, the result of a call) is not known: such paths are `loose`.

`getattr(x, "k")` is the path ("k",) of x, `type(x)` is ("__class__",), `vars(x)` is ("__dict__",).
A path that ends in `ITSELF` says that the value is used otherwise than by its attributes. An item
is a part of a path, too: `log["loss"].append` is ("[loss]", "append") of log, `log[key].append` is
(`ANY_ITEM`, "append"); what is read below an item is a loose path as well.
"""

from __future__ import annotations

import dis
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

Path = tuple[str, ...]
Paths = frozenset[Path]

ITSELF = ""
ANY_ITEM = "[]"
_PUTTING = {"format", "join", "replace", "removeprefix", "removesuffix"}
_BEGIN = re.compile(r"(?:[^\W\d]\w*)?")

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"}
_CELL = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "STORE_DEREF"}
_ATTRIBUTE = {"LOAD_ATTR", "LOAD_METHOD"}
_CALL = {"CALL", "CALL_FUNCTION"}
_BETWEEN = {"PUSH_NULL", "COPY", "NOP", "EXTENDED_ARG", "CACHE", "RESUME", "PRECALL", "KW_NAMES"}
_BY_NAME = {"getattr", "hasattr", "setattr", "delattr"}
_ASKING_TYPES = {"type", "issubclass"}
_BY_IDENTITY = {"id", "is_", "is_not"}
_GOT = "attribute"  # `getattr` has its name: its result is the attribute
_AS_ATTRIBUTE = {"type": "__class__", "vars": "__dict__"}
_TAKES_NAMES = {*_BY_NAME, "attrgetter", "methodcaller", "__getattribute__", "__getattr__",
                "__setattr__", "__dict__", "vars"}  # fmt: skip


class BytecodeScan:
    """Paths by global and by closure variable, those of the first argument, and loose ones.
    `imports`: modules that are imported inside, with the names taken from them. `global_names`:
    texts that may be names of globals. `computed`: whether names of attributes are computed (it is
    not empty then), and what may be their beginnings. `compares`: whether two values are compared
    with `==`. `takes_types`: whether `type(x)` is asked; `types`: the globals that what it gave may
    be compared with by `is`, `ITSELF` for anything else. `identities`: whether it tells objects
    apart, by `is` or `id`."""

    __slots__ = (
        "cells", "compares", "computed", "first", "global_names", "globals", "identities",
        "imports", "loose", "takes_types", "types",
    )  # fmt: skip

    def __init__(self) -> None:
        self.globals: dict[str, set[Path]] = {}
        self.cells: dict[str, set[Path]] = {}
        self.first: set[Path] = set()
        self.loose: set[Path] = set()
        self.imports: dict[tuple[int, str], set[Path]] = {}
        self.global_names: set[str] = set()
        self.computed: set[str] = set()
        self.compares = False
        self.takes_types = False
        self.types: set[str] = set()
        self.identities = False


@functools.lru_cache(maxsize=4096)
def scan_bytecode(code: CodeType) -> BytecodeScan:
    """What a code object reads by name."""
    scan = BytecodeScan()
    _collect(code, scan, scan.first, frozenset())
    return scan


def _collect(
    code: CodeType, scan: BytecodeScan, first: set[Path], captured: frozenset[str]
) -> None:
    """`captured`: local variables of the functions around this one, up to the outermost: theirs are
    no closure variables of that one."""
    captured = captured.intersection(code.co_freevars).union(code.co_cellvars)
    walk = _Walk(code, scan, first, captured)
    steps = list(dis.get_instructions(code))
    for instruction, following in zip(steps, [*steps[1:], None]):
        if following is not None and _is_subscript(following) and walk.takes_key(instruction):
            continue
        walk.step(instruction)
    walk.end()
    texts = {text for text in _texts(code.co_consts) if _is_name(text)}
    if _TAKES_NAMES.intersection(code.co_names):
        scan.loose |= {tuple(text.split(".")) for text in texts}
    if walk.computes_names:
        scan.computed |= {ITSELF, *(_beginning(text) for text in _texts(code.co_consts))}
    if "globals" in code.co_names:
        scan.global_names |= texts
    scan.identities |= not _BY_IDENTITY.isdisjoint(code.co_names) or walk.compares_identity
    if walk.compares_identity or not _ASKING_TYPES.isdisjoint(code.co_names):
        _note_types(code, scan)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _collect(constant, scan, scan.loose, captured)


class _Walk:
    """What stands on top of the stack, as far as it is known: the attribute `path` of what `paths`
    belong to."""

    def __init__(
        self, code: CodeType, scan: BytecodeScan, first: set[Path], captured: frozenset[str]
    ):
        self.scan = scan
        self.captured = captured
        self.first = first
        self.argument = code.co_varnames[0] if code.co_argcount else None
        self.paths = scan.loose
        self.path: Path = ()
        self.applied = ""  # a builtin that will be called on what is loaded next
        self.constants: list[Any] = [0, None]  # the last two that were loaded
        self.after_constant = False
        self.compares_identity = False
        self.key: str | None = None  # that of the item which is taken next
        self.by_name = 0  # how often a builtin is named that takes a name, and with a constant
        self.by_constant = 0
        self.puts_together = bool(_PUTTING.intersection(code.co_names))
        self.takes_names = bool(_TAKES_NAMES.difference(_BY_NAME).intersection(code.co_names))

    @property
    def computes_names(self) -> bool:
        """Whether an attribute may be read whose name is no constant of the code."""
        computed = self.by_name > self.by_constant or (self.by_name and self.puts_together)
        return bool(self.takes_names or computed)

    def takes_key(self, instruction: Any) -> bool:
        """Whether this loads the key of an item of what stands on top, which is known."""
        if self.path == () and self.paths is self.scan.loose:
            return False
        name, what = instruction.opname, instruction.argval
        is_local = name.startswith("LOAD_FAST") and isinstance(what, str) and what != self.argument
        if name == "LOAD_CONST" and isinstance(what, str):
            self.key = item_of(what)
        elif is_local or name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            self.key = ANY_ITEM
        return self.key is not None

    def step(self, instruction: Any) -> None:
        name, what = instruction.opname, instruction.argval
        if self.key is not None:
            self.extend(self.key)
            self.key = None
        elif name in _ATTRIBUTE:
            self.extend(what)
        elif name in ("STORE_ATTR", "DELETE_ATTR"):
            self.note((*self.path, what))
            self.start(self.scan.loose)
        elif name in _GLOBAL:
            self.start(self.scan.globals.setdefault(what, set()))
            self.by_name += what in _BY_NAME
            if what in _BY_NAME or what in _AS_ATTRIBUTE:
                self.applied = what
        elif name in _CELL and what != self.argument:
            is_local = what in self.captured
            self.start(self.scan.loose if is_local else self.scan.cells.setdefault(what, set()))
        elif name == "LOAD_CONST":
            self.load_constant(what)
        elif name in _CALL:
            self.call(instruction.arg)
        elif name in ("IMPORT_NAME", "IMPORT_FROM"):
            self.load_import(name, what)
        elif name not in _BETWEEN:
            self.load_other(name, what)
        self.after_constant = name == "LOAD_CONST"

    def end(self) -> None:
        """The value that was on top is used as it is."""
        if self.path or self.paths is not self.scan.loose:
            self.paths.add((*self.path, ITSELF))

    def start(self, paths: set[Path]) -> None:
        self.end()
        self.paths, self.path = paths, ()
        if self.applied == _GOT:
            self.applied = ""

    def extend(self, name: str) -> None:
        self.path = (*self.path, name)
        self.note(self.path)

    def note(self, path: Path) -> None:
        self.paths.add(path)
        items = [place for place, name in enumerate(path) if is_item(name)]
        if items and path[items[-1] + 1 :]:
            self.scan.loose.add(path[items[-1] + 1 :])

    def load_constant(self, value: Any) -> None:
        self.constants = [self.constants[1], value]
        if self.applied in _BY_NAME and isinstance(value, str) and value.isidentifier():
            self.extend(value)
            self.by_constant += 1
            self.applied = _GOT
        elif not self.applied:
            self.start(self.scan.loose)

    def call(self, count: int | None) -> None:
        if self.applied in _AS_ATTRIBUTE and count == 1:
            self.extend(_AS_ATTRIBUTE[self.applied])
        elif self.applied != _GOT:
            self.start(self.scan.loose)
        self.applied = ""

    def load_import(self, kind: str, what: str) -> None:
        if kind == "IMPORT_FROM":
            self.paths.add((what,))
            return
        level, names = self.constants
        module = what if names or level else what.partition(".")[0]
        self.start(self.scan.imports.setdefault((level, module), set()))

    def load_other(self, name: str, what: Any) -> None:
        variable = what[-1] if isinstance(what, tuple) else what
        if name.startswith("LOAD_FAST") or name in _CELL:
            known = variable == self.argument and self.argument is not None
            self.start(self.first if known else self.scan.loose)
            return
        if name.startswith("LOAD_SUPER"):
            self.start(self.scan.loose)
            self.extend(variable)
            return
        self.puts_together |= name.startswith(("FORMAT", "BUILD_STRING", "BINARY_OP"))
        compares = (name == "COMPARE_OP" and what in ("==", "!=")) or name == "CONTAINS_OP"
        self.scan.compares |= compares and not self.after_constant
        self.compares_identity |= name == "IS_OP" and not self.after_constant
        self.applied = ""
        self.start(self.scan.loose)


def item_of(key: str) -> str:
    """The part of a path that is the item under this key."""
    return f"[{key}]"


def is_item(name: str) -> bool:
    """Whether this part of a path is an item, and no attribute."""
    return name.startswith("[")


def _is_subscript(instruction: Any) -> bool:
    name = instruction.opname
    return name == "BINARY_SUBSCR" or (name == "BINARY_OP" and instruction.argrepr == "[]")


def _note_types(code: CodeType, scan: BytecodeScan) -> None:
    """`BytecodeScan.takes_types` and `types` of a code object. The type of an object, `self`, is no
    number's."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _BETWEEN]
    taken = sum(
        first.opname in _GLOBAL and first.argval == "type" and second.opname not in _CALL
        and not (second.argval == "self" and third.opname in _CALL)
        for first, second, third in zip(steps, steps[1:], steps[2:])
    )  # fmt: skip
    scan.takes_types |= taken > 0
    if "issubclass" in code.co_names:
        scan.types.add(ITSELF)
    for before, step in itertools.pairwise(steps):
        if step.opname != "IS_OP" or before.opname in ("LOAD_CONST", *_ATTRIBUTE):
            continue
        if before.opname in _GLOBAL:
            scan.types.add(before.argval)
        elif before.opname in _CALL:
            scan.types |= {"int", "float"}.intersection(code.co_names)
        if taken > (before.opname in _CALL) and before.opname not in _GLOBAL:
            scan.types.add(ITSELF)


def _is_name(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _beginning(text: str) -> str:
    """The name that a text starts with, where no sentence does."""
    match = _BEGIN.match(text)
    return match[0] if match and " " not in text else ""


def _texts(constants: Iterable[Any]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple | frozenset):
            yield from _texts(constant)
