"""What a graph is made of: values, constants, source locations, frozen nodes, the graph itself.

A graph is a tuple of nodes in topological order; a node's id is its position. Operands are
`Value(node id, result index)`. The first nodes are the inputs. Nothing here hashes recursively
through operands, and source locations take no part in equality.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphc.ir.dims import Dim
from graphc.ir.types import DType, TensorType
from graphc.records import field, record
from graphc.system import IMPORTING

if TYPE_CHECKING:
    import networkx

INPUT = "input"
CONSTANT = "constant"


FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"
PHASES = (FORWARD, BACKWARD, UPDATE)
_LOCATION = re.compile(
    r"(?:(?P<path>.+):(?P<line>\d{1,9})(?: in (?P<function>\S+))?)?"
    r"(?: ?\[(?P<module>[^][]+)\])?(?: ?\b(?P<phase>backward|update))?"
)


@record
class Location:
    """Where a node stems from: a line of the user's source, the module that ran there, the phase
    of a training step. `path` is the file as Python knows it; `module` the path in the tree of
    modules (`blocks.0.attn`), in an update that of the parameter; each is "" (line 0) where there
    is none. Text: `model.py:12 in forward [blocks.0.attn] backward`; of the path it has the file's
    name, and a forward phase goes without saying."""

    path: str
    line: int
    function: str = ""
    module: str = ""
    phase: str = FORWARD

    @property
    def file(self) -> str:
        """The name of the file, without its folder."""
        return self.path.replace("\\", "/").rpartition("/")[2]

    def within(self, phase: str) -> Location:
        """The same place in another phase: that of a gradient is its op's."""
        if phase == self.phase:
            return self
        return Location(self.path, self.line, self.function, self.module, phase)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.path else ""
        function = f"in {self.function}" if self.path and self.function else ""
        module = f"[{self.module}]" if self.module else ""
        phase = "" if self.phase == FORWARD else self.phase
        words = " ".join(word for word in (place, function, module, phase) if word)
        return " ".join(words.splitlines())  # a file may be called anything

    @staticmethod
    def parse(text: str) -> Location | None:
        """The location whose text this is, its path a name alone; None for other texts."""
        match = _LOCATION.fullmatch(text)
        if match is None or not text:
            return None
        path, line, function, module, phase = match.groups()
        return Location(path or "", int(line or 0), function or "", module or "", phase or FORWARD)


class Constant:
    """A read-only array inside a graph, compared by type and content digest (NaN-safe)."""

    __slots__ = ("array", "digest", "type")

    def __init__(self, array: Any):
        array = np.asarray(array)
        self.type = TensorType.of(array)
        copy = np.array(array, dtype=self.type.dtype.numpy, order="C", copy=True)
        copy.setflags(write=False)
        self.array: np.ndarray[Any, Any] = copy
        from hashlib import sha256  # its import costs more than all of this package's nodes

        self.digest = sha256(copy.tobytes()).digest()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Constant) and self.type == other.type and self.digest == other.digest
        )

    def __hash__(self) -> int:
        return hash((self.type, self.digest))

    def __repr__(self) -> str:
        return f"Constant({self.type})"

    @property
    def scalar(self) -> Any:
        """The one value of a 0-d or uniform constant as a Python number, else None."""
        if self.array.size == 0:
            return None
        first = self.array.flat[0]
        same = self.array.tobytes() == first.tobytes() * self.array.size
        return first.item() if same else None


Attribute = int | float | bool | str | None | Dim | DType | Constant | tuple["Attribute", ...]
Attributes = tuple[tuple[str, Attribute], ...]


def exact(attribute: Any) -> Any:
    """An attribute as a key that tells 1, 1.0 and True, and 0.0 and -0.0 apart."""
    kind = type(attribute)
    if kind is int:
        return attribute
    if kind is tuple:
        for item in attribute:
            if type(item) is not int:
                return tuple([exact(item) for item in attribute])
        return attribute
    if kind is float:
        return (kind, attribute.hex())
    return (kind, attribute) if kind is bool else attribute


