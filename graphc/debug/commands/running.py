"""`graphc run`, `profile`, `verify`, `report`: what runs a call."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphc.debug.commands.arguments import add_call, add_seconds, calls_of, check_seconds
from graphc.debug.commands.building import add_data, data_of, source_named
from graphc.debug.files import check_writable
from graphc.debug.terminal import by_heading, by_verdict, show
from graphc.errors import ArgumentError

if TYPE_CHECKING:
    from graphc.build.page import LivePart

DIFFERS = 1
"""The exit code where a check does not hold."""


# -- run -------------------------------------------------------------------------------------------


def add_run(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run a graph, module or function, and print what comes out",
        description="Compile a call and run it once, on inputs that are drawn or stored; print "
        "its outputs.",
    )
    add_call(parser)
    parser.add_argument(
        "--arrays", metavar="FILE.npz",
        help="the inputs, by name or as a dump stores them (`inputs.npz`)",
    )  # fmt: skip
    parser.add_argument("--save", metavar="FILE.npz", help="write the outputs, output_0, …")
    parser.add_argument(
        "--numpy", action="store_true", help="by NumPy, from the declared meaning of the ops"
    )
    parser.set_defaults(run=_run_run)


def _run_run(arguments: argparse.Namespace) -> None:
    from graphc.debug import running

    if arguments.save:
        check_writable(arguments.save, "the outputs")
    with calls_of(arguments) as calls:
        if arguments.arrays:
            calls = [running.with_arrays(call, arguments.arrays) for call in calls]
        results = [running.outputs(call, arguments.numpy) for call in calls]
    if arguments.save:
        running.save_outputs([array for outputs in results for array in outputs], arguments.save)
    for call, outputs in zip(calls, results, strict=True):
        show(running.described(call.graph, outputs))
    if arguments.save:
        print(f"outputs in {arguments.save}")


# -- profile ---------------------------------------------------------------------------------------


def add_profile(commands: Any) -> None:
    parser = commands.add_parser(
        "profile",
        help="where the time of a compiled call goes",
        description="Run a compiled call and print the time of each launch, what bounds it on this "
        "machine and how far it is from that; by line, module and phase.",
    )
    add_call(parser)
    add_seconds(parser, 1.0, "how long to run it")
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
    from graphc.debug.profile.calls import profile_calls
    from graphc.debug.profile.machine import machine, measured
    from graphc.debug.profile.perf_map import write_perf_map
    from graphc.debug.profile.table import text

    check_seconds(arguments)
    if arguments.top < 0:
        raise ArgumentError(f"--top {arguments.top}: 0 or more")
    if arguments.trace:
        check_writable(arguments.trace, "the trace")
    if arguments.measure:
        measured()
        machine.cache_clear()
    with calls_of(arguments) as calls:
        if arguments.perf_map:
            for call in calls:
                print(f"names of kernels in {write_perf_map(call.executable())}")
        profiles = profile_calls(calls, arguments.seconds)
    for number, each in enumerate(profiles):
        show([""] * bool(number) + list(text(each, arguments.top)), by_heading, cut=True)
    if arguments.trace:
        profiles.save_trace(arguments.trace)
        print(f"Chrome trace in {arguments.trace}")


# -- verify ----------------------------------------------------------------------------------------


def add_verify(commands: Any) -> None:
    parser = commands.add_parser(
        "verify",
        help="whether all levels give the same result, and who is to blame if not",
        description="Take a call through all levels: eager, traced, after every pass, plan, loops, "
        "native launch by launch, the whole call on one thread and on all. Where something differs "
        "the first node is named, and who made it so; then the exit code is 1.",
    )
    add_call(parser)
    parser.add_argument(
        "--gradients", action="store_true",
        help="also hold the gradient rules of ops to numeric derivatives, on what they meet and "
        "at extremes",
    )  # fmt: skip
    parser.set_defaults(run=_run_verify)


def _run_verify(arguments: argparse.Namespace) -> int:
    from graphc.debug.verification.verifier import verify_calls

    with calls_of(arguments) as calls:
        verifications = verify_calls(calls, arguments.gradients)
    show(str(verifications).split("\n"), by_verdict)
    return 0 if verifications else DIFFERS


# -- report ----------------------------------------------------------------------------------------


def add_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="one HTML page about a compiled call",
        description="Write one self-contained HTML page: what ran and for how long, against the "
        "limits of this machine, by module, line and kernel; memory, passes, decisions, code.",
    )
    add_call(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE.html", help="where to write it (NAME.html, here)"
    )
    add_seconds(parser, 1.0, "how long to profile it")
    parser.add_argument(
        "--live", action="store_true",
        help="the page runs it, too, in WebAssembly, with sizes open that --input names",
    )  # fmt: skip
    add_data(parser)
    parser.set_defaults(run=_run_report)


def _run_report(arguments: argparse.Namespace) -> None:
    from graphc.debug.report.page import write_page

    check_seconds(arguments)
    name = arguments.reference.rpartition(":")[2] if ":" in arguments.reference else "graph"
    path = Path(arguments.output or f"{name}.html")
    check_writable(path, "the report")
    if arguments.data is not None and not arguments.live:
        raise ArgumentError("data are for what the page runs", hint="--live")
    live = _live(arguments) if arguments.live else None
    with calls_of(arguments) as calls:
        write_page(calls, path, arguments.seconds, live)
    print(f"report in {path}")


def _live(arguments: argparse.Namespace) -> LivePart:
    """What the page runs."""
    from graphc.build.building import name_for
    from graphc.build.page import live_part

    data = data_of(arguments)
    with source_named(arguments) as source:
        return live_part(name_for(source), source, data=data)
