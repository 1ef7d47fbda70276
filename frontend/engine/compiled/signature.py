"""The signature of a call: what a specialization is chosen by, and what sets two apart.

in : the arguments of a call, taken apart, and the state of the thread
out: a key; for two keys what changed, with the arguments by name and both values
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from frontend.engine.outside.kinds import forward_of
from frontend.engine.tensors import tree
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor

_MISSING: Any = object()


class Signature(NamedTuple):
    """Tuples compare and hash without Python code. `aliases` says which tensors are the same one,
    where any are."""

    structure: Any
    types: tuple[Any, ...]
    classes: tuple[type, ...]
    requires_grad: tuple[bool, ...]
    aliases: tuple[int, ...]
    grad_enabled: bool | None
    default_dtype: Any
    autocast: Any
    threads: int | None


def signature(
    structure: Any, leaves: Sequence[Tensor], aliases: tuple[int, ...], threads: int | None
) -> Signature:
    """The signature of a call with these tensors in this structure, in this thread, that may run on
    at most so many."""
    return Signature(
        structure,
        tuple([leaf.tensor_type for leaf in leaves]),
        tuple([leaf.__class__ for leaf in leaves]),
        tuple([leaf._requires_grad for leaf in leaves]),
        aliases,
        STATE.grad_enabled,
        STATE.default_dtype,
        STATE.autocast,
        threads,
    )


def changes(new: Signature, known: Iterable[Signature], function: Any) -> str:
    """How a signature of `function` differs from the one among `known` that it differs least from,
    of several the latest: `argument k: 3 became 4`. An argument that is left out is its default."""
    parameters = _parameters(function)
    differences: list[list[str]] = [list(_changed(old, new, parameters)) for old in known]
    nearest: list[str] = min(differences[::-1], key=len, default=[])
    return "; ".join(nearest)


def _parameters(function: Any) -> dict[str, Any]:
    """The parameters by name with the structures of their defaults, those that may be given by
    position first."""
    try:
        parameters = inspect.signature(forward_of(function)).parameters.values()
    except (TypeError, ValueError):
        return {}
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        p.name: _MISSING if p.default is p.empty else tree.flatten(p.default, [])
        for p in parameters
        if p.kind not in several
    }


def _changed(old: Signature, new: Signature, parameters: Mapping[str, Any]) -> Iterator[str]:
    before, after = (_arguments(each, list(parameters)) for each in (old, new))
    for name in dict.fromkeys((*before, *after)):
        default = parameters.get(name, _MISSING)
        was, now = before.get(name, default), after.get(name, default)
        if was is _MISSING:
            yield f"argument {name} is new: {_shown(now)}"
        elif now is _MISSING:
            yield f"argument {name} is gone: it was {_shown(was)}"
        elif _shown(was) != _shown(now):
            yield f"argument {name}: {_shown(was)} became {_shown(now)}"
    if old.aliases != new.aliases:
        yield "which arguments are the same tensor changed"
    for what in ("grad_enabled", "default_dtype", "autocast", "threads"):
        was, now = getattr(old, what), getattr(new, what)
        if was != now:
            yield f"{what}: {_plain(was)} became {_plain(now)}"


def _arguments(of: Signature, names: Sequence[str]) -> dict[str, Any]:
    """By path what stands in the arguments: of a tensor its type, whether it requires gradients and
    its class, of anything else its structure."""
    tensors = iter(zip(of.types, of.requires_grad, of.classes))
    positional, keyword = of.structure[2]
    parts: dict[str, Any] = {}
    for position, item in enumerate(positional[2]):
        name = names[position] if position < len(names) else f"number {position + 1}"
        _collect(item, name, tensors, parts)
    for name, item in zip(keyword[2], keyword[3]):
        _collect(item, name, tensors, parts)
    return parts


def _collect(structure: Any, name: str, tensors: Iterator[Any], parts: dict[str, Any]) -> None:
    match structure[0]:
        case "tensor":
            parts[name] = next(tensors)
        case "tuple" | "list":
            for position, item in enumerate(structure[-1]):
                _collect(item, f"{name}[{position}]", tensors, parts)
        case "dict":
            for key, item in zip(structure[2], structure[3]):
                _collect(item, f"{name}[{key!r}]", tensors, parts)
        case "composite":
            for key, item in zip(("context", *structure[2]), structure[3]):
                _collect(item, f"{name}.{key}", tensors, parts)
        case "object":
            _collect(structure[-1], name, tensors, parts)
        case _:
            parts[name] = structure


def _shown(part: Any) -> str:
    """A tensor by its type, and where they are not the usual its flag and class; else the value."""
    if part[0] in ("static", "slice"):
        return repr(tree.build(part, iter(())))
    type_, requires_grad, kind = part
    flag = ", requires grad" if requires_grad else ""
    return f"{type_}{'' if kind is Tensor else f' {kind.__name__}'}{flag}"


def _plain(value: Any) -> str:
    return {"True": "on", "False": "off", "None": "none"}.get(str(value), str(value))
