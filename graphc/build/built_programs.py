"""What an object is made of: the programs of its source, each for the sizes that it serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphc.build.built_source import OfArgument, OfResult, OfState, SourceGraph
from graphc.build.packed_weights import WeightPacking, written_labels
from graphc.codegen.program.standalone import StandaloneProgram
from graphc.ir.size_guards import SizeGuard
from graphc.ir.types import TensorType
from graphc.records import record


@record
class BuiltProgram:
    """A graph of the source and what is made of it, which serves sizes that hold the guards.
    `packing`: what computes the packed weights that it reads."""

    source: SourceGraph
    native: StandaloneProgram
    guards: tuple[SizeGuard, ...]
    packing: WeightPacking | None = None

    def serves(self, sizes: Mapping[str, Any]) -> bool:
        """Whether it is right at these sizes and numbers."""
        return all(guard.holds(sizes) for guard in self.guards)


@record
class BuiltPrograms:
    """The programs of one object, the first that serves a call runs. `refused`: sizes that have
    none, and why. `ahead`: those that pack weights, once for all."""

    programs: tuple[BuiltProgram, ...]
    refused: tuple[str, ...]
    ahead: tuple[BuiltProgram, ...] = ()
    threads: int = 1
    """As many as the caller may bring."""

    def serving(self, sizes: Mapping[str, Any]) -> BuiltProgram | None:
        """What runs at these sizes."""
        return next((each for each in self.programs if each.serves(sizes)), None)

    @property
    def packings(self) -> tuple[WeightPacking, ...]:
        """Those of its programs."""
        return tuple(each.packing for each in self.programs if each.packing is not None)

    @property
    def prepare_bytes(self) -> int:
        """Those that packing works in, at any address."""
        return max((each.native.block_bytes for each in self.ahead), default=0)

    @property
    def packed(self) -> dict[str, TensorType]:
        """The packed values by label."""
        return {label: type for each in self.packings for label, type in each.values.items()}

    @property
    def packed_weights(self) -> frozenset[str]:
        """The labels of the weights that are read packed."""
        return frozenset(label for each in self.packings for label in each.weights)

    @property
    def written(self) -> frozenset[str]:
        """The labels of the fields that calls write."""
        return frozenset(label for each in self.programs for label in written_labels(each.source))

    @property
    def results(self) -> tuple[TensorType, ...]:
        """The types of the results."""
        first = self.programs[0].source
        places = zip(first.outputs, first.graph.output_types)
        return tuple(type for place, type in places if isinstance(place, OfResult))

    @property
    def argument_types(self) -> dict[int, TensorType]:
        """Those of the arguments that are read, by number."""
        types: dict[int, TensorType] = {}
        for program in self.programs:
            for place, type in zip(program.source.inputs, program.source.graph.input_types):
                if isinstance(place, OfArgument):
                    types.setdefault(place.position, type)
        return types

    @property
    def updated(self) -> tuple[frozenset[int], bool]:
        """The arguments that are written, and whether the state is."""
        arguments: set[int] = set()
        state = False
        for program in self.programs:
            source = program.source
            places = [source.inputs[target] for _, target in source.graph.aliases]
            arguments |= {place.position for place in places if isinstance(place, OfArgument)}
            state |= any(isinstance(place, OfState) for place in (*places, *source.outputs))
        return frozenset(arguments), state
