"""`GraphModule`: a Module whose forward is written from a graph."""

from __future__ import annotations

import copy
import linecache
from itertools import count
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.fx.graph import Graph
from frontend.fx.graph import PythonCode as PythonCode
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_NUMBERS = count()


class _CodeOnlyModule(Module):
    """Holds the attributes of a GraphModule, without its graph."""

    def __init__(self, body: dict[str, Any]):
        super().__init__()
        self.__dict__.update(body)


def _holder(model: Any, target: str, make: bool) -> tuple[Any, str]:
    """The Module a path ends in, and its last name; missing ones are made."""
    *path, last = target.split(".")
    for name in path:
        if make and getattr(model, name, None) is None:
            setattr(model, name, Module())
        model = getattr(model, name)
    return model, last


def _get_attr(model: Any, target: str) -> Any:
    """What a path leads to. Raises AttributeError where it leads nowhere."""
    for name in target.split("."):
        model = getattr(model, name)
    return model


def _has_attr(model: Any, target: str) -> bool:
    try:
        _get_attr(model, target)
    except AttributeError:
        return False
    return True


def _assign_attr(from_obj: Any, to_module: Any, target: str) -> None:
    """Put an object at a path; a tensor that is no parameter becomes a buffer."""
    holder, name = _holder(to_module, target, make=True)
    if isinstance(from_obj, Tensor) and not isinstance(from_obj, Parameter):
        if name in holder._buffers:
            holder._buffers[name] = from_obj
        else:
            holder.register_buffer(name, from_obj)
    else:
        setattr(holder, name, from_obj)


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Put what is at a path of one Module there in another, the same object."""
    source, name = _holder(from_module, target, make=False)
    holder, _ = _holder(to_module, target, make=True)
    value = getattr(source, name)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        persistent = name not in getattr(source, "_non_persistent_buffers_set", ())
        holder.register_buffer(name, value, persistent)
    else:
        setattr(holder, name, value)


class GraphModule(Module):
    """A Module that runs a Graph. It has the attributes of `root` (a Module, or a dict by path)
    that the graph names. After a change of the graph, `recompile()` writes the code anew."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # `forward` belongs to the instance, so each has a class.
        base = next(kind for kind in cls.__mro__ if not kind.__dict__.get("_of_one_instance"))
        subclass = type(base.__name__, (base,), {"_of_one_instance": True, "__module__": __name__})
        return object.__new__(subclass)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ):
        super().__init__()
        self.__class__.__name__ = class_name
        self.meta: dict[str, Any] = {}
        targets = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        paths = sorted(dict.fromkeys(targets), key=lambda path: path.count("."))
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            if isinstance(getattr(root, "meta", None), dict):
                self.meta.update(root.meta)
            for path in paths:
                if not _has_attr(self, path) or path.count("."):
                    _copy_attr(root, self, path)
        else:
            missing = [path for path in paths if path not in root]
            if missing:
                raise RuntimeError(
                    f"Node in the graph referenced target {missing[0]} but that target was not "
                    "provided in ``root``!"
                )
            for path in paths:
                _assign_attr(root[path], self, path)
        self.graph = graph
        tracer = graph._tracer_cls
        self._tracer_cls = tracer if tracer and "<locals>" not in tracer.__qualname__ else None

    @property
    def graph(self) -> Graph:
        """What it runs. Assigning another one writes the code anew."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of `forward`."""
        return self._code

    def recompile(self) -> Any:
        """Write the code of the graph as it is now."""
        written = self._graph.python_code(root_module="self")
        self._code = written.src
        file = f"<frontend.fx graph {next(_NUMBERS)}>"
        linecache.cache[file] = (len(written.src), None, written.src.splitlines(True), file)
        space = dict(written.globals)
        exec(compile(written.src, file, "exec"), space)
        type(self).forward = space["forward"]  # type: ignore[method-assign]
        return written

    # -- submodules --------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a Module at a path; False where something else is in the way."""
        *path, last = target.split(".")
        holder: Any = self
        for name in path:
            child = getattr(holder, name, None)
            if child is None:
                child = Module()
                setattr(holder, name, child)
            if not isinstance(child, Module):
                return False
            holder = child
        holder.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take the Module at a path away; False where there is none."""
        if not _has_attr(self, target) or not isinstance(_get_attr(self, target), Module):
            return False
        holder, name = _holder(self, target, make=False)
        delattr(holder, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take away the Modules that the graph neither calls nor reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))
                if node.op == "call_module":
                    below = _get_attr(self, node.target).named_modules()
                    used.update(f"{node.target}.{path}" for path, _ in below if path)
        for path in [path for path, _ in self.named_modules() if path and path not in used]:
            self.delete_submodule(path)

    # -- copying -----------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        body = {key: value for key, value in self.__dict__.items() if key != "_compiled_call_impl"}
        holder = _CodeOnlyModule(copy.deepcopy(body, memo))
        GraphModule.__init__(copied, holder, holder.__dict__["_graph"], type(self).__name__)
        for name in (
            "_state_dict_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
        ):
            copied.__dict__[name] = holder.__dict__[name]
        copied.meta = holder.__dict__.get("meta", {})
        for name, value in copied.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(copied, name, value)
        return copied

    def __copy__(self) -> Any:
        copied = GraphModule(self, copy.deepcopy(self.graph), type(self).__name__)
        copied.meta = self.meta
        return copied

    def __reduce__(self) -> Any:
        state = {key: value for key, value in self.__dict__.items() if key != "_compiled_call_impl"}
        return _unpickled, (state, type(self).__name__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    # -- text --------------------------------------------------------------------------------

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """The code with the name of the class around it; printed, unless told not to."""
        lines = self._code.strip("\n").rstrip().split("\n")
        text = f"class {self._get_name()}(torch.nn.Module):\n" + "\n".join(
            f"    {x}" for x in lines
        )
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__repr__(), self._code, hint])

    def __repr__(self) -> str:
        return super().__repr__()


def _unpickled(state: dict[str, Any], name: str) -> Any:
    holder = _CodeOnlyModule(state)
    return GraphModule(holder, state["_graph"], name)
