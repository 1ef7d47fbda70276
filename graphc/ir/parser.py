r"""Text → graph: reads what the printer writes. Errors give line and column.

Any text is either a graph or a ParseError, in time and memory in proportion to its length but for
splats, which `SPLAT_BYTES` bounds. Repetitions in the patterns are possessive (`\d++`): none tries
a shorter match after a longer one.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphc.errors import GraphError, ParseError
from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.nodes import Attribute, Constant, Graph, Location
from graphc.ir.registry import lookup
from graphc.ir.size_grammar import SizeGrammar
from graphc.ir.types import DType, TensorType
from graphc.system import IMPORTING

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>//[^\n]*)
      | (?P<value>%[A-Za-z0-9_.]+)
      | (?P<arrow>->)
      | (?P<type>[a-z][a-z0-9]*+\[[^][%"=]*+\])
      | (?P<number>[-+]?(?:inf|nan|(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?+)(?![A-Za-z_]))
      | (?P<name>[A-Za-z_][A-Za-z0-9_.]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<punctuation><=|[()\[\]{},:=*+-])""",
    re.VERBOSE | re.ASCII,  # no digits but 0 to 9
)
DEPTH = 64  # levels of graphs within graphs, or of lists in an attribute
RANK = 64  # NumPy's limit
SPLAT_BYTES = 1 << 30  # of all splats of a text together
_ARITHMETIC = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, MemoryError)
_LARGEST = 1 << 62  # bytes of a value


def parse(text: str) -> Graph:
    """The graph written in `text`, with types inferred anew and compared with the written ones.

    Raises ParseError (`line L, column C: …`) for text that is no graph.
    """
    parser = _Parser(text)
    graph = parser.graph()
    parser.expect("end")
    return graph


