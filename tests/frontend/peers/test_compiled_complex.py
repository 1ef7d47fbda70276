"""Complex numbers and transforms in compiled functions: what eager mode gives, bit for bit, values
and gradients, for the expressions that are held to PyTorch's in test_complex and test_fourier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend
from tests.frontend.peers import test_complex, test_fourier

torch = pytest.importorskip("torch")

EAGER = ("logcumsumexp", "nonzero", "x[x.real > 0]")
"""What has no compiled form, or a size that depends on values."""
WEIGHTS = np.random.default_rng(1).standard_normal(4096)


def weighted(value: Any) -> Any:
    """A sum of all parts, each with a weight of its own."""
    parts = [value.real, value.imag] if value.is_complex() else [value]
    weights = [frontend.tensor(WEIGHTS[: part.numel()].reshape(part.shape)) for part in parts]
    products = [(part * weight).sum() for part, weight in zip(parts, weights)]
    return sum(products[1:], products[0])


def step_of(source: str, names: tuple[str, ...]) -> Any:
    code = compile(source, "<expression>", "eval")

    def step(*operands: Any) -> tuple[Any, ...]:
        value = eval(code, {"t": frontend, **dict(zip(names, operands))})
        if not value.requires_grad:
            return (value,)
        weighted(value).backward()
        return (value.detach(), *(x.grad for x in operands if x.grad is not None))

    return step


def bits(x: Any) -> tuple[str, list[int], bytes]:
    return str(x.dtype), [*x.shape], np.ascontiguousarray(x.numpy()).tobytes()


def agree(source: str, arrays: dict[str, np.ndarray]) -> None:
    step = step_of(source, tuple(arrays))
    results = [
        run(*(frontend.tensor(array, requires_grad=True) for array in arrays.values()))
        for run in (step, frontend.compile(step, fullgraph=True))
    ]
    assert [*map(bits, results[0])] == [*map(bits, results[1])], source


COMPILED = [
    source
    for source in test_complex.cases(test_complex.CASES)
    if not any(name in source for name in EAGER)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled(12)
@pytest.mark.parametrize("source", COMPILED)
def test_functions(source: str) -> None:
    agree(source, {"x": test_complex.X, "y": test_complex.Y})


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *[(name, "") for name in ("fft", "rfft", "irfft", "hfft", "ihfft", "fftn", "irfft2")],
        ("fft", ", n=7, dim=1"), ("rfft", ", n=4, norm='ortho'"), ("irfft", ", n=9"),
        ("rfftn", ", s=(4, 7), norm='forward'"), ("fft", ", n=67"),
    ],
)  # fmt: skip
def test_transforms(name: str, arguments: str) -> None:
    operand = "y" if name.startswith(("rfft", "ihfft")) else "x"
    agree(f"t.fft.{name}({operand}{arguments})", {"x": test_fourier.X, "y": test_fourier.Y})


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "source",
    [
        "t.stft(y, 16, window=w, return_complex=True)",
        "t.stft(y, 16, 5, 12, w[:12], return_complex=False, normalized=True)",
        "t.stft(t.complex(y, y * 2), 15)",
        "t.istft(t.stft(y, 16, window=w, return_complex=True), 16, window=w)",
        "t.istft(t.stft(t.complex(y, -y), 16), 16, onesided=False, return_complex=True)",
    ],
)
def test_short_time_transforms(source: str) -> None:
    agree(source, {"y": test_fourier.WAVE, "w": np.hanning(18)[1:-1]})
