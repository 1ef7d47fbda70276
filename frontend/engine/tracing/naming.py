"""Names of a traced graph's inputs: `fc1.weight` rather than `state7`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

from frontend.engine.outside.kinds import LIBRARY, OURS, is_nn_module, package_of, state_of
from frontend.engine.tensors.generator import default_generator
from frontend.engine.tensors.tensor import Tensor


class Names:
    """Finds the name of a tensor in the Modules and optimizers a function can reach."""

    def __init__(self, target: Any):
        self._taken: set[str] = set()
        self._names: dict[int, str] = {}
        self._count = 0
        for prefix, owner in reachable(target):
            self._collect(prefix, owner)

    def _collect(self, prefix: str, owner: Any) -> None:
        if isinstance(owner, Tensor):
            self._names.setdefault(id(owner), prefix)
        elif is_nn_module(type(owner)):
            for name, tensor in [*owner.named_parameters(), *owner.named_buffers()]:
                full = name if not name[:1].isdigit() else f"{prefix or 'module'}.{name}"
                self._names.setdefault(id(tensor), full)
        elif _is_optimizer(owner):
            for parameter, state in owner.state.items():
                base = self._names.get(id(parameter), "parameter")
                for key, value in state.items():
                    if isinstance(value, Tensor):
                        self._names.setdefault(id(value), f"{prefix}.{key}.{base}")

    def of(self, tensor: Tensor) -> str:
        """The name of a tensor; nameless ones are counted."""
        name = self._names.get(id(tensor))
        if name is None:
            name = default_generator.name_of(tensor)
            if name is None:
                name = f"state{self._count}"
                self._count += 1
            self._names[id(tensor)] = name
        return name

    def unique(self, name: str) -> str:
        """`name` as an input name nobody has yet."""
        name = re.sub(r"[^A-Za-z0-9_.]", "_", name)
        if not re.match(r"[A-Za-z_]", name):
            name = f"_{name}"
        result, count = name, 1
        while result in self._taken:
            result, count = f"{name}_{count}", count + 1
        self._taken.add(result)
        return result


def reachable(target: Any) -> Iterator[tuple[str, Any]]:
    """(variable name, value) of what a function's closure and globals name, Modules first, and of
    what functions of the same file among these name; for a Module itself and for `self` of a
    method, that Module."""
    if is_nn_module(type(target)):
        yield "", target
    elif type(target) is MethodType:
        yield "", target.__self__
    yield from sorted(_followed(target), key=lambda item: _is_optimizer(item[1]))


def _followed(target: Any) -> Iterator[tuple[str, Any]]:
    """The variables of a function, then those of the functions of its file that these are."""
    waiting, seen = [target], {id(target)}
    for each in waiting:
        for name, value in variables(each).items():
            yield name, value
            near = type(value) is FunctionType and value.__globals__ is _globals_of(target)
            if near and id(value) not in seen:
                seen.add(id(value))
                waiting.append(value)


def _globals_of(target: Any) -> Any:
    function = inspect.unwrap(target.__func__ if type(target) is MethodType else target)
    return getattr(function, "__globals__", None)


def _is_optimizer(value: Any) -> bool:
    """Whether a value is an optimizer. Objects of the user's are not asked for attributes: that may
    run code of theirs."""
    state = state_of(value)
    return "param_groups" in (state or ()) and package_of(type(value)) not in LIBRARY - OURS


def variables(target: Any) -> dict[str, Any]:
    """The closure cells and globals a function names, with their values."""
    function = target.__func__ if type(target) is MethodType else target
    if isinstance(function, FunctionType):
        function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        return {}
    code = function.__code__
    values = {
        name: function.__globals__[name]
        for name in sorted(_named(code))
        if name in function.__globals__
    }
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return values


def _named(code: Any) -> set[str]:
    """Every name a code object reads, also in functions defined inside it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if inspect.iscode(constant):
            names |= _named(constant)
    return names
