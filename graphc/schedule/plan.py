"""The Plan: kernels over planned buffers, in order. The level between graph and loops.

A kernel is a recipe and a body: a small graph whose inputs are the buffers it reads and whose
outputs are those it writes. Bodies of equal text are one kernel. A `Check` stops the run before
any state is written, if a content check fails. A `Loop` or `Branch` runs plans of its own: their
arguments and outputs are buffers of the plan around, and so is the memory of their arenas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from graphc.errors import ContentError, GraphError
from graphc.ir.dims import Extent, fixed
from graphc.ir.graph_queries import reachable
from graphc.ir.nodes import CONSTANT, INPUT, Constant, Graph, Location
from graphc.ir.registry import lookup
from graphc.ir.size_guards import SizeGuard
from graphc.ir.types import TensorType
from graphc.ops.kinds.op import broken
from graphc.records import field, record
from graphc.schedule.access import ANCHORS, REDUCTIONS

ON_HOST = "Python computes it: the program calls back"
SHOWN = 3
"""Places that the text of a step names."""


@record
class PlanBuffer:
    """Where a value lies. `place`: `argument` (number `slot`), `output` (number `slot`),
    `constant` (number `slot` of the plan's constants) or `arena` (byte offset `slot`, in a plan of
    sizes that of its example). `within`: the buffer of the arena that this one is a part of, from
    its byte `offset` on."""

    type: TensorType
    place: str
    slot: int
    within: int | None = None
    offset: Extent = 0

    def __str__(self) -> str:
        at = f"arena+{self.slot}" if self.place == "arena" else f"{self.place} {self.slot}"
        return f"{self.type} in {at}" + ("" if self.within is None else f", part of b{self.within}")


@record
class KernelSpec:
    """`recipe` names how the body becomes loops, a key of `RECIPES`
    (graphc.codegen.kernels.lower), or is `host`: Python computes the body, one node of that kind
    (graphc.codegen.program.host_kernels)."""

    recipe: str
    body: Graph

    @property
    def fills(self) -> bool:
        """Whether all of its outputs is written, not a box of what is there."""
        return self.recipe != "update"

    @property
    def has_loops(self) -> bool:
        return self.recipe != "host"


@record
class Launch:
    """One run of a kernel: the buffers its body's inputs and outputs stand for. `nodes[i]` is the
    node of the plan's graph that the body's node `len(reads) + i` computes; `location` that of the
    node it is built around. `sizes[i]` is what the kernel's own size `s<i>` stands for."""

    kernel: KernelSpec
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    sizes: tuple[Extent, ...] = ()
    location: Location | None = field(default=None, compare=False)
    nodes: tuple[int, ...] = field(default=(), compare=False)

    @property
    def buffers(self) -> tuple[int, ...]:
        return (*self.reads, *self.writes)


@record
class Check:
    """Fails unless 0 <= least and greatest < bound (buffers of 0-d integers), or, with `bound`
    None, unless the 0-d bool in `least` is false."""

    least: int
    greatest: int
    bound: Extent | None
    message: str
    location: Location | None = field(default=None, compare=False)
    raises: type[GraphError] = ContentError

    @property
    def buffers(self) -> tuple[int, ...]:
        return (self.least, self.greatest)

    def error(self, least: int, greatest: int) -> GraphError:
        bad = least if least < 0 else greatest
        bound = None if self.bound is None else fixed(self.bound)
        return broken(self.message, bound, bad, self.location, self.raises)


@record
class Loop:
    """Runs `body` again and again: `count` times, or, with `count` None, for as long as `condition`
    leaves true in the buffer `flag`.

    `reads` are the buffers that the body's arguments stand for, `writes` those of its outputs; an
    output aliased to an argument has that argument's buffer, which so carries from one run to the
    next. `sliced` says for each of both whether it stands for the whole buffer or for the slice
    along its first axis that belongs to the run (counted from the last with `reverse`). The
    condition takes the same arguments. `memory`: the buffer that holds the arenas. `node`: that of
    the plan's graph."""

    body: Plan
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    sliced: tuple[bool, ...]
    memory: int | None
    count: Extent | None = None
    reverse: bool = False
    condition: Plan | None = None
    flag: int | None = None
    location: Location | None = field(default=None, compare=False)
    node: int = field(default=-1, compare=False)

    @property
    def plans(self) -> tuple[Plan, ...]:
        return (self.body,) if self.condition is None else (self.condition, self.body)

    @property
    def buffers(self) -> tuple[int, ...]:
        further = (i for i in (self.memory, self.flag) if i is not None)
        return (*self.reads, *self.writes, *further)


