"""A seed's numbers, without PyTorch: a few that PyTorch 2.13 printed, and NumPy's generator of the
same words. `tests/frontend/peers/test_seeds.py` compares with PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.utils.data import DataLoader

PRINTED: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "rand": (
        lambda: torch.rand(3), [0.8822692632675171, 0.9150039553642273, 0.38286375999450684],
    ),
    "rand of f64": (
        lambda: torch.rand(2, dtype=torch.float64), [0.05815448596142969, 0.06291016742457756],
    ),
    "rand of bf16": (
        lambda: torch.rand(3, dtype=torch.bfloat16), [0.8828125, 0.9140625, 0.3828125],
    ),
    "uniform_": (
        lambda: torch.empty(3).uniform_(-0.1, 0.2),
        [0.16468079388141632, 0.1745011955499649, 0.014859131537377834],
    ),
    "randn and what is left of a pair": (
        lambda: torch.cat([torch.randn(3), torch.randn(2)]),
        [0.33669036626815796, 0.12880940735340118, 0.23446236550807953, 0.23033303022384644,
         -1.1228563785552979],
    ),
    "randn of more": (
        lambda: torch.randn(17),
        [1.9269152879714966, -0.1595974713563919, -0.4973975419998169, 0.439589262008667,
         -0.7581311464309692, 1.078317642211914, 0.8008005619049072, 1.680620551109314,
         0.3558599054813385, 1.2964228391647339, 0.610466480255127, 1.334737777709961,
         -0.2316243201494217, 0.041759490966796875, -0.2515752911567688, 0.859858512878418,
         -0.3097267746925354],
    ),
    "randint": (lambda: torch.randint(100, (5,)), [42, 67, 76, 14, 26]),
    "randint of a long range": (
        lambda: (torch.randint(100, (5,)), torch.randint(2**40, (2,)))[1],
        [307513896636, 86569440870],
    ),
    "randperm": (lambda: torch.randperm(10), [2, 6, 1, 8, 4, 5, 0, 9, 3, 7]),
    "bernoulli_": (lambda: torch.empty(10).bernoulli_(0.3), [1, 1, 1, 1, 0, 0, 0, 0, 1, 1]),
    "exponential_": (
        lambda: torch.empty(3).exponential_(),
        [0.05991401523351669, 0.06497612595558167, 0.13191677629947662],
    ),
    "multinomial": (lambda: torch.multinomial(torch.tensor([1.0, 2, 3, 4]), 3), [3, 1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", PRINTED)
def test_numbers_that_pytorch_printed(name: str, mode: str) -> None:
    draw, printed = PRINTED[name]
    torch.manual_seed(42)
    drawn = (torch.compile(draw) if mode == "compiled" else draw)()
    exact = "randn" not in name and name != "exponential_"
    np.testing.assert_allclose(drawn.double().numpy(), printed, rtol=0 if exact else 5e-7)


def test_a_layer_and_batches_that_pytorch_printed() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 2)
    weight = [[-0.005293981172144413, 0.37932288646698], [-0.5819807648658752, -0.5203874707221985]]
    assert layer.weight.tolist() == weight
    assert layer.bias.tolist() == [-0.27234524488449097, 0.1896158903837204]
    torch.manual_seed(0)
    batches = [x.tolist() for x in DataLoader(torch.arange(10), batch_size=4, shuffle=True)]
    assert batches == [[6, 7, 1, 4], [2, 0, 9, 8], [3, 5]]


@pytest.mark.parametrize("seed", [0, 7, 2**32 + 1, -1])
def test_the_words_are_those_of_numpy(seed: int) -> None:
    words = np.random.RandomState(seed % 2**32).randint(0, 2**32, 6000, np.uint32).astype(np.int64)
    torch.manual_seed(seed)
    np.testing.assert_array_equal(torch.rand(1000).numpy(), (words[:1000] % 2**24) * 2.0**-24)
    np.testing.assert_array_equal(torch.randint(77, (1000,)).numpy(), words[1000:2000] % 77)
    pairs = (words[2000:4000:2] << 21 + 11 & (2**53 - 1)) | words[2001:4000:2]
    np.testing.assert_array_equal(torch.rand(1000, dtype=torch.float64).numpy(), pairs * 2.0**-53)
    long = [int(h) * 2**32 + int(w) for h, w in zip(words[4000::2], words[4001::2])]
    spans = (2**28, 2**31 + 5, 2**62 + 1, 2**63 - 1, 2**63 + 3, 2**64 - 1)
    for number, span in enumerate(spans):
        low = -(2**63) if span >= 2**63 else 0
        drawn = torch.randint(low, low + span, (100,)).tolist()
        part = long[100 * number : 100 * number + 100]
        assert drawn == [word % span + low for word in part]


def test_what_a_state_has() -> None:
    torch.manual_seed(2**40 + 5)
    state = torch.get_rng_state().numpy()
    heads = np.frombuffer(state[:24].tobytes(), "<i8")
    assert heads[0] == 2**40 + 5 and heads[2] == 0
    assert np.frombuffer(state[8:16].tobytes(), "<i4").tolist() == [1, 1]
    words = np.frombuffer(state[24:5016].tobytes(), "<u8")
    np.testing.assert_array_equal(words, np.random.RandomState(5).get_state()[1])
    assert not state[5016:].any()
    torch.rand(10)
    torch.randn(1)
    state = torch.get_rng_state().numpy()
    assert np.frombuffer(state[8:12].tobytes(), "<i4")[0] == 625 - 14
    assert np.frombuffer(state[16:24].tobytes(), "<i8")[0] == 14
    assert state[5040] == 1 and state[5024:5032].any()
    torch.nn.functional.dropout(torch.ones(9))
    assert np.frombuffer(torch.get_rng_state().numpy()[5016:5024].tobytes(), "<i8")[0] == 9


def test_a_state_goes_on_with_what_is_drawn_inside_networks() -> None:
    def draws() -> list[torch.Tensor]:
        return [torch.nn.functional.dropout(torch.ones(50)), torch.randn(3), torch.randn(20)]

    draws()
    state = torch.get_rng_state()
    first = draws()
    torch.set_rng_state(state)
    for again, once in zip(draws(), first, strict=True):
        assert torch.equal(again, once)


def test_draws_at_open_sizes() -> None:
    def draw(x: torch.Tensor) -> Any:
        return torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 9)

    run = torch.compile(draw, dynamic=True)
    for count in (20, 33, 47, 64, 5):
        torch.manual_seed(count)
        compiled, state = run(torch.zeros(count)), torch.get_rng_state()
        torch.manual_seed(count)
        for one, other in zip(compiled, draw(torch.zeros(count)), strict=True):
            assert torch.equal(one, other)
        assert torch.equal(torch.get_rng_state(), state)