class Value(NamedTuple):
    """Result `index` of node `node`. A tuple, since values are what tables are keyed by: those are
    hashed and compared without Python code."""

    node: int
    index: int = 0  # type: ignore[assignment]


@record(eq=False)
class Node:
    """One operation: op name, operands, sorted attributes, subgraphs, result types. Attributes
    are compared exactly (`exact`), locations not at all."""

    op: str
    operands: tuple[Value, ...]
    attributes: Attributes
    types: tuple[TensorType, ...]
    regions: tuple[Graph, ...] = ()
    location: Location | None = None
    # Bodies of kernels are what tables are keyed by, so a node is hashed again and again.
    _exact: Any = field(default=None, init=False, repr=False)
    _hash: int | None = field(default=None, init=False, repr=False)

    def _key(self) -> tuple[Any, ...]:
        attributes = self._exact
        if attributes is None:
            attributes = exact(self.attributes)
            object.__setattr__(self, "_exact", attributes)
        return (self.op, self.operands, attributes, self.types, self.regions)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Node) and self._key() == other._key()

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = hash(self._key())
            object.__setattr__(self, "_hash", known)
        return known

    def __reduce__(self) -> Any:
        # Without the hash, which is this process's; operands as plain pairs: a named tuple takes
        # Python calls of its own to be written.
        pairs = tuple([tuple(value) for value in self.operands])
        return _node, (self.op, pairs, self.attributes, self.types, self.regions, self.location)

    def attribute(self, name: str) -> Any:
        for key, value in self.attributes:
            if key == name:
                return value
        raise KeyError(f"node {self.op} has no attribute {name!r}")


def _node(op: str, pairs: tuple[tuple[int, int], ...], *others: Any) -> Node:
    """A node as it was written."""
    return Node(op, tuple([Value(*pair) for pair in pairs]), *others)


@record
class Graph:
    """Inputs, nodes, outputs. `aliases` holds (output position, input position): that output is
    the new content of that input, which the caller sees change in place. Build with
    `GraphBuilder`; print with `str`; read back with `graphc.parse`."""

    name: str
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    aliases: tuple[tuple[int, int], ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.op == INPUT)

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(node.attribute("name") for node in self.inputs)

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        return tuple(node.types[0] for node in self.inputs)

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(self.type_of(value) for value in self.outputs)

    def type_of(self, value: Value) -> TensorType:
        return self.nodes[value.node].types[value.index]

    def values(self) -> Iterator[Value]:
        for identity, node in enumerate(self.nodes):
            for index in range(len(node.types)):
                yield Value(identity, index)

    def users(self) -> dict[Value, list[int]]:
        """For each value the ids of the nodes that read it, once per operand position."""
        result: dict[Value, list[int]] = {value: [] for value in self.values()}
        for identity, node in enumerate(self.nodes):
            for operand in node.operands:
                result[operand].append(identity)
        return result

    def nx(self, among: Set[int] | None = None) -> networkx.MultiDiGraph:
        """The networkx view of all nodes, or of those `among` them: nodes are ids (attribute
        `node`), an edge per operand, keyed (operand position, result index), so that `mul(x, x)`
        keeps both of its edges."""
        with IMPORTING:
            import networkx

        identities = range(len(self.nodes)) if among is None else sorted(among)
        view = networkx.MultiDiGraph(name=self.name)
        for identity in identities:
            view.add_node(identity, node=self.nodes[identity])
        for identity in identities:
            for position, operand in enumerate(self.nodes[identity].operands):
                if operand.node in view:
                    view.add_edge(operand.node, identity, key=(position, operand.index))
        return view

    def __str__(self) -> str:
        with IMPORTING:
            from graphc.ir.printer import print_graph

        return print_graph(self)
