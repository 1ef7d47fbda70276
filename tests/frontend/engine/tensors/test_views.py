"""In-place operations through views: values, history and gradients, eager and traced."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import frontend as torch

T = torch.tensor


def leaf() -> torch.Tensor:
    return T([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)


def row(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y[0].mul_(2)
    return y * y


def transposed_element(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y.t()[2, 1].add_(x[0, 0])
    return y * y


def reshaped(x: torch.Tensor) -> torch.Tensor:
    y = x.exp() * 1
    flat = y.view(-1)
    flat[::2] *= x[0, 1]
    return flat.sum() * y


def sibling_views(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    first, second = y[:, 0], y[0]
    first.mul_(3)
    return second * first.sum()


def base_changed_after_the_view(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    view = y[1]
    y.mul_(x)
    return view * view


def plain_base(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(2, 3, dtype=x.dtype)
    view = y[1]
    other = y[:, 2]
    view.copy_(x[0])
    return other.sum() * y


def overwritten(x: torch.Tensor) -> torch.Tensor:
    y = x * 3
    y[0].zero_()
    y[1, 1:].fill_(7)
    return y * x


PROGRAMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], list[list[float]]]] = {
    # d(sum of the result)/dx, by hand
    "row": (row, [[8, 16, 24], [8, 10, 12]]),
    "transposed element": (transposed_element, [[2 + 2 * 7, 4, 6], [8, 10, 14]]),
    "overwritten": (overwritten, [[0, 0, 0], [24, 7, 7]]),
    "base changed": (base_changed_after_the_view, [[0, 0, 0], [16 * 64, 16 * 125, 16 * 216]]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_by_hand(name: str) -> None:
    program, expected = PROGRAMS[name]
    x = leaf()
    program(x).sum().backward()
    assert x.grad.tolist() == expected


@pytest.mark.parametrize(
    "program",
    [row, transposed_element, reshaped, sibling_views, base_changed_after_the_view, plain_base,
     overwritten],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_gradients_eager_numeric_and_compiled(program: Callable[..., torch.Tensor]) -> None:
    x = leaf().detach().double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: program(x), (x,))
    eager, compiled = leaf(), leaf()
    expected = program(eager)
    expected.sum().backward()
    actual = torch.compile(program)(compiled)
    actual.sum().backward()
    assert torch.allclose(actual, expected)
    assert torch.allclose(compiled.grad, eager.grad)


def test_what_a_view_is() -> None:
    x = torch.zeros(2, 3)
    view = x[0][1:]
    assert view._base is x and view._is_view() and not x._is_view()
    assert x.detach()._base is None
    view.add_(1)
    assert x.tolist() == [[0, 1, 1], [0, 0, 0]] and x._version == view._version == 1


def test_a_view_follows_its_base_onto_the_tape() -> None:
    base = torch.zeros(3)
    view = base[1:]
    assert not view.requires_grad
    base.mul_(T(2.0, requires_grad=True))
    assert view.requires_grad and view.grad_fn is not None and not view.is_leaf


def test_writing_a_view_made_under_no_grad_is_an_error() -> None:
    x = leaf() * 1
    with torch.no_grad():
        view = x[0]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.mul_(2)


def test_what_was_saved_before_a_write_through_a_view_is_checked() -> None:
    x = leaf()
    y = x * 1
    z = (y * y).sum()
    y[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_detached_memory_is_shared_but_not_its_history() -> None:
    x = leaf() * 1
    other = x.detach()
    other.mul_(T(2.0, requires_grad=True))
    assert other.requires_grad and x.grad_fn.name() == "MulBackward0"
    assert x[0, 0].item() == 2


def test_what_is_made_contiguous_has_views_of_any_shape() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
    flat = x.transpose(1, 2).contiguous().view(2, 12)
    assert flat[0, :4].tolist() == [0, 4, 8, 1]
    flat.sum().backward()
    assert x.grad.tolist() == [[[1.0] * 4] * 3] * 2