class _Parser(SizeGrammar):
    def __init__(self, text: str):
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._comments: dict[int, str] = {}  # by the number of tokens before, on one line with them
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._error(f"unexpected character {text[position]!r}", position)
            if match.lastgroup == "comment":
                self._note(match[0], position)
            elif match.lastgroup != "space":
                self._tokens.append((str(match.lastgroup), match[0], position))
            position = match.end()
        self._tokens.append(("end", "end of text", len(text)))
        self._next = 0
        self._depth = 0
        self._sizes = {}
        self._splat_bytes = 0

    # -- tokens ------------------------------------------------------------------------------

    def _note(self, comment: str, position: int) -> None:
        last = self._tokens[-1][2] if self._tokens else 0
        if "\n" not in self._text[last:position]:
            self._comments[len(self._tokens)] = comment

    def _location(self) -> Location | None:
        """The location in the comment behind the last token."""
        return Location.parse(self._comments.get(self._next, "").lstrip("/").strip())

    def _error(self, message: str, position: int) -> ParseError:
        line = self._text.count("\n", 0, position) + 1
        column = position - (self._text.rfind("\n", 0, position) + 1) + 1
        return ParseError(f"line {line}, column {column}: {message}")

    def peek(self, *wanted: str) -> bool:
        kind, text, _ = self._tokens[self._next]
        # `inf` and `nan` are numbers, and may be names too.
        named = "name" in wanted and text in ("inf", "nan")
        return kind in wanted or named or (kind != "string" and text in wanted)

    def accept(self, wanted: str) -> str | None:
        if not self.peek(wanted):
            return None
        self._next += 1
        return self._tokens[self._next - 1][1]

    def expect(self, wanted: str) -> str:
        text = self.accept(wanted)
        if text is None:
            token = self._tokens[self._next]
            raise self._error(f"expected {wanted}, found {token[1]!r}", token[2])
        return text

    def here(self) -> int:
        return self._tokens[self._next][2]

    @contextmanager
    def _ahead(self, *wanted: str) -> Iterator[None]:
        """Inside, tokens are read from the next one of `wanted` on; behind it, from here again."""
        here = self._next
        while not self.peek(*wanted, "end"):
            self._next += 1
        yield
        self._next = here

    def _following(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Kind and text of the next two tokens; behind the end stands the end."""
        first, second = self._tokens[self._next], self._tokens[self._next + 1 :][:1]
        return first[:2], (second[0] if second else first)[:2]

    # -- grammar -----------------------------------------------------------------------------

    @contextmanager
    def _nested(self) -> Iterator[None]:
        """Around what may hold itself."""
        if self._depth >= DEPTH:
            raise self._error(f"nested more than {DEPTH} deep", self.here())
        self._depth += 1
        yield
        self._depth -= 1

    def graph(self) -> Graph:
        with self._nested():
            return self._graph()

    def _graph(self) -> Graph:
        self.expect("graph")
        position = self.here()
        builder: GraphBuilder = self._guarded(position, GraphBuilder, self.expect("name"))
        values: dict[str, Var] = {}
        inputs: list[str] = []
        self.expect("(")
        outside = self._sizes
        self._sizes = self._read_sizes() or outside
        while not self.accept(")"):
            position = self.here()
            name = self.expect("value")
            self.expect(":")
            type = self._type()
            values[name] = self._guarded(position, builder.input, name[1:], type)
            inputs.append(name)
            if not self.peek(")"):
                self.expect(",")
        while self._sizes and not self.peek("{"):  # they were read ahead
            self._next += 1
        self.expect("{")
        while not self.accept("return"):
            self._node(builder, values, inputs)
        outputs, aliases = [], []
        while not self.accept("}"):
            outputs.append(self._value(values))
            if self.accept("->"):
                position = self.here()
                target = self.expect("value")
                if target not in inputs:
                    raise self._error(f"{target} is no input", position)
                aliases.append((len(outputs) - 1, inputs.index(target)))
            if not self.peek("}"):
                self.expect(",")
        graph: Graph = builder.finish(*outputs, aliases=aliases)
        with IMPORTING:
            from graphc.ir.verifier import verify

        self._guarded(position, verify, graph)
        self._sizes = outside
        return graph

    def _node(self, builder: GraphBuilder, values: dict[str, Var], inputs: list[str]) -> None:
        position = self.here()
        name = self.expect("value")
        if name in values:
            raise self._error(f"{name} is defined twice", position)
        self.expect("=")
        op_position = self.here()
        op = self.expect("name")
        if op == "constant":
            constant = self._constant(self._type())
            with builder.at(self._location()):
                values[name] = builder.constant(constant)
            return
        operands = []
        self.expect("(")
        while not self.accept(")"):
            operands.append(self._value(values))
            if not self.peek(")"):
                self.expect(",")
        attributes: dict[str, Any] = {}
        while self.peek("name") and not self.peek("graph", "return"):
            attribute_position = self.here()
            attribute = self.expect("name")
            if attribute in attributes:
                raise self._error(f"{attribute} is given twice", attribute_position)
            self.expect("=")
            attributes[attribute] = self._attribute()
        regions = []
        while self.peek("graph"):
            regions.append(self.graph())
        self.expect(":")
        types_position = self.here()
        types = [self._type()]
        while self.accept(","):
            types.append(self._type())
        definition = self._guarded(op_position, lookup, op)
        with builder.at(self._location()):
            results = self._guarded(
                op_position, builder.apply, definition, tuple(operands), attributes, tuple(regions)
            )
        inferred = [result.type for result in results]
        if inferred != types:
            listed = ", ".join(map(str, inferred))
            raise self._error(f"{op} gives {listed}, the text says otherwise", types_position)
        for index, result in enumerate(results):
            own = name + (f".{index}" if index else "")
            if own in values:
                raise self._error(f"{own} is defined twice", position)
            values[own] = result

    def _value(self, values: dict[str, Var]) -> Var:
        position = self.here()
        name = self.expect("value")
        if name not in values:
            raise self._error(f"{name} is not defined", position)
        return values[name]

    def _attribute(self) -> Attribute:
        position = self.here()
        if self.accept("["):
            with self._nested():
                return self._attributes()
        if self.peek("string"):
            return re.sub(
                r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], self.expect("string")[1:-1]
            )
        if self.peek("type"):
            return self._constant(self._type())
        if self._stands_extent():
            return self._sum()
        if self.peek("number"):
            return self._plain_number(self.expect("number"), position)
        word = self.expect("name")
        words: dict[str, Attribute] = {"true": True, "false": False, "none": None}
        if word in words:
            return words[word]
        if word in DType.__members__ and DType[word].is_compiled:
            return DType[word]
        raise self._error(f"{word!r} is no attribute value", position)

    def _attributes(self) -> tuple[Attribute, ...]:
        """The items of a list, and its end."""
        items = []
        while not self.accept("]"):
            items.append(self._attribute())
            if not self.peek("]"):
                self.expect(",")
        return tuple(items)

    def _plain_number(self, text: str, position: int) -> int | float:
        try:
            return int(text) if text.lstrip("+-").isdecimal() else float(text)
        except ValueError as error:  # Python reads integers of 4,300 digits
            raise self._error(f"bad number: {error}", position) from None

    def _type(self) -> TensorType:
        position = self.here()
        text = self.expect("type")
        try:
            type = TensorType.parse(text, self._sizes)
        except (ParseError, ValueError) as error:
            raise self._error(str(error), position) from None
        if type.rank > RANK:
            raise self._error(f"a type of more than {RANK} dimensions", position)
        numbers = [extent for extent in type.shape if isinstance(extent, int) and extent]
        if math.prod(numbers) * type.dtype.itemsize >= _LARGEST:
            raise self._error("a type whose bytes cannot be counted", position)
        return type

    def _constant(self, type: TensorType) -> Constant:
        position = self.here()
        if self.accept("splat"):
            self._splat_bytes += type.nbytes
            if self._splat_bytes > SPLAT_BYTES:
                raise self._error(f"splats of more than {SPLAT_BYTES} bytes", position)
            return Constant(np.full(type.shape, self._number(type.dtype), type.dtype.numpy))
        if self.accept("base64"):
            return Constant(self._decoded(type, self.expect("string")[1:-1], position))
        items = []
        self.expect("[")
        while not self.accept("]"):
            items.append(self._number(type.dtype))
            if not self.peek("]"):
                self.expect(",")
        if len(items) != type.numel:
            raise self._error(f"{type} takes {type.numel} items, not {len(items)}", position)
        return Constant(np.array(items, type.dtype.numpy).reshape(type.shape))

    def _decoded(self, type: TensorType, text: str, position: int) -> np.ndarray[Any, Any]:
        try:
            data = base64.b64decode(text, validate=True)
        except ValueError as error:  # binascii.Error is one
            raise self._error(f"bad base64: {error}", position) from None
        if len(data) != type.nbytes:
            raise self._error(f"{type} takes {type.nbytes} bytes, not {len(data)}", position)
        little = np.frombuffer(data, type.dtype.numpy.newbyteorder("<"))
        return little.astype(type.dtype.numpy).reshape(type.shape)

    def _number(self, dtype: DType) -> Any:
        position = self.here()
        if dtype is DType.bool:
            word = self.expect("name")
            if word not in ("true", "false"):
                raise self._error("expected true or false", position)
            return word == "true"
        text = self.expect("number")
        try:
            return dtype.numpy.type(text) if dtype.is_float else dtype.numpy.type(int(text))
        except (ValueError, OverflowError) as error:
            raise self._error(f"bad {dtype.value} number {text!r}: {error}", position) from None

    def _guarded(self, position: int, call: Any, *arguments: Any) -> Any:
        """`call(*arguments)`, its error turned into a ParseError at `position`. What an op infers
        from attributes of any kind and size may fail as arithmetic on them does."""
        try:
            return call(*arguments)
        except ParseError:
            raise
        except GraphError as error:
            message = str(error).partition("\n  at: ")[0]
            raise self._error(message, position) from error
        except _ARITHMETIC as error:
            raise self._error(f"{type(error).__name__}: {error}", position) from error
