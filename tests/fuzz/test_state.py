"""What compiled functions read of Python state, each kind alone: a change is followed, or what
cannot be followed is refused. The pieces are those of the fuzzer."""

from __future__ import annotations

import pytest

from frontend.engine.outside import guard
from tests.fuzz import state
from tests.fuzz.frame import Broken

FOLLOWED = (
    "missing global", "builtin", "globals()", "unassigned", "import inside", "module object",
    "module __getattr__", "chain map", "user dict subclass", "proxy", "view of a dict",
    "bound get", "attribute dict", "missing", "array", "environment", "hasattr", "getattr",
    "computed getattr", "getattr of a list", "vars", "__dict__", "by type", "by class", "by super",
    "of the class", "made inside", "slots", "__getattr__", "raising __getattr__", "configuration",
    "large list", "descriptor",
    "cached property", "compared dataclasses", "int subclass", "getitem", "len", "iter",
    "contains", "bool", "float", "add", "eq", "with", "sorted", "function attribute", "default",
    "lru cache", "attrgetter", "functional", "method of Tensor", "forward of Linear", "metaclass",
    "bases", "context variable", "thread local", "tensor attribute", "tensor with an attribute",
    "object made inside", "list subclass", "named tuple", "counter", "item set", "attribute set",
    "counter of an object", "decay", "nonlocal counter", "items that count", "flags",
    "counting module", "tensor attribute set", "set that grows", "scheduler", "scaler",
    "distribution", "distribution that keeps what it computes",
)  # fmt: skip
REFUSED = (
    "list that is read and grows", "iterator", "given list changed", "caught value",
    "swallowed value", "setattr that counts", "collected tensors", "lazy buffer",
    "collected in a dict", "objects in a dict", "objects in a set",
)  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_change_is_followed(name: str) -> None:
    assert name in state.pieces()
    assert state.check(state.Case(((0, name),), (None, (0, 0)))) == "agrees"


@pytest.mark.parametrize("change", range(3))
def test_each_change_of_a_partial_is_followed(change: int) -> None:
    assert len(state.pieces()["partial"].changes) == 3
    assert state.check(state.Case(((0, "partial"),), (None, (0, change)))) == "agrees"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", REFUSED)
def test_what_compiled_code_would_not_repeat_is_refused(name: str) -> None:
    assert state.check(state.Case(((0, name),), (None, (0, 0)))) == "refused"


def test_pieces_are_python() -> None:
    for name, piece in state.pieces().items():
        case = state.Case(((3, name),), (None, *((3, i) for i in range(len(piece.changes)))))
        compile(state.program(case), name, "exec")


def test_the_fuzzer_finds_what_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "same", lambda left, right: True)
    with pytest.raises(Broken, match="call 1"):
        state.check(state.Case(((0, "global"),), (None, (0, 0))))
