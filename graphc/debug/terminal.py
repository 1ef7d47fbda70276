"""What standard output can show: colours and a width, as the terminal has them.

in : lines of text
out: the same on standard output: painted where it is a terminal that shows colours, cut or wrapped
     where it has a width

Colours: not into files and pipes, not with `NO_COLOR` (https://no-color.org) or `TERM=dumb`;
`FORCE_COLOR` has them everywhere. The width is that of `COLUMNS`, else of the terminal; files and
pipes have none, and lines stay whole.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable

from graphc.records import record

LEAST_WIDTH = 20
RED, GREEN, YELLOW, CYAN, DIM, BOLD = "31", "32", "33", "36", "2", "1"
Paint = Callable[[str], str | None]
"""The colour of a line; None for none."""


@record
class Terminal:
    """`columns` None: lines of any length."""

    colour: bool
    columns: int | None

    @staticmethod
    def of_output() -> Terminal:
        """What standard output is now."""
        shown = sys.stdout.isatty()
        return Terminal(_colours(shown), _columns(shown))

    def show(self, lines: Iterable[str], paint: Paint | None = None, *, cut: bool = False) -> None:
        """Print lines. With `cut`, for tables, what is beyond the width goes; without, lines are
        wrapped behind their own indent."""
        for line in lines:
            colour = paint(line) if paint is not None and self.colour else None
            for part in self._fitted(line, cut):
                print(f"\x1b[{colour}m{part}\x1b[0m" if colour and part else part)

    def _fitted(self, line: str, cut: bool) -> list[str]:
        if self.columns is None or len(line) <= self.columns:
            return [line]
        if cut:
            return [line[: self.columns - 1] + "…"]
        indent = len(line) - len(line.lstrip())
        rest = " " * min(indent + 4, self.columns // 2)
        return textwrap.wrap(
            line, self.columns, subsequent_indent=rest, drop_whitespace=True,
            break_on_hyphens=False,
        )  # fmt: skip


def show(lines: Iterable[str], paint: Paint | None = None, *, cut: bool = False) -> None:
    """Print lines as standard output can show them."""
    Terminal.of_output().show(lines, paint, cut=cut)


def by_sign(line: str) -> str | None:
    """Of differences: green for what is new, red for what is gone."""
    text = line.lstrip()
    return GREEN if text.startswith("+") else RED if text.startswith("-") else None


def by_verdict(line: str) -> str | None:
    """Of verifications: green for what holds, red for what does not."""
    if line.startswith("ok "):
        return GREEN
    return (
        RED if line.startswith("DIFF") or line.lstrip().startswith(("blame:", "first:")) else None
    )


def by_heading(line: str) -> str | None:
    """Of tables: bold headings, yellow remarks on a machine that was not quiet."""
    if "not quiet" in line:
        return YELLOW
    return BOLD if re.match(r" +(us|µs) ", line) else None


def _colours(shown: bool) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return shown and os.environ.get("TERM") != "dumb"


def _columns(shown: bool) -> int | None:
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return max(int(told), LEAST_WIDTH)
    if not shown:
        return None
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None
    return max(columns, LEAST_WIDTH) if columns else None
