"""A command as a check of graphs: it fails on a graph where its exit code is that of the first."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph
from graphc.ir.printer import print_graph

PLACE = "{}"


class CommandCheck:
    """Runs `command` on a graph's text in a file; `{}` in it is the file, which stands behind it
    otherwise. `runs` counts. To be used in a `with` block, which removes the file."""

    def __init__(self, command: str, timeout: float):
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ArgumentError(f"--check {command!r}: {error}") from None
        if not self._words:
            raise ArgumentError("--check: there is no command")
        if not 0 < timeout < float("inf"):
            raise ArgumentError(f"--timeout {timeout:g}: a positive number is needed")
        self._timeout = timeout
        self._code = 0
        self.runs = 0
        self._folder = tempfile.TemporaryDirectory(prefix="graphc-reduce-")
        self._file = Path(self._folder.name) / "candidate.graph"

    def __enter__(self) -> CommandCheck:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def begin(self, graph: Graph) -> None:
        """The check of the whole graph: its exit code is what counts as failing from here on.
        Raises ArgumentError where it passes, or cannot be run."""
        code, said = self._run(graph)
        if code in (None, 0):
            why = "passes" if code == 0 else f"takes more than {self._timeout:g} s"
            raise ArgumentError(f"the check {why} on the whole graph: there is nothing to reduce")
        if code in (126, 127):
            raise ArgumentError(f"the check cannot be run: {said or f'exit code {code}'}")
        self._code = int(code or 0)

    def fails(self, graph: Graph) -> bool:
        """Whether the check fails on a graph as it did on the first."""
        return self._run(graph)[0] == self._code

    def _run(self, graph: Graph) -> tuple[int | None, str]:
        """The exit code, None where time ran out; and the last line of what it said."""
        self.runs += 1
        self._file.write_text(print_graph(graph) + "\n", "utf-8")
        words = [word.replace(PLACE, str(self._file)) for word in self._words]
        if not any(PLACE in word for word in self._words):
            words.append(str(self._file))
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, timeout=self._timeout, env=dict(os.environ),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None, ""
        except OSError as error:
            return 127, f"{words[0]}: {error.strerror}"
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return done.returncode, lines[-1] if lines else ""
