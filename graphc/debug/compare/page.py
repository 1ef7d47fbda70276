"""A ladder as one HTML page: `graphc compare --html`.

in : a ladder, and the compiled calls as they were profiled
out: the page: rungs and peers, after how many calls compiling pays, the eager timeline above the
     compiled one on one scale, the tape beside the graph, the sweep over sizes

It holds all it needs and runs no script; names and lines of the user's program are text in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from graphc.debug.compare.ladder import Measured
from graphc.debug.compare.svg import svg, time_text
from graphc.debug.compare.text import COLUMNS, MEANING, calls, even, heading, remarks
from graphc.debug.load import loaded_calls
from graphc.debug.profile.calls import profile_calls
from graphc.debug.profile.chrome_trace import chrome_trace
from graphc.debug.traced import DrawnInput
from graphc.ir.dims import fixed
from graphc.records import record
from graphc.schedule.plan import Plan, all_steps, live_ranges

WIDTH, HEIGHT = 1200, 34
MOST_LINES = 2000
"""Of the tape and of the graph that are shown."""
STYLE = """
body{font:14px system-ui,sans-serif;margin:24px;max-width:1280px;color:#222;background:#fff}
table{border-collapse:collapse;margin:8px 0}td,th{padding:2px 10px;text-align:right}
td:first-child,th:first-child{text-align:left}tr:nth-child(even){background:#f4f4f4}
.beside{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,2fr);gap:16px}
pre{overflow:auto;max-height:70vh;background:#f7f7f7;padding:8px;font-size:12px}.broken{color:#a22;white-space:pre-wrap}
svg.line{width:100%;height:34px;display:block;background:#f4f4f4;margin:2px 0}.dim{color:#777}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre,svg.line,
tr:nth-child(even){background:#242424}}
"""
COLOURS = ("#c98b3c", "#4d86b8", "#3f9a6b", "#8a6bb8", "#b85c6e", "#7d8a3c")


Span = tuple[str, str, float, float, int]


@record
class CompiledCall:
    """A native call: its graph as it was optimised, and its launches: name, line, when each began
    and was over in microseconds, and the bytes of the arena that hold something then."""

    name: str
    graph: str
    launches: list[Span]


def compiled_calls(what: Measured, seconds: float) -> list[CompiledCall]:
    """The calls of one run on one thread, profiled."""
    inputs = [DrawnInput.parse(text) for text in what.inputs]
    with loaded_calls(what.reference, inputs, "exact", 1, what.program) as traced:
        profiles = profile_calls(traced, seconds)
        executables = [call.executable() for call in traced]
    result = []
    for profile, executable in zip(profiles, executables, strict=True):
        held = _held(executable.plan)
        events = [event for event in chrome_trace(profile)["traceEvents"] if event["ph"] == "X"]
        launches = [
            (e["name"], str(e["args"].get("line", "")), e["ts"], e["ts"] + e["dur"],
             held[e["args"]["step"]])
            for e in events if e["cat"] == "launch"
        ]  # fmt: skip
        result.append(CompiledCall(profile.name, str(executable.optimised), launches))
    return result


def _held(plan: Plan) -> list[int]:
    """By number of all steps, the bytes of the arena that are in use; in a loop or branch those of
    it as a whole."""
    lives = live_ranges(plan.steps, plan.buffers)
    arena = [
        (*live, fixed(buffer.type.nbytes))
        for buffer, live in zip(plan.buffers, lives, strict=True)
        if buffer.place == "arena" and buffer.within is None and live is not None
    ]
    tops = {id(step): number for number, step in enumerate(plan.steps)}
    result, top = [], 0
    for step in all_steps(plan):
        top = tops.get(id(step), top)
        result.append(sum(size for first, last, size in arena if first <= top <= last))
    return result


def page(ladder: dict[str, Any], compiled: Sequence[CompiledCall]) -> str:
    """The page as a text."""
    title = escape(ladder["title"])
    parts = [
        "<!doctype html>", f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f"<style>{STYLE}</style></head><body>", f"<h1>{title}</h1>",
        *(f'<p class="dim">{escape(line)}</p>' for line in list(heading(ladder))[1:]),
        *(f'<p class="broken">{escape(line)}</p>' for line in remarks(ladder)),
        svg(ladder), *_rungs(ladder), *_even(ladder), *_timelines(ladder, compiled),
        *_beside(ladder, compiled), *_sizes(ladder), "</body></html>",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _rungs(ladder: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Rungs</h2>"
    rows = []
    for name, rung in ladder["rungs"].items():
        if "us" in rung:
            rows.append((name, *(cell(rung) for _, cell in COLUMNS)))
        else:
            rows.append((name, rung.get("missing", "no turn was made")))
    yield from _table(("", *(title for title, _ in COLUMNS)), rows)
    yield f'<p class="dim">{escape(MEANING)}</p>'


def _even(ladder: dict[str, Any]) -> Iterator[str]:
    for name, count in even(ladder):
        said = f"Compiling is made up for after {calls(count)} of {name}."
        yield f'<p class="even">{escape(said)}</p>'


def _tape(ladder: dict[str, Any]) -> list[Span]:
    tapes = (rung["tape"] for rung in ladder["rungs"].values() if "tape" in rung)
    return [(name, kind, a / 1e3, b / 1e3, held) for name, kind, a, b, held in next(tapes, [])]


def _timelines(ladder: dict[str, Any], compiled: Sequence[CompiledCall]) -> Iterator[str]:
    """Both on the scale of the longer one, each above the memory it holds; the shorter once more,
    as wide as the page."""
    ops = _tape(ladder)
    launches: list[Span] = []
    begin = 0.0
    for call in compiled:
        launches += [
            (n, place, begin + a, begin + b, held) for n, place, a, b, held in call.launches
        ]
        begin = _end(launches)
    both, alone = _end(ops + launches), _end(launches)
    most = max([1, *(held for *_, held in ops + launches)])
    rows = [("eager, native kernels: ops", ops, both), ("compiled: launches", launches, both)]
    if 0 < 2 * alone < both:
        wider = f"compiled, drawn {both / alone:,.0f} times as wide: launches"
        rows.append((wider, launches, alone))
    if not both:
        return
    yield "<h2>A step over time</h2>"
    colours: dict[str, str] = {}
    for title, row, end in rows:
        greatest = max((held for *_, held in row), default=0) / 1e6
        yield f"<div>{escape(title)}, {len(row)} in {time_text(_end(row))}; below, the memory they "
        yield f"hold, {greatest:.2f} MB at its greatest</div>"
        yield f'<svg class="line" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">'
        for name, told, a, b, _ in row:
            colour = colours.setdefault(name, COLOURS[len(colours) % len(COLOURS)])
            label = escape(f"{name} {told}: {time_text(b - a)}")
            yield (
                f'<rect x="{WIDTH * a / end:.2f}" width="{max(WIDTH * (b - a) / end, 0.3):.2f}" '
                f'y="2" height="{HEIGHT - 4}" fill="{colour}"><title>{label}</title></rect>'
            )
        yield "</svg>"
        yield _curve(row, end, most)


def _end(row: Sequence[Span]) -> float:
    return max((b for _, _, _, b, _ in row), default=0.0)


def _curve(row: Sequence[Span], end: float, most: int) -> str:
    """Memory over time, as steps, on one scale for all rows."""
    points = [f"0,{HEIGHT}"]
    for _, _, _, b, held in row:
        x, y = WIDTH * b / end, HEIGHT * (1 - held / most)
        points += [f"{points[-1].partition(',')[0]},{y:.1f}", f"{x:.2f},{y:.1f}"]
    points.append(f"{points[-1].partition(',')[0]},{HEIGHT}")
    return (
        f'<svg class="line memory" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">'
        f'<polygon points="{" ".join(points)}" fill="#8884"/></svg>'
    )


def _beside(ladder: dict[str, Any], compiled: Sequence[CompiledCall]) -> Iterator[str]:
    tape = [f"{name}({kind})" for name, kind, *_ in _tape(ladder)]
    graph = [line for call in compiled for line in call.graph.splitlines()]
    if not tape and not graph:
        return
    yield "<h2>The tape and the graph</h2>"
    yield '<div class="beside">'
    for title, lines in (
        ("what eager mode ran, in order", tape),
        ("the graph after passes", graph),
    ):
        left_out = len(lines) - MOST_LINES
        shown = lines[:MOST_LINES] + [f"({left_out} lines more)"] * (left_out > 0)
        yield f"<div><h3>{title}</h3><pre>{escape(chr(10).join(shown))}</pre></div>"
    yield "</div>"


def _sizes(ladder: dict[str, Any]) -> Iterator[str]:
    swept = ladder.get("sizes")
    if swept is None:
        return
    yield "<h2>Sizes</h2>"
    if "missing" in swept:
        yield f'<p class="broken">{escape(swept["missing"])}</p>'
        return
    titles = ("inputs", "eager, first", "eager", "compiled, first", "compiled", "traces", "why")
    keys = ("eager_first_us", "eager_us", "compiled_first_us", "compiled_us")
    rows = [
        (" ".join("x".join(map(str, shape)) for shape in row["shapes"]),
         *(time_text(row[key]) for key in keys), str(row["traces"]), "; ".join(row["why"]))
        for row in swept["sizes"]
    ]  # fmt: skip
    yield from _table(titles, rows)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{escape(title)}</th>" for title in titles) + "</tr>"
    for row in rows:
        short = f' colspan="{len(titles) - 1}" style="text-align:left"' if len(row) == 2 else ""
        cells = f"<td>{escape(row[0])}</td>"
        cells += "".join(f"<td{short}>{escape(cell)}</td>" for cell in row[1:])
        yield f"<tr>{cells}</tr>"
    yield "</table>"
