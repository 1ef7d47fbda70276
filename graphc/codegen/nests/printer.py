"""Nests → text. docs/ir.md has the grammar."""

from __future__ import annotations

from collections.abc import Iterator

from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Clear,
    Effect,
    Every,
    Fill,
    ForEach,
    Nest,
    Split,
    Stage,
    Statement,
    all_splits,
)
from graphc.codegen.nests.tails import Tail


def print_nest(nest: Nest, name: str = "") -> str:
    """The text of a nest, its note as the first line inside; `name`: of the kernel."""
    domain = ", ".join(f"{role} {extent}" for role, extent in nest.domain)
    lines = [f"// {nest.note}"] if nest.note else []
    lines += map(_axis, nest.axes)
    lines += map(split_text, all_splits(nest))
    lines += map(_stage, nest.stages)
    lines += (f"output {output.name}{_along(output.axes)}" for output in nest.outputs)
    if nest.parallel:
        splits = ", ".join(split.name for split in nest.parallel)
        inner = "" if nest.fused is None else f" with {nest.fused.name}"
        lines.append(f"parallel {splits}{inner} in {nest.parts} parts")
    lines += _block(nest.body)
    named = name or nest.name.replace(" ", "_")
    return "\n".join([f"nest {named} over {domain} {{", *(f"  {line}" for line in lines), "}"])


def _axis(axis: Axis) -> str:
    positions = "" if axis.count == axis.extent else f" in {axis.extent}"
    block = "" if axis.block is None else f", K blocks of {axis.block}"
    if axis.levels > 1:
        block += f" in {axis.levels} levels"
    zeros = "" if axis.has_products else ", no products"
    return f"axis {axis.name}: {axis.role} {axis.count}{positions}{block}{zeros}"


def split_text(split: Split) -> str:
    source = "axis" if isinstance(split.of, Axis) else "split"
    text = f"split {split.name} of {source} {split.of.name} by {split.size}: {split.tail}"
    if split.tail is Tail.RUNS:
        runs = (f"{run.first}: {run.count} x {run.size}" for run in split.runs)
        text += f" [{', '.join(runs)}]"
    return text


def _stage(stage: Stage) -> str:
    text = f"stage {stage.name}: {stage.holds}"
    if stage.room:
        text += f" of {', '.join(f'{axis} {extent}' for axis, extent in stage.room)}"
    if stage.whole:
        text += f" at each {', '.join(stage.whole)}"
    return f"{text}  // {stage.text}"


def _along(axes: tuple[str, ...]) -> str:
    return f" along {', '.join(axes)}" if axes else ""


def _block(statements: tuple[Statement, ...]) -> Iterator[str]:
    for statement in statements:
        if not isinstance(statement, ForEach | Every):
            yield statement_text(statement)
            continue
        yield statement_text(statement) + " {"
        yield from (f"  {line}" for line in _block(statement.body))
        if isinstance(statement, ForEach) and statement.rest is not None:
            yield "} rest {"
            yield from (f"  {line}" for line in _block(statement.rest))
        yield "}"


def statement_text(statement: Statement) -> str:
    """One statement, of a loop its head."""
    if isinstance(statement, Fill):
        return f"fill {statement.stage.name}"
    if isinstance(statement, Clear):
        return f"clear {statement.stage.name}"
    if isinstance(statement, Every):
        return f"every {statement.count} of {statement.split.name}"
    if not isinstance(statement, ForEach):
        leaf = statement.leaf
        return f"compute {'; '.join(_effects(leaf.effect))}  // {leaf.text}"
    text = f"for {statement.split.name}"
    if statement.within is not None:
        text += f" in {statement.within.name}"
    if statement.fused is not None:
        text += f" with {statement.fused.name}{' flat' if statement.flat else ''}"
    if statement.clips:
        text += f" clipping {', '.join(split.name for split in statement.clips)}"
    text += " padded" if statement.padded else ""
    return text + (" always" if statement.always else "")


def _effects(effect: Effect) -> Iterator[str]:
    for verb, names in (
        ("covers", effect.covers), ("reads", effect.reads), ("fills", (effect.fills,)),
        ("clears", (effect.clears,)), ("takes", (effect.takes,)), ("checks", (effect.checks,)),
        ("adds to", (effect.adds,)),
    ):  # fmt: skip
        listed = [name for name in names if name is not None]
        if listed:
            yield f"{verb} {', '.join(listed)}"
    if effect.adds is not None and effect.starts:
        yield "starts"
    if effect.continues:
        yield "continues"
    if effect.joins is not None:
        yield f"joins level {effect.joins}"
    if effect.stores:
        last = "" if effect.last is None else f" in the last {effect.last}"
        outputs = f" {', '.join(effect.outputs)}" if effect.outputs else ""
        yield f"stores{outputs}{last}{' again' if effect.overwrites else ''}"
    if effect.combines is not None:
        yield f"combines into {effect.combines}"
    tails = [str(tail) for tail in Tail if tail in effect.tails - OF_NUMBERS]
    if tails:
        yield f"takes tails {', '.join(tails)}"
