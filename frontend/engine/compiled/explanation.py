"""What a compiled function says of itself: `explain()`.

in : its specializations and the history of its traces
out: about 40 lines of text. The newest specialization is told in full, others in a line
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from frontend.engine.compiled.trace_history import TraceHistory, made_numbers
from graphc.ir.size_floats import names_in
from graphc.system import IMPORTING

WIDTH = 100
TRACES = 8
"""Traces and specializations that are listed: the first, and the last ones."""
NOTES = 3
"""Reasons why sizes could not be left open that are: the last ones."""
FROZEN = 5
"""Guards that are listed."""
DEAREST = 5
"""Kernels and decisions that are."""


def explained(
    head: str, history: TraceHistory, specializations: Sequence[Any], eager: Sequence[str] = ()
) -> str:
    """The text. `history.lines[i]`: why trace i + 1 was made; a specialization is an
    instance of a program, which has the `number` of its trace; `eager`: what runs eagerly."""
    traced = [f"traced {number}: {text}" for number, text in enumerate(history.lines, 1)]
    lines = [head, *_shortened(traced), *_wrapped(dict.fromkeys(history.notes[-NOTES:]), 2)]
    lines += _wrapped(eager, 3)
    in_order = sorted(specializations, key=lambda each: each.program.number)
    by_trace: dict[int, list[Any]] = {}
    for each in in_order:
        by_trace.setdefault(each.program.number, []).append(each)
    lines += _shortened([f"program {n}: {_summary(group)}" for n, group in by_trace.items()])
    for each in in_order[-1:]:
        lines += _wrapped([f"  signature: ({', '.join(map(str, each.signature.types))})"], 3)
        lines += [f"  {line}" for line in _details(each)]
    return "\n".join(lines)


def _shortened(lines: list[str]) -> list[str]:
    left_out = len(lines) - TRACES
    return lines if left_out <= 0 else [lines[0], f"({left_out} more)", *lines[1 - TRACES :]]


def _summary(specializations: Sequence[Any]) -> str:
    """Of a program, by its instances."""
    program = specializations[0].program
    kind = "one graph, with backward" if program.trains else "one graph"
    if program.function is not None:
        kind = "forward and backward graphs"
    calls = _counted(sum(one.calls for one in specializations), "call")
    if program.sizes is not None:
        calls += f" at {_counted(len(specializations), 'size')}"
    return f"{kind}, {calls}, compiled in {program.compiler.seconds:.3f} s"


def _details(each: Any) -> Iterator[str]:
    program = each.program
    names = program.inputs.names
    yield from _wrapped([f"inputs: {', '.join(grouped(names))}"], 3)
    if program.sizes is not None:
        yield from _wrapped([f"sizes: {_sizes(program)}"], 4)
    updated = [names[position] for position in each.updated]
    if updated:
        yield from _wrapped([f"updated in place: {', '.join(grouped(updated))}"], 3)
    if program.numbers.told:
        yield from _wrapped([f"assigned: {'; '.join(program.numbers.told)}"], 3)
    yield from _saved(each)
    if each.packing is not None:
        yield from _wrapped(each.packing.explain(), 2)
    for executable in each.executables:
        yield from _program(executable)
    if hasattr(each.executable, "parts"):
        yield from _wrapped(each.executable.explain(), 3)
    for executable in each.executables[-1:]:
        yield from _dearest(executable)
        yield from _weightiest(executable, program.options.level)
    frozen = Counter(text for guard in each.guards for text in str(guard).splitlines())
    told = [f"frozen: {text}" + (f" ({n} of these)" if n > 1 else "") for text, n in frozen.items()]
    yield from _wrapped(told[:FROZEN], 1)
    if len(told) > FROZEN:
        yield f"frozen: {len(told) - FROZEN} things more"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _saved(each: Any) -> list[str]:
    """What forward keeps for backward, where that is known: of a pair, or with a budget."""
    of_pair = None if each.function is None else each.function.saved_bytes
    sizes = each.saved if of_pair is None else [of_pair]
    return [f"saved for backward: {size:,} bytes" for size in sizes]


def _sizes(program: Any) -> str:
    """Which sizes and numbers are left open, what those outside of the function are called there,
    what was made a number and where, what has to hold."""
    parts = [f"{', '.join(program.example)} left open"]
    for place, symbol in program.sizes.places:
        parts += [f"{name} is {place.label}" for name in names_in(symbol)]
    parts += list(made_numbers(program.answers))
    if program.size_guards:
        parts.append(f"where {', '.join(map(str, program.size_guards))}")
    return "; ".join(parts)


def _program(executable: Any) -> Iterator[str]:
    """Size of the graph, time of the compiler by phase, memory, threads, layouts, what of the
    processor is not used."""
    with IMPORTING:
        from graphc.codegen.kernels.contraction.strategies.table import declined
        from graphc.schedule.plan import Launch, all_steps, kernels

    graph, plan = executable.graph, executable.plan
    launches = sum(isinstance(step, Launch) for step in all_steps(plan))
    phases = ", ".join(f"{name} {time:.3f} s" for name, time in executable.timings.items())
    yield (
        f"{graph.name}: {len(graph.nodes)} nodes, {len(executable.optimised.nodes)} after passes; "
        f"{launches} launches of {len(kernels(plan))} kernels"
    )
    yield f"  compiled: {phases}"
    yield f"  {executable.schedule}"
    yield f"  {executable.explain_memory()}"
    layouts = executable.explain_layouts()
    yield from (f"  {line}" for line in layouts[:2])
    if len(layouts) > 2:
        yield f"  layout: {len(layouts) - 2} matrices more"
    unused = declined(executable.optimised, executable.target)
    yield from _wrapped([f"  {unused}"] if unused else [], 2)


def _dearest(executable: Any) -> Iterator[str]:
    """The kernels that are thought to take most of a call, and what limits them."""
    with IMPORTING:
        from graphc.schedule.plan import Launch, kernels, locations, steps_of_plans
        from graphc.schedule.threads import estimate

    plan = executable.plan
    names, times = kernels(plan), Counter[str]()
    places: dict[str, Any] = {}
    specs = {name: spec for spec, name in names.items()}
    for owner, step in steps_of_plans(plan):
        if isinstance(step, Launch):
            name = names[step.kernel]
            places.setdefault(name, next(iter(locations(owner, step)), None))
            times[name] += 1
    cost = {name: estimate(specs[name]) for name in times}
    total = sum(cost[name].nanoseconds * count for name, count in times.items()) or 1.0
    by_cost = sorted(times, key=lambda name: -cost[name].nanoseconds * times[name])
    yield f"dearest kernels, of about {total / 1000:.1f} us on one thread by estimate:"
    for name in by_cost[:DEAREST]:
        share = cost[name].nanoseconds * times[name] / total
        place = f"  // {places[name]}" if places[name] else ""
        count = f", {times[name]} launches" if times[name] > 1 else ""
        yield f"  {name}: {share:.0%}, limit {cost[name].limit}{count}{place}"


def _weightiest(executable: Any, level: str) -> Iterator[str]:
    with IMPORTING:
        from graphc.debug.decisions import decisions
        from graphc.debug.ledger import weightiest

    decided = decisions(executable.graph, level, target=executable.target, lowered=False)
    lines = list(weightiest(decided, DEAREST))
    if lines:
        yield "weightiest decisions:"
        yield from _wrapped((f"  {line}" for line in lines), 2)


# -- names -----------------------------------------------------------------------------------------


def grouped(names: Iterable[str]) -> list[str]:
    """Names, those of equal layers as one: `blocks.0-3.weight`."""
    numbers: dict[str, list[int]] = {}
    first: dict[str, str] = {}
    for name in names:
        match = re.search(r"(?<=\.)\d+(?=\.)", name)
        key = name if match is None else f"{name[: match.start()]}*{name[match.end() :]}"
        first.setdefault(key, name)
        numbers.setdefault(key, []).extend([] if match is None else [int(match[0])])
    return [
        first[key] if len(set(each)) < 2 else key.replace("*", _ranges(sorted(set(each))), 1)
        for key, each in numbers.items()
    ]


def _ranges(numbers: Sequence[int]) -> str:
    """`0-3` for what goes without a gap, `0,2,5` for other numbers."""
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))


def _wrapped(lines: Iterable[str], most: int) -> Iterator[str]:
    """Each in at most so many lines."""
    for line in lines:
        yield from textwrap.wrap(
            line, WIDTH, subsequent_indent="      ", max_lines=most, placeholder=" ...",
            break_on_hyphens=False, break_long_words=False,
        ) or [line]  # fmt: skip
