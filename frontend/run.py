"""`python -m frontend.run SCRIPT.py ARGS`: runs a script that imports torch on the frontend, as
`python SCRIPT.py ARGS` would run it on PyTorch. The script is not changed.

`-m MODULE` runs a module instead, and `torchrun ARGS` is `-m torch.distributed.run ARGS`. Under
mpiexec (`mpiexec -n 4 python -m frontend.run SCRIPT.py`) each process is told its rank as torchrun
tells it. Python processes that the script starts run on the frontend too.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from frontend.install import install_as
from frontend.startup import hand_on
from graphc.debug.program import started

USAGE = "usage: python -m frontend.run SCRIPT.py [ARGS …] | -m MODULE [ARGS …] | torchrun [ARGS …]"
MISUSED = 2
"""The exit code of a command line that cannot be run, as Python's own."""


def run_script(script: str, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """Install the frontend as torch and run a script (or a folder with `__main__.py`) as
    `__main__`; its globals afterwards.

    The process is the script's from here on: `sys.argv` is its own, its folder comes first in
    `sys.path`, and torch stays the frontend, for what runs at exit too. What the script raises
    passes through, SystemExit too. Raises FileNotFoundError where there is no such script,
    RuntimeError where another torch is imported already.
    """
    if not os.path.exists(script):
        raise FileNotFoundError(f"can't open file {os.path.abspath(script)!r}: no such file")
    _prepare()
    started(script, arguments)
    return runpy.run_path(script, run_name="__main__")


def run_module(name: str, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """The same of a module, by its name. Raises ImportError where there is no such module."""
    _prepare()
    package, dot, rest = name.partition(".")
    known = f"frontend{dot}{rest}" if package == "torch" else name
    sys.argv[:] = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    return runpy.run_module(known, run_name="__main__", alter_sys=True)


def _prepare() -> None:
    install_as("torch")
    hand_on()
    if any(name.startswith(("PMI_", "OMPI_")) for name in os.environ):
        from frontend.distributed.mpi import tell_script

        tell_script()


def main(arguments: Sequence[str]) -> int:
    """The command line: the exit code of what cannot be run; else what the script leaves."""
    if arguments and arguments[0] in ("-h", "--help"):
        print(f"{USAGE}\n\n{__doc__}")
        return 0
    if arguments and arguments[0] == "torchrun":
        arguments = ["-m", "torch.distributed.run", *arguments[1:]]
    if len(arguments) > 1 and arguments[0] == "-m":
        run_module(arguments[1], arguments[2:])
        return 0
    if not arguments or arguments[0].startswith("-"):
        print(f"{USAGE}\nthe name of a script comes first", file=sys.stderr)
        return MISUSED
    try:
        run_script(arguments[0], arguments[1:])
    except FileNotFoundError as error:
        if error.filename is not None:  # the script's own
            raise
        print(f"python -m frontend.run: {error}", file=sys.stderr)
        return MISUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
