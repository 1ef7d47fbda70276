"""The sentences of the numbered rules that verifiers hold graphs, plans, nests and loops to."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

MODULES = {
    "G": "graphc.ir.verifier", "P": "graphc.schedule.plan_verifier",
    "N": "graphc.codegen.nests.verifier", "L": "graphc.codegen.loop_ir.verifier",
    "R": "graphc.codegen.loop_ir.interpreter",
}  # fmt: skip
"""By the letter of the level, the module whose docstring has the table of its rules."""
_RULE = re.compile(r"\b([GPNLR])(\d{1,2})\b")


def with_sentences(message: str) -> str:
    """A message, and behind it the sentence of each rule it names."""
    return "\n".join([message, *_sentences(message)])


def _sentences(message: str) -> Iterator[str]:
    for letter, number in dict.fromkeys(_RULE.findall(message)):
        rule = f"{letter}{number}"
        sentence = _table(MODULES[letter]).get(rule)
        if sentence is not None:
            yield f"rule {rule}: {sentence}"


def _table(module: str) -> dict[str, str]:
    """The rules of a docstring's table; rows without a number go on with the one above."""
    rules: dict[str, str] = {}
    rule = ""
    for line in (importlib.import_module(module).__doc__ or "").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) < 2:
            continue
        rule = cells[0] or rule
        rules[rule] = f"{rules[rule]} {cells[1]}" if rule in rules else cells[1]
    return rules
