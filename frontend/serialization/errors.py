"""What reading and writing files raises."""

from __future__ import annotations

from graphc.errors import GraphError


class CheckpointError(GraphError):
    """An object that cannot be saved, or a file that is no checkpoint. Names key or file."""


class NotPlainError(CheckpointError):
    """An object that holds what is no plain data."""


class Refused(ValueError):
    """A file that asks for something a file of plain data does not need."""
