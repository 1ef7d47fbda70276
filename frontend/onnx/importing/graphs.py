"""A model as read: graphs of nodes, frozen, without protobuf messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from frontend.onnx.importing.declarations import OnnxOp


@dataclass(frozen=True, slots=True)
class OnnxPort:
    """A graph's input: its name, the number of its element type (0: unknown), and its shape with
    texts for open sizes and None for unknown ones; None where it is unknown altogether."""

    name: str
    element_type: int
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """One node. `inputs` and `outputs` are names, "" for what is left out; `input_types` numbers of
    element types, 0 where the model does not tell. `opset` is the version of its domain's operator
    set, `declaration` what it means here (None for those that hold graphs)."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    input_types: tuple[int, ...]
    opset: int
    declaration: OnnxOp | None

    def __str__(self) -> str:
        return f"node {self.name or list(self.outputs)!r} ({self.op})"

    @property
    def results(self) -> int:
        """How many results are asked for, up to the last one that has a name."""
        return max((i + 1 for i, name in enumerate(self.outputs) if name), default=0)


@dataclass(frozen=True, slots=True)
class StatePath:
    """In place of a constant: the path of the parameter or buffer that holds it."""

    path: str


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    """A graph: of a model, or held by a node, whose nodes then also read names from around it.
    `initializers` are the weights, `constants` what nodes of type Constant hold; a Module puts
    StatePaths in the place of those that it keeps. `dropped` says for each node which values
    nobody reads after it."""

    name: str
    inputs: tuple[OnnxPort, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    dropped: tuple[tuple[str, ...], ...]
    initializers: dict[str, np.ndarray[Any, Any] | StatePath]
    constants: dict[str, np.ndarray[Any, Any] | StatePath]


def reads(node: OnnxNode) -> set[str]:
    """The names that a node reads, by the graphs it holds too."""
    names = set(node.inputs) - {""}
    for held in node.attributes.values():
        if isinstance(held, OnnxGraph):
            names |= set(held.outputs).union(*map(reads, held.nodes))
    return names


def dropped(nodes: tuple[OnnxNode, ...], outputs: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """For each node the values made by nodes of its graph that it is the last to read."""
    outputs_of_nodes = {name for node in nodes for name in node.outputs}
    kept, result = set(outputs), []
    for node in reversed(nodes):
        last = (reads(node) | set(node.outputs)) & outputs_of_nodes - kept
        kept |= last
        result.append(tuple(sorted(last)))
    return tuple(reversed(result))