@record
class Branch:
    """Runs `then` if the bool in the buffer `predicate` is true, else `otherwise`. Both take the
    buffers `reads` and write `writes`; `memory` holds the arena of either. `node`: that of the
    plan's graph."""

    then: Plan
    otherwise: Plan
    predicate: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    memory: int | None
    location: Location | None = field(default=None, compare=False)
    node: int = field(default=-1, compare=False)

    @property
    def plans(self) -> tuple[Plan, ...]:
        return (self.then, self.otherwise)

    @property
    def buffers(self) -> tuple[int, ...]:
        further = () if self.memory is None else (self.memory,)
        return (self.predicate, *self.reads, *self.writes, *further)


Step = Launch | Check | Loop | Branch


@record
class Plan:
    """Steps in order over `buffers`. `outputs[i]` is the buffer of the graph's output i; an output
    that updates an argument in place has that argument's buffer. `graph` is what was scheduled: the
    optimised graph with its content checks, and for the plan of a loop or branch its body.

    A plan of sizes known only at run time was decided on for an `example` (name and size of each).
    Offsets and sums of bytes are those of the example; at other sizes `plan_at` gives the plan
    (graphc.schedule.instances). It is right where the `guards` hold."""

    name: str
    argument_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]
    aliases: tuple[tuple[int, int], ...]
    buffers: tuple[PlanBuffer, ...]
    steps: tuple[Step, ...]
    constants: tuple[Constant, ...]
    outputs: tuple[int, ...]
    arena_bytes: int
    arena_lower_bound: int
    graph: Graph | None = field(default=None, compare=False)
    example: tuple[tuple[str, int], ...] = ()
    guards: tuple[SizeGuard, ...] = ()

    def __str__(self) -> str:
        return print_plan(self)


def kernels(plan: Plan) -> dict[KernelSpec, str]:
    """Each distinct kernel and its name in the text form."""
    names: dict[KernelSpec, str] = {}
    for step in all_steps(plan):
        if isinstance(step, Launch) and step.kernel not in names:
            names[step.kernel] = f"k{len(names)}_{_headline(step.kernel)}"
    return names


def steps_of_plans(plan: Plan) -> Iterator[tuple[Plan, Step]]:
    """The steps, also those of loops and branches, in order of their text; each behind the plan
    that it is a step of."""
    for step in plan.steps:
        yield plan, step
        for inner in step.plans if isinstance(step, Loop | Branch) else ():
            yield from steps_of_plans(inner)


def all_steps(plan: Plan) -> Iterator[Step]:
    """The steps, also those of loops and branches, in order of their text."""
    return (step for _, step in steps_of_plans(plan))


def all_checks(plan: Plan) -> list[Check]:
    """All content checks. What a run returns where one fails is 1 + its position here."""
    return [step for step in all_steps(plan) if isinstance(step, Check)]


def _readers(body: Graph) -> Callable[[int], list[int]]:
    readers: dict[int, list[int]] = {}
    for identity, node in enumerate(body.nodes):
        for operand in node.operands:
            readers.setdefault(operand.node, []).append(identity)
    return lambda node: readers.get(node, [])


def locations(plan: Plan, step: Step) -> list[Location]:
    """Where a step of `plan` stems from: the place of what it is built around, those of what it
    writes, and those of all else that it computes of what it reads, each once. (Constants are
    shared by what has nothing else in common.)"""
    lines = [step.location]
    if isinstance(step, Launch) and plan.graph is not None and step.nodes:
        first, body = len(step.reads), step.kernel.body
        written = [v.node for v in body.outputs if v.node >= first]
        computed = sorted(reachable(range(first), _readers(body)) - set(range(first)))
        nodes = [step.nodes[node - first] for node in (*written, *computed)]
        lines += [plan.graph.nodes[node].location for node in nodes]
    return [location for location in dict.fromkeys(lines) if location is not None]


def _headline(kernel: KernelSpec) -> str:
    """The op a kernel is best known by: what it is built around, else its last reduction, else its
    last op that is no index map, else its last."""
    ops = [lookup(n.op) for n in kernel.body.nodes if n.op not in (INPUT, CONSTANT)]
    for wanted in (ANCHORS, REDUCTIONS, ("elementwise", "generate")):
        heads = [op.name for op in ops if op.kind in wanted]
        if heads:
            return str(heads[-1])
    return str(ops[-1].name) if ops else "copy"


