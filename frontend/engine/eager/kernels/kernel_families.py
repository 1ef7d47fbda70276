"""Kernels of single ops that serve all sizes.

in : an op, its attributes, types and layouts of its operands
out: what runs it at these sizes, an `Executable`

A *family* is all that is no size: op, attributes, dtypes, ranks, layouts, and which extents are 0
or 1. It has *variants*: graphs whose extents are named sizes, each with the guards that inference
left. Sizes that fit a variant cost a table of numbers; nothing is inferred or planned again.

Which extents a variant leaves open is tried, from most to least (see `openings`): what does not
lower with open sizes yet is compiled for its numbers, and the family remembers how far it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from frontend.engine.eager.kernels.gradient_rule import applied
from frontend.engine.eager.kernels.gradient_worker import compiled
from frontend.engine.eager.kernels.layouts import Layouts
from frontend.engine.eager.kernels.merged_axes import merged_call, sums_short_rows
from frontend.engine.eager.kernels.openings import CONVOLUTIONS, SHAPED, Slots, extents, openings
from frontend.engine.tensors.bounded import Bounded
from graphc.errors import GraphError
from graphc.ir.builder import GraphBuilder
from graphc.ir.dims import Extent, dim
from graphc.ir.instances import type_at
from graphc.ir.nodes import Graph, exact
from graphc.ir.size_guards import SizeGuard, answered_by
from graphc.ir.types import TensorType
from graphc.ops.kinds.op import Op, Types
from graphc.records import field, record, replace
from graphc.system import IMPORTING

if TYPE_CHECKING:
    from graphc.runtime.executable import Executable
    from graphc.runtime.sized_executable import SizedProgram

VARIANTS = 64
"""Variants of a family that are kept, and programs of a variant: the latest made."""
SPECIAL = 8
"""Variants of a family that differ in one size, before one is made as general as it can be: that
is slower code, for what grows. The widths of a model's layers differ in several."""
Range = tuple[int, int | None]
"""The least and the greatest size, None for any."""
Shown = tuple[Types, Callable[[Types], Types]]
"""The types of arguments with the same elements in the same order as the graph's, and what makes of
the types of its results those that are given."""
_FAMILIES: Bounded[Any, Family] = Bounded(4096)
_OF_ANY_LAYOUT: Bounded[Any, Family] = Bounded(4096)
"""The latest family of each op, for operands that lie in memory in whatever way."""


def family(op: Op, types: Types, attributes: dict[str, Any], layouts: Layouts) -> Family:
    """The family of a call; the same object as long as fewer than 4096 are in use."""
    key = _key(op, types, attributes)
    known = _FAMILIES.get((layouts, key))
    if known is None:
        known = _FAMILIES[layouts, key] = _OF_ANY_LAYOUT[key] = Family(op, layouts)
    return known


def known_results(op: Op, types: Types, attributes: dict[str, Any]) -> Types | None:
    """The result types, where a variant has them; None elsewhere."""
    merged = merged_call(op, types, attributes)
    if merged is not None:
        results = _known_results(op, merged.types, merged.attributes)
        if results is not None:
            return merged.results(results)
    return _known_results(op, types, attributes)


def _known_results(op: Op, types: Types, attributes: dict[str, Any]) -> Types | None:
    known = _OF_ANY_LAYOUT.get(_key(op, types, attributes))
    variant_at_sizes = None if known is None else known.variant(extents(op, types, attributes))
    if variant_at_sizes is None:
        return None
    variant, sizes = variant_at_sizes
    return tuple([type_at(type, sizes) for type in variant.graph.output_types])


def _key(op: Op, types: Types, attributes: dict[str, Any]) -> Any:
    fixed = {name: value for name, value in attributes.items() if name != SHAPED.get(op)}
    ranks = tuple([(type.dtype, len(type.shape)) for type in types])
    small = tuple([n if n < 2 else None for n in extents(op, types, attributes)])
    return (op, ranks, small, *map(exact, fixed.items()))


