"""`Node`: one call in a Graph, and walking through its arguments.

in : what is called, with nodes among its arguments
out: a link in the graph's list, that knows its operands and its users
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from frontend.fx.immutable_collections import immutable_dict, immutable_list
from frontend.overrides.checks import _assert
from frontend.overrides.names import resolve_name

if TYPE_CHECKING:
    Argument: TypeAlias = Any
    Target: TypeAlias = Callable[..., Any] | str
else:
    Argument = Any
    Target = Callable[..., Any] | str

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
base_types = (str, int, float, bool, complex, type(None), type(Ellipsis))

_side_effectful_functions: set[Any] = {_assert}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function whose calls stay where nobody uses what they give. A decorator too."""
    _side_effectful_functions.add(fn)
    return fn


# -- names ---------------------------------------------------------------------------------------


@functools.cache
def qualified_name(function: Callable[..., Any]) -> str:
    """How a function is written: "torch.relu", "operator.add", "getattr" of builtins."""
    name = getattr(function, "__name__", type(function).__name__)
    if getattr(builtins, name, None) is function:
        return f"builtins.{name}"
    if getattr(operator, name, None) is function:
        return f"operator.{name}"
    if type(function).__module__ == "frontend.ops":
        return f"torch.ops.{function}"
    ours = resolve_name(function)
    if ours is not None or function is _assert:
        return ours or "torch._assert"
    module = getattr(function, "__module__", None)
    qualified = getattr(function, "__qualname__", name)
    return f"{module}.{qualified}" if module else qualified


def reachable_global(function: Callable[..., Any]) -> str | None:
    """The qualified name, where evaluating it gives the function; None where it does not (a lambda,
    a function inside another, a wrapper)."""
    path = qualified_name(function)
    root, *rest = path.split(".")
    value: Any = sys.modules.get("frontend" if root == "torch" else root)
    for part in rest:
        value = getattr(value, part, None)
    return path if value is function else None


# -- arguments -----------------------------------------------------------------------------------


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`a` with `fn` applied to everything in its tuples, lists, dicts and slices, as immutable
    ones."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(item, fn) for key, item in a.items()})
    if isinstance(a, slice):
        return slice(*[map_aggregate(part, fn) for part in (a.start, a.stop, a.step)])
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`a` with `fn` applied to every Node in it."""
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _shown(arg: Any) -> str:
    if isinstance(arg, list):
        return f"[{', '.join(map(_shown, arg))}]"
    if isinstance(arg, tuple):
        return f"({', '.join(map(_shown, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return f"{{{', '.join(f'{key}: {_shown(item)}' for key, item in arg.items())}}}"
    return f"%{arg.name}" if isinstance(arg, Node) else str(arg)


class Node:
    """One call. `op` says of what: "placeholder" (an argument), "get_attr", "call_function",
    "call_method", "call_module" or "output"; `target` names it. `users` are the nodes it is an
    argument of; `meta` is for whoever works on the graph."""

    def __init__(
        self, graph: Any, name: str, op: str, target: Target, args: tuple[Any, ...],
        kwargs: dict[str, Any], return_type: Any = None,
    ):  # fmt: skip
        if op not in (*OPS, "root"):
            raise AssertionError(f"Unknown op: {op}; one of {', '.join(OPS)}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} "
                "but a Callable is expected"
            )
        if op not in ("call_function", "root") and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} "
                "but a str is expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._inputs: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._set(args, kwargs)

    def _set(self, args: Any, kwargs: Any) -> None:
        """New arguments; their users follow."""
        for node in self._inputs:
            node.users.pop(self, None)
        self._inputs = {}
        self._args = map_arg(tuple(args), self._noted)
        self._kwargs = map_arg(dict(kwargs), self._noted)

    def _noted(self, node: Node) -> Node:
        self._inputs[node] = None
        node.users[self] = None
        return node

    # -- arguments ---------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Any, ...]:
        return self._args

    @args.setter
    def args(self, a: tuple[Any, ...]) -> None:
        self._set(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Any]) -> None:
        self._set(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._inputs)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Put `arg` in place of the positional argument `idx`."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Put `arg` before the positional argument `idx`."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Put `arg` in place of the keyword argument `key`."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` wherever `old_input` stands in the arguments."""

        def replaced(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set(map_arg(self._args, replaced), map_arg(self._kwargs, replaced))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None,
        *, propagate_meta: bool = False,
    ) -> list[Node]:  # fmt: skip
        """Have all users (for which `delete_user_cb` is true) use another node; those users."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("the node that replaces another has meta data already")
            replace_with.meta.update(self.meta)
        changed = [u for u in self.users if delete_user_cb is None or delete_user_cb(u)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # -- place in the list -------------------------------------------------------------------

    @property
    def next(self) -> Node:
        return self._next

    @property
    def prev(self) -> Node:
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x` before this node."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move `x` after this node."""
        self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def __lt__(self, other: Node) -> bool:
        order = {node: place for place, node in enumerate(self.graph.nodes)}
        return order[self] < order[other]

    # -- what it is --------------------------------------------------------------------------

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it stays where nobody uses it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effectful_functions
        if self.op == "call_module" and self.graph.owning_module is not None:
            module = self.graph.owning_module.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    @property
    def stack_trace(self) -> str | None:
        """Where the call was made, if the tracer was asked to note it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _pretty_print_target(self, target: Any) -> str:
        return target if isinstance(target, str) else qualified_name(target)

    def format_node(self, *_: Any, **__: Any) -> str | None:
        """The line of the graph's text; None for a root."""
        if self.op == "output":
            return f"return {self.args[0]}"
        start = f"%{self.name} : [num_users={len(self.users)}] = {self.op}"
        start += f"[target={self._pretty_print_target(self.target)}]"
        if self.op == "placeholder":
            return start + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return start
        return f"{start}(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"

    def __repr__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: Any) -> Any:
        known = memo.get(id(self))
        if known is None:
            raise RuntimeError(f"{self.name}: a Node is copied with its Graph")
        return known


__all__ = [
    "Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg", "qualified_name",
]  # fmt: skip
