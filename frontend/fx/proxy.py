"""`Proxy`: stands for a value while a function is traced, and notes what is done with it.

in : operators, attributes, functions of tensors (by `__torch_function__`)
out: nodes, each wrapped in a Proxy again; TraceError where a value itself would be needed
"""

from __future__ import annotations

import dis
import inspect
import operator
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from frontend.engine.tensors.dtypes import device
from frontend.engine.tensors.tensor import Tensor
from frontend.fx.code_generation import OPERATORS
from frontend.fx.graph import Graph
from frontend.fx.node import Node, Target, base_types, map_aggregate
from frontend.overrides.interception import intercept_functions
from frontend.overrides.names import resolve_name
from graphc.ir.types import DType


class TraceError(ValueError):
    """What is done with a Proxy depends on its value, which a trace does not have."""


_NOT_ITERATED = (
    "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as "
    "a *args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more "
    "detailed explanation of what types of control flow can be traced, and check out the Proxy "
    "docstring for help troubleshooting Proxy iteration errors"
)
_NOT_DECIDED = "symbolically traced variables cannot be used as inputs to control flow"


class TracerBase:
    """What nodes are made by: how arguments become those of nodes, and what a Proxy does where its
    value is asked for. A subclass has a `graph`."""

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False

    def create_node(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a node to the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        name: str | None = None, type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:  # fmt: skip
        """A Proxy for a new node, from arguments with Proxys among them."""
        taken, named = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, taken, named, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """An argument of a node for an argument of a call. Raises NotImplementedError for what a
        graph cannot hold, RuntimeError for a dict whose keys are Proxys."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(type(a), "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*[self.create_arg(item) for item in a])
        if isinstance(a, tuple | list):
            return type(a)([self.create_arg(item) for item in a])
        if isinstance(a, dict):
            if any(isinstance(key, Proxy) for key in a):
                raise RuntimeError(
                    "Keys for dictionaries used as an argument cannot contain a Node. Got key: "
                    f"{next(key for key in a if isinstance(key, Proxy))}"
                )
            return {key: self.create_arg(item) for key, item in a.items()}
        if isinstance(a, slice):
            return slice(*[self.create_arg(part) for part in (a.start, a.stop, a.step)])
        if isinstance(a, range):
            return range(*[self.create_arg(part) for part in (a.start, a.stop, a.step)])
        if isinstance(a, (*base_types, DType, device, Tensor, Node)) or callable(a):
            return a
        if type(a).__module__.startswith("frontend.engine.tensors."):  # memory formats, layouts
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """Called where a Proxy decides what is done."""
        raise TraceError(_NOT_DECIDED)

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Called where a Proxy is walked over."""
        raise TraceError(_NOT_ITERATED)

    def keys(self, obj: Proxy) -> Any:
        """Called for `proxy.keys()`, and so for `**proxy`."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that is there."""

    def __init__(self, graph: Graph):
        self.graph = graph


class Proxy:
    """A value of a trace. Operators, attributes and calls on it give Proxys; `node` is what made
    it.

    `for x in proxy`, `if proxy:`, `int(proxy)` ask for a value that is not there: rewrite such
    code, pass what it depends on as `concrete_args`, or make the function around it a leaf
    (`fx.wrap`, `Tracer.is_leaf_module`).
    """

    node: Node
    tracer: TracerBase

    def __init__(self, node: Node, tracer: TracerBase | None = None):
        intercept_functions()
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        return Attribute(self, k)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A value is not there to be copied: the copy is the same value."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = inspect.currentframe()
        count = None if frame is None or frame.f_back is None else _unpacked(frame.f_back)
        if count is not None:
            return iter([self[index] for index in range(count)])
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __getitem__(self, key: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.getitem, (self, key), {})

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tracers: dict[TracerBase, None] = {}

        def note(value: Any) -> None:
            if isinstance(value, Proxy):
                tracers[value.tracer] = None

        map_aggregate(args, note)
        map_aggregate(kwargs or {}, note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations"
                f" {orig_method}"
            )
        (tracer,) = tracers
        path = resolve_name(orig_method) or ""
        if path.startswith("torch.Tensor."):
            return tracer.create_proxy(
                "call_method", path[len("torch.Tensor.") :], args, kwargs or {}
            )
        if path.endswith(".einsum") and len(args) == 2 and isinstance(args[1], list | tuple):
            args = (args[0], *args[1])  # PyTorch's calls itself with the operands one by one
        return tracer.create_proxy("call_function", orig_method, args, kwargs or {})


def _unpacked(frame: FrameType) -> int | None:
    """Into how many names the frame is unpacking a value, where it is (`a, b = proxy`)."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            unpacks = instruction.opname == "UNPACK_SEQUENCE"
            return instruction.argval if unpacks else None
    return None


class Attribute(Proxy):
    """An attribute of a Proxy. Called, it is a method; otherwise `getattr` goes into the graph when
    it is used."""

    def __init__(self, root: Proxy, attr: str):
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:
            proxy = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = proxy.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _operator(function: Any, reflected: bool) -> Any:
    def method(self: Proxy, *others: Any) -> Any:
        operands = (*others, self) if reflected else (self, *others)
        tracer = self.tracer
        return tracer.create_proxy("call_function", function, operands, {})

    return method


for _name, _text in OPERATORS.items():
    _function, _stem = getattr(operator, _name), _name.strip("_")
    setattr(Proxy, f"__{_stem}__", _operator(_function, False))
    if _text.count("{}") == 2 and _name not in ("eq", "ne", "lt", "gt", "le", "ge", "getitem"):
        setattr(Proxy, f"__r{_stem}__", _operator(_function, True))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]  # `==` is a node

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]
