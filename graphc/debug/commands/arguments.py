"""Arguments that several commands have, and what they mean."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from graphc.config import target_name
from graphc.debug.load import load_graph, loaded_calls
from graphc.debug.program import ProgramOptions
from graphc.debug.traced import DrawnInput, TracedCall
from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph
from graphc.passes.pipelines import LEVELS

REFERENCE = "FILE.py:NAME"


def add_reference(parser: Any, what: str) -> None:
    """What a command is about, and how its file is imported."""
    parser.add_argument(
        "reference", metavar=REFERENCE,
        help=f"{what}; or FILE.graph, the text of a graph. Arguments of the program itself stand "
        "behind --",
    )  # fmt: skip
    add_alias(parser)
    parser.add_argument(
        "--input", metavar="TYPE", action="append", default=[], dest="inputs",
        help="type of an input, such as f32[32,64] (drawn standard normal), i64[32] (zeros) or "
        "'i64[32]<10' (drawn from 0 to 9); once for each input, in order. What is built leaves "
        "named sizes open: f32[batch=32,64]",
    )  # fmt: skip


def add_alias(parser: Any) -> None:
    """`--as torch`."""
    parser.add_argument(
        "--as",
        metavar="PACKAGE",
        dest="alias",
        help="`import PACKAGE` in the file gives the frontend: --as torch",
    )


def add_call(parser: Any) -> None:
    """The arguments of commands that run something."""
    add_reference(parser, "what to run")
    parser.add_argument(
        "--level", choices=tuple(LEVELS), help="default: that of a compiled function, else exact"
    )
    parser.add_argument(
        "--threads", metavar="N", type=int, help="the most threads of a call (all processors)"
    )


def add_compiled(parser: Any, *, threads: bool = True) -> None:
    """How what is named is compiled."""
    add_level(parser)
    add_target(parser)
    if threads:
        parser.add_argument("--threads", metavar="N", type=int, default=1, help="default: 1")


def add_level(parser: Any) -> None:
    """`--level`, of commands that no compiled function tells it."""
    parser.add_argument("--level", choices=tuple(LEVELS), default="exact", help="default: exact")


def add_target(parser: Any) -> None:
    """`--target`."""
    parser.add_argument(
        "--target", metavar="TARGET", default=target_name(),
        help="host, x86-64-v2, x86-64-v3, x86-64-v4, aarch64 or wasm32; that of GRAPHC_TARGET by "
        "default",
    )  # fmt: skip


def add_locations(parser: Any) -> None:
    """`--no-locations`, of commands that print graphs and plans."""
    parser.add_argument(
        "--no-locations", action="store_false", dest="locations", help="leave out source lines"
    )


def add_seconds(parser: Any, default: float, purpose: str) -> None:
    """`--seconds`, which `check_seconds` looks at."""
    parser.add_argument(
        "--seconds", metavar="S", type=float, default=default, help=f"{purpose} ({default:g})"
    )


def program_of(arguments: Namespace) -> ProgramOptions:
    """How the file is imported."""
    return ProgramOptions(tuple(arguments.program_arguments), arguments.alias)


def graph_of(arguments: Namespace, reference: str | None = None) -> Graph:
    """The graph that is named. Raises ParseError for a wrong `--input`, LoadError for what cannot
    be traced."""
    types = [DrawnInput.parse(text).type for text in arguments.inputs]
    return load_graph(reference or arguments.reference, types, program_of(arguments))


@contextlib.contextmanager
def calls_of(arguments: Namespace) -> Iterator[list[TracedCall]]:
    """The calls of FILE.py:NAME on drawn inputs. Raises ArgumentError for a wrong `--threads`,
    ParseError for a wrong `--input`, LoadError for what cannot be traced."""
    check_threads(arguments)
    inputs = [DrawnInput.parse(text) for text in arguments.inputs]
    with loaded_calls(
        arguments.reference, inputs, arguments.level, arguments.threads, program_of(arguments)
    ) as calls:
        yield calls


def check_threads(arguments: Namespace) -> None:
    if arguments.threads is not None and arguments.threads < 1:
        raise ArgumentError(f"--threads {arguments.threads}: 1 or more")


def check_seconds(arguments: Namespace) -> None:
    if not 0 < arguments.seconds < float("inf"):
        raise ArgumentError(f"--seconds {arguments.seconds:g}: a positive number is needed")
