"""Runs pickles without Python's unpickler: a pickle can only ask for what stands in a table.

in : the bytes of a pickle, a table of names, what a persistent id stands for
out: numbers, texts, bytes, lists, tuples, dicts, sets, and what the table's functions return

A pickle is a program for a machine with a stack. Python's runs any function it names, and sets any
attribute of anything (BUILD). This one knows no attributes: REDUCE calls a `Call` of the table and
nothing else, BUILD hands state to `set_state`, which decides by the object, and the opcodes
that make objects in other ways (INST, OBJ, EXT and the like) are errors. What the user `allowed` by
name is called by REDUCE too, and made by NEWOBJ, which is an error otherwise. All of it is paid for
from the budget of the file (budget.py): opcodes, what containers grow by, what functions are given
and what they make; no opcode reserves what its argument declares.
"""

from __future__ import annotations

import io
import pickletools
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from frontend.engine.tensors.epoch import HookRegistry, Registry
from frontend.serialization.budget import Budget
from frontend.serialization.errors import Refused

_DICTS = (dict, OrderedDict, defaultdict, Counter, Registry, HookRegistry)
_MARK = object()
_PAID_AT_ONCE = 1024  # opcodes
_SKIPPED = 1024  # places of the memo
_TRACKED = 16  # bytes that the garbage collector has before a container

