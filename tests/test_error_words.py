"""A test that an error is raised says which: by its words, for the type alone is raised by many
faults of the test itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PEERS = "frontend/peers/"
WORDLESS = ("KeyboardInterrupt",)


def bare(source: str, is_peer: bool = False) -> Iterator[int]:
    """The lines with a `pytest.raises` that has no `match` and whose error is not looked at. Where
    PyTorch says which type it is, a variable, the words are its own."""
    tree = ast.parse(source)
    seen = {
        id(item.context_expr)
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if item.optional_vars is not None
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "pytest.raises":
            continue
        name = ast.unparse(node.args[0]) if node.args else ""
        of_pytorch = is_peer and name.rpartition(".")[2].islower()
        has_words = any(keyword.arg in ("match", "check") for keyword in node.keywords)
        if not (has_words or id(node) in seen or name in WORDLESS or of_pytorch):
            yield node.lineno


def test_errors_are_told_by_their_words() -> None:
    lines, raising = [], 0
    for path in sorted(TESTS.rglob("*.py")):
        name, source = path.relative_to(TESTS).as_posix(), path.read_text("utf-8")
        raising += source.count("pytest.raises(")
        lines += [f"{name}:{line}" for line in bare(source, name.startswith(PEERS))]
    assert raising > 500 and not lines, "give pytest.raises a match:\n" + "\n".join(lines)


def test_what_is_bare() -> None:
    source = (
        "with pytest.raises(ValueError):\n    f()\n"
        "with a, pytest.raises((TypeError, OSError)):\n    f()\n"
        "pytest.raises(TypeError, f)\n"
        "with pytest.raises(kind):\n    f()\n"
        "with pytest.raises(ValueError, match='words'):\n    f()\n"
        "with pytest.raises(ValueError) as caught:\n    f()\n"
        "with pytest.raises(KeyboardInterrupt):\n    f()\n"
    )
    assert sorted(bare(source)) == [1, 3, 5, 6]
    assert sorted(bare(source, is_peer=True)) == [1, 3, 5]
