"""References to an object besides its container's are counted in one place, which asks the
interpreter how it counts: versions of Python differ in what a call adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import frontend
import graphc
from graphc.references import is_sole_view, other_references


def test_what_nobody_else_holds_counts_as_none_in_every_container() -> None:
    class Holder:
        pass

    holder = Holder()
    vars(holder)["x"] = object()
    assert other_references([object()], 0) == 0
    assert other_references({"x": object()}, "x") == 0
    assert other_references(holder.__dict__, "x") == 0


def test_each_further_holder_counts_once() -> None:
    containers: list[Any] = [[object()]]
    others = []
    for count in range(4):
        assert other_references(containers[0], 0) == count
        others.append((containers[0][0],))
    assert len(others) == 4


def test_a_sole_view_is_of_an_array_that_nobody_else_holds() -> None:
    block = np.empty(40)
    views = [block[8:]]
    assert not is_sole_view(views[0])  # `block` is held here
    del block
    assert is_sole_view(views[0]) and not is_sole_view(np.empty(40))
    views.append(views[0][4:])
    assert not is_sole_view(views[0]) and not is_sole_view(views[1])
    assert not is_sole_view(np.empty(40)[:4]) and not is_sole_view(np.frombuffer(b"12345678"))


def test_nothing_else_asks_for_counts_of_references() -> None:
    roots = [Path(next(iter(package.__path__))) for package in (graphc, frontend)]
    paths = [path for root in roots for path in root.rglob("*.py")]
    asking = {path.name for path in paths if "getrefcount" in path.read_text("utf-8")}
    assert len(paths) > 500 and asking == {"references.py"}
