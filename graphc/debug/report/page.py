"""Calls → one self-contained HTML page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from graphc.debug.files import check_writable, write_file
from graphc.debug.profile.profiler import SECONDS
from graphc.debug.report.data import call_data
from graphc.debug.report.packing import MOST_BYTES, packed, spared
from graphc.debug.traced import TracedCall

WHOLE_FILE, AROUND = 1500, 40
"""Lines of a source file up to which all are shown; of longer ones those so near to a hot one."""


def page(calls: Sequence[TracedCall], seconds: float = SECONDS) -> str:
    """The page as a text; each call is profiled for about so many seconds."""
    sections = [call_data(call, seconds) for call in calls]
    texts = [each.pop("kernels") for each in sections]
    orders = [each.pop("order") for each in sections]
    data = packed({"calls": sections, "files": _files(sections)})
    room = max(MOST_BYTES - len(data), 0) // max(len(sections), 1)
    kernels = [spared(*both, room) for both in zip(texts, orders, strict=True)]
    title = html.escape(f"graphc report: {', '.join(each['name'] for each in sections)}")
    return _filled(title, data, packed(kernels))


def write_page(calls: Sequence[TracedCall], path: str | Path, seconds: float = SECONDS) -> None:
    """Write the page; a file that is there is replaced when the new one is whole. Raises
    ArgumentError where the file cannot be written, where that can be known before all else."""
    check_writable(path, "the report")
    write_file(path, page(calls, seconds), "the report")


def _filled(title: str, data: str, texts: str) -> str:
    folder = files("graphc.debug.report")
    parts = {"TITLE": title, "DATA": data, "TEXTS": texts}
    parts |= {
        name: (folder / file).read_text("utf-8")
        for name, file in (("STYLE", "style.css"), ("SCRIPT", "script.js"))
    }
    text = (folder / "template.html").read_text("utf-8")
    for name, content in parts.items():
        text = text.replace(f"@{name}@", content)
    return text


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
