"""Unsigned integers, floats of 8 bits, view(dtype), meta tensors and their files beside
PyTorch's."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import numpy as np
import pytest

import frontend

torch = pytest.importorskip("torch")

STORED = (
    "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e8m0fnu", "complex64", "complex128",
)  # fmt: skip
OTHERS = (
    "float32", "float64", "float16", "bfloat16", "uint8", "int8", "int16", "int32", "int64", "bool",
)  # fmt: skip
NUMBERS = [
    0.0, -0.0, 1.0, 1.5, 2.5, -1.0, -3.7, 100.0, 200.0, 240.0, 448.0, 460.0, 464.0, 465.0, 480.0,
    500.0, 57344.0, 61440.0, 65535.0, 70000.0, 1e-3, 2**-9, 2**-10, 1e-8, 0.3, 17.0, 18.0, 19.0,
    2.0**31, 2.0**40, 3e38, math.inf, -math.inf, math.nan,
]  # fmt: skip


def bytes_of(x: Any, system: Any) -> np.ndarray:
    return x.view(system.uint8).numpy().reshape(len(NUMBERS), -1)


@pytest.mark.parametrize("name", STORED)
def test_conversions(name: str) -> None:
    """Bit by bit, but for what C leaves open: numbers an integer type does not hold, and NaNs."""
    warnings.simplefilter("ignore")
    numbers = torch.tensor(NUMBERS, dtype=torch.float64)
    for source, target in [(name, x) for x in STORED + OTHERS] + [(x, name) for x in OTHERS]:
        theirs = numbers.to(getattr(torch, source))
        ours = frontend.tensor(bytes_of(theirs, torch)).view(getattr(frontend, source))[:, 0]
        kind = getattr(torch, target)
        expected = theirs.to(kind)
        actual = ours.to(getattr(frontend, target))
        open_ = expected.to(torch.complex128).isnan().numpy()
        if not kind.is_floating_point and not kind.is_complex:
            open_ = ~((numbers >= 0) & (numbers < 128)).numpy()
        same = (bytes_of(expected, torch) == bytes_of(actual, frontend)).all(1) | open_
        assert same.all(), (source, target, np.array(NUMBERS)[~same])


# An outcome is a dtype, or that NotImplementedError or another RuntimeError is raised.
DONE = """
x + x | x + 1 | x * x | x / x | x == x | x < x | -x | x.sum() | x.max() | t.cat([x, x]) | x[[0, 1]]
x[x.bool()] | t.where(x.bool(), x, x) | x @ x | x.clone().fill_(1) | x & x | x << 1 | x.clamp(0, 1)
x.any() | x.exp() | x.isnan() | t.arange(3, dtype=x.dtype) | x.cumsum(0) | x.prod()
t.stack([x, x])
x + t.ones(3) | x.roll(1) | x.repeat(2) | t.ones(3, dtype=x.dtype) | t.maximum(x, x) | x // x
x % x
t.promote_types(x.dtype, t.int32) | t.promote_types(x.dtype, t.float32) | x.view(t.uint8) | x.mean()
t.randint(0, 5, (3,), dtype=x.dtype) | x.item() | x[0].item() | repr(x) | x.tolist() | x.type()
x.dtype.is_signed | x.dtype.is_floating_point | x.element_size() | x.bool() | x.clone().copy_(x)
"""


@pytest.mark.parametrize(
    "name", ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]
)
def test_what_can_be_done_with_them(name: str) -> None:
    def outcome(system: Any, source: str) -> Any:
        x = system.tensor([1.0, 2.0, 4.0]).to(getattr(system, name))
        try:
            result = eval(source, {"t": system, "x": x})
        except RuntimeError as error:
            return isinstance(error, NotImplementedError)
        return str(result.dtype) if isinstance(result, system.Tensor) else repr(result)

    for source in [case.strip() for line in DONE.strip().splitlines() for case in line.split("|")]:
        assert outcome(frontend, source) == outcome(torch, source), source


VIEWS = """
x.view(t.int32) | x.view(t.uint8) | x.view(t.float64) | x.view(t.complex64) | x.view(t.bfloat16)
x.view(t.int8).view(t.float32) | x[:, ::2].view(t.int32) | x.t().view(t.int32)
x[0, 0].view(t.int32)
x.t().view(t.int8) | x[0, 0].view(t.int8) | x[:, :3].view(t.float64) | x.view(t.float8_e5m2)
x.view(t.int32).add_(1) | x.view(t.float32) | x.view(t.uint16) | x.double().view(t.complex128)
"""


def test_views() -> None:
    def outcome(system: Any, source: str) -> Any:
        x = system.arange(8.0).reshape(2, 4)
        try:
            result = eval(source, {"t": system, "x": x})
        except RuntimeError:
            return "raises"
        return str(result.dtype), tuple(result.shape), result.tolist(), x.tolist()

    for source in [case.strip() for line in VIEWS.strip().splitlines() for case in line.split("|")]:
        assert repr(outcome(frontend, source)) == repr(outcome(torch, source)), source


@pytest.mark.parametrize("name", STORED)
def test_files(name: str) -> None:
    theirs = torch.tensor([1.0, 2.0, 4.0]).to(getattr(torch, name))
    file = io.BytesIO()
    torch.save({"x": theirs, "part": theirs[1:], "meta": torch.empty(2, 3, device="meta")}, file)
    loaded = frontend.load(io.BytesIO(file.getvalue()))
    assert loaded["x"].tolist() == theirs.tolist() and loaded["meta"].is_meta
    again = io.BytesIO()
    frontend.save(loaded, again)
    back = torch.load(io.BytesIO(again.getvalue()), weights_only=True)
    assert back["x"].dtype is theirs.dtype and back["x"].tolist() == theirs.tolist()
    assert back["part"].tolist() == theirs[1:].tolist()
    assert back["meta"].is_meta and back["meta"].shape == (2, 3)
