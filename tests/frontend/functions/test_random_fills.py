"""Large draws by native kernels have the stream's numbers, block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.functions import random_fills

SHAPE = (3, random_fills.block_of(1) // 2 + 5)
FILLS: dict[str, Callable[[], Any]] = {
    "rand": lambda: torch.rand(SHAPE), "randn": lambda: torch.randn(SHAPE),
    "uniform_": lambda: nn.init.uniform_(torch.empty(SHAPE), -0.3, 0.7),
    "normal_": lambda: nn.init.normal_(torch.empty(SHAPE), 1.0, 0.7),
    "trunc_normal_": lambda: nn.init.trunc_normal_(torch.empty(SHAPE), 0.1, 1.5),
    "method": lambda: torch.empty(SHAPE).normal_(2.0, 3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", FILLS)
def test_the_numbers_are_those_of_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    native, following = FILLS[name](), torch.rand(3)
    monkeypatch.setattr(random_fills, "_filled", lambda *_: None)
    torch.manual_seed(3)
    want, after = FILLS[name](), torch.rand(3)
    exact = name in ("rand", "uniform_")
    np.testing.assert_allclose(native.numpy(), want.numpy(), rtol=0, atol=0 if exact else 3e-6)
    assert torch.equal(following, after)


def test_compiled_draws_have_the_same_bits() -> None:
    torch.manual_seed(5)
    drawn = torch.compile(lambda: torch.randn(random_fills.LEAST))()
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.randn(random_fills.LEAST))


def test_the_cosine_of_turns() -> None:
    turns = np.arange(0, 2**24, 97, dtype=np.float32) / np.float32(2**24)
    got = random_fills.cosine_of_turns(torch.tensor(turns)).numpy()
    assert np.abs(got - np.cos(2 * np.pi * turns.astype(np.float64))).max() < 2e-7


def test_a_weight_in_larger_blocks_has_the_numbers_of_smaller_ones() -> None:
    torch.manual_seed(4)
    weight = torch.rand(1 << 18)
    torch.manual_seed(4)
    parts = [torch.rand(count) for count in (100, 5000, (1 << 18) - 5100)]
    assert torch.equal(weight, torch.cat(parts))


def test_no_elements_are_drawn_by_no_kernel() -> None:
    torch.rand(1 << 16)  # from here on a kernel is there
    for shape in ((0,), (0, 4), (3, 0)):
        before = torch.get_rng_state()
        assert torch.rand(shape).shape == shape
        assert torch.equal(torch.get_rng_state(), before)
