"""docs/dynamic_and_static.md, from its template and the figures of ladders.

in : the ladders by name, as `graphc.debug.compare.ladder.climb` gives them
out: the page, and a picture of each ladder

In the template `{{ladder | what | …}}` is a figure (the functions of FIELDS), and everything else
is text. So figures can be taken anew and no sentence has to be written again. What commands in the
page print is carried over from the page that is there: a test of all documents holds that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphc.debug.compare.svg import svg, time_text
from graphc.debug.compare.text import heading, markdown, remarks
from graphc.debug.files import write_file
from graphc.errors import ArgumentError

FIGURES, PAGE = "ladders.json", "dynamic_and_static.md"
TEMPLATE = Path(__file__).with_name("ladder_page.md")
FIELD = re.compile(r"\{\{([^{}]+)\}\}")
CONSOLE = re.compile(r"```console\n(\$ [^\n]*\n).*?```", re.DOTALL)
SHOWN = (
    "µs", "gain", "of first", "arena MB", "step MB", "launches", "calls", "moved MB", "first s",
)  # fmt: skip
Ladders = dict[str, dict[str, Any]]


def page(ladders: Ladders, before: str = "") -> str:
    """The page; `before` is the one that is there. Raises ArgumentError where the template names
    what the ladders have not."""

    def filled(match: re.Match[str]) -> str:
        name, what, *rest = [part.strip() for part in match[1].split("|")]
        if name not in ladders:
            raise ArgumentError(f"there are no figures of {name!r}: measure it with --write")
        return FIELDS[what](ladders[name], *rest)

    printed = {match[1]: match[0] for match in CONSOLE.finditer(before)}
    text = FIELD.sub(filled, TEMPLATE.read_text("utf-8"))
    return CONSOLE.sub(lambda match: printed.get(match[1], match[0]), text)


def pictures(ladders: Ladders) -> dict[str, str]:
    """The pictures by the names of their files."""
    return {f"ladder_{name}.svg": svg(ladder) for name, ladder in ladders.items()}


def write_page(ladders: Ladders, folder: Path) -> None:
    """Write the page and the pictures into a folder."""
    there = folder / PAGE
    before = there.read_text("utf-8") if there.exists() else ""
    for name, text in {**pictures(ladders), PAGE: page(ladders, before)}.items():
        write_file(folder / name, text, name)


# -- figures ---------------------------------------------------------------------------------------


def _rung(ladder: dict[str, Any], name: str) -> dict[str, Any]:
    """A rung by its name, or by what its name ends with (`threads`)."""
    for known, rung in ladder["rungs"].items():
        if known == name or (name == "threads" and known.endswith(name)):
            figures: dict[str, Any] = rung
            return figures
    raise ArgumentError(f"{ladder['title']} has no rung {name!r}")


def _time(ladder: dict[str, Any], rung: str) -> str:
    return time_text(_rung(ladder, rung)["us"])


def _over(ladder: dict[str, Any], slow: str, fast: str) -> str:
    return f"{_rung(ladder, slow)['us'] / _rung(ladder, fast)['us']:.1f}"


def _count(ladder: dict[str, Any], rung: str, what: str) -> str:
    return f"{_rung(ladder, rung)[what]:,}"


def _seconds(ladder: dict[str, Any], rung: str) -> str:
    return f"{_rung(ladder, rung)['first_s']:.2f} s"


def _memory(ladder: dict[str, Any], rung: str) -> str:
    figures = _rung(ladder, rung)
    return f"{(figures['allocated_bytes'] + figures['arena_bytes']) / 1e6:.2f} MB"


def _moved(ladder: dict[str, Any], rung: str) -> str:
    return f"{_rung(ladder, rung)['moved_bytes'] / 1e6:.1f} MB"


def _even(ladder: dict[str, Any], slow: str, fast: str) -> str:
    """After how many steps what the first call cost has come back."""
    before, after = _rung(ladder, slow), _rung(ladder, fast)
    won = (before["us"] - after["us"]) * 1e-6
    cost = after["first_s"] - before["first_s"]
    return f"{max(cost / won, 1):,.0f}" if won > 0 else "no number of"


def _per_op(ladder: dict[str, Any], eager: str, static: str) -> str:
    """Microseconds that an op costs eagerly beyond the same kernel in a static graph."""
    before, after = _rung(ladder, eager), _rung(ladder, static)
    return f"{(before['us'] - after['us']) / before['launches']:.1f} µs"


def _table(ladder: dict[str, Any]) -> str:
    notes = "".join(f"\n\n{line}" for line in remarks(ladder))
    return "\n".join(markdown(ladder, SHOWN)) + notes


FIELDS: dict[str, Callable[..., str]] = {
    "table": _table, "time": _time, "over": _over, "count": _count, "first": _seconds,
    "memory": _memory, "moved": _moved, "even": _even, "per op": _per_op,
    "title": lambda ladder: str(ladder["title"]),
    "machine": lambda ladder: list(heading(ladder))[1],
}  # fmt: skip
