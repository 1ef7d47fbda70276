"""Fourier transforms beside PyTorch's: values and gradients."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import frontend
from tests.frontend.peers.expressions import agree, evaluated

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 6, 10)).view(np.complex128)
Y = RANDOM.standard_normal((2, 6, 5))
WAVE = RANDOM.standard_normal((2, 60))

NORMS = (None, "ortho", "forward")
ARGUMENTS = ("n=7, dim=1", "n=4, dim=1", "n=1")
OF_MANY = ("s=(4, 7)", "s=(-1, 3), dim=(2, 0)", "s=(3,), dim=(1,)")


@pytest.mark.parametrize(
    "names",
    [
        "fft fft2 fftn", "ifft ifft2 ifftn", "rfft rfft2 rfftn", "irfft irfft2 irfftn",
        "hfft hfft2 hfftn", "ihfft ihfft2 ihfftn",
    ],
)  # fmt: skip
def test_transforms(names: str) -> None:
    one, two, many = names.split()
    operand = "y" if one in ("rfft", "ihfft") else "x"
    for name, norm in itertools.product((one, two, many), NORMS):
        agree(f"t.fft.{name}({operand}, norm={norm!r})", {"x": X, "y": Y})
    for arguments in ARGUMENTS:
        agree(f"t.fft.{one}({operand}, {arguments})", {"x": X, "y": Y})
    for arguments in OF_MANY:
        agree(f"t.fft.{many}({operand}, {arguments})", {"x": X, "y": Y})
    agree(f"t.fft.{one}(y)", {"y": Y})
    agree(f"t.fft.{one}(t.arange(4))", {})


@pytest.mark.parametrize(
    "source",
    [
        "t.stft(y, 16, window=w, return_complex=True)",
        "y[0].stft(16, window=w, return_complex=True)",
        "t.stft(y, 16, 5, 12, w[:12], return_complex=False, normalized=True)",
        "t.stft(y, 16, center=False, return_complex=True, onesided=False)",
        "t.stft(y, 16, pad_mode='constant', return_complex=True)",
        "t.stft(t.complex(y, y * 2), 15)",
        "t.istft(t.stft(y, 16, window=w, return_complex=True), 16, window=w)",
        "t.stft(y, 16, window=w, return_complex=True).istft(16, window=w, length=58)",
        "t.istft(t.stft(y, 16, window=w, return_complex=True), 16, window=w, length=80)",
        "t.istft(t.stft(y, 16, None, 12, None, normalized=True, return_complex=True), 16, None, 12,"
        " normalized=True)",
        "t.istft(t.stft(y, 16, onesided=False, return_complex=True), 16, onesided=False)",
        "t.istft(t.stft(t.complex(y, -y), 16), 16, onesided=False, return_complex=True)",
        "t.istft(t.stft(y[0], 16, center=False, return_complex=True), 16, center=False)",
    ],
)
def test_short_time_transforms(source: str) -> None:
    window = np.hanning(18)[1:-1]
    agree(source, {"y": WAVE, "w": window})


@pytest.mark.parametrize(
    "source",
    [
        "t.fft.fft(x, n=0)", "t.fft.fft(x, norm='x')", "t.fft.fftn(x, dim=(0, 0))",
        "t.fft.fftn(x, s=(1, 2), dim=(0,))", "t.fft.fftn(x, s=(1, 2, 3, 4))", "t.fft.rfft(x)",
        "t.fft.fft(y.half())", "t.fft.fft(y, dim=5)", "t.stft(y[0], 16)", "t.istft(y[0], 16)",
        "t.stft(y[0], 16, hop_length=0, return_complex=True)",
        "t.stft(y[0], 16, win_length=17, return_complex=True)",
        "t.istft(x[0, :5], 16)", "t.stft(x[0], 16, onesided=True)",
    ],
)  # fmt: skip
def test_errors(source: str) -> None:
    for system, kind in ((torch, Exception), (frontend, (RuntimeError, IndexError))):
        with pytest.raises(kind):
            evaluated(system, source, {"x": X, "y": Y})


def test_second_derivatives() -> None:
    def twice(system: Any) -> Any:
        y = system.tensor(Y, requires_grad=True)
        (slope,) = system.autograd.grad(system.fft.rfft(y).abs().pow(3).sum(), y, create_graph=True)
        (again,) = system.autograd.grad(slope.pow(2).sum(), y)
        return again.numpy()

    np.testing.assert_allclose(twice(frontend), twice(torch), rtol=1e-9, atol=1e-9)
