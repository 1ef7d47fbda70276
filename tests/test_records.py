"""Records are what `dataclasses` makes of the same classes: fields, texts, hashes, errors."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from graphc.records import as_dict, field, fields, is_record, record, replace

Decorator = Callable[[Any], Any]
RECORD = record
DATACLASS = dataclasses.dataclass(frozen=True, slots=True)


@record
class Point:
    x: int
    y: float = 0.5
    names: tuple[str, ...] = field(default=(), compare=False)
    _known: int | None = field(default=None, init=False, repr=False)
    sides: ClassVar[int] = 2

    def total(self) -> float:
        return self.x + self.y


@record
class Solid(Point):
    z: list[int] = field(default_factory=list)


def same_class(decorator: Decorator, declared: Any) -> Any:
    @decorator
    class Pair:
        first: int
        second: Any = 3
        note: str = declared(default="", compare=False)
        parts: Any = declared(default_factory=tuple, repr=False)

    return Pair


BOTH = [same_class(RECORD, field), same_class(DATACLASS, dataclasses.field)]


@pytest.mark.parametrize(
    "arguments", [(1,), (1, float("nan")), (2, "x", "note"), (3, None, "", (1, 2))], ids=str
)
def test_texts_and_hashes_are_those_of_dataclasses(arguments: tuple[Any, ...]) -> None:
    ours, theirs = (kind(*arguments) for kind in BOTH)
    assert repr(ours).replace("same_class", "") == repr(theirs).replace("same_class", "")
    assert hash(ours) == hash(theirs)
    assert ours == BOTH[0](*arguments)  # also of a NaN: as tuples (dataclasses until Python 3.12)
    assert ours != theirs
    assert ours == replace(ours, note="another") and ours != replace(ours, first=9)


@pytest.mark.parametrize(
    "call", [lambda kind: kind(), lambda kind: kind(1, 2, "", (), 5), lambda kind: kind(1, third=2)]
)
def test_wrong_arguments_are_told_as_by_dataclasses(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"Pair\.__init__") as theirs:
        call(BOTH[1])
    with pytest.raises(TypeError, match=re.escape(str(theirs.value))):
        call(BOTH[0])


def test_fields_defaults_and_methods() -> None:
    assert Point(1) == Point(x=1, y=0.5) and Point(1).total() == 1.5
    assert Point(1)._known is None and "_known" not in repr(Point(1)) and Point.sides == 2
    assert [each.name for each in fields(Point)] == ["x", "y", "names", "_known"]
    assert not hasattr(Point(1), "__dict__")
    match Point(4, 2.0):
        case Point(x, y):
            assert (x, y) == (4, 2.0)


def test_one_made_for_each_object() -> None:
    one, other = Solid(1), Solid(1)
    one.z.append(2)
    assert other.z == [] and one != other and other == Solid(1) and Point(1) != Solid(1)
    assert as_dict(Solid(1, z=[3])) == {
        "x": 1, "y": 0.5, "names": (), "_known": None, "z": [3]
    }  # fmt: skip


def test_frozen_ones_do_not_change_and_are_copied() -> None:
    point = Point(1, 2.0, ("a",))
    with pytest.raises(AttributeError, match="cannot change field 'x' of a Point"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="cannot change field 'x' of a Point"):
        del point.x
    for made in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert made == point and made.names == ("a",)


def test_kinds_of_records() -> None:
    @record(frozen=False)
    class Open:
        value: int = 1

    @record(eq=False, weakref_slot=True)
    class Identical:
        value: int

    @record(slots=False)
    class Cached:
        value: int

        def __post_init__(self) -> None:
            assert self.value > 0, "not positive"

        @functools.cached_property
        def double(self) -> int:
            return 2 * self.value

    changed = Open()
    changed.value = 5
    assert changed == Open(5)
    with pytest.raises(TypeError, match="unhashable"):
        hash(changed)
    single = Identical(1)
    assert single != Identical(1) and weakref.ref(single)() is single
    assert Cached(4).double == 8
    with pytest.raises(AssertionError, match="not positive"):
        Cached(0)


def test_what_a_class_has_itself_stays() -> None:
    @record
    class Own:
        value: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    assert Own(1) == Own(2) and repr(Own(1)) == "own" and hash(Own(1)) == hash((1,))


def test_wrong_declarations() -> None:
    with pytest.raises(ValueError, match=r"Shared\.values is one object for all"):

        @record
        class Shared:
            values: list[int] = []

    with pytest.raises(TypeError, match=r"Late\.second has no default, but one before it has"):

        @record
        class Late:
            first: int = 1
            second: int  # type: ignore[misc]

    with pytest.raises(TypeError, match="5 is no record"):
        fields(5)
    assert is_record(Point) and is_record(Point(1)) and not is_record(5)


def test_the_compiler_has_no_other_records() -> None:
    """`dataclasses` takes half a millisecond a class when it is imported."""
    root = Path(__file__).parents[1]
    texts = {
        path: path.read_text("utf-8")
        for folder in ("graphc", "frontend/engine")
        for path in (root / folder).rglob("*.py")
    }
    using = [path.name for path, text in texts.items() if "from dataclasses import" in text]
    assert len(texts) > 500 and using == []