class Family:
    """Calls of an op that differ in sizes alone."""

    __slots__ = ("_given_up", "_variants", "layouts", "op")

    def __init__(self, op: Op, layouts: Layouts):
        self.op = op
        self.layouts = layouts
        self._given_up: dict[bool, list[str]] = {False: [], True: []}
        """Why sizes were not left open, one text for each opening that was given up, of those that
        are proposed for a call and for a general one."""
        self._variants: list[Variant] = []

    @property
    def refused(self) -> list[str]:
        """Why sizes were not left open."""
        return [*self._given_up[False], *self._given_up[True]]

    def variant(self, numbers: Sequence[int]) -> tuple[Variant, dict[str, int]] | None:
        """The latest variant that these extents fit, and its sizes; None where there is none."""
        for variant in reversed(self._variants):
            sizes = variant.sizes(numbers)
            if sizes is not None:
                return variant, sizes
        return None

    def executable(
        self, types: Types, attributes: dict[str, Any], shown: Shown | None = None
    ) -> Executable:
        """What runs the op at these sizes, for arguments of other types and shapes of results where
        such are given. Raises GraphError for what cannot be compiled."""
        numbers = extents(self.op, types, attributes)
        known = self.variant(numbers)
        if known is not None:
            return known[0].at(known[1], shown)
        alike = sum([variant.differs_in_one(numbers) for variant in self._variants])
        general = alike >= SPECIAL or sums_short_rows(self.op, types, attributes)
        refused = self._given_up[general]
        given_up = len(refused)
        proposed = openings(self.op, types, numbers, self.layouts, general)
        tried: Slots | None = None
        for slots in islice(proposed, given_up, None):
            if slots == tried:
                refused.append(refused[-1])
                continue
            tried = slots
            if not _fit(slots, numbers):
                continue  # made for equal sizes, which these are not: others may be
            sized = any([type(slot) is str for slot in slots])
            try:
                variant = self._variant(types, attributes, slots, numbers)
                refusal = variant.refusal() if sized else ""
                at_sizes = None if refusal else variant.at(dict(variant.example), shown)
            except GraphError as error:
                if not sized:
                    del refused[given_up:]  # it is no matter of sizes
                    raise
                refusal = str(error)
            if refusal:
                refused.append(refusal)
                continue
            assert at_sizes is not None
            self._variants = [*self._variants, variant][-VARIANTS:]
            return at_sizes
        raise AssertionError("the last opening is none")

    def _variant(
        self, types: Types, attributes: dict[str, Any], slots: Slots, numbers: Sequence[int]
    ) -> Variant:
        example = {slot: n for slot, n in zip(slots, numbers) if type(slot) is str}
        variant = self._within(types, attributes, slots, example, {})
        if self.op not in CONVOLUTIONS or not example:
            return variant
        least = variant.class_from()
        if not least:
            return variant
        ranges = {
            name: (least, None) if size >= least else (2, least - 1)
            for name, size in example.items()
        }
        return self._within(types, attributes, slots, example, ranges)

    def _within(
        self, types: Types, attributes: dict[str, Any], slots: Slots, example: dict[str, int],
        ranges: Mapping[str, Range],
    ) -> Variant:  # fmt: skip
        """The variant for sizes in these ranges, 2 upward unless said."""
        named = [
            dim(slot, *ranges.get(slot, (2, None))) if type(slot) is str else slot for slot in slots
        ]
        opened: Iterator[Any] = iter(named)
        sized = [type.with_shape(_next(opened, len(type.shape))) for type in types]
        name = SHAPED.get(self.op)
        if name is not None:
            attributes = {**attributes, name: _next(opened, len(attributes[name]))}
        with answered_by(example) as answers:
            graph = self._graph(sized, attributes)
        return Variant(graph, slots, tuple(example.items()), answers.guards, ranges)

    def _graph(self, types: Sequence[TensorType], attributes: dict[str, Any]) -> Graph:
        builder = GraphBuilder(self.op.name)
        with builder.at(None):
            operands = []
            for position, (layout, type) in enumerate(zip(self.layouts, types)):
                dense = type if layout is None else layout.dense(type)
                operand = builder.input(f"x{position}", dense)
                operands.append(operand if layout is None else layout.shown(operand, type.shape))
            return builder.finish(*applied(builder, self.op, tuple(operands), attributes))


