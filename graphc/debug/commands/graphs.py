"""`graphc grad`, `opt`, `reduce`: what makes another graph of a graph."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from graphc.config import target_name
from graphc.debug.commands.arguments import add_level, add_locations, add_reference, graph_of
from graphc.debug.files import check_writable, write_file
from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph
from graphc.ir.printer import print_graph
from graphc.passes.pipelines import LEVELS


def _add_output(parser: Any) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE.graph", help="where to write it (standard output)"
    )
    add_locations(parser)


def _put(graph: Graph, arguments: argparse.Namespace) -> None:
    text = print_graph(graph, locations=arguments.locations)
    if arguments.output is None:
        print(text)
        return
    write_file(arguments.output, text + "\n", "the graph")
    print(f"graph in {arguments.output}")


# -- grad ------------------------------------------------------------------------------------------


def add_grad(commands: Any) -> None:
    parser = commands.add_parser(
        "grad",
        help="a graph with its derived gradients, as a graph",
        description="Forward and derived backward in one graph: the outputs, then the gradients.",
    )
    add_reference(parser, "what to differentiate")
    parser.add_argument(
        "--wrt", metavar="INPUT", action="append", default=[],
        help="an input to differentiate by (all of floats); may be given again",
    )  # fmt: skip
    _add_output(parser)
    parser.set_defaults(run=_run_grad)


def _run_grad(arguments: argparse.Namespace) -> None:
    from graphc.autodiff.joint import joint

    if arguments.output is not None:
        check_writable(arguments.output, "the graph")
    graph = graph_of(arguments)
    _put(joint(graph, arguments.wrt or None), arguments)


# -- opt -------------------------------------------------------------------------------------------


def add_opt(commands: Any) -> None:
    parser = commands.add_parser(
        "opt",
        help="a graph after the passes of a level, or after chosen ones",
        description="A graph after passes, as a graph.",
    )
    add_reference(parser, "what to optimise")
    add_level(parser)
    parser.add_argument(
        "--pass", metavar="NAME", action="append", default=[], dest="passes",
        help="this pass in place of those of a level; may be given again, in order",
    )  # fmt: skip
    parser.add_argument(
        "--target", metavar="TARGET", default=target_name(), help="whose layouts are preferred"
    )
    _add_output(parser)
    parser.set_defaults(run=_run_opt)


def _run_opt(arguments: argparse.Namespace) -> None:
    from graphc.codegen.kernels.preferred_layouts import preferred_layouts
    from graphc.codegen.target import named
    from graphc.ir.verifier import verify
    from graphc.passes.pipelines import Facts, optimize, verify_after

    if arguments.output is not None:
        check_writable(arguments.output, "the graph")
    preferred = preferred_layouts(named(arguments.target))
    chosen = [_pass_named(name) for name in arguments.passes]
    graph = verify(graph_of(arguments))
    for each in chosen:
        graph = each.run(graph, Facts(preferred))
        verify_after(each.name, graph)
    if not chosen:
        graph = optimize(graph, arguments.level, preferred=preferred)
    _put(graph, arguments)


def _pass_named(name: str) -> Any:
    known = {each.name: each for pipeline in LEVELS.values() for each in pipeline}
    if name not in known:
        raise ArgumentError(f"there is no pass {name!r}", hint=f"one of {', '.join(known)}")
    return known[name]


# -- reduce ----------------------------------------------------------------------------------------


def add_reduce(commands: Any) -> None:
    parser = commands.add_parser(
        "reduce",
        help="a smaller graph that still fails a check",
        description="Make a graph smaller as long as a command fails on it, with the exit code "
        "that it has on the whole graph: outputs are dropped, nodes replaced by operands, inputs "
        "and constants, sizes shrunk. What is found so far is in the output file at any time.",
    )
    add_reference(parser, "what fails")
    parser.add_argument(
        "--check", metavar="CMD", required=True,
        help="a command that fails (its exit code is not 0); {} in it is the file, which stands "
        "behind it otherwise: --check 'graphc verify'",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FILE.graph", default="reduced.graph",
        help="where to write it (reduced.graph, here)",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=60.0,
        help="seconds after which a check counts as passed (60)",
    )  # fmt: skip
    parser.set_defaults(run=_run_reduce)


def _run_reduce(arguments: argparse.Namespace) -> None:
    from graphc.debug.reduction import reduced, size_text
    from graphc.debug.reduction_check import CommandCheck

    check_writable(arguments.output, "the graph")
    graph = graph_of(arguments)
    with CommandCheck(arguments.check, arguments.timeout) as check:
        check.begin(graph)

        def progress(smaller: Graph) -> None:
            write_file(arguments.output, print_graph(smaller) + "\n", "the graph")
            print(f"{check.runs:>5} checks: {size_text(smaller)}", file=sys.stderr)

        write_file(arguments.output, print_graph(graph) + "\n", "the graph")
        smallest = reduced(graph, check.fails, progress)
    print(f"{size_text(graph)} became {size_text(smallest)} in {check.runs} checks")
    print(f"graph in {arguments.output}")