def print_plan(plan: Plan, *, locations: bool = True) -> str:
    """The text of a plan: buffers, kernels with their bodies, steps, with where each step stems
    from as a comment."""
    names = kernels(plan)
    lines = [f"plan {plan.name} {{", *_frame_lines(plan)]
    for kernel, name in names.items():
        body = str(kernel.body).replace("\n", "\n  ")
        lines.append(f"  kernel {name} ({kernel.recipe}) {body}")
    return "\n".join([*lines, *_step_lines(plan, names, locations), "}"])


def _frame_lines(plan: Plan) -> list[str]:
    """The arena and the buffers."""
    ratio = plan.arena_bytes / plan.arena_lower_bound if plan.arena_lower_bound else 1.0
    sizes = ", ".join(f"{name} = {size}" for name, size in plan.example)
    return [
        *([f"  example {sizes}"] if sizes else []),
        *(f"  where {guard}" for guard in plan.guards),
        f"  arena {plan.arena_bytes} bytes  // {ratio:.2f} of the greatest sum of live sizes",
        *(f"  buffer b{i}: {buffer}" for i, buffer in enumerate(plan.buffers)),
    ]


def _origins(plan: Plan, step: Step) -> str:
    """Where a step stems from, as a comment."""
    places = list(map(str, locations(plan, step)))
    if len(places) > SHOWN:
        places[SHOWN:] = [f"{len(places) - SHOWN} more"]
    return "  // " + "; ".join(places) if places else ""


def _step_lines(plan: Plan, names: dict[KernelSpec, str], shown: bool) -> list[str]:
    lines = []
    for step in plan.steps:
        comment = _origins(plan, step) if shown else ""
        if isinstance(step, Loop | Branch):
            lines += _region_lines(step, names, comment, shown)
            continue
        if isinstance(step, Check):
            bound = "nonzero" if step.bound is None else f"in [0, {step.bound})"
            lines.append(f"  check b{step.least}..b{step.greatest} {bound}{comment}")
            continue
        sizes = (f"s{i} = {size}" for i, size in enumerate(step.sizes))
        operands = ", ".join([*(f"b{i}" for i in step.reads), *sizes])
        written = ", ".join(f"b{i}" for i in step.writes)
        lines.append(f"  {written} = {names[step.kernel]}({operands}){comment}")
    return [*lines, "  return " + ", ".join(f"b{i}" for i in plan.outputs)]


def _region_lines(
    step: Loop | Branch, names: dict[KernelSpec, str], comment: str, shown: bool
) -> list[str]:
    """A loop or branch: what each of its plans' arguments and outputs stand for, then the plans.
    A buffer with `[t]` is read or written slice by slice."""
    sliced = step.sliced if isinstance(step, Loop) else (False,) * len(step.buffers)
    both = [f"b{i}" + "[t]" * cut for i, cut in zip((*step.reads, *step.writes), sliced)]
    read, written = both[: len(step.reads)], both[len(step.reads) :]
    memory = "" if step.memory is None else f" in b{step.memory}"
    bound = f"({', '.join(read)}) -> ({', '.join(written)}){memory}"
    if isinstance(step, Branch):
        heads = [f"if b{step.predicate}", "else"]
    elif step.condition is None:
        order = f"{step.count} - 1 down to 0" if step.reverse else f"0 to {step.count}"
        heads = [f"for t = {order}"]
    else:
        heads = [f"while b{step.flag} of", "do"]
    lines = []
    for number, (head, plan) in enumerate(zip(heads, step.plans)):
        opened = f"{head} {bound} {{{comment}" if number == 0 else f"{head} {{"
        inner = [*_frame_lines(plan), *_step_lines(plan, names, shown)]
        lines += [f"  {opened}", *(f"  {line}" for line in inner), "  }"]
    return lines


def live_ranges(
    plan_steps: tuple[Step, ...], buffers: Sequence[PlanBuffer]
) -> list[tuple[int, int] | None]:
    """First and last step of each buffer's use; None where a buffer is not used. A buffer is used
    where a part of it is; a part has no range of its own."""
    ranges: list[tuple[int, int] | None] = [None] * len(buffers)
    for position, step in enumerate(plan_steps):
        for i in step.buffers:
            within = buffers[i].within
            owner = i if within is None else within
            known = ranges[owner]
            ranges[owner] = (position, position) if known is None else (known[0], position)
    return ranges
