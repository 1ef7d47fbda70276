"""`graphc report`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from graphc.debug.arguments import calls_of
from graphc.debug.report.page import write_page
from graphc.errors import ArgumentError


def run_report(arguments: Namespace) -> None:
    """Write the report about what the arguments name."""
    if not arguments.seconds > 0:
        raise ArgumentError(f"--seconds {arguments.seconds:g}: a positive number is needed")
    name = arguments.reference.rpartition(":")[2]
    path = Path(arguments.output or f"{name}.html")
    with calls_of(arguments) as calls:
        write_page(calls, path, arguments.seconds)
    print(f"report in {path}")
