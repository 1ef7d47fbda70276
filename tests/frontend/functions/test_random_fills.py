"""Large draws, block by block and by native code, are the stream's numbers; those drawn inside
networks too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.functions import network_draws, random_fills

SHAPE = (3, random_fills.block_length(1) // 2 + 5)
FILLS: dict[str, Callable[[], Any]] = {
    "randn": lambda: torch.randn(SHAPE),
    "normal_": lambda: nn.init.normal_(torch.empty(SHAPE), 1.0, 0.7),
    "method": lambda: torch.empty(SHAPE).normal_(2.0, 3.0),
    "double": lambda: torch.randn(SHAPE, dtype=torch.float64),
    "pairs": lambda: torch.empty(SHAPE).t().normal_(),
}


@pytest.mark.parametrize("name", FILLS)
def test_native_normal_numbers_are_those_of_numpy(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(3)
    native, following = FILLS[name](), torch.rand(3)

    def computed(formula: Any, numbers: Any, together: int) -> np.ndarray:
        wide = numbers.astype(np.float64)
        if formula is random_fills.pairs_formula:
            angle, radius = wide[0::2], np.sqrt(-2 * np.log1p(-wide[1::2]))
            axis = 1
        else:
            rows = wide.reshape(-1, 2, 8)
            angle, radius, axis = rows[:, 1], np.sqrt(-2 * np.log(1 - rows[:, 0])), 1
        turned = [radius * np.cos(2 * np.pi * angle), radius * np.sin(2 * np.pi * angle)]
        return np.stack(turned, axis).reshape(-1).astype(numbers.dtype)

    monkeypatch.setattr(random_fills, "_applied", computed)
    torch.manual_seed(3)
    want, after = FILLS[name](), torch.rand(3)
    np.testing.assert_allclose(native.numpy(), want.numpy(), rtol=0, atol=6e-6)
    assert torch.equal(following, after)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("count", [1, 7, 16, 40, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_compiled_draws_have_the_same_bits(count: int, dtype: Any) -> None:
    def draw() -> Any:
        return torch.rand(count, dtype=dtype), torch.randn(count, dtype=dtype)

    torch.manual_seed(5)
    drawn = torch.compile(draw)()
    state = torch.get_rng_state()
    torch.manual_seed(5)
    for compiled, eager in zip(drawn, draw(), strict=True):
        assert torch.equal(compiled, eager)
    assert torch.equal(state, torch.get_rng_state())


def test_a_weight_in_larger_blocks_has_the_numbers_of_smaller_ones() -> None:
    torch.manual_seed(4)
    weight = torch.rand(1 << 18)
    torch.manual_seed(4)
    parts = [torch.rand(count) for count in (100, 5000, (1 << 18) - 5100)]
    assert torch.equal(weight, torch.cat(parts))


def test_what_is_drawn_inside_networks_does_not_depend_on_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(4)
    mask = nn.functional.dropout(torch.ones(1 << 18))
    torch.manual_seed(4)
    parts = [nn.functional.dropout(torch.ones(n)) for n in (100, 5000, (1 << 18) - 5100)]
    assert torch.equal(mask, torch.cat(parts))
    monkeypatch.setattr(network_draws, "_filled", lambda _: None)
    torch.manual_seed(4)
    assert torch.equal(nn.functional.dropout(torch.ones(5000)), mask[:5000])


def test_what_is_drawn_inside_networks_leaves_the_other_numbers() -> None:
    torch.manual_seed(6)
    wanted = torch.rand(5)
    torch.manual_seed(6)
    first = nn.functional.dropout(torch.ones(99))
    assert torch.equal(torch.rand(5), wanted)
    assert not torch.equal(nn.functional.dropout(torch.ones(99)), first)


def test_no_elements_are_drawn_by_no_kernel() -> None:
    nn.functional.dropout(torch.ones(1 << 16))  # from here on a kernel is there
    for shape in ((0,), (0, 4), (3, 0)):
        before = torch.get_rng_state()
        assert torch.rand(shape).shape == torch.randn(shape).shape == shape
        assert nn.functional.dropout(torch.ones(shape)).shape == shape
        assert torch.equal(torch.get_rng_state(), before)
