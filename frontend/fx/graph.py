"""`Graph`: calls in the order they are made, as a list of Nodes that can be changed.

in : what is called, on which nodes
out: nodes; the text of the graph, and Python code that makes the calls (`code_generation.py`)
"""

from __future__ import annotations

import builtins
import copy
import keyword
import re
from collections.abc import Callable, Iterator
from typing import Any

from frontend.fx.code_generation import CodeGen, PythonCode
from frontend.fx.node import Node, Target, map_aggregate, map_arg, qualified_name

_NOT_IN_A_NAME = re.compile(r"[^0-9a-zA-Z_]+")
_SUFFIX = re.compile(r"(.*)_(\d+)$")
_TAKEN = frozenset({"torch", "device", "inf", "nan", "NoneType", "self"})


class _Namespace:
    """Names for nodes, each once, that hide neither keywords nor builtins."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def create_name(self, candidate: str) -> str:
        name = _NOT_IN_A_NAME.sub("_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        matched = _SUFFIX.fullmatch(name)
        base, number = (matched[1], int(matched[2])) if matched else (name, 0)
        while name in self._used or self._hides(name):
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        return name

    @staticmethod
    def _hides(name: str) -> bool:
        return keyword.iskeyword(name) or hasattr(builtins, name) or name in _TAKEN

    def release(self, name: str) -> None:
        self._used.discard(name)


class _NodeList:
    """The nodes of a graph, in order; it may be changed while it is walked."""

    def __init__(self, graph: Graph, direction: str = "_next"):
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> _NodeList:
        return _NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")


class _InsertPoint:
    """A block whose new nodes go elsewhere."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]):
        self.graph = graph
        self.previous, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self.graph._insert = self.previous


class Graph:
    """Calls in order. Nodes are added at the insert point: the end, unless inside a block of
    `inserting_before` or `inserting_after`."""

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._graph_namespace = _Namespace()
        self._codegen = CodeGen()
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras

    @property
    def nodes(self) -> Any:
        """The nodes in order; `reversed(graph.nodes)` the other way."""
        return _NodeList(self)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of one kind (and target), in order."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The node that says what is returned. Raises AssertionError where there is not one."""
        outputs = self.find_nodes(op="output")
        if len(outputs) != 1:
            raise AssertionError(f"the graph has {len(outputs)} output nodes")
        return outputs[0]

    # -- adding ------------------------------------------------------------------------------

    def create_node(
        self, op: str, target: Target, args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None, name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a call at the insert point."""
        name = self._graph_namespace.create_name(name or _target_name(target))
        node = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        self._insert(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An argument; `*name` and `**name` take the rest."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or constant of the module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None,
        type_expr: Any = None, name: str | None = None,
    ) -> Node:  # fmt: skip
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """What is returned."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """A block whose nodes go before `n` (None: to the beginning)."""
        if n is None:
            return self.inserting_after(self._root)
        self._check_own(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """A block whose nodes go after `n` (None: to the end), in their order."""
        if n is None:
            return self.inserting_before(self._root)
        self._check_own(n)
        place = n

        def insert(node: Node) -> None:
            nonlocal place
            place.append(node)
            place = node

        return _InsertPoint(self, insert)

    def _check_own(self, node: Node) -> None:
        if node.graph is not self:
            raise AssertionError("Node to insert before or after is not in graph.")

    # -- copying -----------------------------------------------------------------------------

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Add a copy of a node (of any graph), its operands replaced by `arg_transform`."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = copy.copy(node.meta)
        return copied

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False
    ) -> Any:
        """Add copies of all nodes of `g` that `val_map` does not have yet, and note them there;
        what `g` returns, in terms of the copies."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        graph = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        copies: dict[Node, Any] = {}
        for node in self.nodes:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
            if memo is not None:
                memo[id(node)] = copies[node]
        return graph

    def __getstate__(self) -> dict[str, Any]:
        """Nodes as a flat list: links are as deep as a graph is long."""
        place = {node: i for i, node in enumerate(self.nodes)}

        def by_place(node: Node) -> Any:
            return _Place(place[node])

        rows = [
            (n.op, n.target, map_arg(n.args, by_place), map_arg(n.kwargs, by_place), n.name, n.type,
             n.meta)
            for n in self.nodes
        ]  # fmt: skip
        return {"rows": rows, "tracer_cls": self._tracer_cls}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(tracer_cls=state["tracer_cls"])  # type: ignore[misc]
        nodes: list[Node] = []
        for op, target, args, kwargs, name, kind, meta in state["rows"]:
            args, kwargs = (_with_nodes(part, nodes) for part in (args, kwargs))
            nodes.append(self.create_node(op, target, args, kwargs, name, kind))
            nodes[-1].meta = meta

    # -- removing ----------------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Take a node away. Raises RuntimeError where it has users."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._set((), {})
        to_erase._unlink()  # its own links stay, for who is walking over it
        to_erase._erased = True

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take away what nobody uses and what has no side effect; whether there was any. In-place
        methods count as having none: their result has to be used."""
        self.lint()
        keeps = is_impure_node or Node.is_impure
        dead = False
        for node in reversed(self.nodes):
            if not node.users and not keeps(node):
                self.erase_node(node)
                dead = True
        return dead

    # -- checking and text -------------------------------------------------------------------

    def lint(self) -> None:
        """Raise RuntimeError where a node uses one that does not come before it, a name stands
        twice, or the module does not have a target."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but "
                        "was used as an argument! If you are copying nodes from another graph, "
                        "make sure to use ``arg_transform`` on node_copy() to remap values"
                    )
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                        "Please check that Nodes in the graph are topologically ordered"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                _check_target(self.owning_module, node)

    def python_code(self, root_module: str = "self", **options: Any) -> PythonCode:
        """Source of a function `forward` that makes the calls, and the globals it needs."""
        return self._codegen.written(self.nodes, root_module)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Have code written by another writer."""
        self._codegen = codegen

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        rows += [[n.op, n.name, _cell(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        rows.insert(1, ["-" * width for width in widths])
        for row in rows:
            print("  ".join(f"{text:<{width}}" for text, width in zip(row, widths)).rstrip())

    def __str__(self) -> str:
        lines = [line for node in self.nodes if (line := node.format_node()) is not None]
        return "\n    ".join(["graph():", *lines])


class _Place:
    """Stands for a node in a pickle."""

    def __init__(self, index: int):
        self.index = index


def _with_nodes(value: Any, nodes: list[Node]) -> Any:
    return map_aggregate(value, lambda x: nodes[x.index] if isinstance(x, _Place) else x)


def _cell(target: Any) -> str:
    return target if isinstance(target, str) else qualified_name(target)


def _target_name(target: Any) -> str:
    """A name for the node of a call: "sum" for the method, "and_" for the operator, "layer_0"."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "function")
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    name = name.lstrip("*")
    return (
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        if not isinstance(target, str)
        else name
    )


def _check_target(module: Any, node: Node) -> None:
    """Raise RuntimeError where the path of a node leads nowhere."""
    value = module
    for part in str(node.target).split("."):
        if not hasattr(value, part):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of "
                f"{type(value).__name__}"
            )
        value = getattr(value, part)


__all__ = ["CodeGen", "Graph", "PythonCode"]
