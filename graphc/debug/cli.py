"""The command line: `graphc COMMAND …`, also `python -m graphc`.

in : arguments
out: text on standard output and an exit code: 0; 1 where a check does not hold; 2 with one message
     on standard error for what cannot be done

A command is a function that adds its parser and says, by `set_defaults(run=…)`, what runs; that may
return an exit code.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from graphc.config import target_name
from graphc.debug.dump import KERNEL_STAGES, STAGES, DumpOptions, dump
from graphc.debug.load import load_graph
from graphc.errors import ArgumentError, GraphError
from graphc.ir.types import TensorType
from graphc.passes.pipelines import LEVELS

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse has printed its message
        return stop.code if isinstance(stop.code, int) else USAGE_ERROR
    code = 0
    try:
        code = arguments.run(arguments) or 0
        sys.stdout.flush()
    except GraphError as error:
        print(f"graphc {arguments.command}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:
        # The reader has seen enough (`| head`). What is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="graphc", description="A static-graph compiler for neural networks."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    return parser


# -- dump ------------------------------------------------------------------------------------------


def _add_dump(commands: Any) -> None:
    parser = commands.add_parser(
        "dump",
        help="print a level of the compiler for a graph, module or function",
        description="Print a level of the compiler for a graph, module or function of a file.",
    )
    parser.add_argument("reference", metavar="FILE.py:NAME", help="what to show")
    parser.add_argument(
        "--input", metavar="TYPE", action="append", default=[], dest="inputs",
        help="type of an input, such as f32[32,64]; once for each input, in order",
    )  # fmt: skip
    parser.add_argument("--stage", choices=STAGES, default="graph", help="default: graph")
    parser.add_argument("--level", choices=tuple(LEVELS), default="exact", help="default: exact")
    parser.add_argument(
        "--kernel", metavar="NAME", help=f"one kernel of the plan ({', '.join(KERNEL_STAGES)})"
    )
    parser.add_argument(
        "--target", metavar="TARGET", default=target_name(),
        help="host, x86-64-v2, x86-64-v3, x86-64-v4 or aarch64; that of GRAPHC_TARGET by default",
    )  # fmt: skip
    parser.add_argument(
        "--no-locations", action="store_false", dest="locations", help="leave out source lines"
    )
    parser.add_argument(
        "--threads", metavar="N", type=int, default=1,
        help="with --stage plan: also how each step is split over N threads, and why",
    )  # fmt: skip
    parser.add_argument(
        "--dot", action="store_true", help="a graph or plan in the DOT language, for Graphviz"
    )
    parser.set_defaults(run=_run_dump)


def _run_dump(arguments: argparse.Namespace) -> None:
    types = [TensorType.parse(text) for text in arguments.inputs]
    graph = load_graph(arguments.reference, types)
    options = DumpOptions(
        arguments.level, arguments.target, arguments.kernel, arguments.locations,
        arguments.threads, arguments.dot,
    )  # fmt: skip
    for text in dump(graph, arguments.stage, options):
        print(text.rstrip("\n"))


# -- cache -----------------------------------------------------------------------------------------


def _add_cache(commands: Any) -> None:
    parser = commands.add_parser(
        "cache",
        help="look at the compiled kernels kept on disk",
        description="Look at the compiled kernels kept on disk between processes.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("ls", help="what is kept, latest used first").set_defaults(run=_run_cache)
    actions.add_parser("clear", help="remove everything").set_defaults(run=_run_cache)
    why = actions.add_parser("why", help="which kernels of a graph are there, and why others miss")
    why.add_argument("reference", metavar="FILE.py:NAME", help="what is compiled")
    why.add_argument("--input", metavar="TYPE", action="append", default=[], dest="inputs")
    why.add_argument("--level", choices=tuple(LEVELS), default="exact", help="default: exact")
    why.add_argument("--target", metavar="TARGET", default=target_name())
    why.set_defaults(run=_run_cache)


def _run_cache(arguments: argparse.Namespace) -> None:
    from graphc.debug import cache

    if arguments.action == "why":
        types = [TensorType.parse(text) for text in arguments.inputs]
        graph = load_graph(arguments.reference, types)
        lines = cache.why(graph, arguments.level, arguments.target)
    else:
        lines = cache.listing() if arguments.action == "ls" else cache.cleared()
    for line in lines:
        print(line)


# -- profile ---------------------------------------------------------------------------------------


def _add_profile(commands: Any) -> None:
    parser = commands.add_parser(
        "profile",
        help="where the time of a compiled call goes",
        description="Run a compiled call and print the time of each launch, what bounds it on this "
        "machine and how far it is from that; by line, module and phase.",
    )
    _add_call(parser)
    parser.add_argument(
        "--seconds", metavar="S", type=float, default=1.0, help="how long to run it (1)"
    )
    parser.add_argument("--top", metavar="N", type=int, default=20, help="rows to print (20)")
    parser.add_argument("--trace", metavar="FILE.json", help="also write a Chrome trace")
    parser.add_argument(
        "--perf-map", action="store_true", help="tell perf the kernels' names, in its /tmp file"
    )
    parser.add_argument(
        "--measure", action="store_true", help="measure the machine anew, not only at first"
    )
    parser.set_defaults(run=_run_profile)


def _run_profile(arguments: argparse.Namespace) -> None:
    from graphc.debug.profile.command import run_profile

    run_profile(arguments)


def _add_call(parser: Any) -> None:
    """The arguments of commands that run something."""
    parser.add_argument("reference", metavar="FILE.py:NAME", help="what to run")
    parser.add_argument(
        "--input", metavar="TYPE", action="append", default=[], dest="inputs",
        help="type of an input, such as f32[32,64] (drawn standard normal), i64[32] (zeros) or "
        "'i64[32]<10' (drawn from 0 to 9); once for each input, in order",
    )  # fmt: skip
    parser.add_argument(
        "--level", choices=tuple(LEVELS), help="default: that of a compiled function, else exact"
    )
    parser.add_argument(
        "--threads", metavar="N", type=int, help="the most threads of a call (all processors)"
    )


# -- verify ----------------------------------------------------------------------------------------


def _add_verify(commands: Any) -> None:
    parser = commands.add_parser(
        "verify",
        help="whether all levels give the same result, and who is to blame if not",
        description="Take a call through all levels: eager, traced, after every pass, plan, loops, "
        "native launch by launch, the whole call on one thread and on all. Where something differs "
        "the first node is named, and who made it so; then the exit code is 1.",
    )
    _add_call(parser)
    parser.set_defaults(run=_run_verify)


def _run_verify(arguments: argparse.Namespace) -> int:
    from graphc.debug.verification.command import run_verify

    return run_verify(arguments)


# -- report ----------------------------------------------------------------------------------------


def _add_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="one HTML page about a compiled call",
        description="Write one self-contained HTML page: what ran and for how long, against the "
        "limits of this machine, by module, line and kernel; memory, passes, decisions, code.",
    )
    _add_call(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE.html", help="where to write it (NAME.html, here)"
    )
    parser.add_argument(
        "--seconds", metavar="S", type=float, default=1.0, help="how long to profile it (1)"
    )
    parser.set_defaults(run=_run_report)


def _run_report(arguments: argparse.Namespace) -> None:
    from graphc.debug.report.command import run_report

    run_report(arguments)


# -- ledger ----------------------------------------------------------------------------------------


def _add_ledger(commands: Any) -> None:
    parser = commands.add_parser(
        "ledger",
        help="every decision of the compiler about a graph, and why",
        description="Every decision of the compiler about a graph, module or function of a file.",
    )
    parser.add_argument("reference", metavar="FILE.py:NAME", help="what is compiled")
    parser.add_argument(
        "--kind", action="append", default=[], dest="kinds", metavar="KIND",
        help="decisions of this kind alone, such as 'not fused'; may be given again",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_compiled(parser)
    parser.set_defaults(run=_run_ledger)


def _add_compiled(parser: Any) -> None:
    """How what is named is compiled."""
    parser.add_argument("--input", metavar="TYPE", action="append", default=[], dest="inputs")
    parser.add_argument("--level", choices=tuple(LEVELS), default="exact", help="default: exact")
    parser.add_argument("--target", metavar="TARGET", default=target_name())
    parser.add_argument("--threads", metavar="N", type=int, default=1, help="default: 1")


def _decided(reference: str, arguments: argparse.Namespace) -> Any:
    """The decisions about a graph, or those of a file that `graphc ledger --json` wrote."""
    from pathlib import Path

    from graphc.debug import ledger
    from graphc.debug.decisions import decisions

    if reference.endswith(".json"):
        try:
            return ledger.from_json(Path(reference).read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ArgumentError(f"{reference} cannot be read: {error}") from error
    types = [TensorType.parse(text) for text in arguments.inputs]
    graph = load_graph(reference, types)
    options = {"target": arguments.target, "threads": arguments.threads}
    return decisions(graph, arguments.level, **options)


def _run_ledger(arguments: argparse.Namespace) -> None:
    from graphc.debug import ledger

    decided = ledger.chosen(_decided(arguments.reference, arguments), arguments.kinds)
    print(ledger.as_json(decided) if arguments.json else "\n".join(ledger.text(decided)))


def _add_diff(commands: Any) -> None:
    parser = commands.add_parser(
        "diff",
        help="what the compiler decides otherwise about one of two graphs",
        description="What the compiler decides about A and not about B (-), and the other way "
        "round (+). A and B are FILE.py:NAME, or files written by `graphc ledger --json`.",
    )
    parser.add_argument("old", metavar="A")
    parser.add_argument("new", metavar="B")
    _add_compiled(parser)
    parser.set_defaults(run=_run_diff)


def _run_diff(arguments: argparse.Namespace) -> None:
    from graphc.debug import ledger

    sides = [_decided(reference, arguments) for reference in (arguments.old, arguments.new)]
    for line in ledger.difference(*sides):
        print(line)


COMMANDS = (
    _add_dump, _add_profile, _add_verify, _add_report, _add_ledger, _add_diff, _add_cache,
)  # fmt: skip
