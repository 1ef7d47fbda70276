"""Where kernels ask whether a size is a number, and where they write loops of their own.

Whether an extent is known is answered by the number's module (ir/dims.py, loop_ir/numbers.py), and
a range is cut by a split's tail, in the nests' writer. What still asks elsewhere has a bound by
file, which only falls: a file that asks less takes the lower number, and at 0 its line goes. An
`isinstance` counts where it tells numbers from sizes by type alone; some tell other things (a lane,
an attribute), which only makes the bound less strict.

    python tests/codegen/test_size_questions.py    prints the tables of the tree as it is
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import graphc.codegen

ROOT = Path(graphc.codegen.__file__).parent
QUESTIONS = ("always_le", "always_lt", "fixed", "is_symbolic")
TYPES = {"int", "Dim", "DimQuotient"}
ANSWERING = {"loop_ir/numbers.py", "nests/nest.py", "nests/tails.py", "nests/writer.py",
             "program/size_expressions.py"}  # fmt: skip
"""The number's modules of kernels and of drivers, and the writer with what it writes: an axis, its
splits."""
VERIFYING = {"loop_ir/opcodes.py", "loop_ir/verifier.py", "nests/sums_verifier.py",
             "nests/verifier.py"}  # fmt: skip
"""What they ask is a rule that is to hold at every size, or of which type an attribute is; no code
is written one way or the other for it."""

ASKED = {
    "elements/addresses.py": 1,
    "elements/combination.py": 2,
    "elements/loop_cut.py": 1,
    "kernels/attention/heads.py": 2,
    "kernels/attention/operands.py": 1,
    "kernels/attention/parts.py": 1,
    "kernels/elementwise/problem.py": 1,
    "kernels/scan.py": 1,
    "kernels/scatter.py": 1,
    "kernels/sort.py": 1,
}
"""Questions by file."""
LOOPS = {
    "elements/leaf_loops.py": 1,
    "kernels/scan.py": 1,
    "kernels/serial.py": 1,
    "kernels/sort.py": 5,
    "libm/integer_math.py": 1,
}
"""Loops written with the builder by hand, by file; those over reduced coordinates are a leaf's."""


def name_of(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def kind(node: ast.AST) -> str | None:
    """What is asked of a size, "loop" for a loop that is written, None for anything else."""
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
    asked = ((file, sum(kinds.values()) - kinds["loop"]) for file, kinds in counts())
    return {file: count for file, count in asked if count and file not in ANSWERING | VERIFYING}


def loops() -> dict[str, int]:
    written = ((file, kinds["loop"]) for file, kinds in counts())
    return {file: count for file, count in written if count and file not in ANSWERING}


@pytest.mark.parametrize("counted, bounds", [(questions, ASKED), (loops, LOOPS)])
def test_no_file_asks_or_loops_more(
    counted: Callable[[], dict[str, int]], bounds: dict[str, int]
) -> None:
    assert counted() == bounds, "more needs a reason and a split's tail; fewer lower the bound"


def test_what_counts() -> None:
    text = """
if is_symbolic(view.n) or x.is_symbolic or isinstance(extent, int | Dim) or (
    always_le(1, dims.fixed(n))
):
    with emit.builder.loop(0, 4) as loop, b.loop(0, n), emit.copier.loop(n, "row", row):
        isinstance(bound, int | LoopValue), isinstance(value, float), extent.fixed
"""
    asked = Counter(each for node in ast.walk(ast.parse(text)) if (each := kind(node)))
    expected = {"is_symbolic": 2, "isinstance": 1, "always_le": 1, "fixed": 1, "loop": 2}
    assert asked == expected


if __name__ == "__main__":
    for title, table in (("ASKED", questions()), ("LOOPS", loops())):
        print(f"{title} ({sum(table.values())}) =", *table.items(), sep="\n    ")
