"""Calls → one self-contained HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphc.debug.files import check_writable, write_file
from graphc.debug.profile.profiler import SECONDS
from graphc.debug.report.data import call_data
from graphc.debug.report.packing import LEAST_OF_KERNELS, MOST_BYTES, packed, spared
from graphc.debug.traced import TracedCall

if TYPE_CHECKING:
    from graphc.build.page import LivePart

SCRIPTS = ("script.js", "ledger.js", "graph_layout.js", "graph_picture.js", "opening.js")
"""In the order in which they run."""
WHOLE_FILE, AROUND = 1500, 40
"""Lines of a source file up to which all are shown; of longer ones those so near to a hot one."""


def page(
    calls: Sequence[TracedCall], seconds: float = SECONDS, live: LivePart | None = None
) -> str:
    """The page as a text; each call is profiled for about so many seconds. `live`: what it runs."""
    contents = [call_data(call, seconds) for call in calls]
    heads = [each.head for each in contents]
    parts = {"head": packed({"calls": heads, "files": _files(heads)})}
    for number, each in enumerate(contents):
        parts |= {f"{number} {name}": packed(part) for name, part in each.parts.items()}
    room = (MOST_BYTES - sum(map(len, parts.values()))) // max(len(contents), 1)
    for number, each in enumerate(contents):
        parts[f"{number} kernels"] = packed(spared(each.kernels, max(room, LEAST_OF_KERNELS)))
    title = html.escape(f"graphc report: {', '.join(head['name'] for head in heads)}")
    return _filled(title, parts, live)


def write_page(
    calls: Sequence[TracedCall], path: str | Path, seconds: float = SECONDS,
    live: LivePart | None = None,
) -> None:  # fmt: skip
    """Write the page; a file that is there is replaced when the new one is whole. Raises
    ArgumentError where the file cannot be written, where that can be known before all else."""
    check_writable(path, "the report")
    write_file(path, page(calls, seconds, live), "the report")


def _filled(title: str, parts: dict[str, str], live: LivePart | None) -> str:
    folder = files("graphc.debug.report")
    rows = ",\n".join(f'"{name}": "{content}"' for name, content in parts.items())
    scripts = "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS)
    style = (folder / "style.css").read_text("utf-8")
    text = (folder / "template.html").read_text("utf-8")
    section, allowed = "", ""
    if live is not None:
        style, scripts = f"{style}\n{live.style}", f"{scripts}\n{live.script}"
        section, allowed = (folder / "live.html").read_text("utf-8"), " 'wasm-unsafe-eval'"
    filled = {
        "TITLE": title, "STYLE": style, "PARTS": rows, "SCRIPT": scripts, "LIVE": section,
        "WASM": allowed,
    }  # fmt: skip
    return re.sub(f"@({'|'.join(filled)})@", lambda match: filled[match[1]], text)


def _files(calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The source files that launches stem from, those that can be read: numbered lines."""
    hot: dict[str, set[int]] = {}
    for call in calls:
        for place in (line for step in call["steps"] for line in step["lines"]):
            path, _, number = place.rpartition(":")
            hot.setdefault(path, set()).add(int(number))
    texts = {}
    for path, lines in hot.items():
        shown = _lines(Path(path), lines)
        if shown:
            texts[path] = {"name": Path(path).name, "lines": shown}
    return texts


def _lines(path: Path, hot: set[int]) -> list[tuple[int, str]]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    near = {n for line in hot for n in range(line - AROUND, line + AROUND + 1)}
    return [
        (number, text)
        for number, text in enumerate(lines, 1)
        if len(lines) <= WHOLE_FILE or number in near
    ]
