"""The verifier of nests: numbered rules, each with one check.

In: a Nest, of numbers or of sizes known only at run time. Out: the same nest, or a VerifyError that
names the rule, the axis or stage, and the statement.

| rule | holds |
|---|---|
| N1 | axes, splits and stages have names of their own; what is named is there |
| N2 | the axes together have every result, and every product of it |
| N3 | every element of the result is stored once |
| N4 | what threads divide is around all that stores, and no tile is two threads' |
| N5 | every product is added once, in order: K block after K block |
| N6 | sums are zero before they are added to, and complete where they are taken |
| N7 | no stage is read before it is filled for the tiles that its reader is at |
| N8 | no operand is copied again for rows, columns or sums along which the copy is the same |
| N9 | a stage has room for what it holds at a time, at every size |
| N10 | a tail is legal for its extent, and the leaf inside takes it |
| N11 | sources are combined into an output once, in order, by the thread that stored it before |

What a leaf does is what its `Effect` says; that its code does so, the runner's numbers are compared
with those of its loops for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from graphc.codegen.nests.nest import (
    Axis,
    Clear,
    Compute,
    Effect,
    Fill,
    ForEach,
    Nest,
    Role,
    Split,
    Stage,
    Statement,
    all_splits,
    walk,
)
from graphc.codegen.nests.printer import split_text
from graphc.codegen.nests.sums_verifier import verify_sums
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.visits import (
    Path,
    Visit,
    broken,
    check_loops,
    check_once,
    goes_through,
    variants,
    visits,
)
from graphc.ir.dims import Extent, always_le, known_number

OF_ONE_BODY = (Tail.EXACT, Tail.BOUNDED)
"""Tails of which every tile is written alike, without a test."""


def verify_nest(nest: Nest) -> Nest:
    """`nest`, where all rules hold."""
    _names(nest)
    _axes(nest)
    for variant in variants(nest):
        listed = list(visits(variant))
        _stores(nest, listed)
        _threads(nest, listed)
        verify_sums(nest, listed)
        _combines(nest, listed)
        for visit in listed:
            _fills(nest, visit)
            _by_leaf(nest, visit)
        _room(nest)
        _tails(nest, listed)
    return nest


# -- N1, N2 ----------------------------------------------------------------------------------------


def _names(nest: Nest) -> None:
    axes = [axis.name for axis in nest.axes]
    splits = [split.name for split in all_splits(nest)]
    stages = [stage.name for stage in nest.stages]
    outputs = [output.name for output in nest.outputs]
    listed = (("axes", axes), ("splits", splits), ("stages", stages), ("outputs", outputs))
    for kind, names in listed:
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise broken("N1", f"two {kind} are called {twice[0]}")
    for split in all_splits(nest):
        _known("N1", f"axis of split {split.name}", split.axis.name, axes)
    for stage in nest.stages:
        for axis, _ in stage.room:
            _known("N1", f"axis of stage {stage.name}", axis, axes)
        for name in stage.whole:
            _known("N1", f"split of stage {stage.name}", name, splits)
    for output in nest.outputs:
        for axis in output.axes:
            _known("N1", f"axis of output {output.name}", axis, axes)
    looped = {each.split.name for each in walk(nest.body) if isinstance(each, ForEach)}
    for split in nest.parallel:
        inside = [s.name for s in all_splits(nest) if s.name in looped and _is_made_of(s, split)]
        if not inside:
            raise broken("N1", f"no loop is over split {split.name}, which threads divide")
    for statement in walk(nest.body):
        if isinstance(statement, Fill | Clear):
            _known("N1", "stage", statement.stage.name, stages, statement)
        elif isinstance(statement, Compute):
            effect = statement.leaf.effect
            sums = (effect.clears, effect.adds, effect.takes, effect.checks, effect.fills)
            for name in (*effect.reads, *filter(None, sums)):
                _known("N1", "stage", name, stages, statement)
            for name in effect.covers:
                _known("N1", "axis", name, axes, statement)
            for name in (*effect.outputs, *filter(None, (effect.combines,))):
                _known("N1", "output", name, outputs, statement)


def _known(
    rule: str, what: str, name: str, names: Sequence[str], at: Statement | None = None
) -> None:
    if name not in names:
        raise broken(rule, f"{what}: there is no {name}, only {', '.join(names) or 'none'}", at)


def _axes(nest: Nest) -> None:
    for role, extent in nest.domain:
        axes = [axis for axis in nest.axes if axis.role is role]
        parts = [axis.count for axis in axes if axis.cells is not None]
        total: Extent = sum(parts) if parts else math.prod(axis.count for axis in axes)
        if not _same(total, extent):
            names = ", ".join(axis.name for axis in axes) or "none"
            raise broken("N2", f"axes {names} have {total} of {extent} coordinates of {role}")


def _same(x: Extent, y: Extent) -> bool:
    return known_number(x - y) == 0


# -- N3, N4 ----------------------------------------------------------------------------------------


def _stores(nest: Nest, listed: Sequence[Visit]) -> None:
    """N3: of each part of the columns one leaf, of all else a loop or a leaf that covers it; of
    nests with outputs each of them along its axes."""
    storing = [(each, each.effect) for each in listed if each.effect and each.effect.stores]
    if not storing:
        raise broken("N3", "nothing is stored")
    stored: list[str] = []
    for visit, effect in storing:
        _stores_at(visit, effect)
        if not nest.outputs:
            stored += goes_through(nest, "N3", visit, effect)
    if not nest.outputs:
        check_once(nest, "N3", "results are stored", stored)
    for output in nest.outputs:
        stores = [each for each in storing if output.name in each[1].outputs]
        if len(stores) != 1:
            raise broken("N3", f"output {output.name} is stored by {len(stores)} leaves")
        goes_through(nest, "N3", *stores[0], output.axes)


def _stores_at(visit: Visit, effect: Effect) -> None:
    for loop in visit.path:
        if loop.padded and not effect.overwrites:
            said = f"the last tile of axis {loop.split.axis.name} comes again, and is stored again"
            raise broken("N3", said, visit.statement)
        name, is_sum = loop.split.axis.name, loop.split.axis.role is Role.SUM
        if is_sum and effect.last is None and effect.takes is None:
            raise broken("N3", f"stored for each tile of axis {name}", visit.statement)
        if loop.split.tail is Tail.SHIFTED and not effect.overwrites and loop.split.rest != 0:
            said = f"the last tile of axis {name} begins in the one before, and is stored again"
            raise broken("N3", said, visit.statement)
    inner = [each.split for each in visit.path if each.split.axis.role is Role.SUM]
    if effect.last is not None and (not inner or inner[-1].name != effect.last):
        said = f"stores in the last tile of {effect.last}, and is in no loop over it"
        raise broken("N3", said, visit.statement)


def _threads(nest: Nest, listed: Sequence[Visit]) -> None:
    for split in nest.parallel:
        if split.axis.role is Role.SUM:
            raise broken("N4", f"threads divide axis {split.axis.name}, a sum")
        if split.tail is Tail.SHIFTED and split.rest != 0:
            raise broken("N4", f"tiles of axis {split.axis.name} overlap: {split_text(split)}")
    for visit in listed:
        if visit.effect is None or not visit.effect.stores or not nest.parallel:
            continue
        if not any(_is_made_of(loop.split, p) for loop in visit.path for p in nest.parallel):
            names = ", ".join(split.name for split in nest.parallel)
            raise broken("N4", f"every thread stores all tiles of {names}", visit.statement)


def _is_made_of(split: Split, other: Split) -> bool:
    """Whether its tiles are those of another split, or made of them."""
    if split.name == other.name:
        return True
    return isinstance(split.of, Split) and _is_made_of(split.of, other)


# -- N11 -------------------------------------------------------------------------------------------


def _combines(nest: Nest, listed: Sequence[Visit]) -> None:
    """Where sources go is data: which of them meet is not known, so that their order is fixed. Of
    axes of elements around, a source and its place have the position in common."""
    sources = [axis for axis in nest.axes if axis.role is Role.SOURCES]
    names = [axis.name for axis in sorted(sources, key=lambda axis: axis.number)]
    combining = [each for each in listed if each.effect and each.effect.combines is not None]
    if len(combining) != any(role is Role.SOURCES for role, _ in nest.domain):
        said = f"{', '.join(names) or 'no axis'} are combined by {len(combining)} leaves"
        raise broken("N11", f"sources along {said}")
    for visit in combining:
        around = [loop.split.name for loop in visit.path]
        for split in nest.parallel:
            if split.name not in around or split.axis.role is Role.SOURCES:
                said = f"threads divide {split.name}, and sources may meet in any part"
                raise broken("N11", said, visit.statement)
        axes = [loop.split.axis for loop in visit.path]
        looped = [axis.name for axis in axes if axis.role is Role.SOURCES]
        if looped != names:
            said = f"the loops around go through {', '.join(looped) or 'no axis'}, and not in order"
            raise broken("N11", f"{said} through {', '.join(names) or 'none'}", visit.statement)
        behind = [each for each in listed if each.order > visit.order and each.effect]
        if any(each.effect and each.effect.stores for each in behind):
            raise broken("N11", "an output is stored behind what is combined", visit.statement)


# -- N7, N8 ----------------------------------------------------------------------------------------


def _fills(nest: Nest, visit: Visit) -> None:
    statement = visit.statement
    if isinstance(statement, Fill):
        if statement.stage.holds.is_operand:
            _is_needed(nest, statement.stage, visit)
        return
    if visit.effect is None:
        return
    stages = {stage.name: stage for stage in nest.stages}
    for name in (*visit.effect.reads, *filter(None, (visit.effect.takes,))):
        if name not in visit.filled:
            raise broken("N7", f"stage {name} is read, and not filled before", statement)
        filled = [loop.split.name for loop in visit.filled[name]]
        for loop in visit.path:
            if loop.split.name in stages[name].whole and loop.split.name not in filled:
                said = (
                    f"stage {name} holds a tile of axis {loop.split.axis.name} at a time, and is "
                    f"filled outside the loop over {loop.split.name}"
                )
                raise broken("N7", said, statement)


def _by_leaf(nest: Nest, visit: Visit) -> None:
    """N7: a leaf that fills a stage goes through all of what it holds."""
    effect = visit.effect
    if effect is None or effect.fills is None:
        return
    stage = next(stage for stage in nest.stages if stage.name == effect.fills)
    whole = [split.axis.name for split in all_splits(nest) if split.name in stage.whole]
    for axis, _ in stage.room:
        if not check_loops("N7", visit, axis, effect) and axis not in (*effect.covers, *whole):
            said = f"stage {stage.name} is filled for a part of axis {axis}"
            raise broken("N7", said, visit.statement)


def _is_needed(nest: Nest, stage: Stage, visit: Visit) -> None:
    one_at_a_time = {split.axis.name for split in all_splits(nest) if split.name in stage.whole}
    for loop in visit.path:
        skipped = loop.split.axis.role is Role.BATCH or loop.split.is_one_tile
        if loop.split.axis.name not in one_at_a_time and not skipped:
            said = f"stage {stage.name} is filled again for each {loop.split.name}"
            said += f", and does not differ along axis {loop.split.axis.name}"
            raise broken("N8", said, visit.statement)


# -- N9, N10 ---------------------------------------------------------------------------------------


def _room(nest: Nest) -> None:
    axes = {axis.name: axis for axis in nest.axes}
    for stage in nest.stages:
        for name, room in stage.room:
            needed = _held(nest, stage, axes[name])
            if not any(always_le(each, room) for each in needed):
                said = f"stage {stage.name} holds {needed[-1]} positions of axis {name} at a time"
                raise broken("N9", f"{said}, and has room for {room}")


def _held(nest: Nest, stage: Stage, axis: Axis) -> list[Extent]:
    """Bounds of how many positions of an axis it holds at a time."""
    whole = [
        split.positions for split in all_splits(nest)
        if split.name in stage.whole and split.axis.name == axis.name
        and split.tail is not Tail.BY_RUN
    ]  # fmt: skip
    return [axis.extent, *whole]


def _tails(nest: Nest, listed: Sequence[Visit]) -> None:
    for split in all_splits(nest):
        of_tiles = split.tail in (Tail.CLIPPED, Tail.BY_RUN, Tail.APART, Tail.BEHIND)
        refusal = split.refusal
        if of_tiles and isinstance(split.of, Axis):
            refusal = "what is split are no tiles"
        if refusal is not None:
            rule = "N5" if split.axis.role is Role.SUM and split.tail is Tail.RUNS else "N10"
            said = f"axis {split.axis.name} cannot be split so: {refusal}"
            raise broken(rule, f"{said} ({split_text(split)})")
    for visit in listed:
        for loop in visit.path:
            if loop.padded and (loop.within is None or loop.within.tail is not Tail.COUNTED):
                around = "no loop" if loop.within is None else f"tiles that are {loop.within.tail}"
                said = f"in {around}, the one over {loop.split.name} has no number to be padded to"
                raise broken("N10", said, visit.statement)
            if loop.flat and (loop.fused is None or loop.fused.tail not in OF_ONE_BODY):
                said = f"axis {loop.split.axis.name} is counted flat with tiles of several bodies"
                raise broken("N10", said, loop)
        for split in _untaken(visit.path, visit.effect):
            said = f"the leaf does not take a last tile of axis {split.axis.name} that is"
            raise broken("N10", f"{said} {split.tail}", visit.statement)


def _untaken(path: Path, effect: Effect | None) -> Iterator[Split]:
    for loop in path if effect is not None else ():
        split = loop.split
        if loop.rest == ():
            continue  # of whole tiles alone
        exact = isinstance(split.of, Axis) and known_number(split.rest) == 0
        if not exact and effect is not None and split.tail not in effect.tails:
            yield split
