"""Running a graph node by node: `Interpreter`, and `Transformer`, which makes another graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from frontend.fx.graph import Graph
from frontend.fx.graph_module import GraphModule, _get_attr
from frontend.fx.node import Node, Target, map_aggregate, map_arg
from frontend.fx.proxy import Proxy, TracerBase


class Interpreter:
    """Runs the nodes of a GraphModule one by one; a subclass overrides what a kind of node does.
    `env` has the values by node; each goes when nobody needs it any more, unless told not to."""

    def __init__(
        self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None
    ):
        self.module = module
        self.graph: Graph = module.graph if graph is None else graph
        self.submodules = dict(module.named_modules())
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.name = "Interpreter"
        self.env: dict[Node, Any] = {}
        self.args_iter: Iterator[Any] = iter(())

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:  # fmt: skip
        """What the graph returns for these arguments. Nodes in `initial_env` are not run. An error
        has the node it came from in its notes."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        last = self._last_uses() if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    error.add_note(f"While executing {node.format_node()}")
                raise
            if node.op == "output":
                return self.env[node]
            for done in last.get(node, ()):
                self.env.pop(done, None)
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """`run`, emptying the list, so that nobody else keeps the arguments."""
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args)

    def _last_uses(self) -> dict[Node, list[Node]]:
        last: dict[Node, list[Node]] = {}
        used: set[Node] = set()
        for node in reversed(self.graph.nodes):
            for operand in node.all_input_nodes:
                if operand not in used:
                    used.add(operand)
                    last.setdefault(node, []).append(operand)
        return last

    def run_node(self, n: Node) -> Any:
        """What one node gives."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    # -- by kind -----------------------------------------------------------------------------

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument; its default where there is none. Raises RuntimeError without one."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if not args:
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            )
        return args[0]

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return target(*args, **kwargs)  # type: ignore[operator]

    def call_method(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        owner, *rest = args
        return getattr(owner, str(target))(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[0]

    # -- values ------------------------------------------------------------------------------

    def fetch_attr(self, target: str) -> Any:
        """What is at a path of the Module. Raises RuntimeError where nothing is."""
        try:
            return _get_attr(self.module, target)
        except AttributeError:
            raise RuntimeError(f"Node referenced nonexistent target {target}") from None

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node, with values for the nodes among them."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """`args` with values for nodes. Raises RuntimeError for a node that was not run."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose "
                    "such issues"
                )
            return self.env[node]

        return map_arg(args, value)


class _TransformerTracer(TracerBase):
    """Makes the nodes of the new graph. Modules and attributes are those of the old one."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """An Interpreter over Proxys: `transform()` gives the module of a new graph. A subclass
    overrides what a kind of node becomes."""

    def __init__(self, module: GraphModule):
        super().__init__(module)
        self.new_graph = Graph(tracer_cls=module.graph._tracer_cls)
        self.tracer = _TransformerTracer(self.new_graph)

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        returned = self.run(enable_io_processing=False)
        if returned is not None:
            node = lambda x: x.node if isinstance(x, Proxy) else x  # noqa: E731
            self.new_graph.output(map_aggregate(returned, node))
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)


__all__ = ["Interpreter", "Transformer"]
