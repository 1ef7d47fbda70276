"""Where a trace is: the module that runs, the phase of a training step.

in : the function that is traced; calls of Modules, sweeps and updates as they begin and end
out: `module` and `phase`, which go into the location of every node made meanwhile

A module is called by its path from a variable that the function names (`gpt.blocks.0.attn`), or
from the Module that is itself traced, which has no name (`blocks.0.attn`). One that was not found
so is called by its class, and what is below it by the path from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from frontend.engine.tracing.naming import reachable
from graphc.ir.nodes import FORWARD, UPDATE


class Scope:
    """Where a trace is."""

    __slots__ = ("_parameters", "_paths", "_target", "module", "phase")

    def __init__(self, target: Any):
        self.module = ""
        self.phase = FORWARD
        self._target = target
        self._paths: dict[int, str] | None = None
        self._parameters: dict[int, str] | None = None

    @contextmanager
    def inside(self, module: str, phase: str) -> Iterator[None]:
        """The trace is there for as long as the block runs."""
        around = self.module, self.phase
        self.module, self.phase = module, phase
        try:
            yield
        finally:
            self.module, self.phase = around

    def of_module(self, module: Any) -> AbstractContextManager[None]:
        """A Module is called inside."""
        paths = self.paths()
        path = paths.get(id(module))
        if path is None:
            _name(paths, type(module).__name__, module)
            path = paths[id(module)]
        return self.inside(path, self.phase)

    def of_update(self) -> AbstractContextManager[None]:
        """An optimizer steps inside; of which parameter is not known yet."""
        return self.inside("", UPDATE)

    def comes_to(self, parameter: Any) -> None:
        """The step has come to a parameter."""
        if self.phase == UPDATE:
            if self._parameters is None:
                self._parameters = self._named_parameters()
            self.module = self._parameters.get(id(parameter), "")

    def paths(self) -> dict[int, str]:
        """By id, the paths of the Modules that the function can reach, and of those it called."""
        if self._paths is None:
            self._paths = {}
            for name, owner in reachable(self._target):
                _name(self._paths, name, owner)
        return self._paths

    def _named_parameters(self) -> dict[int, str]:
        names: dict[int, str] = {}
        for prefix, owner in reachable(self._target):
            for path, module in _modules(prefix, owner):
                for name, parameter in module._parameters.items():
                    names.setdefault(id(parameter), f"{path}.{name}" if path else name)
        return names


def _name(paths: dict[int, str], name: str, owner: Any) -> None:
    for path, module in _modules(name, owner):
        paths.setdefault(id(module), path)


def _modules(name: str, owner: Any) -> Any:
    """The Modules that a variable leads to, with their paths."""
    if hasattr(type(owner), "named_modules"):
        yield from owner.named_modules(prefix=name)
    elif name == "":  # whose method is traced
        for attribute, value in getattr(owner, "__dict__", {}).items():
            if hasattr(type(value), "named_modules"):
                yield from value.named_modules(prefix=attribute)
