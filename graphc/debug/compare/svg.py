"""A ladder as a picture: a bar for each rung, as long as its time."""

from __future__ import annotations

from html import escape
from typing import Any

WIDTH, ROW, BAR, LEFT, RIGHT = 760, 26, 18, 190, 130
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#333}.title{font-weight:600}.dim{fill:#777}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.dim{fill:#999}}"
)
EAGER, STATIC, WHOLE, PEER = "#c98b3c", "#4d86b8", "#3f9a6b", "#8a6bb8"


def svg(ladder: dict[str, Any]) -> str:
    """The picture as a text; times on a scale from 0."""
    timed = {name: rung for name, rung in ladder["rungs"].items() if "us" in rung}
    height = 44 + ROW * len(timed) + 26
    longest = max((rung["us"] for rung in timed.values()), default=1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(ladder["title"])}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="22">{escape(ladder["title"])}: a step, by rung</text>',
    ]
    for number, (name, rung) in enumerate(timed.items()):
        y = 40 + ROW * number
        length = max((WIDTH - LEFT - RIGHT) * rung["us"] / longest, 1.0)
        label = f"{time_text(rung['us'])}  ({rung['of_first']:.2f}x)"
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" '
            f'fill="{_colour(name, rung)}"><title>{escape(name)}: {label}, '
            f"{rung.get('launches', '?')} launches</title></rect>",
            f'<text x="{LEFT + length + 6:.1f}" y="{y + 14}">{label}</text>',
        ]
    quiet = "" if ladder["quiet"] else "; the machine was not quiet"
    note = f"{ladder['surroundings']['processor']}, least of {ladder['rounds']} rounds{quiet}"
    parts += [f'<text class="dim" x="8" y="{height - 8}">{escape(note)}</text>', "</svg>"]
    return "\n".join(parts) + "\n"


def time_text(microseconds: float) -> str:
    """A time in the unit that suits it."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.2f} s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.2f} ms"
    return f"{microseconds:.0f} µs"


def _colour(name: str, rung: dict[str, Any]) -> str:
    if "launches" not in rung:
        return PEER
    if name.startswith("eager") or "compile_s" not in rung:
        return EAGER
    return STATIC if rung.get("calls", 1) > 1 else WHOLE
