"""What sets two compilations apart, by meaning.

in : two summaries (graphc.debug.summary)
out: lines: the totals of both; what the second graph computes otherwise; by kind, what is decided
     otherwise about it

Neither files, lines and functions count, nor numbers of nodes and kernels, nor by which variable
the program reaches its module: a copy of a program under another name is the same. What differs
alike in equal layers is told once: `blocks.0-11 (12 layers): gelu -> relu`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from graphc.debug.ledger import IMPORTANCE, Decision
from graphc.debug.summary import TOTALS, Summary
from graphc.ir.nodes import FORWARD
from graphc.records import record, replace

Told = Callable[[str], str]
"""How the path of a module is told."""

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
"""The number of a layer in the path of a module."""
_LABELS = re.compile(r" ?%\d+(?:\.\d+)?|\bk\d+_")


def difference(old: Summary, new: Summary, names: Sequence[str] = ("A", "B")) -> Iterator[str]:
    """The lines; `names` are those of the two. One line where they are compiled alike."""
    modules = _comparable(old, new)
    told = [*_computed(old, new, modules), *_decided(old, new, modules)]
    if not told and old.totals == new.totals:
        figures = ", ".join(f"{old.totals[name]:,} {text}" for name, text in TOTALS.items())
        yield f"compiled alike: {figures}"
        return
    yield from _totals(old, new, names)
    yield from told


def _totals(old: Summary, new: Summary, names: Sequence[str]) -> Iterator[str]:
    rows = [("", *names, "")]
    for name, text in TOTALS.items():
        before, after = old.totals[name], new.totals[name]
        share = f" ({(after - before) / before:+.1%})" if before else ""
        change = f"{after - before:+,}{share}" if after != before else "the same"
        rows.append((text, f"{before:,}", f"{after:,}", change))
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    for text, left, right, change in rows:
        yield f"{text:{wide[0]}}  {left:>{wide[1]}}  {right:>{wide[2]}}  {change}".rstrip()


# -- what is compared ------------------------------------------------------------------------------


def _modules(content: Summary) -> set[str]:
    places = [each.location for each in content.decisions if each.location]
    return {o.module for o in content.operations} | {place.module for place in places}


def _comparable(old: Summary, new: Summary) -> tuple[Told, Told]:
    """How the paths of modules of either are told: without the variable that they all begin with
    where that has more of them in common, since the other program calls it otherwise."""
    before, after = _modules(old), _modules(new)
    ways = [(a, b) for a in _ways(before) for b in _ways(after)]
    return max(ways, key=lambda way: len(set(map(way[0], before)) & set(map(way[1], after))))


def _ways(modules: set[str]) -> list[Told]:
    roots = {module.partition(".")[0] for module in modules if module}
    whole: list[Told] = [lambda module: module]
    return [*whole, lambda module: module.partition(".")[2]] if len(roots) == 1 else whole


@record
class ModulePhase:
    """Where something differs: the path of a module and a phase."""

    module: str
    phase: str

    @property
    def alike(self) -> ModulePhase:
        """The same of every layer."""
        return replace(self, module=_NUMBER.sub("*", self.module))


def _layers(sites: Iterable[ModulePhase]) -> str:
    """ModulePhases that are alike, as one text: `blocks.0-11.mlp (12 layers) backward`."""
    every = list(dict.fromkeys(sites))
    first, phase = every[0], every[0].phase
    paths = [_NUMBER.findall(site.module) for site in every]
    columns = [sorted({int(number) for number in column}) for column in zip(*paths)]
    ranges = iter([_range(column) for column in columns])
    module = _NUMBER.sub(lambda _: next(ranges), first.module)
    layers = f" ({len(every)} layers)" if len(every) > 1 else ""
    words = [f"{module}{layers}" if module else "", phase if phase != FORWARD else ""]
    return " ".join(word for word in words if word)


def _range(numbers: list[int]) -> str:
    if numbers[-1] - numbers[0] == len(numbers) - 1 and len(numbers) > 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))


# -- what is computed ------------------------------------------------------------------------------


def _computed(old: Summary, new: Summary, modules: tuple[Told, Told]) -> Iterator[str]:
    """Ops that are there and not here, and the other way round: by module, equal layers as one."""
    counts: dict[ModulePhase, tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]] = {}
    lines: dict[ModulePhase, str] = {}
    for side, content in enumerate((old, new)):
        for each, count in content.operations.items():
            site = ModulePhase(modules[side](each.module), each.phase)
            counts.setdefault(site, (Counter(), Counter()))[side][each.op, each.types] += count
    differing = {
        site: (before - after, after - before)
        for site, (before, after) in counts.items()
        if before != after
    }
    for each in new.operations:  # a line where it stands
        site = ModulePhase(modules[1](each.module), each.phase)
        if site in differing and (each.op, each.types) in differing[site][1]:
            lines.setdefault(site, each.line)
    groups: dict[Hashable, list[ModulePhase]] = {}
    for site, (gone, fresh) in differing.items():
        key = (site.alike, frozenset(gone.items()), frozenset(fresh.items()))
        groups.setdefault(key, []).append(site)
    if groups:
        yield "what is computed:"
    for sites in groups.values():
        gone, fresh = differing[sites[0]]
        where, line = _layers(sites), lines.get(sites[0], "")
        place = f"{where}: " if where else ""
        yield f"  {place}{_change(gone, fresh)}" + (f"  // {line}" if line else "")


def _change(gone: Counter[tuple[str, str]], fresh: Counter[tuple[str, str]]) -> str:
    """`gelu -> relu`; with their types where the ops are the same ones."""
    ops = [Counter(dict(_by_op(side))) for side in (gone, fresh)]
    if ops[0] == ops[1]:
        texts = [
            _listed({f"{op} : {types}": n for (op, types), n in c.items()}) for c in (gone, fresh)
        ]
    else:
        texts = [_listed(side) for side in (ops[0] - ops[1], ops[1] - ops[0])]
    return f"{texts[0]} -> {texts[1]}"


def _by_op(counts: Counter[tuple[str, str]]) -> Counter[str]:
    ops = Counter[str]()
    for (op, _), count in counts.items():
        ops[op] += count
    return ops


def _listed(counts: Counter[str] | dict[str, int]) -> str:
    items = [f"{count} {text}" if count > 1 else text for text, count in counts.items()]
    return ", ".join(items) or "nothing"


# -- what is decided -------------------------------------------------------------------------------


def _decided(old: Summary, new: Summary, modules: tuple[Told, Told]) -> Iterator[str]:
    for kind in IMPORTANCE:
        sides = [[d for d in content.decisions if d.kind == kind] for content in (old, new)]
        old_kind, new_kind = sides
        told = (
            _rules(old_kind, new_kind)
            if kind == "rewritten"
            else _reasons(old_kind, new_kind, modules)
        )
        lines = list(told)
        if lines:
            yield f"{kind}: {len(sides[0]):,}, then {len(sides[1]):,}"
            yield from lines


def _rules(old: list[Decision], new: list[Decision]) -> Iterator[str]:
    """How often each rule fired."""
    before, after = (Counter(each.why for each in side) for side in (old, new))
    for rule in sorted({*before, *after}, key=lambda rule: -abs(after[rule] - before[rule])):
        if before[rule] != after[rule]:
            yield f"  {rule}: {before[rule]:,} times, then {after[rule]:,}"


@record
class Reason:
    """A decision by its meaning, at one site."""

    what: str
    why: str
    site: ModulePhase
    within: str


def _reasons(
    old: list[Decision], new: list[Decision],
    modules: tuple[Told, Told],
) -> Iterator[str]:  # fmt: skip
    counts = [Counter(_reason(each, modules[side]) for each in decided)
              for side, decided in enumerate((old, new))]  # fmt: skip
    gone, fresh = (_alike(each) for each in (counts[0] - counts[1], counts[1] - counts[0]))
    for key, sites in list(gone.items()):
        partner = _partner(key, sites, fresh)
        if partner is None:
            continue
        del gone[key]
        yield f"  {_told(key, sites)} -> {_beyond(key, partner)}"
        del fresh[partner]
    for sign, groups in (("-", gone), ("+", fresh)):
        for key, sites in groups.items():
            yield f"{sign} {_told(key, sites)}"


def _reason(decision: Decision, module: Told) -> Reason:
    place = decision.location
    site = ModulePhase(module(place.module), place.phase) if place else ModulePhase("", FORWARD)
    what = _LABELS.sub("", _parameter(decision.what, place.module if place else ""))
    return Reason(what, decision.why, site, _LABELS.sub("", decision.within))


def _parameter(what: str, module: str) -> str:
    """Where a decision is about an input: what of its name is not told by its site, or is chosen by
    the program. `%optimizer.exp_avg.blocks.0.up.bias` in the update of that bias is `%exp_avg`."""
    if not re.fullmatch(r"%\S+", what):
        return what
    name = what[1:]
    for path in filter(None, (module, module.partition(".")[2])):
        if name == path or name.endswith(f".{path}"):
            return "%" + (name[: -len(path) - 1].rpartition(".")[2] or "parameter")
    return "an input"


def _alike(counts: Counter[Reason]) -> dict[Reason, Counter[ModulePhase]]:
    """By a reason of all layers the sites where it holds, with their number."""
    groups: dict[Reason, Counter[ModulePhase]] = {}
    for reason, count in counts.items():
        key = replace(reason, site=reason.site.alike)
        groups.setdefault(key, Counter())[reason.site] += count
    return groups


def _partner(
    key: Reason, sites: Counter[ModulePhase], fresh: dict[Reason, Counter[ModulePhase]]
) -> Reason | None:
    """What took the place of a decision: the one that there is in the same layers, about the same
    thing or for the same reason."""
    fitting = [
        other
        for other, others in fresh.items()
        if others == sites
        and other.within == key.within
        and (other.what == key.what or other.why == key.why)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _told(key: Reason, sites: Counter[ModulePhase]) -> str:
    times = sites.total() // len(sites) if sites.total() % len(sites) == 0 else 0
    count = f"{times} times: " if times > 1 else "" if times else f"{sites.total()} in all: "
    where = _layers(sites)
    within = f" in {key.within}" if key.within else ""
    return f"{where + ': ' if where else ''}{count}{key.what}{within}: {key.why}"


def _beyond(old: Reason, new: Reason) -> str:
    """What of a decision is not told by the one before it."""
    return new.why if old.what == new.what else new.what
