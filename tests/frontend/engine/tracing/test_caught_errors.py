"""Errors that a compiled function catches itself: eager mode's own are caught in both, at every
size; those of traces alone come out, whoever catches them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch
from graphc.errors import TraceError

Op = Callable[[Any, Any], Any]
OF_ROWS: dict[str, Op] = {
    "add": lambda x, y: x + y,
    "matmul": lambda x, y: x.t() @ y,
    "stack": lambda x, y: torch.stack([x, y]),
    "cat": lambda x, y: torch.cat([x, y], 1),
    "expand": lambda x, y: x.expand(y.shape),
    "copy_": lambda x, y: x.clone().copy_(y),
    "add_": lambda x, y: x.clone().add_(y),
    "setitem": lambda x, y: _assigned(x, y),
    "einsum": lambda x, y: torch.einsum("ij,ij->i", x, y),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "chunk": lambda x, y: x.chunk(x.shape[0] - y.shape[0] + 1)[0],
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 1.0),
    "view": lambda x, y: x.view(y.shape[0], 3),
    "dot": lambda x, y: x.flatten().dot(y.flatten()),
    "compared": lambda x, y: _compared(x, y),
}


def _assigned(x: Any, y: Any) -> Any:
    z = x.clone()
    z[:] = y
    return z


def _compared(x: Any, y: Any) -> Any:
    if x.shape != y.shape:
        raise ValueError(f"{x.shape} and {y.shape}")
    return x * y


def _rows(count: int) -> Any:
    return torch.arange(3.0 * count).reshape(count, 3) * 0.25 - 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OF_ROWS)
def test_rows_that_fit_and_rows_that_do_not(name: str) -> None:
    op = OF_ROWS[name]

    def function(x: Any, y: Any) -> Any:
        try:
            return op(x, y)
        except (RuntimeError, ValueError):
            return x.sum() + y.sum()

    compiled = torch.compile(function)
    for rows in ((4, 4), (5, 5), (4, 5), (6, 6), (7, 9), (3, 3)):
        want, have = (each(*map(_rows, rows)) for each in (function, compiled))
        assert want.shape == have.shape and torch.allclose(want, have), rows


def test_sizes_that_differ_stay_open_where_an_error_says_so() -> None:
    """Two traces: of what fits, and of what does not, for all sizes that do not."""

    def function(x: Any, y: Any) -> Any:
        try:
            return x + y
        except RuntimeError:
            return x.sum() + y.sum()

    compiled = torch.compile(function)
    for rows in ((4, 5), (6, 8), (3, 7), (9, 2)):
        assert compiled(*map(_rows, rows)).shape == ()
    assert compiled.explain().count("traced") <= 3 and len(compiled._history.lines) == 2
    assert compiled(_rows(6), _rows(6)).shape == (6, 3)


@pytest.mark.parametrize("caught", [RuntimeError, Exception, BaseException])
def test_a_question_that_open_numbers_do_not_answer(caught: type[BaseException]) -> None:
    def function(x: Any, k: int) -> Any:
        try:
            return x * (12 // (k - 3))
        except caught:
            return x * 100

    compiled = torch.compile(function)
    for k in (4, 5, 6, 9, *([3] if caught is not RuntimeError else ())):
        assert compiled(torch.ones(1), k).item() == function(torch.ones(1), k).item()


def _by_class(x: Any) -> Any:
    try:
        y = x.sum().item()
    except RuntimeError:
        y = 0.0
    return x + y


def _by_all(x: Any) -> Any:
    try:
        return x * float(x.sum())
    except:  # noqa: E722
        return x * 100


def _by_finally(x: Any) -> Any:
    try:
        x = x * int(x.sum())
    finally:
        return x * 7  # noqa: B012


def _by_with(x: Any) -> Any:
    with contextlib.suppress(Exception):
        x = x * len(x.nonzero())
    return x


def _by_another(x: Any) -> Any:
    try:
        return x if x.sum() > 0 else -x
    except RuntimeError as error:
        raise KeyError("other") from error


def _by_dtype(x: Any) -> Any:
    try:
        return x.to(torch.float8_e5m2).to(torch.float32)
    except TypeError:
        return x * 100


CATCHING = [_by_class, _by_all, _by_finally, _by_with, _by_another, _by_dtype]


@pytest.mark.parametrize("function", CATCHING)
def test_what_is_refused_comes_out(function: Callable[[Any], Any]) -> None:
    compiled = torch.compile(function, fullgraph=True)
    x = torch.ones(3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"while it is traced|in compiled code") as raised:
            compiled(x)
        assert raised.value.is_refusal  # type: ignore[attr-defined]
    assert torch.equal(
        x * 2, torch.compile(lambda x: x * 2, fullgraph=True)(x)
    )  # nothing is left behind


def test_what_is_refused_in_the_rule_of_a_gradient_comes_out() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            try:
                return gradient * float(gradient.sum())
            except RuntimeError:
                return gradient * 100

    with pytest.raises(TraceError, match="float"):
        torch.compile(lambda x: Doubled.apply(x).sum(), fullgraph=True)(
            torch.ones(2).requires_grad_()
        ).backward()


def test_a_view_of_what_does_not_lie_so() -> None:
    def function(x: Any) -> Any:
        try:
            return x.view(-1) * 2
        except RuntimeError:
            return x.sum()

    compiled = torch.compile(function)
    square, wide = torch.ones(3, 3), torch.ones(3, 4)
    for x in (
        square,
        square.t(),
        square,
        wide,
        wide.t(),
        torch.ones(5, 3),
        torch.ones(3, 6)[:, ::2],
    ):
        assert compiled(x).shape == function(x).shape
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.compile(lambda x: x.view(-1))(wide.t())


@pytest.mark.parametrize("known", [True, False], ids=["known", "of the call"])
def test_an_index_out_of_range_comes_ahead_of_what_is_caught(known: bool) -> None:
    """Eager mode raises for the index, compiled code would have gone on with the error of shapes
    behind it: 2 for 1."""

    def function(x: Any, y: Any, index: Any) -> Any:
        try:
            return (x.index_select(0, torch.arange(2) if known else index) + y).sum()
        except IndexError:
            return x.sum() * 0 + 1
        except RuntimeError:
            return x.sum() * 0 + 2

    index = torch.arange(2)
    with pytest.warns(UserWarning, match="looks at values that are known only when the graph runs"):
        assert float(torch.compile(function)(_rows(0), _rows(7), index)) == 1.0
    with pytest.raises(TraceError, match="catches an error while take looks at values"):
        torch.compile(function, fullgraph=True)(_rows(0), _rows(7), index)


def test_an_error_is_caught_behind_an_index_that_is_known_to_be_in_range() -> None:
    def function(x: Any, y: Any) -> Any:
        try:
            return (x.index_select(0, torch.arange(2)) + y).sum()
        except RuntimeError:
            return x.sum() * 0 + 2

    assert float(torch.compile(function, fullgraph=True)(_rows(3), _rows(7))) == 2.0


def test_an_error_that_nothing_catches_is_that_of_shapes() -> None:
    def function(x: Any, y: Any, index: Any) -> Any:
        return x.index_select(0, index) + y

    with pytest.raises(RuntimeError, match=r"The size of tensor a \(2\) must match .*\(7\)"):
        torch.compile(function, fullgraph=True)(_rows(3), _rows(7), torch.arange(2))
