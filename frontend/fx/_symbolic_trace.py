"""`Tracer`: runs a function or Module on Proxys.

in : a function or Module
out: the Graph of the calls it made

While it runs, calls and attributes of Modules go to the tracer, and functions that were `wrap`ped
are recorded as they are; all of that is put back when it ends, however it ends.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType, ModuleType
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.fx.graph import Graph
from frontend.fx.graph_module import GraphModule
from frontend.fx.node import has_side_effect, map_aggregate
from frontend.fx.proxy import Proxy, TracerBase
from frontend.nn.modules.container import Sequential
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter

_STARS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_WRAPPED: list[tuple[dict[str, Any], str]] = []
"""Globals and names that `wrap` was called for."""


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Record calls of a global function of this module as they are, instead of what they do. Called
    at the top of the module, with the name or as a decorator. Raises NotImplementedError elsewhere,
    RuntimeError for anything else."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _WRAPPED.append((frame.f_globals, name))
    return fn_or_name


@has_side_effect
def check_specialized(value: Any, expected: Any, name: str) -> None:
    """Raise AssertionError where an argument is not what the function was traced for."""
    if value != expected:
        raise AssertionError(
            f"{name} has been specialized to have value {expected} but got another value"
        )


class Tracer(TracerBase):
    """Runs functions to record them. A subclass decides what is a leaf (`is_leaf_module`) and may
    change any of the steps. Functions of `autowrap_modules` and `autowrap_functions` are recorded
    as they are."""

    def __init__(
        self, autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ):  # fmt: skip
        super().__init__()
        self._autowrap_search = list(autowrap_modules)
        public = (
            value
            for module in autowrap_modules
            for name, value in module.__dict__.items()
            if not name.startswith("_") and callable(value)
        )
        self._autowrap = {id(f) for f in (*public, *autowrap_functions)}
        if param_shapes_constant:
            raise NotImplementedError("param_shapes_constant: shapes of parameters are recorded")
        self.root: Module = Module()
        self.submodule_paths: dict[Module, str] = {}
        self.tensor_attrs: dict[int, str] = {}
        self.module_stack: dict[str, Any] = {}
        self._proxies: dict[str, Proxy] = {}

    # -- what a subclass may change ----------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a Module is one call in the graph: those of `frontend.nn`, but Sequential."""
        own = m.__module__.startswith(("frontend.nn.", "torch.nn."))
        return own and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Where in the root a Module stands. Raises NameError where it does not."""
        path = self.submodule_paths.get(mod)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Called for each call of a Module: a node for a leaf, else what its forward does."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        outer = self.module_stack
        self.module_stack = {**outer, path: (path, type(m))}
        try:
            return forward(*args, **kwargs)
        finally:
            self.module_stack = outer

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Called where an attribute of a Module is read: parameters become nodes."""
        if isinstance(attr_val, Parameter):
            return self._attribute(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._attribute(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _attribute(self, value: Any, named: Iterator[tuple[str, Any]], cache: Any) -> Any:
        for name, candidate in named:
            if candidate is value:
                if name not in cache:
                    cache[name] = self.create_proxy("get_attr", name, (), {})
                return cache[name]
        return value

    def create_arg(self, a: Any) -> Any:
        """As `TracerBase`; tensors and Modules become attributes of the root, where they stand or
        are put."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._path_of_tensor(a), (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def _path_of_tensor(self, tensor: Tensor) -> str:
        path = self.tensor_attrs.get(id(tensor))
        if path is None:
            number = 0
            while hasattr(self.root, f"_tensor_constant{number}"):
                number += 1
            path = self.tensor_attrs[id(tensor)] = f"_tensor_constant{number}"
            setattr(self.root, path, tensor)
        return path

    # -- running -----------------------------------------------------------------------------

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """The graph of a function or Module. Arguments among `concrete_args` have these values
        while it runs; the graph checks that they have them again (numbers and texts)."""
        if isinstance(root, Module):
            self.root = root
            function: Any = type(root).forward
            modules: Any = root.named_modules(remove_duplicate=False)
            self.submodule_paths = {module: path for path, module in reversed(list(modules))}
        else:
            self.root, function = Module(), root
            self.submodule_paths = {}
        self.tensor_attrs = dict(_tensors_of(self.root, ""))
        self.graph = Graph(tracer_cls=type(self))
        self._proxies = {}
        taken, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with self._recording(getattr(inspect.unwrap(function), "__globals__", {})):
            result = taken(*args)
        self.create_node("output", "output", (self.create_arg(result),), {})
        self.submodule_paths = {}
        return self.graph

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool,
        concrete_args: dict[str, Any] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:  # fmt: skip
        """A function of the positional arguments alone, and a Proxy for each. Raises RuntimeError
        for a `forward` without `self`."""
        concrete = concrete_args or {}
        parameters = list(inspect.signature(inspect.unwrap(root_fn)).parameters.values())
        args: list[Any] = []
        if is_module:
            if not parameters:
                raise RuntimeError("``self`` argument cannot be *args expansion!")
            args.append(self.root)
            parameters = parameters[1:]
        own = len(args)
        args += [self._placeholder(parameter, concrete) for parameter in parameters]
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
            return _with_rest(root_fn, parameters, own), args
        named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        positional = len(args) - len(named)

        def taken(*values: Any) -> Any:
            return root_fn(*values[:positional], **dict(zip(named, values[positional:])))

        return taken, args

    def _placeholder(self, parameter: inspect.Parameter, concrete: dict[str, Any]) -> Any:
        stars = _STARS.get(parameter.kind, "")
        name = parameter.name
        is_concrete = name in concrete
        default = () if parameter.default is parameter.empty else (parameter.default,)
        if is_concrete:
            default = (concrete[name],) if _is_simple(concrete[name]) else (None,)
        proxy = self.create_proxy("placeholder", f"{stars}{name}", default, {})
        if not is_concrete:
            return proxy
        if _is_simple(concrete[name]) and concrete[name] is not None:
            call = (proxy, concrete[name], name)
            self.create_proxy("call_function", check_specialized, call, {})
        return concrete[name]

    @contextmanager
    def _recording(self, scope: dict[str, Any]) -> Iterator[None]:
        """Calls and attributes of Modules, and wrapped functions, go to this tracer."""
        call, read = Module.__call__, Module.__getattr__

        def called(module: Any, *args: Any, **kwargs: Any) -> Any:
            self._wrap_in(getattr(type(module).forward, "__globals__", {}), patches)
            return self.call_module(module, functools.partial(call, module), args, kwargs)

        def seen(module: Any, name: str) -> Any:
            return self.getattr(name, read(module, name), self._proxies)

        with ExitStack() as patches:
            _patch_class(patches, Module, "__call__", called)
            _patch_class(patches, Module, "__getattr__", seen)
            for names, name in _WRAPPED:
                if name in names or name in vars(_builtins()):
                    original = names.get(name, getattr(_builtins(), name, None))
                    _patch(patches, names, name, _recorder(original))
            self._wrap_in(scope, patches)
            for module in self._autowrap_search:
                self._wrap_in(module.__dict__, patches)
            yield

    def _wrap_in(self, names: dict[str, Any], patches: ExitStack) -> None:
        """Have functions among these globals that are wrapped automatically recorded."""
        for name, value in list(names.items()):
            if id(value) in self._autowrap and not name.startswith("_") and callable(value):
                _patch(patches, names, name, _recorder(value))


def _with_rest(function: Any, parameters: list[inspect.Parameter], own: int) -> Any:
    """`function` taking `*args` and `**kwargs` as two values, which are Proxys: its code, with
    these as ordinary parameters. `own` are the leading ones that are not in `parameters`."""
    code = inspect.unwrap(function).__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    count = len(parameters) + own
    plain = FunctionType(
        code.replace(co_argcount=count, co_kwonlyargcount=0, co_flags=flags),
        function.__globals__, function.__name__, None, function.__closure__,
    )  # fmt: skip
    names = code.co_varnames[own:count]
    places = {parameter.name: i for i, parameter in enumerate(parameters)}

    def taken(*positional: Any) -> Any:
        values = positional[own:]
        return plain(*positional[:own], *[values[places[name]] for name in names])

    return taken


def _builtins() -> ModuleType:
    return sys.modules["builtins"]


def _is_simple(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _tensors_of(module: Any, prefix: str) -> Iterator[tuple[int, str]]:
    """The tensors among the plain attributes and buffers of a Module and those in it, by id."""
    for name, value in (*module.__dict__.items(), *module._buffers.items()):
        if isinstance(value, Tensor):
            yield id(value), f"{prefix}{name}"
    for name, child in module.named_children():
        yield from _tensors_of(child, f"{prefix}{name}.")


def _patch_class(patches: ExitStack, cls: Any, name: str, value: Any) -> None:
    patches.callback(setattr, cls, name, getattr(cls, name))
    setattr(cls, name, value)


def _patch(patches: ExitStack, names: dict[str, Any], name: str, value: Any) -> None:
    """Put `value` under a name, until the end."""
    if name in names:
        patches.callback(names.__setitem__, name, names[name])
    else:
        patches.callback(names.pop, name, None)
    names[name] = value


def _recorder(original: Any) -> Any:
    """`original`, recorded as one call where a Proxy is among its arguments."""

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxies: list[Proxy] = []

        def note(value: Any) -> None:
            if isinstance(value, Proxy):
                proxies.append(value)

        map_aggregate(args, note)
        map_aggregate(kwargs, note)
        if not proxies:
            return original(*args, **kwargs)
        return proxies[0].tracer.create_proxy("call_function", original, args, kwargs)

    return wrapped


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """A Module that does what `root` does, from the graph of its calls. Raises TraceError where
    `root` decides something by the value of a tensor."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
