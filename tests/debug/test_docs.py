"""The documents show what the code does. Set GRAPHC_UPDATE_DOCS=1 to write them anew.

What is compared, by the comment above a block or the block's language:

- `<!-- file: NAME -->`: the block is the file NAME, for the commands that follow in the document;
- a `console` block: `$ graphc …` and its output (below `<!-- LLVM 22 -->`: only with that LLVM,
  whose text it is);
- `<!-- table: MODULE -->`: the table in the docstring of MODULE;
- `<!-- ulps -->`: the error bounds that ops declare;
- `<!-- tails -->`: the ways to end a split of a nest;
- `<!-- from: FILE -->`: the lines of FILE between `# -- declaration` and `# -- end`.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import textwrap
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import graphc.ops
from graphc.codegen.nests.tails import Tail
from graphc.debug.cli import main

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"])
UPDATE = os.environ.get("GRAPHC_UPDATE_DOCS") == "1"

BLOCK = re.compile(r"(?:<!-- (?P<note>[^\n]*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)```", re.S)
TABLE = re.compile(r"<!-- (?P<note>table: \S+|ulps|tails) -->\n(?P<text>(?:\|[^\n]*\n)*)")
LINK = re.compile(r"\[[^\]\n]*\]\((?!https?://|#)([^)#\s]+)")


def blocks(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int, str, str]]:
    """Start, end and content of each block, and what kind it is: `file: x`, `console`, …"""
    for match in pattern.finditer(text):
        note = match["note"] or ""
        language = match.groupdict().get("language") or ""
        yield match.start("text"), match.end("text"), match["text"], note or language


def console(text: str, note: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The block with the output its command gives now; as it is where that cannot be known."""
    from llvmlite import binding

    if note.startswith("LLVM") and note != f"LLVM {binding.llvm_version_info[0]}":
        return text
    command, _, _ = text.partition("\n")
    arguments = shlex.split(command.removeprefix("$ graphc "))
    if "--input" in arguments and not entry_points(group="graphc.tracers"):
        return text
    capsys.readouterr()
    assert main(arguments) == 0, capsys.readouterr().err
    # Markdown has no tabs.
    return f"{command}\n{capsys.readouterr().out.expandtabs(8)}"


def docstring_table(module: str) -> str:
    lines = (importlib.import_module(module).__doc__ or "").splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith("|"))


def ulps_table() -> str:
    ops: list[Any] = [op for op in graphc.ops.table() if op.ulps]
    rows = [f"| {op.name} | {op.ulps} |\n" for op in sorted(ops, key=lambda op: str(op.name))]
    return "".join(["| op | units in the last place |\n", "|---|---|\n", *rows])


def tails_table() -> str:
    rows = [[str(t), t.value.meaning, t.value.legal, t.value.cost] for t in Tail]
    head = ["| tail | what it is | legal where | costs |\n", "|---|---|---|---|\n"]
    return "".join([*head, *(f"| {' | '.join(row)} |\n" for row in rows)])


def declaration(file: str) -> str:
    text = (ROOT / file).read_text("utf-8")
    lines = text.partition("# -- declaration\n")[2].rpartition("# -- end")[0]
    return textwrap.dedent(lines.rstrip(" ")).strip("\n") + "\n"


def written_anew(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The document with every block as the code gives it now."""
    matches = sorted([*blocks(BLOCK, text), *blocks(TABLE, text)])
    parts, done = [], 0
    for start, end, content, kind in matches:
        new = content
        if kind.startswith("file: "):
            (folder / kind.removeprefix("file: ")).write_text(content, "utf-8")
        elif kind.startswith("table: "):
            new = docstring_table(kind.removeprefix("table: "))
        elif kind == "ulps":
            new = ulps_table()
        elif kind == "tails":
            new = tails_table()
        elif kind.startswith("from: "):
            new = declaration(kind.removeprefix("from: "))
        elif content.startswith("$ graphc "):
            new = console(content, kind, capsys)
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_document_shows_what_the_code_does(
    document: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = document.read_text("utf-8")
    now = written_anew(text, tmp_path, capsys)
    if UPDATE and now != text:
        document.write_text(now, "utf-8")
        text = now
    assert now.splitlines() == text.splitlines(), f"GRAPHC_UPDATE_DOCS=1 writes {document.name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    broken = [
        link
        for link in LINK.findall(document.read_text("utf-8"))
        if not (document.parent / link).exists()
    ]
    assert not broken, f"{document.name} links to {broken}"
