"""What the commands that run something share: from their arguments to native calls."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Iterator

from graphc.debug.load import loaded_calls
from graphc.debug.traced import DrawnInput, TracedCall
from graphc.errors import ArgumentError


@contextlib.contextmanager
def calls_of(arguments: Namespace) -> Iterator[list[TracedCall]]:
    """The calls of FILE.py:NAME on drawn inputs. Raises ArgumentError for a wrong `--threads`,
    ParseError for a wrong `--input`, LoadError for what cannot be traced."""
    if arguments.threads is not None and arguments.threads < 1:
        raise ArgumentError(f"--threads {arguments.threads}: 1 or more")
    inputs = [DrawnInput.parse(text) for text in arguments.inputs]
    with loaded_calls(arguments.reference, inputs, arguments.level, arguments.threads) as calls:
        yield calls
