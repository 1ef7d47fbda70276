"""`torch.quasirandom`: Sobol's points, by the direction numbers that SciPy has."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import DType
from frontend.engine.tensors.generator import Generator
from frontend.engine.tensors.state import STATE, tracing
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import from_numpy, zeros
from frontend.functions.random import randint
from graphc.errors import DTypeError, TraceError
from graphc.ir.builder import user_location

__all__ = ["SobolEngine"]


class SobolEngine:
    """Points of a Sobol sequence in [0, 1) of `dimension` (1 to 21201) axes, those of PyTorch's
    engine: the direction numbers are Joe's and Kuo's, of `scipy.stats.qmc.Sobol`.

    `scramble`: Owen's scrambling by random triangular matrices and a shift, drawn by a generator of
    `seed`, or where that is None by the default one; PyTorch's for the same seed. Raises
    ImportError where SciPy is not installed, ValueError for other dimensions, and TraceError in a
    trace, as points are counted outside of graphs.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None):
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        _outside_trace("SobolEngine()")
        try:
            from scipy.stats import qmc
        except ImportError as error:
            raise ImportError(
                "SobolEngine needs the package scipy: pip install 'graphc[quasirandom]'"
            ) from error
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        self.shift = zeros(dimension, dtype=DType.i64, device="cpu")
        self._rows: np.ndarray | None = None
        if scramble:
            self._draw_scrambling()
        # The first point, all zeros, is not asked of it: so it does not warn of odd counts.
        self._points = qmc.Sobol(dimension, scramble=False, bits=self.MAXBIT).fast_forward(1)

    def _draw_scrambling(self) -> None:
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        bits = 1 << np.arange(self.MAXBIT)
        shape = (self.dimension, self.MAXBIT)
        drawn = randint(2, shape, device="cpu", generator=generator).numpy()
        self.shift = from_numpy(drawn @ bits)
        # A row's first column stands for a number's highest bit; what is right of the diagonal is 0
        # and the diagonal 1.
        drawn = randint(2, (*shape, self.MAXBIT), device="cpu", generator=generator).numpy()
        lower = np.tril(drawn, -1) + np.eye(self.MAXBIT, dtype=np.int64)
        self._rows = lower @ bits[::-1]

    def _numbers(self, n: int) -> np.ndarray:
        """The next `n` points, as whole numbers of MAXBIT bits: i64[n, dimension]."""
        first = min(n, 1) if self.num_generated == 0 else 0
        numbers = np.zeros((n, self.dimension), np.int64)
        if n > first:
            numbers[first:] = np.ldexp(self._points.random(n - first), self.MAXBIT)
        if self._rows is not None:
            # Scrambling is linear in the bits: each is the parity of some bits of the point.
            numbers = sum(
                (np.bitwise_count(numbers & row) & 1).astype(np.int64) << (self.MAXBIT - 1 - place)
                for place, row in enumerate(self._rows.T)
            )  # fmt: skip
        return np.asarray(numbers ^ self.shift.numpy())

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next `n` points: [n, dimension] in `dtype`, f32 or f64, by default the default dtype;
        written to `out` where it is given. Raises DTypeError for another dtype."""
        _outside_trace("SobolEngine.draw()")
        kind = STATE.default_dtype if dtype is None else dtype
        if kind not in (DType.f32, DType.f64):
            raise DTypeError(f"SobolEngine.draw() gives f32 or f64, not {kind}")
        points = np.ldexp(self._numbers(n).astype(np.float64), -self.MAXBIT)
        if self.num_generated == 0 and STATE.default_dtype is DType.f32:
            points[:1] = points[:1].astype(np.float32)  # PyTorch keeps its first point so
        self.num_generated += n
        result = from_numpy(points).to(kind)
        return result if out is None else out.resize_(result.shape).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next 2**m points. Raises ValueError where that does not make the number of all points
        drawn a power of two."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin anew, with the same scrambling."""
        _outside_trace("SobolEngine.reset()")
        self._points.reset().fast_forward(1)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next `n` points."""
        _outside_trace("SobolEngine.fast_forward()")
        first = min(n, 1) if self.num_generated == 0 else 0
        if n > first:
            self._points.fast_forward(n - first)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        told: list[Any] = [f"dimension={self.dimension}"]
        told += ["scramble=True"] if self.scramble else []
        told += [f"seed={self.seed}"] if self.seed is not None else []
        return f"SobolEngine({', '.join(told)})"


def _outside_trace(what: str) -> None:
    if tracing():
        raise TraceError(
            f"{what} counts its points outside of graphs: every compiled call would see the same",
            hint="draw outside, and pass the points",
            location=user_location(),
        )
