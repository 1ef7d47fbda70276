"""What `importlib.metadata` is told of a package that the frontend stands in for."""

from __future__ import annotations

from importlib.metadata import Distribution
from os import PathLike
from pathlib import Path

SUMMARY = "graphc's frontend, in place of it"


class StandInDistribution(Distribution):
    """A distribution without files: its metadata are a name and a version."""

    def __init__(self, name: str, version: str):
        self._texts = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            f"Summary: {SUMMARY}\n",
            "top_level.txt": f"{name}\n",
        }

    def read_text(self, filename: str) -> str | None:
        """METADATA or top_level.txt; None for any other file."""
        return self._texts.get(filename)

    def locate_file(self, path: str | PathLike[str]) -> Path:
        """Where a file of it would lie: beside the frontend."""
        return Path(__file__).parents[2] / path
