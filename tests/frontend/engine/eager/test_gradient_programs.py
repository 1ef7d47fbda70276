"""Gradient rules of several ops as one program: the bits of the ops one by one, and when."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.engine.tensors.state import swap_observer
from frontend.nn import functional as F

pytestmark = pytest.mark.usefixtures("fresh_native")


def drawn(*shape: int) -> Any:
    numbers = np.random.default_rng(sum(shape)).standard_normal(shape)
    return torch.tensor(numbers, dtype=torch.float32, requires_grad=True)


LABELS = torch.tensor([0, 2, -100, 1, 2, 0])
LOSSES: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "gelu": lambda n: (x := drawn(n, 3), F.gelu(x)),
    "relu": lambda n: (x := drawn(n, 3), F.relu(x)),
    "batch_norm": lambda n: (
        x := drawn(n, 4, 3, n), w := drawn(4), b := drawn(4, 1),
        F.batch_norm(x, None, None, w, b.reshape(4), training=True),
    ),
    "frozen_norm": lambda n: (x := drawn(n, 4, 5), F.batch_norm(x, None, None, training=True)),
    "layer_norm": lambda n: (
        x := drawn(2, n, 8), w := drawn(8), b := drawn(8), F.layer_norm(x, (8,), w, b),
    ),
    "group_norm": lambda n: (x := drawn(n, 4, 5), F.group_norm(x, 2)),
    "cross_entropy": lambda n: (x := drawn(6, n), F.cross_entropy(x, LABELS)),
    "avg_pool": lambda n: (x := drawn(n, 2, 4, 4), F.avg_pool2d(x, 2)),
}  # fmt: skip


def gradients(name: str, n: int, watched: bool) -> list[Any]:
    """Of a loss by its leaves. While ops are watched they run one by one."""
    before = swap_observer((lambda *asked: nullcontext()) if watched else None)
    try:
        *leaves, result = LOSSES[name](n)
        (result * drawn(*result.shape).detach()).sum().backward()
        return [x.grad.numpy().copy() for x in leaves]
    finally:
        swap_observer(before)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", LOSSES)
def test_the_bits_are_those_of_the_ops_one_by_one(
    name: str, same_bits: Callable[..., None]
) -> None:
    for n in (3, 5):
        same_bits(gradients(name, n, False), gradients(name, n, True), f"{name} at {n}")


def test_a_rule_is_one_program_for_all_sizes(programs: list[str]) -> None:
    x = drawn(3, 4)
    cotangent = torch.ones(3, 4)
    y = F.gelu(x)
    programs.clear()
    y.backward(cotangent)
    assert programs == ["gelu_gradient"]
    for n in (7, 9):
        F.gelu(drawn(n, 2)).backward(torch.ones(n, 2))
    assert programs == ["gelu_gradient"]


def test_what_is_differentiated_again_runs_op_by_op(programs: list[str]) -> None:
    x = drawn(5)
    (first,) = torch.autograd.grad(F.gelu(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert "gelu_gradient" not in programs
    step = 1e-3
    with torch.no_grad():
        inside = x.double()
    ends = []
    for sign in (1, -1):
        at = (inside + sign * step).requires_grad_()
        ends.append(torch.autograd.grad(F.gelu(at).sum(), at)[0])
    assert np.allclose(second.numpy(), ((ends[0] - ends[1]) / (2 * step)).numpy(), atol=1e-4)


def test_hooks_see_the_gradients_of_a_rule() -> None:
    seen: list[Any] = []
    x = drawn(4, 3)
    y = F.gelu(x)
    y.grad_fn.register_hook(lambda into, out: seen.append((into[0].shape, out[0].shape)))
    y.sum().backward()
    assert seen == [((4, 3), (4, 3))]


def test_a_gradient_that_is_not_asked_for_is_not_computed(programs: list[str]) -> None:
    w = drawn(4)
    x = drawn(3, 4, 5).detach()
    F.batch_norm(x, None, None, w, torch.zeros(4), training=True).sum().backward()
    assert w.grad.shape == (4,)
    assert programs.count("batch_norm_gradient") == 1


def test_sums_over_images_share_a_kernel(programs: list[str]) -> None:
    for shape in ((2, 3, 4, 5), (3, 2, 7, 2), (2, 3, 20), (5, 2, 2, 2, 3)):
        x = drawn(*shape).detach()
        axes = (0, *range(2, len(shape)))
        assert np.allclose(x.sum(axes).numpy(), x.numpy().astype(float).sum(axes), atol=1e-5)
    assert programs == ["sum"]
