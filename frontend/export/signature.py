"""What the inputs and outputs of an exported graph are (PyTorch's names)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


class InputKind(Enum):
    """Where an input of the graph comes from."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()


class OutputKind(Enum):
    """What an output of the graph is."""

    USER_OUTPUT = auto()
    BUFFER_MUTATION = auto()


@dataclass(frozen=True)
class TensorArgument:
    """A value of the graph by its name."""

    name: str


@dataclass(frozen=True)
class InputSpec:
    """One input: `target` is the path of a parameter, buffer or constant."""

    kind: InputKind
    arg: TensorArgument
    target: str | None
    persistent: bool | None = None


@dataclass(frozen=True)
class OutputSpec:
    """One output: `target` is the path of the buffer whose new content it is."""

    kind: OutputKind
    arg: TensorArgument
    target: str | None


@dataclass(frozen=True)
class ExportGraphSignature:
    """The inputs of an exported graph in order, and its outputs."""

    input_specs: tuple[InputSpec, ...]
    output_specs: tuple[OutputSpec, ...]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple([str(spec.target) for spec in self.input_specs if spec.kind is kind])

    def _by_input(self, kind: InputKind) -> dict[str, str]:
        return {spec.arg.name: str(spec.target) for spec in self.input_specs if spec.kind is kind}

    @property
    def parameters(self) -> tuple[str, ...]:
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> frozenset[str]:
        specs = [spec for spec in self.input_specs if spec.kind is InputKind.BUFFER]
        return frozenset([str(spec.target) for spec in specs if spec.persistent is False])

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self) -> tuple[str, ...]:
        kind = InputKind.USER_INPUT
        return tuple([spec.arg.name for spec in self.input_specs if spec.kind is kind])

    @property
    def user_outputs(self) -> tuple[str, ...]:
        kind = OutputKind.USER_OUTPUT
        return tuple([spec.arg.name for spec in self.output_specs if spec.kind is kind])

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        return self._by_input(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        return self._by_input(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        return self._by_input(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        kind = OutputKind.BUFFER_MUTATION
        return {o.arg.name: str(o.target) for o in self.output_specs if o.kind is kind}

    def as_plain(self) -> dict[str, Any]:
        """The signature as plain data."""
        return {
            "inputs": [[s.kind.name, s.arg.name, s.target, s.persistent] for s in self.input_specs],
            "outputs": [[s.kind.name, s.arg.name, s.target] for s in self.output_specs],
        }

    @staticmethod
    def of_plain(data: Any) -> ExportGraphSignature:
        """The signature of plain data. Raises KeyError, TypeError or ValueError for other data."""
        return ExportGraphSignature(
            tuple([InputSpec(InputKind[k], TensorArgument(n), t, p)
                   for k, n, t, p in data["inputs"]]),
            tuple([OutputSpec(OutputKind[k], TensorArgument(n), t) for k, n, t in data["outputs"]]),
        )  # fmt: skip
