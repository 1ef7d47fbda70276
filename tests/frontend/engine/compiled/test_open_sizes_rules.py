"""`dynamic=` and `mark_dynamic`: what users say of sizes."""

from __future__ import annotations

from typing import Any

import pytest

import frontend as torch
from graphc.errors import SizeBoundError


def doubled(x: Any, y: Any = None) -> Any:
    return x * 2 if y is None else x * 2 + y.sum()


def traces(compiled: Any) -> int:
    return len(compiled._history.lines)


def test_a_named_size_is_open_from_the_first_call_on() -> None:
    compiled = torch.compile(doubled, dynamic={"x": {0: "batch"}})
    for n in (3, 5, 2, 8):
        assert compiled(torch.ones(n, 4)).shape == (n, 4)
    assert traces(compiled) == 1
    assert "f32[batch,4] at batch = 3" in compiled._history.lines[0]


def test_sizes_of_one_name_are_equal() -> None:
    compiled = torch.compile(doubled, dynamic={"x": {0: "batch"}, "y": {-1: "batch"}})
    compiled(torch.ones(3), torch.ones(4, 3))
    message = r"argument 'y', axis 1: size batch is 6, and 5 in argument 'x', axis 0(.|\n)*rules.py"
    with pytest.raises(SizeBoundError, match=message):
        compiled(torch.ones(5), torch.ones(4, 6))
    assert compiled(torch.ones(5), torch.ones(4, 5)).tolist() == [22] * 5
    assert traces(compiled) == 1


@pytest.mark.parametrize(
    "dynamic",
    [3, "x", {"x": 0}, {"x": {"0": "n"}}, {"x": {0: 1}}, {0: {0: "n"}}, {"x": {0: "a b"}}],
)  # fmt: skip
def test_anything_else_is_a_type_error(dynamic: Any) -> None:
    with pytest.raises(TypeError, match=r"dynamic|no name of a size"):
        torch.compile(doubled, dynamic=dynamic)


def test_all_sizes_are_open_from_the_first_call_on() -> None:
    compiled = torch.compile(doubled, dynamic=True)
    for n, m in ((3, 4), (5, 7), (2, 2)):
        assert compiled(torch.ones(n, m)).shape == (n, m)
    assert traces(compiled) == 1


def test_no_size_is_open() -> None:
    compiled = torch.compile(doubled, dynamic=False)
    for n in (3, 5, 7):
        compiled(torch.ones(n))
    assert traces(compiled) == 3


def test_a_marked_dimension_is_open_within_its_bounds() -> None:
    compiled = torch.compile(doubled)

    def call(n: int) -> Any:
        x = torch.ones(n, 4)
        torch.compiler.mark_dynamic(x, 0, min=2, max=16)
        return compiled(x)

    for n in (3, 5, 16, 2):
        assert call(n).shape == (n, 4)
    assert traces(compiled) == 1
    with pytest.raises(SizeBoundError, match=r"'x', axis 0: the size is 17, .* from 2 to 16"):
        call(17)
    assert call(4).shape == (4, 4) and traces(compiled) == 1


def test_a_dimension_marked_static_is_never_open() -> None:
    compiled = torch.compile(doubled)
    for n in (3, 5, 7):
        x = torch.ones(n, 4)
        torch._dynamo.mark_static(x, 0)
        compiled(x)
    assert traces(compiled) == 3


def test_bad_marks_are_errors() -> None:
    x = torch.ones(3)
    with pytest.raises(IndexError, match="has no 1"):
        torch.compiler.mark_dynamic(x, 1)
    with pytest.raises(TypeError, match="a dimension is an int"):
        torch.compiler.mark_dynamic(x, "0")
    with pytest.raises(ValueError, match="no size is from 5 to 4"):
        torch.compiler.mark_dynamic(x, 0, min=5, max=4)


def test_an_index_into_an_open_size_leaves_it_open() -> None:
    """The text of the error that an index could raise names the size."""
    compiled = torch.compile(lambda t, i: t[i], dynamic={"t": {0: "n"}})
    at = torch.tensor([1, -1])
    for size in (3, 5, 8):
        x = torch.arange(size) * 2
        assert compiled(x, at).tolist() == [2, 2 * size - 2]
    assert compiled.explain().count("traced ") == 1
