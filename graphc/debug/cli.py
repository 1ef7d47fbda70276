"""The command line: `graphc COMMAND …`, also `python -m graphc`.

in : arguments; behind `--` those of the program that is named
out: text on standard output and an exit code: 0; 1 where a check does not hold; 2 with one message
     on standard error for what cannot be done; 130 for an interrupt

The commands stand in graphc.debug.commands.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence

from graphc.config import VERSION
from graphc.debug.commands.building import add_build
from graphc.debug.commands.comparing import add_compare
from graphc.debug.commands.graphs import add_grad, add_opt, add_reduce
from graphc.debug.commands.looking import add_cache, add_diff, add_dump, add_ledger
from graphc.debug.commands.running import add_profile, add_report, add_run, add_verify
from graphc.errors import GraphError

USAGE_ERROR, INTERRUPTED = 2, 130

COMMANDS = (
    add_dump, add_run, add_grad, add_opt, add_profile, add_verify, add_report, add_compare,
    add_ledger, add_diff, add_reduce, add_cache, add_build,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    own, behind, program = _parted(sys.argv[1:] if argv is None else argv)
    try:
        arguments = _parser().parse_args(own)
    except SystemExit as stop:  # argparse has printed its message
        return stop.code if isinstance(stop.code, int) else USAGE_ERROR
    if behind and not hasattr(arguments, "alias"):
        return _refused(arguments.command, "no program is named, so nothing may follow --")
    arguments.program_arguments = program
    try:
        code = int(arguments.run(arguments) or 0)
        sys.stdout.flush()
    except GraphError as error:
        return _refused(arguments.command, told(error))
    except BrokenPipeError:
        # The reader has seen enough (`| head`). What is still buffered must not fail at exit.
        _nowhere()
        return 0
    except OSError as error:  # of standard output: all other files have messages of their own
        _nowhere()
        return _refused(arguments.command, f"cannot write: {error}")
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _parted(argv: Sequence[str]) -> tuple[list[str], bool, list[str]]:
    """What is ours, whether there is a `--`, and what stands behind it."""
    arguments = list(argv)
    if "--" not in arguments:
        return arguments, False, []
    place = arguments.index("--")
    return arguments[:place], True, arguments[place + 1 :]


def told(error: GraphError) -> str:
    """The message of an error as one line; that of an error of the user's program keeps the lines
    it is shown with."""
    lines = str(error).splitlines()
    if any(line.startswith("  File ") for line in lines):
        return "\n".join(lines)
    return "; ".join(line.strip() for line in lines if line.strip())


def _refused(command: str, message: str) -> int:
    print(f"graphc {command}: {message}", file=sys.stderr)
    return USAGE_ERROR


def _nowhere() -> None:
    """Standard output leads nowhere from here on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="graphc", description="A static-graph compiler for neural networks."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="what is installed")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    return parser


class _Version(argparse.Action):
    """`--version`: the compiler, and what its results and its speed depend on."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import numpy as np

        from graphc.codegen.target import host, llvm_version

        print(f"graphc {VERSION}")
        print(
            f"LLVM {llvm_version()}, NumPy {np.__version__}, "
            f"Python {platform.python_version()}, {host().cpu} on {platform.system()}"
        )
        parser.exit(0)