@record(frozen=False, eq=False)
class Variant:
    """A graph with named sizes, for calls whose extents fit `slots`, lie in the `ranges` and hold
    the `guards`."""

    graph: Graph
    slots: Slots = ()
    example: tuple[tuple[str, int], ...] = ()
    guards: tuple[SizeGuard, ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    programs: tuple[SizedProgram, ...] = ()

    def sizes(self, extents: Sequence[int]) -> dict[str, int] | None:
        """The size of each name for these extents, none of which is open where it is 0 or 1; None
        where they do not fit."""
        sizes: dict[str, int] = {}
        for extent, slot in zip(extents, self.slots):
            if slot.__class__ is int:
                if slot != extent:
                    return None
            elif sizes.setdefault(slot, extent) != extent:  # type: ignore[arg-type]
                return None
        for name, (least, most) in self.ranges.items():
            if sizes[name] < least or (most is not None and sizes[name] > most):
                return None
        for guard in self.guards:
            if not guard.holds(sizes):
                return None
        return sizes

    def differs_in_one(self, extents: Sequence[int]) -> bool:
        """Whether one number taken for another would make these extents fit."""
        pairs = {
            (slot, extent)
            for slot, extent in zip(self.slots, extents)
            if slot.__class__ is int and slot != extent
        }
        return len(pairs) == 1

    def class_from(self) -> int:
        """The size from which its kernel is better lowered apart; 0 where one serves all. It is
        kept on disk, since to ask takes half a lowering."""
        with IMPORTING:
            from graphc.runtime.program import remembered

        def asked() -> int:
            with IMPORTING:
                from graphc.codegen.kernels.size_class import size_class
                from graphc.codegen.target import running
                from graphc.ir.instances import with_own_names
                from graphc.schedule.bodies import BODY_NAME
                from graphc.schedule.plan import KernelSpec

            # Named as a plan names its kernels, which will ask the same.
            body = replace(with_own_names(self.graph)[0], name=BODY_NAME)
            class_of_sizes = size_class(KernelSpec("contract", body), running(None))
            return 0 if class_of_sizes is None else class_of_sizes.least

        return remembered("size class", self.graph, (), asked)

    def refusal(self) -> str:
        """Why it cannot be compiled for open sizes; nothing where it can. On disk it is kept that
        it cannot, as kernels are kept: else each process would try anew."""
        with IMPORTING:
            from graphc.runtime.program import remembered

        def tried() -> str:
            try:
                self._program(dict(self.example))
            except GraphError as error:
                return str(error)
            return ""

        return remembered("open sizes", self.graph, self.example, tried, keeps=bool)

    def at(self, sizes: dict[str, int], shown: Shown | None = None) -> Executable:
        """What runs it at these sizes."""
        with IMPORTING:
            from graphc.codegen.target import running
            from graphc.runtime.executable import Executable
            from graphc.runtime.program import program_at

        sized = self._program(sizes)
        program = program_at(sized.program, sizes) if sizes else sized.program
        if shown is not None:
            arguments, results = shown
            program = replace(
                program, argument_types=arguments, output_types=results(program.output_types)
            )
        return Executable(self.graph, program, sized.details, running(None), sized.timings)

    def _program(self, sizes: Mapping[str, int]) -> SizedProgram:
        for sized in reversed(self.programs):
            if all([guard.holds(sizes) for guard in sized.program.guards]):
                return sized
        with IMPORTING:
            from graphc.runtime.compile import program_for  # not before it is needed: loads LLVM

        sized = program_for(self.graph, sizes)
        if "load" not in sized.timings:
            compiled(sum(sized.timings.values()))
        self.programs = (*self.programs, sized)[-VARIANTS:]
        return sized


def _fit(slots: Slots, numbers: Sequence[int]) -> bool:
    """Whether each name stands for one number."""
    pairs = {(slot, n) for slot, n in zip(slots, numbers) if type(slot) is str}
    return len(pairs) == len({name for name, _ in pairs})


def _next(extents: Iterator[Extent], count: int) -> Any:
    return tuple(islice(extents, count))
