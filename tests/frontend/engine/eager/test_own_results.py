"""Results that a reshape ends are tensors of their own: made under no_grad, they can be changed in
place with recording, where a view could not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F

X, V, CUBE, ONE = torch.rand(3, 4), torch.rand(4), torch.rand(2, 3, 4), torch.tensor(2.0)
SQUARE = torch.tensor([[2.0, 1, 0], [1, 3, 1], [0, 1, 4]])
LSTM = torch.nn.LSTM(4, 2)

RESULTS: dict[str, Callable[[], Any]] = {
    "sum, kept": lambda: X.sum(1, keepdim=True),
    "amax, kept": lambda: X.amax(0, keepdim=True),
    "softmax of one": lambda: F.softmax(ONE, 0),
    "log_softmax of one": lambda: ONE.log_softmax(0),
    "cumsum of one": lambda: ONE.cumsum(0),
    "sort of one": lambda: ONE.sort()[0],
    "kthvalue": lambda: X.kthvalue(2)[0],
    "median": lambda: X.median(1)[0],
    "quantile": lambda: X.quantile(0.3),
    "quantiles": lambda: X.quantile(torch.tensor([0.3, 0.5]), 1),
    "mv": lambda: X @ V,
    "vm": lambda: V @ X.t(),
    "dot": lambda: V @ V,
    "rows": lambda: CUBE @ X.t(),
    "tensordot": lambda: torch.tensordot(CUBE, X, ([2], [1])),
    "einsum": lambda: torch.einsum("bij,kj->bik", CUBE, X),
    "kron": lambda: torch.kron(X, X),
    "linear": lambda: F.linear(CUBE, X, V[:3]),
    "linear of a row": lambda: F.linear(V, X),
    "roll": lambda: X.roll(1),
    "roll by nothing": lambda: X.roll(0),
    "solve": lambda: torch.linalg.solve(SQUARE, V[:3]),
    "lstsq": lambda: torch.linalg.lstsq(X.t(), V).solution,
    "LSTM": lambda: LSTM(CUBE)[0],
}


@pytest.mark.parametrize("name", RESULTS)
def test_they_are_changed_in_place_with_recording(name: str) -> None:
    with torch.no_grad():
        before = [x.clone() for x in (X, V, CUBE, ONE, SQUARE)]
        want = RESULTS[name]().clone()
        result = RESULTS[name]()
    factor = torch.tensor(3.0, requires_grad=True)
    assert not result._is_view()
    result.mul_(factor)
    np.testing.assert_array_equal(result.detach(), want * 3)
    result.sum().backward()
    np.testing.assert_allclose(factor.grad, want.sum(), rtol=1e-6)
    for x, old in zip((X, V, CUBE, ONE, SQUARE), before, strict=True):
        np.testing.assert_array_equal(x, old, "an operand was changed")


@pytest.mark.parametrize("name", ["sum, kept", "rows", "linear", "quantile", "roll", "LSTM"])
def test_and_in_a_compiled_function(name: str) -> None:
    def changed(factor: Any) -> Any:
        with torch.no_grad():
            result = RESULTS[name]()
        result.mul_(factor)
        return result

    factors = [torch.tensor(3.0, requires_grad=True) for _ in range(2)]
    results = [changed(factors[0]), torch.compile(changed, fullgraph=True)(factors[1])]
    for result in results:
        result.sum().backward()
    np.testing.assert_array_equal(*[result.detach() for result in results])
    np.testing.assert_array_equal(*[factor.grad for factor in factors])


def test_what_backward_needs_of_them_is_watched() -> None:
    one = torch.tensor(2.0, requires_grad=True)
    result = F.softmax(one * 1, 0)
    result.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()
