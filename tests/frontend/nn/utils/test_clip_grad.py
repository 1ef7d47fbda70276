"""Clipping gradients, eager and in a compiled step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from graphc.errors import TraceError

GRADS = [np.array([3.0, -4.0]), np.array([[12.0]]), np.zeros((0, 2))]


def parameters() -> list[Any]:
    tensors = []
    for grad in GRADS:
        parameter = nn.Parameter(torch.zeros(grad.shape, dtype=torch.float64))
        parameter.grad = torch.tensor(grad)
        tensors.append(parameter)
    return [*tensors, nn.Parameter(torch.zeros(2))]


NORMS = [(2, 13.0), (1, 19.0), (float("inf"), 12.0), (3, 1819 ** (1 / 3))]


@pytest.mark.parametrize(("p", "norm"), NORMS)
def test_gradients_are_scaled_to_the_norm(p: float, norm: float) -> None:
    group = parameters()[:2]
    grads = [parameter.grad for parameter in group]
    assert nn.utils.clip_grad_norm_(group, 0.5, p).item() == pytest.approx(norm)
    for parameter, grad, full in zip(group, grads, GRADS, strict=False):
        assert parameter.grad is grad
        np.testing.assert_allclose(grad, full * 0.5 / (norm + 1e-6))
    assert nn.utils.get_total_norm(grads, p).item() == pytest.approx(0.5, rel=1e-5)


def test_small_gradients_stay() -> None:
    group = parameters()
    nn.utils.clip_grad_norm_(iter(group), 100.0)
    for parameter, grad in zip(group, GRADS, strict=False):
        np.testing.assert_array_equal(parameter.grad, grad)
    assert group[3].grad is None


def test_values_are_limited() -> None:
    group = parameters()
    nn.utils.clip_grad_value_(group, 3.5)
    assert group[0].grad.tolist() == [3.0, -3.5] and group[1].grad.tolist() == [[3.5]]


def test_what_is_not_finite() -> None:
    group = parameters()
    group[0].grad.fill_(float("inf"))
    with pytest.raises(RuntimeError, match=r"total norm of order 2.0 .* is non-finite"):
        nn.utils.clip_grad_norm_(group, 1.0, error_if_nonfinite=True)
    assert group[1].grad.tolist() == [[12.0]]
    assert nn.utils.clip_grad_norm_(group, 1.0).item() == float("inf")
    assert group[1].grad.tolist() == [[0.0]] and np.isnan(group[0].grad).all()


def test_nothing_to_clip() -> None:
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0
    with pytest.warns(UserWarning, match="is an empty generator"):
        nn.utils.clip_grad_norm_((p for p in ()), 1.0)
    with pytest.warns(FutureWarning, match="deprecated in favor of"):
        nn.utils.clip_grad_norm(parameters(), 1.0)
    with pytest.raises(TypeError, match="Expected a floating point"):
        nn.utils.get_total_norm([torch.tensor([1])])
    with pytest.raises(TypeError, match="total_norm should be a Tensor"):
        nn.utils.clip_grads_with_norm_(parameters(), 1.0, 4.0)


def steps(compiled: bool, clip: Any) -> list[Any]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        model(x).square().sum().backward()
        total = clip(model)
        optimizer.step()
        return total

    run = torch.compile(step, fullgraph=True) if compiled else step
    totals = [run(torch.full((4, 3), float(i))) for i in range(3)]
    if compiled:
        assert len(run.specializations) == 1
    return [np.array(x.detach()) for x in (*totals, *model.parameters())]


@pytest.mark.parametrize(
    "clip",
    [
        lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.3),
        lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.3, "inf"),
        lambda model: nn.utils.clip_grad_value_(model.parameters(), 0.1) or torch.zeros(1),
    ],
    ids=["norm", "greatest", "value"],
)
def test_clipping_is_compiled_into_the_step(clip: Any) -> None:
    for x, y in zip(steps(True, clip), steps(False, clip), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_asking_whether_a_norm_is_finite_cannot_be_traced() -> None:
    with pytest.raises(TraceError, match="error_if_nonfinite=True needs the value"):
        steps(True, lambda model: nn.utils.clip_grad_norm_(
            model.parameters(), 0.3, error_if_nonfinite=True
        ))  # fmt: skip
