"""The statements of a nest where they stand: what is around each of them, and what is filled there.

In: a nest. Out: `Visit`s in the order of the statements, and what the rules ask of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from graphc.codegen.nests.nest import (
    Compute,
    Effect,
    Every,
    Fill,
    ForEach,
    Nest,
    Role,
    Statement,
)
from graphc.codegen.nests.printer import statement_text
from graphc.errors import VerifyError
from graphc.records import record, replace

Path = tuple[ForEach, ...]
"""The loops around a statement, the outermost first."""


def variants(nest: Nest) -> Iterator[Nest]:
    """The nest as it is for whole tiles and as it is for what is left, of each loop that has a body
    of its own for that: to each the rules apply. Of a loop that is for whole tiles alone `rest` is
    empty."""
    for body in _variants(nest.body):
        yield nest if body == nest.body else replace(nest, body=body)


def _variants(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    yield from product(*(list(_ways(statement)) for statement in statements))


def _ways(statement: Statement) -> Iterator[Statement]:
    if isinstance(statement, Every):
        yield from (replace(statement, body=body) for body in _variants(statement.body))
        return
    if not isinstance(statement, ForEach):
        yield statement
        return
    whole = statement.rest if statement.rest is None else ()
    for body in _variants(statement.body):
        same = body == statement.body and whole == statement.rest
        yield statement if same else replace(statement, body=body, rest=whole)
    if statement.rest:
        for body in _variants(statement.rest):
            yield replace(statement, body=body, rest=None)


@record
class Visit:
    """A statement that is no loop. `order`: its number; `filled`: by the names of the stages that
    are filled there, the loops around what filled them. `every`: after which tiles alone it is."""

    statement: Statement
    order: int
    path: Path
    filled: Mapping[str, Path]
    every: tuple[Every, ...] = ()

    @property
    def effect(self) -> Effect | None:
        return self.statement.leaf.effect if isinstance(self.statement, Compute) else None


def visits(nest: Nest) -> Iterator[Visit]:
    """All statements that are no loops. Raises VerifyError (N1) for a loop in the tiles of a split
    that no loop around it is over."""
    order = 0

    def block(
        statements: tuple[Statement, ...], path: Path, filled: Mapping[str, Path],
        every: tuple[Every, ...] = (),
    ) -> Iterator[Visit]:  # fmt: skip
        nonlocal order
        for statement in statements:
            if isinstance(statement, ForEach | Every):
                around = statement.within if isinstance(statement, ForEach) else statement.split
                if around is not None and around.name not in [at.split.name for at in path]:
                    raise broken("N1", f"no loop around is over {around.name}", statement)
                if isinstance(statement, Every):
                    yield from block(statement.body, path, filled, (*every, statement))
                else:
                    yield from block(statement.body, (*path, statement), filled, every)
                continue
            yield Visit(statement, order, path, filled, every)
            order += 1
            if isinstance(statement, Fill):
                filled = {**filled, statement.stage.name: path}

    return block(nest.body, (), {})


def is_in(loop: ForEach, path: Path) -> bool:
    """Whether it is this very loop: another one may say the same."""
    return any(each is loop for each in path)


def broken(rule: str, said: str, at: Statement | None = None) -> VerifyError:
    place = "" if at is None else f", at `{statement_text(at)}`"
    return VerifyError(f"nest breaks rule {rule}: {said}{place}")


def goes_through(
    nest: Nest, rule: str, visit: Visit, effect: Effect, results: Sequence[str] | None = None
) -> list[str]:
    """The axes of results that the loops around a leaf and the leaf itself go through, each
    position once; of axes with cells, which are parts of the columns, at least one. `results`:
    those that the results have, if not all. Raises VerifyError where one is left out, or gone
    through again, or at some tiles alone."""
    if visit.every and effect.joins is None:
        said = f"the leaf is there after {statement_text(visit.every[-1])} alone"
        raise broken(rule, said, visit.statement)
    through = []
    for axis in nest.axes:
        if axis.role is Role.SUM:
            continue
        loops = check_loops(rule, visit, axis.name, effect)
        if results is not None and axis.name not in results:
            if loops:
                said = f"results along {', '.join(results) or 'no axis'} for each tile of axis"
                raise broken(rule, f"{said} {axis.name}", visit.statement)
        elif loops or axis.name in effect.covers:
            through.append(axis.name)
        elif axis.cells is None:
            said = f"the leaf is in no loop over axis {axis.name}, and does not cover it"
            raise broken(rule, said, visit.statement)
    cells = _parts(nest)
    if cells and not set(cells) & set(through):
        said = f"the leaf is in no loop over axis {' or '.join(cells)}, and covers none"
        raise broken(rule, said, visit.statement)
    return through


def check_once(nest: Nest, rule: str, what: str, through: Sequence[str]) -> None:
    """Raises VerifyError where of the axes that some leaves go through, one after the other, a part
    of the results is missing, or there twice."""
    parts = _parts(nest) or [axis.name for axis in nest.axes if axis.role is not Role.SUM]
    for name in parts:
        if through.count(name) != 1:
            times = f"{through.count(name)} times" if name in through else "never"
            raise broken(rule, f"{what} of axis {name} {times} and not once")


def _parts(nest: Nest) -> list[str]:
    return [axis.name for axis in nest.axes if axis.cells is not None]


def check_loops(rule: str, visit: Visit, axis: str, effect: Effect) -> Path:
    """The loops over an axis around a leaf, each but the first in the tiles of the one before."""
    loops = tuple(loop for loop in visit.path if loop.split.axis.name == axis)
    around = None
    for loop in loops:
        within = None if loop.within is None else loop.within.name
        if within != around:
            place = f"once for each {around}" if within is None else f"in {within}"
            said = f"the loop over {loop.split.name} goes through axis {axis} {place}"
            raise broken(rule, said, visit.statement)
        around = loop.split.name
    if loops and axis in effect.covers:
        said = f"the leaf covers axis {axis}, and is in a loop over it"
        raise broken(rule, said, visit.statement)
    return loops
