"""A ladder as a table of text, and as one of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("µs", lambda rung: f"{rung['us']:,.0f}" if rung["us"] >= 100 else f"{rung['us']:.1f}"),
    ("p50", lambda rung: f"{rung['median_us'] / rung['us']:.2f}x"),
    ("p99", lambda rung: f"{rung['p99_us'] / rung['us']:.2f}x" if "p99_us" in rung else "-"),
    ("gain", lambda rung: f"{rung['gain']:.2f}"),
    ("of first", lambda rung: f"{rung['of_first']:.2f}"),
    ("arena MB", lambda rung: _megabytes(rung, "arena_bytes")),
    ("step MB", lambda rung: _megabytes(rung, "allocated_bytes")),
    ("launches", lambda rung: f"{rung['launches']:,}" if "launches" in rung else "-"),
    ("calls", lambda rung: f"{rung['calls']:,}" if "calls" in rung else "-"),
    ("moved MB", lambda rung: _megabytes(rung, "moved_bytes")),
    ("compile s", lambda rung: f"{rung['compile_s']:.2f}" if "compile_s" in rung else "-"),
    ("first s", lambda rung: f"{rung['first_s']:.2f}"),
    ("value", lambda rung: "-" if rung["value"] is None else f"{rung['value']:.5f}"),
)
MEANING = (
    "µs: the least time of a step; p50, p99: of all steps, over it; gain: over the rung above, of "
    "a peer over the first; arena: memory of the calls; step: what Python allocates besides, at "
    "its greatest; launches: kernels, or ops that compute; moved: what they read and write"
)


def table(ladder: dict[str, Any]) -> Iterator[str]:
    """Lines for people."""
    yield from heading(ladder)
    width = max(len(name) for name in ladder["rungs"]) + 2
    yield " " * width + "".join(f"{title:>10}" for title, _ in COLUMNS)
    for name, rung in ladder["rungs"].items():
        if "us" not in rung:
            yield f"{name:<{width}}not available: {rung.get('missing', 'no turn was made')}"
            continue
        yield f"{name:<{width}}" + "".join(f"{cell(rung):>10}" for _, cell in COLUMNS)
    yield MEANING
    yield from (f"made up for after {calls(count)} of {name}" for name, count in even(ladder))
    yield from sweep(ladder)
    yield from remarks(ladder)


def even(ladder: dict[str, Any]) -> list[tuple[str, int | None]]:
    """After how many calls compiling pays, by what it is compared with."""
    return list(ladder.get("even", {}).items())


def calls(count: int | None) -> str:
    return "no number of calls" if count is None else f"{count:,} call{'s' * (count != 1)}"


def sweep(ladder: dict[str, Any]) -> Iterator[str]:
    """A line for each size, and why it was traced for it."""
    swept = ladder.get("sizes")
    if swept is None:
        return
    if "missing" in swept:
        yield f"sizes: not available: {swept['missing']}"
        return
    titles = ("eager first", "eager µs", "compiled first", "compiled µs", "traces")
    yield f"{'sizes':<24}" + "".join(f"{title:>16}" for title in titles)
    for row in swept["sizes"]:
        numbers = [
            row[f"{way}_{what}"] for way in ("eager", "compiled") for what in ("first_us", "us")
        ]
        shape = "x".join(map(str, row["shapes"][0])) if row["shapes"] else "-"
        cells = "".join(f"{number:>16,.0f}" for number in numbers)
        yield f"{shape:<24}{cells}{row['traces']:>16}"
        yield from (f"  traced: {why}" for why in row["why"])


def heading(ladder: dict[str, Any]) -> Iterator[str]:
    """What was run, and on what."""
    around = ladder["surroundings"]
    yield ladder["title"]
    yield (
        f"{around['processor']}, code for {around['code_for']}, one thread but where it says "
        f"otherwise; Python {around['python']}, NumPy {around['numpy']} with {around['blas']}; "
        f"{ladder['rounds']} rounds"
    )


def remarks(ladder: dict[str, Any]) -> Iterator[str]:
    """Whether the machine was quiet, and whether all rungs computed the same."""
    if not ladder["quiet"]:
        disturbed = [name for name, rung in ladder["rungs"].items() if rung.get("disturbed")]
        around = ladder["surroundings"]
        yield (
            f"the machine was not quiet (load {around['load']}, then {around['load_after']}): the "
            "median is more than 1.1 times the least, or there was no processor for a twentieth of "
            f"the time, for {', '.join(disturbed) or 'all'}"
        )
    if ladder.get("broken"):
        yield f"BROKEN: {ladder['broken']}"
    for name in ladder["wrong"]:
        yield f"WRONG: {name} gives {ladder['rungs'][name]['value']!r}"


def markdown(ladder: dict[str, Any], titles: tuple[str, ...]) -> Iterator[str]:
    """A table of Markdown with some of the columns."""
    chosen = [(title, cell) for title, cell in COLUMNS if title in titles]
    yield "| rung | " + " | ".join(title for title, _ in chosen) + " |"
    yield "|---|" + "---:|" * len(chosen)
    for name, rung in ladder["rungs"].items():
        if "us" in rung:
            yield f"| {name} | " + " | ".join(cell(rung) for _, cell in chosen) + " |"


def _megabytes(rung: dict[str, Any], key: str) -> str:
    return f"{rung[key] / 1e6:.2f}" if key in rung else "-"
