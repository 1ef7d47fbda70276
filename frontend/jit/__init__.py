"""`torch.jit`: TorchScript's names for code that runs as Python.

There is no TorchScript: decorators give back the function, `script` and `trace` give something that
runs the Python it was made of. `frontend.compile` is what makes code faster here. What needs the
language itself (its graph, its files) raises NotImplementedError.
"""

from __future__ import annotations

import builtins
import functools
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from frontend.futures import Future
from frontend.jit.annotations import export, ignore, unused
from frontend.nn.modules.module import Module

__all__ = [
    "Attribute", "Final", "Future", "ScriptFunction", "ScriptModule", "TopLevelTracedModule",
    "TracerWarning", "TracingCheckError", "annotate", "enable_onednn_fusion", "export", "fork",
    "freeze", "ignore",
    "interface", "is_scripting", "is_tracing", "isinstance", "load", "onednn_fusion_enabled",
    "optimize_for_inference", "optimized_execution", "save", "script", "script_if_tracing",
    "script_method", "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused",
    "wait",
]  # fmt: skip


def _no_torchscript(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(
        "there is no TorchScript here: scripted and traced code runs as Python. Save a model with "
        "torch.save(model.state_dict(), file); torch.compile makes it fast"
    )


_get_trace_graph = _no_torchscript


class TracerWarning(Warning):
    """That a trace may not hold for other inputs: here it runs the Python each time, and says
    nothing."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing to ignore."""


class TracingCheckError(Exception):
    """The traced function gave other results than Python: it cannot, here."""


class ScriptModule(Module):
    """What `script` and `trace` make of a module: it runs the module's Python and shares its
    parameters, buffers and children, so state dicts have the same names."""

    save = save_to_buffer = _no_torchscript
    graph = code = inlined_graph = property(_no_torchscript)
    original: Module

    @classmethod
    def of(cls, module: Module) -> ScriptModule:
        """A `cls` around a module. `train` and `eval` of either are those of both."""
        self = cls()
        registries = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
        self.__dict__.update({name: module.__dict__[name] for name in registries})
        self.__dict__["original"] = module
        self.__dict__["training"] = module.training
        return self

    @property
    def original_name(self) -> str:
        return self.original._get_name()

    def forward(self, *input: Any, **kwargs: Any) -> Any:
        return self.original(*input, **kwargs)

    def train(self, mode: bool = True) -> Any:
        self.original.train(mode)
        self.training = mode
        return self

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__.get("original")
        return super().__getattr__(name) if original is None else getattr(original, name)


RecursiveScriptModule = ScriptModule


class TopLevelTracedModule(ScriptModule):
    """What `trace` makes of a module."""


class ScriptFunction:
    """What `trace` makes of a function."""

    save = save_to_buffer = _no_torchscript
    graph = code = property(_no_torchscript)

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def script(
    obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:  # fmt: skip
    """A function or class as it is; a Module in one that runs it."""
    if not builtins.isinstance(obj, Module) or builtins.isinstance(obj, ScriptModule):
        return obj
    return ScriptModule.of(obj)


def trace(
    func: Any, example_inputs: Any = None, *args: Any, example_kwarg_inputs: Any = None,
    **options: Any,
) -> Any:  # fmt: skip
    """`func` (a function or Module) run once on the example, and something that runs it. Unlike
    PyTorch's, later calls run the Python anew: branches on data are taken as the data says."""
    if builtins.isinstance(func, ScriptModule | ScriptFunction):
        return func
    if example_kwarg_inputs is not None:
        func(**example_kwarg_inputs)
    else:
        func(*(example_inputs if builtins.isinstance(example_inputs, tuple) else (example_inputs,)))
    return TopLevelTracedModule.of(func) if builtins.isinstance(func, Module) else (
        ScriptFunction(func)
    )  # fmt: skip


def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
    """As `trace`, with example inputs by the name of the method."""
    for name, example in inputs.items():
        getattr(mod, name)(*(example if builtins.isinstance(example, tuple) else (example,)))
    return TopLevelTracedModule.of(mod)


def _same(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The argument, unchanged."""
    return function


script_method = script_if_tracing = _script_if_tracing = interface = _same
_overload = _overload_method = freeze = optimize_for_inference = _same
load = save = _no_torchscript


def is_scripting() -> bool:
    """False: nothing is ever TorchScript."""
    return False


def is_tracing() -> bool:
    """False: `trace` records nothing; a trace of `frontend.compile` is none of TorchScript's."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def Attribute(value: Any, type: Any) -> Any:
    """The value."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """`builtins.isinstance` that looks into `List[…]`, `Tuple[…]`, `Dict[…]`, `Optional[…]`."""
    options = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    return any(_fits(obj, option) for option in options)


def _fits(obj: Any, kind: Any) -> bool:
    origin: Any
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is None or kind is Any:
        return kind is Any or obj is None
    if origin is None:
        return builtins.isinstance(obj, kind)
    if not builtins.isinstance(origin, type):  # Union and Optional
        return any(_fits(obj, part) for part in parts)
    if not builtins.isinstance(obj, origin):
        return False
    items: Any = obj
    if origin is tuple:
        return len(items) == len(parts) and all(map(_fits, items, parts))
    if origin is dict:
        return all(_fits(key, parts[0]) and _fits(value, parts[1]) for key, value in items.items())
    return all(_fits(item, parts[0]) for item in items)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """A call, made at once: there are no threads between operations."""
    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[Any]) -> Any:
    """What a forked call returned."""
    return future.wait()


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Nothing to switch: there is no TorchScript executor."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Nothing to switch: there is no TorchScript fuser."""
    yield


class strict_fusion:
    """Nothing to check: there is no TorchScript fuser."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing to switch: there is no TorchScript fuser."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Nothing to switch; the strategy that was: none."""
    return []