_LITERALS = {
    "INT", "LONG", "LONG1", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT", "UNICODE",
    "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8",
    "BYTEARRAY8", "STRING",
}  # fmt: skip
_TEXTS_OF_PYTHON_2 = {"BINSTRING", "SHORT_BINSTRING"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUT = {"PUT", "BINPUT", "LONG_BINPUT"}
_GET = {"GET", "BINGET", "LONG_BINGET"}


@dataclass(frozen=True, slots=True)
class Call:
    """A function that pickles may call under `name`. One that is `budgeted` puts keys into dicts or
    sets, and takes the budget that pays for them as its first argument. `of_class`: pickles may say
    it as a class of which an object is made."""

    name: str
    function: Callable[..., Any]
    budgeted: bool = False
    of_class: bool = False


class PickleMachine:
    """Runs one pickle after the other of a file."""

    def __init__(
        self,
        table: Mapping[str, Any],
        persistent: Callable[[Any], Any],
        set_state: Callable[[Any, Any], None],
        budget: Budget,
        allowed: Iterable[Any] = (),
    ):
        self.table = table
        self.allowed = list(allowed)
        self.persistent = persistent
        self.set_state = set_state
        self.budget = budget
        self.stack: list[Any] = []
        self.memo: list[Any] = []

    def run(self, stream: io.BytesIO) -> Any:
        """The object of the pickle that begins where `stream` stands, which then stands behind it.
        Raises Refused, ValueError, IndexError and the like."""
        self.stack, self.memo = [], []
        operations = pickletools.genops(stream)
        held, position = 0, -1
        while stream.tell() != position:
            position = stream.tell()
            grown = sys.getsizeof(self.stack) + sys.getsizeof(self.memo) - held
            held += max(0, grown)
            self.budget.spend(_PAID_AT_ONCE, max(0, grown))
            for opcode, argument, _ in islice(operations, _PAID_AT_ONCE):
                self._step(opcode.name, argument)
        return self._pop()

    def _step(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self._put(_EMPTY[name]())
        elif name in _PUT:
            self._remember(argument)
        elif name in _GET:
            self.stack.append(self._remembered(argument))
        elif name in _TUPLES:
            items = [self._pop() for _ in range(_TUPLES[name])]
            self._put(tuple(reversed(items)))
        elif name in _TEXTS_OF_PYTHON_2:
            self.stack.append(argument.encode("latin-1").decode("utf-8"))
        elif name not in ("PROTO", "FRAME", "STOP"):
            self._act(name, argument)

    def _act(self, name: str, argument: Any) -> None:
        match name:
            case "MARK":
                self.stack.append(_MARK)
            case "MEMOIZE":
                self._remember(len(self.memo))
            case "POP":
                self.stack.pop()
            case "POP_MARK":
                self._marked()
            case "DUP":
                self.stack.append(self._top())
            case "TUPLE" | "LIST" | "FROZENSET" | "DICT":
                self._collect(name, self._marked())
            case "APPEND" | "APPENDS":
                items = self._marked() if name == "APPENDS" else [self._pop()]
                self._grow(list.extend, self._target(list), items)
            case "SETITEM" | "SETITEMS":
                items = self._marked() if name == "SETITEMS" else [self._pop(), self._pop()][::-1]
                self._grow(self._put_items, self._target(*_DICTS), items)
            case "ADDITEMS":
                items = self._marked()
                self._grow(self._put_members, self._target(set), items)
            case "GLOBAL":
                self._name(argument.replace(" ", ".", 1))
            case "STACK_GLOBAL":
                attribute, module = self._pop(), self._pop()
                if type(module) is not str or type(attribute) is not str:
                    raise Refused("it names something by a value that is no text")
                self._name(f"{module}.{attribute}")
            case "REDUCE":
                self._reduce()
            case "NEWOBJ":
                self._make()
            case "BUILD":
                state = self._pop()
                self.budget.pay_for_arguments((state,))
                self.set_state(self._top(), state)
                self.budget.pay_for_result(self._top())
            case "BINPERSID":
                identity = self._pop()
                self.budget.pay_for_arguments((identity,))
                self.stack.append(self.persistent(identity))
            case _:
                raise Refused(f"its pickle has the opcode {name}, which plain data does not need")

    def _collect(self, name: str, items: list[Any]) -> None:
        if name == "LIST":
            self._put(items)
        elif name == "TUPLE":
            self._put(tuple(items))
        elif name == "FROZENSET":
            self._put(frozenset(put_members(set(), items, self.budget)))
        else:
            self._put(put_items({}, items, self.budget))

    def _put(self, container: Any) -> None:
        """Put a container on the stack that is new."""
        self.budget.spend(0, sys.getsizeof(container) + _TRACKED)
        self.stack.append(container)

    def _grow(self, add: Callable[..., Any], container: Any, items: list[Any]) -> None:
        before = sys.getsizeof(container)
        add(container, items)
        self.budget.spend(len(items) >> 2, max(0, sys.getsizeof(container) - before))

    def _put_items(self, target: Any, items: list[Any]) -> None:
        put_items(target, items, self.budget)

    def _put_members(self, target: Any, items: list[Any]) -> None:
        put_members(target, items, self.budget)

    def _remember(self, place: int) -> None:
        """Keep the top of the stack. Picklers count the places, from 0 or from 1 on."""
        if not 0 <= place <= len(self.memo) + _SKIPPED:
            raise Refused(f"it remembers something at {str(place)[:20]}, far behind the rest")
        self.memo.extend([_MARK] * (place + 1 - len(self.memo)))
        self.memo[place] = self._top()

    def _remembered(self, place: int) -> Any:
        if not 0 <= place < len(self.memo) or self.memo[place] is _MARK:
            raise ValueError(f"its pickle remembers nothing at {str(place)[:20]}")
        return self.memo[place]

    def _name(self, name: str) -> None:
        if name not in self.table:
            raise Refused(
                f"it names {name[:200]}, which a file of plain data does not need; nothing of it "
                "was run"
            )
        self.stack.append(self.table[name])

    def _reduce(self) -> None:
        arguments, function = self._pop(), self._pop()
        call = function.function if type(function) is Call else self._permitted(function)
        if type(arguments) is not tuple:
            raise Refused("it calls a function with something else than arguments")
        self.budget.pay_for_arguments(arguments)
        budgeted = type(function) is Call and function.budgeted
        result = call(self.budget, *arguments) if budgeted else call(*arguments)
        self.budget.pay_for_result(result)
        self.stack.append(result)

    def _make(self) -> None:
        arguments, kind = self._pop(), self._pop()
        if type(kind) is Call and kind.of_class:
            self.stack += [kind, arguments]
            return self._reduce()
        kind = self._permitted(kind)
        if type(arguments) is not tuple or not isinstance(kind, type):
            raise Refused("it makes an object of something else than a class and arguments")
        self.budget.pay_for_arguments(arguments)
        self.budget.pay_for_result(result := kind.__new__(kind, *arguments))
        self.stack.append(result)

    def _permitted(self, item: Any) -> Any:
        """What was allowed by name."""
        if not any(item is one for one in self.allowed):
            raise Refused(f"it calls a {type(item).__name__}, which is no function")
        return item

    # -- the stack ---------------------------------------------------------------------------

    def _top(self) -> Any:
        if self.stack[-1] is _MARK:
            raise ValueError("its pickle uses a mark as a value")
        return self.stack[-1]

    def _pop(self) -> Any:
        value = self._top()
        self.stack.pop()
        return value

    def _marked(self) -> list[Any]:
        """What stands above the last mark, which goes too."""
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _target(self, *types: type) -> Any:
        target = self._top()
        if type(target) not in types:
            raise Refused(f"its pickle adds items to a {type(target).__name__}")
        return target


def put_items(target: Any, items: list[Any], budget: Budget) -> Any:
    """Put keys and values, one after the other in `items`, into a dict, which is returned."""
    if len(items) % 2:
        raise ValueError("its pickle has a key without a value")
    for key, value in zip(items[::2], items[1::2]):
        target[budget.key(key, target)] = value
    return target


def put_members(target: set[Any], items: Iterable[Any], budget: Budget) -> set[Any]:
    """Put items into a set, which is returned."""
    for item in items:
        target.add(budget.key(item, target))
    return target
