"""What every nest's text is held to."""

from __future__ import annotations

import re

from graphc.codegen.nests.nest import Nest, all_splits
from graphc.codegen.nests.printer import print_nest
from tests.ebnf import Recognizer


def check_text(nest: Nest) -> None:
    """It reads by the grammar of docs/ir.md, and says each axis, split, stage and output once."""
    text = print_nest(nest, "k0")
    assert Recognizer.of("Nests").reads(text, "nest"), text
    listed = (("axis", nest.axes), ("split", all_splits(nest)), ("stage", nest.stages),
              ("output", nest.outputs))  # fmt: skip
    for kind, names in listed:
        for each in names:
            assert len(re.findall(rf"^  {kind} {re.escape(each.name)}\b", text, re.M)) == 1, text
