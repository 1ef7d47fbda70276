"""The text of a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from graphc.debug.profile.profiler import NEAR, Profile, StepProfile
from graphc.records import record

GROUPS: dict[str, Callable[[StepProfile], str]] = {
    "line": lambda step: step.place.line,
    "module": lambda step: step.place.module,
    "phase": lambda step: step.place.phase,
}
TITLES = ("us", "share", "runs", "GF/s", "GB/s", "limit us", "reached", "by")


@record
class GroupProfile:
    """What the launches of a line, a module or a phase take together, in seconds."""

    name: str
    launches: int
    seconds: float
    limit_seconds: float


def grouped(profile: Profile, by: str) -> list[GroupProfile]:
    """The launches by "line", "module" or "phase", the dearest first."""
    by_group: dict[str, list[StepProfile]] = {}
    for step in profile.launches:
        by_group.setdefault(GROUPS[by](step), []).append(step)
    groups = [
        GroupProfile(
            name, len(steps), sum(s.seconds for s in steps), sum(s.limit_seconds for s in steps)
        )
        for name, steps in by_group.items()
    ]
    return sorted(groups, key=lambda group: -group.seconds)


def text(profile: Profile, top: int = 20) -> Iterator[str]:
    """The call, its dearest launches, and what lines, modules and phases take; line by line."""
    yield from summary(profile)
    yield ""
    yield "".join(f"{title:>9}" for title in TITLES) + "   launch"
    order = sorted(profile.launches, key=lambda step: -step.seconds)
    for step in order[:top]:
        yield _row(profile, step)
    if order[top:]:
        rest = sum(step.seconds for step in order[top:])
        yield f"{_us(rest):>9}{rest / profile.whole:>9.1%}   {len(order) - top} more launches"
    for by in GROUPS:
        yield from _group_lines(profile, by, top)


def summary(profile: Profile) -> Iterator[str]:
    """What the whole call takes, and whether that can be relied on."""
    whole = profile.whole
    launches = sum(step.runs for step in profile.launches)
    yield (
        f"{profile.name}: {_us(whole)} us a call, {profile.in_kernels / whole:.1%} in "
        f"{launches} launches, {profile.waiting / whole:.1%} waiting for other threads, "
        f"{profile.outside / whole:.1%} outside"
    )
    yield (
        f"{profile.schedule}; without clocks {_us(profile.plain)} us; "
        f"mean of the {profile.kept} quietest of {profile.passes} passes"
    )
    limit = sum(step.limit_seconds for step in profile.launches)
    core = profile.machine
    told = ", ".join(f"{level.name} {level.rate * 1e-9:.0f}" for level in core.levels)
    yield (
        f"{core.processor}, a core: products {core.products * 2e-9:.0f} GF/s, "
        f"additions {core.additions * 1e-9:.0f} G/s, GB/s {told}; "
        f"the limits of all launches are {_us(limit)} us"
    )
    if not profile.quiet:
        yield (
            f"the machine was not quiet: the median pass took {profile.median:.2f} times the "
            f"least, and the calling thread had a processor {profile.on_processor:.0%} of the time"
        )
    elif profile.outside / whole > NEAR:
        yield (
            f"more than {NEAR:.0%} lie outside of the steps: entering native code and making "
            "arrays for results weigh much in so short a call"
        )


def _row(profile: Profile, step: StepProfile) -> str:
    seconds = max(step.seconds, 1e-12)
    assert step.limit is not None
    cells = (
        _us(step.seconds), f"{step.seconds / profile.whole:.1%}", f"{step.runs}",
        f"{step.flops / seconds * 1e-9:.1f}" if step.flops else "",
        f"{step.nbytes / seconds * 1e-9:.1f}", _us(step.limit_seconds),
        f"{step.fraction:.0%}",
    )  # fmt: skip
    numbers = "".join(f"{cell:>9}" for cell in cells)
    bound = "vector" if step.limit.bound == "vector work" else step.limit.bound
    inside = "".join(f" in step {number}" for number in step.within)
    threads = ""
    if len(step.by_thread) > 1:
        threads = " [" + " ".join(_us(t) for t in step.by_thread) + "]"
    return f"{numbers}{bound:>9}   {step.name}{inside}{threads}  {step.place}"


def _group_lines(profile: Profile, by: str, top: int) -> Iterator[str]:
    groups = grouped(profile, by)
    if not any(group.name for group in groups):
        return  # nothing is known of it
    yield ""
    yield f"{'us':>9}{'share':>9}{'reached':>9}{'launches':>9}   by {by}"
    for group in groups[:top]:
        reached = group.limit_seconds / group.seconds if group.seconds else 1.0
        yield (
            f"{_us(group.seconds):>9}{group.seconds / profile.whole:>9.1%}{reached:>9.0%}"
            f"{group.launches:>9}   {group.name or '(unknown)'}"
        )


def _us(seconds: float) -> str:
    """Microseconds, to a tenth of a percent or so."""
    microseconds = seconds * 1e6
    return f"{microseconds:.2f}" if microseconds < 10 else f"{microseconds:.1f}"
