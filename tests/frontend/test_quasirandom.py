"""Sobol's points: PyTorch's where it is installed, and what holds of any."""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np
import pytest

import frontend
from frontend.quasirandom import SobolEngine
from graphc.errors import TraceError

pytest.importorskip("scipy.stats.qmc")


def test_the_points_of_one_and_two_axes() -> None:
    """The first of them are known: van der Corput's, in Gray's order."""
    points = SobolEngine(2).draw(8).numpy()
    np.testing.assert_array_equal(points[:, 0] * 8, [0, 4, 6, 2, 3, 7, 5, 1])
    np.testing.assert_array_equal(points[:, 1] * 8, [0, 4, 2, 6, 3, 7, 1, 5])


@pytest.mark.parametrize("options", [{}, {"scramble": True, "seed": 3}], ids=["plain", "scrambled"])
@pytest.mark.parametrize("dimension", [1, 6, 1111, pytest.param(21201, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pytorch_has_the_same_points(dimension: int, options: Any, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    points: list[list[np.ndarray]] = []
    for side in (frontend, torch):
        engine = side.quasirandom.SobolEngine(dimension, **options)
        kind = getattr(side, dtype)
        drawn = [engine.draw(dtype=kind), engine.draw(4, dtype=kind), engine.fast_forward(6).draw()]
        drawn += [engine.reset().draw(3), engine.reset().fast_forward(1).draw(2)]
        drawn += [engine.reset().draw_base2(2), engine.draw(2, out=side.empty(0))]
        points.append([each.numpy() for each in drawn])
        assert repr(engine) == repr(torch.quasirandom.SobolEngine(dimension, **options))
    for ours, theirs in zip(*points):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_scrambling_by_the_default_generator_and_balance() -> None:
    """Every sixteenth of an axis has one of sixteen points, scrambled or not."""
    frontend.manual_seed(5)
    first = SobolEngine(7, scramble=True)
    frontend.manual_seed(5)
    again = SobolEngine(7, scramble=True)
    points = first.draw_base2(4)
    assert frontend.equal(points, again.draw(16)) and not frontend.equal(points, again.draw(16))
    cells = np.sort(np.floor(points.numpy() * 16), axis=0)
    np.testing.assert_array_equal(cells, np.arange(16.0)[:, None].repeat(7, 1))
    copied = copy.deepcopy(first)
    assert frontend.equal(copied.draw(3), first.draw(3))


def test_what_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"dimensionality for SobolEngine is \[1, 21201\]"):
        SobolEngine(21202)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="3 points have been previously generated"):
        engine.draw_base2(1)
    with pytest.raises(RuntimeError, match=r"gives f32 or f64, not torch\.float16"):
        engine.draw(dtype=frontend.float16)
    with pytest.raises(TraceError, match="counts its points outside"):
        frontend.compile(lambda x: x + engine.draw(), fullgraph=True)(frontend.ones(2))
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(ImportError, match="needs the package scipy"):
        SobolEngine(2)
