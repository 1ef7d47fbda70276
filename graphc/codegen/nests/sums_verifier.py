"""The rules of sums: N5, every product once and in order, and N6, zeros first and results last.

In: a nest and its statements where they stand. Out: nothing, or a VerifyError (verifier.py has the
rules' sentences).
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.nests.nest import (
    Axis,
    Clear,
    Effect,
    Fill,
    ForEach,
    Nest,
    Role,
    Stage,
    walk,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.visits import (
    Path,
    Visit,
    broken,
    check_loops,
    check_once,
    goes_through,
    is_in,
)
from graphc.ir.dims import always_le, always_lt

_IN_ORDER = (Tail.EXACT, Tail.WHOLE_AND_REST, Tail.ONE_BY_ONE)
"""Tails of loops over products that are added one by one."""


def verify_sums(nest: Nest, listed: Sequence[Visit]) -> None:
    axis = next((axis for axis in nest.axes if axis.role is Role.SUM), None)
    if axis is None:
        return  # no sums
    stages = {stage.name: stage for stage in nest.stages}
    summed: list[str] = []
    for visit in listed:
        effect = visit.effect
        if effect is None:
            continue
        again = [loop.split.axis.name for loop in visit.path if loop.padded]
        if again and effect.adds is not None:
            said = f"the last tile of axis {again[0]} comes again, and adds its products again"
            raise broken("N5", said, visit.statement)
        if effect.has_products:
            summed += goes_through(nest, "N5", visit, effect)
            _products(axis, visit, effect, _zeros(listed, visit, effect))
            if axis.levels > 1:
                _levels(nest, axis, listed, visit)
        if effect.adds is not None:
            _added(stages[effect.adds], listed, visit, effect)
        if effect.takes is not None:
            _taken(stages[effect.takes], listed, visit)
    zeros = [axis.name for axis in nest.axes if not axis.has_products]
    check_once(nest, "N5", "products are added to sums", [*summed, *zeros])


def _products(axis: Axis, visit: Visit, effect: Effect, zeros: Path | None) -> None:
    """N5: tiles along the axis of sums are in order, and end where K blocks do."""
    loops = check_loops("N5", visit, axis.name, effect)
    if not loops:
        if axis.name not in effect.covers:
            said = f"the leaf is in no loop over axis {axis.name}, and does not cover it"
            raise broken("N5", said, visit.statement)
        return
    if effect.continues and axis.levels > 1:
        return  # what levels have is asked apart
    if effect.continues:
        _chain(axis, visit, loops, zeros)
        return
    for loop in loops:
        split = loop.split
        if not split.tail.splits_sums:
            said = f"tiles of axis {axis.name} that are {split.tail} are not in order"
            raise broken("N5", said, visit.statement)
        if split.is_one_tile:
            continue
        if axis.block is None or split.positions % axis.block:
            ends = "at run time" if axis.block is None else f"after {axis.block} positions"
            said = f"{split.name} cuts axis {axis.name} after {split.positions} positions, where "
            raise broken("N5", f"{said}K blocks end {ends}", visit.statement)


def _chain(axis: Axis, visit: Visit, loops: Path, zeros: Path | None) -> None:
    """Products that are added one by one: from zeros on, those of one K block."""
    outer = [loop.split for loop in loops if zeros is not None and is_in(loop, zeros)]
    block = axis.block
    if block is not None and (
        outer[-1].positions == block if outer else always_le(axis.extent, block)
    ):
        return
    length = outer[-1].positions if outer else axis.extent
    said = f"{length} products along axis {axis.name} are added one by one, in K blocks of {block}"
    raise broken("N5", said, visit.statement)


def _levels(nest: Nest, axis: Axis, listed: Sequence[Visit], visit: Visit) -> None:
    """Products that are added one by one to the lowest of some levels of sums: as soon as a level
    has a block of what is below it, it is joined to the next one, and the lower ones first. What
    is left behind whole tiles, with a body of its own, is less than a block."""
    effect, block = visit.effect, axis.block
    assert effect is not None and block is not None
    loops = check_loops("N5", visit, axis.name, effect)
    if not effect.continues or len(loops) != 1 or loops[0].split.tail not in _IN_ORDER:
        said = f"products along axis {axis.name} are not added one by one, in one loop, in order"
        raise broken("N5", said, visit.statement)
    if always_lt(block**axis.levels, axis.extent):
        said = f"{axis.levels} levels of {block} have not all products along axis {axis.name}"
        raise broken("N5", f"{said}: {axis.extent}")
    (loop,) = loops
    around = next(
        each for each in walk(nest.body)
        if isinstance(each, ForEach) and each.split.name == loop.split.name
    )  # fmt: skip
    is_rest = around.rest is not None and loop.rest is None
    joins = [
        each for each in listed
        if each.effect is not None and each.effect.joins is not None
        and each.effect.adds == effect.adds and is_in(loop, each.path)
    ]  # fmt: skip
    joined = [each.effect.joins for each in joins if each.effect is not None]
    needed = [] if is_rest else list(range(axis.levels - 1))
    if joined != needed or any(each.order < visit.order for each in joins):
        order = ", ".join(map(str, joined)) or "none"
        said = f"of levels of sums along axis {axis.name} {order} are joined behind the products"
        raise broken("N5", f"{said}, and not {', '.join(map(str, needed)) or 'none'}")
    for each in joins:
        assert each.effect is not None and each.effect.joins is not None
        goes_through(nest, "N5", each, each.effect)
        level, every = each.effect.joins, each.every[-1] if each.every else None
        holds = every.count * loop.split.positions if every and every.split == loop.split else 1
        if holds != block ** (level + 1):
            said = f"level {level} along axis {axis.name} is joined after {holds} products, and has"
            raise broken("N5", f"{said} {block ** (level + 1)}", each.statement)


def _zeros(listed: Sequence[Visit], at: Visit, effect: Effect) -> Path | None:
    """The loops around what sets the sums of a leaf to zero ahead of it, if anything does."""
    before = [
        each for each in listed
        if each.order < at.order and not each.every and _clears(each, effect.adds)
    ]  # fmt: skip
    return before[-1].path if before else None


def _clears(visit: Visit, name: str | None) -> bool:
    if isinstance(visit.statement, Clear):
        return visit.statement.stage.name == name
    return visit.effect is not None and name is not None and visit.effect.clears == name


def _added(stage: Stage, listed: Sequence[Visit], visit: Visit, effect: Effect) -> None:
    """N6: there are zeros to add to, of the same tiles, and no other tile comes in between."""
    sums = [loop for loop in visit.path if loop.split.axis.role is Role.SUM]
    zeros = _zeros(listed, visit, effect)
    if zeros is None and not effect.starts:
        raise broken("N6", f"sums {stage.name} are added to, and not zero before", visit.statement)
    since = [loop for loop in sums if zeros is None or not is_in(loop, zeros)]
    for position, loop in enumerate(visit.path):
        if loop.split.name not in stage.whole:
            continue
        around = [each for each in visit.path[:position] if is_in(each, tuple(since))]
        if around and not loop.split.is_one_tile:
            said = f"sums {stage.name} hold a tile of {loop.split.name} at a time, which changes"
            said += f" before axis {around[0].split.axis.name} is summed"
            raise broken("N6", said, visit.statement)
        if zeros is not None and not is_in(loop, zeros):
            said = f"sums {stage.name} are zero for one tile of {loop.split.name} alone"
            raise broken("N6", said, visit.statement)


def _taken(stage: Stage, listed: Sequence[Visit], visit: Visit) -> None:
    """N6: all products were added, to the sums of the same tiles."""
    adding = [each for each in listed if each.effect is not None and each.effect.adds == stage.name]
    filled = [
        each for each in listed
        if isinstance(each.statement, Fill) and each.statement.stage.name == stage.name
        and each.order < visit.order
    ]  # fmt: skip
    if not adding or not filled:
        raise broken("N6", f"sums {stage.name} are taken, and nothing is added", visit.statement)
    if any(each.order > filled[-1].order for each in adding):
        raise broken("N6", f"sums {stage.name} are added to after they are filled", visit.statement)
    for each in adding:
        assert each.effect is not None
        zeros = _zeros(listed, each, each.effect)
        born = tuple(loop for loop in zeros or () if loop.split.axis.role is Role.SUM)
        taken = tuple(loop for loop in visit.path if loop.split.axis.role is Role.SUM)
        for loop in (*born, *taken):
            late, early = is_in(loop, taken), is_in(loop, born)
            if late != early:
                said = f"sums {stage.name} are taken {'in each' if late else 'behind all'}"
                said += f" {loop.split.name}, and zero {'before' if late else 'in each'}: "
                raise broken("N6", f"{said}axis {loop.split.axis.name}", visit.statement)
        for loop in (*each.path, *visit.path):
            apart = is_in(loop, each.path) != is_in(loop, visit.path)
            if loop.split.name in stage.whole and apart and not loop.split.is_one_tile:
                said = f"sums {stage.name} of one tile of {loop.split.name} are taken for another"
                raise broken("N6", said, visit.statement)
