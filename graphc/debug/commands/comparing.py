"""`graphc compare`: what the static graph gains, rung by rung."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from graphc.debug.commands.arguments import add_reference, add_seconds, check_seconds, program_of
from graphc.debug.files import check_writable, write_file
from graphc.debug.terminal import BOLD, RED, YELLOW, show
from graphc.errors import ArgumentError

WRONG = 1
"""The exit code where a rung computes something else."""


def add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="eager against compiled, one change at a time",
        description="Run a function or training step from eager to compiled, each rung one change "
        "more, each in a process of its own, in turns: time, memory, launches, bytes, compile "
        "time. Exit code 1 where a rung computes something else than the others.",
    )
    add_reference(parser, "what to run")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each rung (6)")
    add_seconds(parser, 0.15, "of a turn")
    parser.add_argument("--json", metavar="FILE.json", help="also write all figures")
    parser.add_argument("--svg", metavar="FILE.svg", help="also draw the times")
    parser.add_argument(
        "--html", metavar="FILE.html",
        help="also write one page: rungs, peers, both timelines, the tape beside the graph, sizes",
    )  # fmt: skip
    parser.add_argument(
        "--peers", metavar="NAMES", default="",
        help="run the same file by these too: torch, torch.compile, jax (a function NAME_jax)",
    )  # fmt: skip
    parser.add_argument(
        "--sizes", metavar="N,…", default="",
        help="call it on these first extents, one after the other, and show which are traced",
    )  # fmt: skip
    parser.set_defaults(run=_run_compare)


def _run_compare(arguments: argparse.Namespace) -> int:
    from graphc.debug.compare.ladder import Measured, climb
    from graphc.debug.compare.svg import svg
    from graphc.debug.compare.text import table

    check_seconds(arguments)
    for path in filter(None, (arguments.json, arguments.svg, arguments.html)):
        check_writable(path, "the ladder")
    what = Measured(
        arguments.reference, tuple(arguments.inputs), program_of(arguments),
        peers=_listed(arguments.peers), sizes=_numbers(arguments.sizes),
    )  # fmt: skip
    quiet = not sys.stderr.isatty()
    ladder = climb(
        what, arguments.rounds, arguments.seconds,
        None if quiet else lambda line: print(line, file=sys.stderr),
    )  # fmt: skip
    show(table(ladder), _paint, cut=True)
    if arguments.json:
        write_file(arguments.json, json.dumps(ladder, indent=1) + "\n", "the ladder")
        print(f"figures in {arguments.json}")
    if arguments.svg:
        write_file(arguments.svg, svg(ladder), "the ladder")
        print(f"picture in {arguments.svg}")
    if arguments.html:
        write_file(arguments.html, _page(what, ladder, arguments.seconds), "the ladder")
        print(f"page in {arguments.html}")
    return WRONG if ladder["wrong"] else 0


def _page(what: Any, ladder: dict[str, Any], seconds: float) -> str:
    from graphc.debug.compare.page import compiled_calls, page

    return page(ladder, [] if ladder["broken"] else compiled_calls(what, seconds))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _numbers(text: str) -> tuple[int, ...]:
    parts = _listed(text)
    if not all(part.isdecimal() for part in parts):
        raise ArgumentError(f"--sizes {text}: numbers with commas between them, as 1,7,64")
    return tuple(map(int, parts))


def _paint(line: str) -> str | None:
    if line.startswith(("WRONG", "BROKEN")):
        return RED
    if "not quiet" in line:
        return YELLOW
    return BOLD if line.lstrip().startswith("µs ") else None
