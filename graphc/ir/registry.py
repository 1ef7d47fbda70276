"""The registry of op definitions by name. `graphc.ops` fills it; the IR reads it for inference,
parsing and verification, and so needs no import of the ops."""

from __future__ import annotations

from typing import Any, Protocol

from graphc.errors import GraphError
from graphc.ir.types import TensorType


class OpDefinition(Protocol):
    """What the IR needs to know of an op."""

    name: str
    region_names: tuple[str, ...]
    """The attributes that are graphs, which a node holds apart as its regions."""

    def canonical(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes with defaults filled in and sequences as tuples. Raises on unknown names."""
        ...

    def infer(
        self, types: tuple[TensorType, ...], attributes: dict[str, Any]
    ) -> tuple[TensorType, ...]:
        """Result types. A total function: raises GraphError for operands the op does not take."""
        ...


def named(op: OpDefinition, attributes: dict[str, Any], regions: tuple[Any, ...]) -> dict[str, Any]:
    """An op's attributes with its regions among them, by name."""
    if not regions:
        return attributes
    if len(regions) != len(op.region_names):
        raise GraphError(f"{op.name} has {len(op.region_names)} regions, not {len(regions)}")
    return {**attributes, **dict(zip(op.region_names, regions))}


def parameters(node: Any) -> dict[str, Any]:
    """A node's attributes with its regions among them: what its op's methods take."""
    attributes = dict(node.attributes)
    return named(lookup(node.op), attributes, node.regions) if node.regions else attributes


_DEFINITIONS: dict[str, Any] = {}


def register(op: OpDefinition) -> None:
    """Add a definition. A second one of the same name is an error."""
    if op.name in _DEFINITIONS:
        raise GraphError(f"op {op.name!r} is declared twice")
    _DEFINITIONS[op.name] = op


def unregister(name: str) -> None:
    """Remove a definition (for tests that declare an op at run time)."""
    del _DEFINITIONS[name]


def lookup(name: str) -> Any:
    """The definition of an op. Raises GraphError with the nearest names."""
    definition = _DEFINITIONS.get(name)
    if definition is None:
        import difflib

        near = difflib.get_close_matches(name, _DEFINITIONS, n=3)
        raise GraphError(f"unknown op {name!r}", hint=f"one of {near}" if near else None)
    return definition


def all_ops() -> tuple[Any, ...]:
    """Every definition, in order of declaration."""
    return tuple(_DEFINITIONS.values())
