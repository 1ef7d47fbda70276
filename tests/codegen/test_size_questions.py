"""Where kernels ask whether a size is a number, and where they write loops of their own.

Whether an extent is known is answered by the number's module (ir/dims.py, loop_ir/numbers.py), and
a range is cut by a split's tail, in the nests' writer. Nothing else asks, and what writes a loop
elsewhere is a leaf. An `isinstance` counts where it tells numbers from sizes by type alone.

    python tests/codegen/test_size_questions.py    prints the tables of the tree as it is
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import graphc.codegen
from graphc.codegen.elements import leaf_loops

ROOT = Path(graphc.codegen.__file__).parent
QUESTIONS = ("always_le", "always_lt", "fixed", "is_symbolic")
TYPES = {"int", "Dim", "DimQuotient"}
COUNTING = {"counted_loop", "each", "fold"}
"""What leaf_loops.py writes loops by."""
ANSWERING = {"loop_ir/numbers.py", "nests/nest.py", "nests/tails.py", "nests/writer.py",
             "program/size_expressions.py"}  # fmt: skip
"""The number's modules of kernels and of drivers, and the writer with what it writes: an axis, its
splits."""
VERIFYING = {"loop_ir/opcodes.py", "loop_ir/verifier.py", "nests/sums_verifier.py",
             "nests/verifier.py"}  # fmt: skip
"""What they ask is a rule that is to hold at every size, or of which type an attribute is; no code
is written one way or the other for it."""

LEAVES = {
    "elements/copier.py": "what a copy holds",
    "elements/leaf_loops.py": "the one loop by which leaves count",
    "elements/loop_cut.py": "a range in tiles inside a leaf",
    "elements/outer_blocks.py": "what is reduced",
    "elements/reduction.py": "what is reduced",
    "kernels/attention/heads.py": "tiles in a block of scores: which are seen no tail says",
    "kernels/attention/parts.py": "sums of a tile in registers",
    "kernels/contraction/emission/emitter.py": "what a copy holds",
    "kernels/contraction/emission/tile_results.py": "vectors of a tile in registers",
    "kernels/contraction/operands/k_groups.py": "sums of a copy's columns",
    "kernels/contraction/operands/pairs_view.py": "the least of what a copy holds",
    "kernels/contraction/problem/k_blocks.py": "sums of a tile in registers",
    "kernels/contraction/strategies/blocked.py": "sums of a tile in registers",
    "kernels/contraction/strategies/grouped.py": "sums of a tile in registers",
    "kernels/contraction/strategies/scaled_blocks.py": "sums of a tile in registers",
    "kernels/contraction/strategies/tap_list.py": "the taps of a list that is data",
    "kernels/scan.py": "what is combined so far is in a register",
    "kernels/serial.py": "the op's own rule, which reads back what it has written",
    "kernels/sort.py": "insertions, and merges of runs, go where the keys say",
    "libm/integer_math.py": "the bits of an exponent; no axis, and below the loops of leaves",
}
"""Files whose loops are inside leaves, and what they are over: what the positions of a nest's axes
do not tell, or what is carried in registers. They count by the functions of leaf_loops.py, and so
does what writes such a loop anew; libm stands below that."""
BY_BUILDER = {"elements/leaf_loops.py": 1, "libm/integer_math.py": 1}
"""Leaves that write loops with the builder."""


def name_of(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def kind(node: ast.AST) -> str | None:
    """What is asked of a size, "loop" for a loop that is written, "leaf" for an import of what
    writes one in a leaf, None for anything else."""
    if isinstance(node, ast.ImportFrom):
        counting = node.module == leaf_loops.__name__
        return "leaf" if counting and {each.name for each in node.names} & COUNTING else None
    if isinstance(node, ast.Attribute) and node.attr == "is_symbolic":
        return "is_symbolic"
    if not isinstance(node, ast.Call):
        return None
    name = name_of(node.func)
    if name in QUESTIONS:
        return name
    if name == "isinstance" and len(node.args) == 2:
        types = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
        return "isinstance" if types and types <= TYPES else None
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_loop = name == "loop" and receiver is not None and name_of(receiver) in ("b", "builder")
    return "loop" if is_loop else None


def counts() -> Iterator[tuple[str, Counter[str]]]:
    """Of each file the questions and loops by kind."""
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text())
        every = (kind(node) for node in ast.walk(tree))
        yield path.relative_to(ROOT).as_posix(), Counter(each for each in every if each)


def questions() -> dict[str, int]:
    asked = ((file, kinds.total() - kinds["loop"] - kinds["leaf"]) for file, kinds in counts())
    return {file: count for file, count in asked if count and file not in ANSWERING | VERIFYING}


def loops() -> dict[str, int]:
    written = ((file, kinds["loop"]) for file, kinds in counts())
    return {file: count for file, count in written if count and file not in ANSWERING}


def leaves() -> set[str]:
    """Files that write loops by the functions of leaf_loops.py."""
    return {file for file, kinds in counts() if kinds["leaf"]}


def test_no_file_asks() -> None:
    assert any(kinds for file, kinds in counts() if file in ANSWERING)  # it sees those that may
    assert questions() == {}, "the number's module answers, or a split's tail"


def test_loops_elsewhere_are_leaves() -> None:
    assert loops() == BY_BUILDER, "a loop over an axis is the writer's"
    assert leaves() | BY_BUILDER.keys() == LEAVES.keys(), "a loop over an axis is the writer's"


def test_what_counts() -> None:
    text = """
if is_symbolic(view.n) or x.is_symbolic or isinstance(extent, int | Dim) or (
    always_le(1, dims.fixed(n))
):
    with emit.builder.loop(0, 4) as loop, b.loop(0, n), emit.copier.loop(n, "row", row):
        isinstance(bound, int | LoopValue), isinstance(value, float), extent.fixed
from graphc.codegen.elements.leaf_loops import Bounds, fold
from graphc.codegen.elements.leaf_loops import position_of
from functools import fold
"""
    asked = Counter(each for node in ast.walk(ast.parse(text)) if (each := kind(node)))
    expected = {"is_symbolic": 2, "isinstance": 1, "always_le": 1, "fixed": 1, "loop": 2}
    expected["leaf"] = 1
    assert asked == expected


if __name__ == "__main__":
    for title, table in (("ASKED", questions()), ("LOOPS", loops())):
        print(f"{title} ({sum(table.values())}) =", *table.items(), sep="\n    ")
    print("LEAVES =", *sorted(leaves()), sep="\n    ")
