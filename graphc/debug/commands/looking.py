"""`graphc dump`, `ledger`, `diff`, `cache`: what is compiled, why so, and what is kept of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from graphc.debug.commands.arguments import (
    add_alias,
    add_compiled,
    add_level,
    add_locations,
    add_reference,
    add_target,
    graph_of,
)
from graphc.debug.dump import KERNEL_STAGES, STAGES, DumpOptions, dump
from graphc.debug.terminal import by_sign, show
from graphc.errors import ArgumentError
from graphc.records import replace

# -- dump ------------------------------------------------------------------------------------------


def add_dump(commands: Any) -> None:
    parser = commands.add_parser(
        "dump",
        help="print a level of the compiler for a graph, module or function",
        description="Print a level of the compiler for a graph, module or function of a file.",
    )
    add_reference(parser, "what to show")
    parser.add_argument("--stage", choices=STAGES, default="graph", help="default: graph")
    add_level(parser)
    parser.add_argument(
        "--kernel", metavar="NAME", help=f"one kernel of the plan ({', '.join(KERNEL_STAGES)})"
    )
    add_target(parser)
    add_locations(parser)
    parser.add_argument(
        "--threads", metavar="N", type=int, default=1,
        help="with --stage plan: also how each step is split over N threads, and why",
    )  # fmt: skip
    parser.add_argument(
        "--dot", action="store_true", help="a graph or plan in the DOT language, for Graphviz"
    )
    parser.set_defaults(run=_run_dump)


def _run_dump(arguments: argparse.Namespace) -> None:
    graph = graph_of(arguments)
    options = DumpOptions(
        arguments.level, arguments.target, arguments.kernel, arguments.locations,
        arguments.threads, arguments.dot,
    )  # fmt: skip
    for text in dump(graph, arguments.stage, options):
        if arguments.stage == "passes":
            show(text.rstrip("\n").split("\n"), by_sign)
        else:
            print(text.rstrip("\n"))  # to be read by programs too: whole lines, no colours


# -- ledger ----------------------------------------------------------------------------------------


def add_ledger(commands: Any) -> None:
    parser = commands.add_parser(
        "ledger",
        help="every decision of the compiler about a graph, and why",
        description="Every decision of the compiler about a graph, module or function of a file.",
    )
    add_reference(parser, "what is compiled")
    parser.add_argument(
        "--kind", action="append", default=[], dest="kinds", metavar="KIND",
        help="decisions of this kind alone, such as 'not fused'; may be given again",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_compiled(parser)
    parser.set_defaults(run=_run_ledger)


def _summary(reference: str, arguments: argparse.Namespace) -> Any:
    """What is compiled of a graph, or what a file says that `graphc ledger --json` wrote."""
    from graphc.debug import summary

    if reference.endswith(".json"):
        try:
            content = Path(reference).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ArgumentError(f"{reference} cannot be read: {error}") from error
        return summary.from_json(content)
    options = {"target": arguments.target, "threads": arguments.threads}
    return summary.summary(graph_of(arguments, reference), arguments.level, **options)


def _run_ledger(arguments: argparse.Namespace) -> None:
    from graphc.debug import ledger, summary

    ledger.chosen((), arguments.kinds)  # a wrong kind is told before anything is compiled
    whole = _summary(arguments.reference, arguments)
    decided = ledger.chosen(whole.decisions, arguments.kinds)
    if arguments.json:
        print(summary.as_json(replace(whole, decisions=decided)))
    else:
        show(ledger.text(decided))


def add_diff(commands: Any) -> None:
    parser = commands.add_parser(
        "diff",
        help="what sets two compiled graphs apart",
        description="What B computes and decides otherwise than A, by meaning: launches, bytes, "
        "memory and time first, then ops and decisions, equal layers as one. A and B are "
        "FILE.py:NAME, FILE.graph, or files written by `graphc ledger --json`.",
    )
    parser.add_argument("old", metavar="A")
    parser.add_argument("new", metavar="B")
    parser.add_argument("--input", metavar="TYPE", action="append", default=[], dest="inputs")
    add_alias(parser)
    add_compiled(parser)
    parser.set_defaults(run=_run_diff)


def _run_diff(arguments: argparse.Namespace) -> None:
    from graphc.debug.summary_diff import difference

    references = (arguments.old, arguments.new)
    sides = [_summary(reference, arguments) for reference in references]
    show(difference(sides[0], sides[1], references), by_sign)


# -- cache -----------------------------------------------------------------------------------------


def add_cache(commands: Any) -> None:
    parser = commands.add_parser(
        "cache",
        help="look at the compiled kernels kept on disk",
        description="Look at the compiled kernels kept on disk between processes.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    ls = actions.add_parser("ls", help="what is kept, by model, latest used first")
    ls.add_argument("--files", action="store_true", help="each file by itself")
    ls.set_defaults(run=_run_listing)
    actions.add_parser("clear", help="remove everything").set_defaults(run=_run_clear)
    why = actions.add_parser("why", help="which kernels of a graph are there, and why others miss")
    add_reference(why, "what is compiled")
    add_compiled(why, threads=False)
    why.set_defaults(run=_run_why)


def _run_listing(arguments: argparse.Namespace) -> None:
    from graphc.debug import cache

    show(cache.listing() if arguments.files else cache.by_model(), cut=True)


def _run_clear(arguments: argparse.Namespace) -> None:
    from graphc.debug import cache

    show(cache.cleared())


def _run_why(arguments: argparse.Namespace) -> None:
    from graphc.debug import cache

    show(cache.why(graph_of(arguments), arguments.level, arguments.target))
