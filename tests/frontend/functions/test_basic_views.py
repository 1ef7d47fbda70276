"""Views by numbers, slices, None and `...` that no op makes: they are what the ops give, for
reading, writing, histories and errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.engine.eager.kernels.kernel_families import Variant
from frontend.functions import index as indexing
from frontend.functions.index import BasicView
from frontend.functions.indices import IndexPart

INDICES: tuple[Any, ...] = (
    0, -1, slice(1, 3), slice(None), slice(None, None, 2), slice(-2, 100), slice(3, 1), None, ...,
    (0, 1), (slice(None), -1), (..., 0), (0, ..., 1), (None, 1), (1, None, slice(2)), (2, 1, 3),
    (slice(None), 1, slice(0, 3, 2)), (..., None), (), (1, slice(None), None, 2),
)  # fmt: skip


def by_ops(x: Any, index: Any) -> Any:
    return IndexPart(x._sizes, index).view(x)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_they_are_what_ops_give(index: Any) -> None:
    x = torch.arange(24.0).reshape(3, 2, 4).clone()
    shown, wanted = x[index], by_ops(x, index)
    assert isinstance(shown._view, BasicView)
    assert shown.shape == wanted.shape and torch.equal(shown, wanted)
    assert shown._base is x and shown._version == x._version
    assert shown.stride() == wanted.stride() or 0 in shown.shape or 1 in shown.shape
    if shown.numel():
        assert shown.storage_offset() == wanted.storage_offset()
    shown.fill_(-5.0)
    assert torch.equal(by_ops(x, index), torch.full_like(wanted, -5.0)) and x._version > 0
    x.zero_()
    assert torch.equal(shown, torch.zeros_like(wanted))


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_a_change_with_a_history_goes_through_them(index: Any) -> None:
    results = []
    for view in (lambda x: x[index], lambda x: by_ops(x, index)):
        x = torch.arange(24.0).reshape(3, 2, 4).clone()
        w = torch.tensor(2.0, requires_grad=True)
        shown, beside = view(x), x[1]
        shown.mul_(w)
        (x * torch.arange(24.0).reshape(3, 2, 4)).sum().backward()
        results.append((x.detach().numpy().copy(), w.grad.item(), beside.requires_grad))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1:] == results[1][1:]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_their_gradients_are_those_of_ops(index: Any) -> None:
    weight = torch.arange(24.0).reshape(3, 2, 4)
    given = []
    for view in (lambda x: x[index], lambda x: by_ops(x, index)):
        x = weight.clone().requires_grad_()
        shown = view(x)
        assert shown.requires_grad and shown.grad_fn is not None
        shown = shown + (shown * shown).detach()
        (first,) = torch.autograd.grad((shown * shown).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first * weight).sum(), x, retain_graph=True)
        (shown * shown).sum().backward()
        given.append((first.detach().numpy(), second.numpy(), x.grad.numpy()))
    for one, other in zip(*given, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("whole", [False, True])
def test_gradients_of_several_are_joined_as_those_of_slices(whole: bool) -> None:
    """With signs of zeros: a concatenation where they lie one behind the other."""
    given = []
    for view in (lambda x, i: x[i], lambda x, i: by_ops(x, i)):
        x = torch.arange(12.0).reshape(4, 3).requires_grad_()
        rows = [view(x, i) for i in range(4 if whole else 3)]
        (torch.stack(rows) * -0.0).sum().backward()
        given.append(x.grad.numpy())
    assert given[0].tobytes() == given[1].tobytes()


def test_a_gradient_of_another_position_compiles_nothing(monkeypatch: Any) -> None:
    x = torch.arange(40.0, requires_grad=True)
    x[0].backward()
    x[1].backward()  # the first that is added to another
    monkeypatch.setattr(Variant, "at", None)
    for i in range(2, 40):
        x[i].backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0] * 40)


def test_names_of_nodes() -> None:
    x = torch.ones(3, 4, requires_grad=True)
    names: list[tuple[Any, str]] = [
        (0, "Select"), (slice(1, 2), "Slice"), (None, "Unsqueeze"), ((0, slice(1, 3)), "Slice"),
        ((slice(1, 3), 0), "Select"), ((slice(1, 3), ...), "Slice"), (slice(None), "Slice"),
        ((0, slice(None)), "Select"), (..., "Alias"), ((..., slice(None)), "Alias"),
    ]  # fmt: skip
    for index, name in names:
        assert x[index].grad_fn.name() == f"{name}Backward0"


def test_what_is_refused() -> None:
    y = torch.ones(3, 4)
    for wrong in (3, -4, (0, 0, 0), (0, 4)):
        with pytest.raises(IndexError, match=r"out of bounds|too many indices"):
            y[wrong]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        y[::-1]
    assert y[True].shape == (1, 3, 4) and y[np.int64(1)].shape == (4,)
    assert y[torch.tensor(1)].shape == (4,) and y[[0, 2]].shape == (2, 4)


def test_traces_and_tensors_without_data_have_their_own() -> None:
    x = torch.arange(6.0).reshape(2, 3)

    def function(x: Any) -> Any:
        x[0].add_(1)
        return x[:, 1] * x[1, 2]

    twin = x.clone()
    compiled = torch.compile(function)(x)
    assert torch.equal(compiled, function(twin)) and torch.equal(x, twin)
    meta = torch.empty(2, 3, device="meta")[1]
    assert meta.is_meta and meta.shape == (3,)


def test_many_positions_are_no_keys() -> None:
    known = indexing.STATE.prepared
    x = torch.arange(5000.0)
    before = len(known)
    assert sum(x[i].item() for i in range(5000)) == 5000 * 4999 / 2
    assert len(known) <= before + 1


def test_what_is_shown_lives_no_longer_than_its_views() -> None:
    """By counts of references alone: a circle would keep the memory until the collector runs."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        x = torch.zeros(4, 5)
        known = weakref.ref(x)
        views = [x[1], x[1:, 2], x[..., None], x[2][1]]
        del x
        assert known() is not None
        views.clear()
        assert known() is None
    finally:
        if collecting:
            gc.enable()


PICKS: tuple[Any, ...] = (
    [0, 2, -1], [[1], [0]], [], [True, False, True], [[True, False], [False, True], [True, True]],
)  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("pick", PICKS, ids=str)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int64, torch.complex64])
def test_picks_by_one_tensor_are_those_of_the_general_way(pick: Any, kind: Any) -> None:
    index = torch.tensor(pick, dtype=None if pick else torch.int64)
    given = []
    for way in (index, (index,)):  # what is in a tuple is taken apart
        x = torch.arange(24.0).reshape(3, 2, 4).to(kind)
        plain = x[way]
        assert plain._base is None and plain.shape == x[way].shape
        if kind.is_floating_point:
            x.requires_grad_()
            picked = x[way]
            (
                picked.float() * torch.arange(float(picked.numel())).reshape(picked.shape)
            ).sum().backward()
            assert torch.equal(picked.detach(), plain) and picked.requires_grad
        given.append((plain, x.grad))
    assert torch.equal(given[0][0], given[1][0])
    if kind.is_floating_point:
        assert torch.equal(given[0][1], given[1][1])


def test_picks_that_are_refused() -> None:
    x = torch.ones(3, 4)
    for wrong in ([3], [-4], [[True, True, True]]):
        with pytest.raises(IndexError, match=r"out of bounds|does not match"):
            x[torch.tensor(wrong)]
