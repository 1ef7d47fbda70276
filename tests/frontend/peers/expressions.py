"""Expressions evaluated in both systems: values, and gradients of a weighted sum of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import frontend


def evaluated(system: Any, source: str, arrays: dict[str, np.ndarray]) -> tuple[Any, list[Any]]:
    """The value of an expression, and the gradients of a weighted sum of it."""
    names = {name: system.tensor(array, requires_grad=True) for name, array in arrays.items()}
    leaves = list(names.values())
    if "a" in names:
        names["h"] = names["a"] @ names["a"].mH + system.eye(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = eval(source, {"t": system, **names})
    if value.requires_grad:
        weights = np.random.default_rng(1).standard_normal((2, *value.shape))
        parts = [value.real, value.imag] if value.is_complex() else [value]
        sums = [(part * system.tensor(w)).sum() for part, w in zip(parts, weights)]
        sum(sums[1:], sums[0]).backward()
    return value.detach(), [leaf.grad for leaf in leaves]


def close(ours: Any, theirs: Any, what: str) -> None:
    other = theirs.resolve_conj().numpy()
    narrow = str(theirs.dtype) in ("torch.complex64", "torch.float32")
    bound = 1e-5 if narrow else 1e-9
    np.testing.assert_allclose(ours.numpy(), other, rtol=bound, atol=bound, err_msg=what)


def agree(source: str, arrays: dict[str, np.ndarray]) -> None:
    """Hold an expression to the same values and gradients in both systems."""
    import torch

    (ours, grads), (theirs, others) = (
        evaluated(system, source, arrays) for system in (frontend, torch)
    )
    assert str(ours.dtype) == str(theirs.dtype), source
    close(ours, theirs, source)
    for mine, other in zip(grads, others):
        if other is not None and other.resolve_conj().abs().max() > 0:
            close(mine, other, f"gradient of {source}")
