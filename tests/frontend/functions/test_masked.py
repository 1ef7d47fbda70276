"""Masked reductions against those of the elements that the mask keeps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import masked

X = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
KEPT = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool)
REFERENCES: dict[str, Any] = {
    "sum": (np.sum, 0.0), "prod": (np.prod, 1.0), "mean": (np.mean, math.nan),
    "amax": (np.max, -math.inf), "amin": (np.min, math.inf),
    "norm": (np.linalg.norm, 0.0), "logsumexp": (lambda v: np.log(np.exp(v).sum()), -math.inf),
    "median": (lambda v: np.sort(v)[(len(v) - 1) // 2], math.nan),
    "var": (lambda v: v.var(ddof=1), math.nan), "std": (lambda v: v.std(ddof=1), math.nan),
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCES)
def test_reductions(name: str) -> None:
    of, empty = REFERENCES[name]
    want = [of(row[kept].astype(np.float64)) if kept.any() else empty for row, kept in zip(X, KEPT)]
    got = getattr(masked, name)(torch.tensor(X), dim=1, mask=torch.tensor(KEPT))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


def test_positions_and_running_values() -> None:
    x, mask = torch.tensor(X), torch.tensor(KEPT)
    filled = np.where(KEPT, X, -np.inf)
    np.testing.assert_array_equal(masked.argmax(x, 1, mask=mask).numpy(), filled.argmax(1))
    np.testing.assert_array_equal(
        masked.argmin(x, 1, mask=mask).numpy(), np.where(KEPT, X, np.inf).argmin(1)
    )
    sums = np.where(KEPT, X, 0).cumsum(1)
    np.testing.assert_allclose(masked.cumsum(x, 1, mask=mask).numpy(), sums, rtol=1e-5)
    products = np.where(KEPT, X, 1).cumprod(1)
    np.testing.assert_allclose(masked.cumprod(x, 1, mask=mask).numpy(), products, rtol=1e-5)


def test_normalizations() -> None:
    x, mask = torch.tensor(X[2:]), torch.tensor([True, False, True, True, False])
    kept = X[2, [0, 2, 3]].astype(np.float64)
    shares = np.exp(kept) / np.exp(kept).sum()
    soft = masked.softmax(x, 1, mask=mask).numpy()[0]
    np.testing.assert_allclose(soft[[0, 2, 3]], shares, rtol=1e-5)
    assert not soft[[1, 4]].any()
    logs = masked.log_softmax(x, 1, mask=mask).numpy()[0]
    np.testing.assert_allclose(logs[[0, 2, 3]], np.log(shares), rtol=1e-5)
    assert torch.equal(masked.softmin(x, 1, mask=mask), masked.softmax(-x, 1, mask=mask))
    unit = masked.normalize(x, 2.0, 1, mask=mask).numpy()[0]
    np.testing.assert_allclose(unit[[0, 2, 3]], kept / np.linalg.norm(kept), rtol=1e-5)
    both = masked.logaddexp(x, x, input_mask=mask).numpy()[0]
    np.testing.assert_allclose(both[1], X[2, 1], rtol=1e-5)


def test_masks_and_types() -> None:
    x = torch.tensor([[1, 2], [3, 4]])
    assert masked.sum(x, mask=torch.tensor([True, False])).item() == 4
    assert masked.sum(x.bool()).dtype is torch.int64 and not masked.is_masked_tensor(x)
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        masked.mean(x)
    with pytest.raises(IndexError, match="dimensionality higher"):
        masked.sum(x, mask=torch.ones(1, 2, 2).bool())
    with pytest.raises(ValueError, match="no fully masked out rows"):
        masked.median(x, mask=torch.zeros(2, 2).bool())
