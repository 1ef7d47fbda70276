"""Random numbers: the same stream eager and compiled, statistics, ranges, generators, errors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc import TraceError

T = torch.tensor
COUNT = 20000


def samples(fill: Any, dtype: Any = torch.float32) -> np.ndarray:
    torch.manual_seed(1)
    drawn = fill(torch.zeros(COUNT, dtype=dtype))
    return drawn.to(torch.float64).numpy()


# Each with the mean and the variance it should have.
IN_PLACE: dict[str, tuple[Any, float, float]] = {
    "uniform": (lambda t: t.uniform_(), 0.5, 1 / 12),
    "uniform in a range": (lambda t: t.uniform_(-2, 4), 1.0, 3.0),
    "uniform by name": (lambda t: t.uniform_(**{"from": 2, "to": 3}), 2.5, 1 / 12),
    "normal": (lambda t: t.normal_(1, 2), 1.0, 4.0),
    "log normal": (lambda t: t.log_normal_(0, 0.5), np.exp(0.125), np.exp(0.5) - np.exp(0.25)),
    "exponential": (lambda t: t.exponential_(2), 0.5, 0.25),
    "bernoulli": (lambda t: t.bernoulli_(0.3), 0.3, 0.21),
    "geometric": (lambda t: t.geometric_(0.25), 4.0, 12.0),
    "random": (lambda t: t.random_(10), 4.5, 99 / 12),
    "random in a range": (lambda t: t.random_(-5, 6), 0.0, 10.0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", IN_PLACE)
def test_mean_and_variance(name: str, dtype: Any) -> None:
    fill, mean, variance = IN_PLACE[name]
    drawn = samples(fill, dtype)
    error = 5 * np.sqrt(variance / COUNT)
    assert abs(drawn.mean() - mean) < error + 1e-3 * abs(mean)
    assert abs(drawn.var() - variance) < 0.12 * variance


def test_cauchy_by_its_quartiles() -> None:
    drawn = samples(lambda t: t.cauchy_(1, 2))
    np.testing.assert_allclose(np.quantile(drawn, [0.25, 0.5, 0.75]), [-1, 1, 3], atol=0.15)


def test_counts() -> None:
    torch.manual_seed(0)
    drawn = torch.poisson(torch.full((COUNT,), 3.0)).numpy()
    assert abs(drawn.mean() - 3) < 0.07 and abs(drawn.var() - 3) < 0.2
    drawn = torch.binomial(torch.full((COUNT,), 10.0), T(0.3)).numpy()
    assert abs(drawn.mean() - 3) < 0.07 and abs(drawn.var() - 2.1) < 0.2
    torch.manual_seed(0)
    assert abs(torch.poisson(torch.full((COUNT,), 3.0)).numpy().mean() - 3) < 0.07


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_uniform_numbers_stay_below_one_and_fill_their_digits(dtype: Any) -> None:
    torch.manual_seed(0)
    drawn = torch.rand(2**15, dtype=dtype).to(torch.float64).numpy()
    assert drawn.min() >= 0 and drawn.max() < 1 and drawn.max() > 0.99
    digits = {torch.float32: 24, torch.float64: 53}.get(dtype, 24)  # the half types round those
    scaled = drawn * 2.0**digits
    assert (scaled == np.floor(scaled)).all() and (dtype.itemsize < 4 or (scaled % 2 == 1).any())
    assert torch.rand(2, dtype=dtype).dtype is dtype is torch.randn(2, dtype=dtype).dtype


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 2, torch.bool), (0, 256, torch.uint8), (-128, 128, torch.int8), (3, 4, torch.int64),
        (-(2**31), 2**31, torch.int32), (0, 2**40, torch.int64), (-(2**63), 2**63, torch.int64),
        (-7, 9, torch.float32), (0, 2**24 + 1, torch.int64),
    ],
)  # fmt: skip
def test_whole_numbers_fill_their_range(low: int, high: int, dtype: Any) -> None:
    torch.manual_seed(0)
    drawn = torch.randint(low, high, (4000,), dtype=dtype)
    numbers = [int(x) for x in drawn.tolist()]
    assert drawn.dtype is dtype and min(numbers) >= low and max(numbers) < high
    if high - low <= 256:
        assert set(numbers) == set(range(low, high))
    quarter = sum(x < low + (high - low) / 4 for x in numbers) / 4000
    if high - low > 3:
        assert abs(quarter - 0.25) < 0.06


def test_the_ways_to_call_randint() -> None:
    for drawn in (
        torch.randint(3, (2,)), torch.randint(1, 3, (2,)), torch.randint(high=3, size=(2,)),
        torch.randint(low=1, high=3, size=(2,)), torch.randint(3, size=[2]),
        torch.randint_like(torch.zeros(2), 3), torch.randint_like(torch.zeros(2), low=1, high=3),
    ):  # fmt: skip
        assert drawn.shape == (2,)
    assert torch.randint_like(torch.zeros(2), 3).dtype is torch.float32


def test_permutations() -> None:
    torch.manual_seed(0)
    drawn = torch.randperm(100)
    assert sorted(drawn.tolist()) == list(range(100)) and drawn.tolist() != list(range(100))
    assert torch.randperm(0).shape == (0,) and torch.randperm(1).tolist() == [0]
    assert torch.randperm(5, dtype=torch.float32).dtype is torch.float32
    first = [torch.randperm(5)[0].item() for _ in range(500)]
    assert min(first.count(i) for i in range(5)) > 60


def test_multinomial_follows_the_weights() -> None:
    torch.manual_seed(0)
    weights = T([[0.0, 1.0, 3.0, 0.0], [2.0, 0.0, 0.0, 2.0]])
    for replacement in (True, False):
        drawn = [
            torch.multinomial(weights.repeat(50, 1), 1, replacement).reshape(50, 2).tolist()
            for _ in range(10)
        ]
        columns = zip(*(row for rows in drawn for row in rows))
        shares = [[column.count(k) / 500 for k in range(4)] for column in columns]
        np.testing.assert_allclose(shares, [[0, 0.25, 0.75, 0], [0.5, 0, 0, 0.5]], atol=0.07)
    many = torch.multinomial(T([1.0, 0.0, 2.0]), 30000, True).numpy()
    np.testing.assert_allclose(np.bincount(many) / 30000, [1 / 3, 0, 2 / 3], atol=0.02)
    assert torch.multinomial(T([0.0, 1.0, 0.0]), 3).tolist()[0] == 1  # weight 0 comes last
    second = torch.multinomial(T([1.0, 1.0, 2.0]).repeat(2000, 1), 2).tolist()
    # P(0 then 2) = 1/4 · 2/3
    assert abs(second.count([0, 2]) / 2000 - 1 / 6) < 0.03
    assert torch.multinomial(torch.ones(0, 3), 1).shape == (0, 1)


FUNCTIONS: dict[str, Any] = {
    "rand": lambda: torch.rand(3, 4),
    "double": lambda: torch.rand(5, dtype=torch.float64),
    "half": lambda: torch.rand(5, dtype=torch.float16).float(),
    "randn": lambda: torch.randn((3, 4)),
    "randint": lambda: torch.randint(-3, 9, (10,)),
    "long randint": lambda: torch.randint(0, 2**50, (10,)),
    "longest randint": lambda: torch.randint(-(2**63), 2**63 - 1, (10,)),
    "randperm": lambda: torch.randperm(12),
    "like": lambda: (torch.rand_like(torch.ones(2)), torch.randn_like(torch.ones(2))),
    "bernoulli": lambda: torch.bernoulli(torch.full((20,), 0.5)),
    "normal": lambda: torch.normal(T([1.0, 2.0]), T([[1.0], [2.0]])),
    "multinomial": lambda: torch.multinomial(T([1.0, 2.0, 3.0]), 2),
    "with replacement": lambda: torch.multinomial(T([1.0, 2.0, 3.0]), 9, replacement=True),
    **{name: (lambda fill=fill: fill(torch.zeros(7))) for name, (fill, _, _) in IN_PLACE.items()},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_stream_eager_and_compiled(name: str) -> None:
    run = torch.compile(FUNCTIONS[name])
    torch.manual_seed(5)
    expected = [FUNCTIONS[name]() for _ in range(2)]
    state = torch.get_rng_state()
    torch.manual_seed(5)
    actual = [run() for _ in range(2)]
    for x, y in zip(expected, actual, strict=True):
        for a, b in zip(x if isinstance(x, tuple) else (x,), y if isinstance(y, tuple) else (y,)):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-7)
    assert torch.get_rng_state().tolist() == state.tolist()
    assert expected[0] is not expected[1] and len(run.specializations) == 1


WITH_GENERATOR: dict[str, Any] = {
    "rand": lambda g: torch.rand(3, generator=g),
    "randn": lambda g: torch.randn(3, generator=g),
    "randint": lambda g: torch.randint(9, (5,), generator=g),
    "randperm": lambda g: torch.randperm(9, generator=g),
    "rand_like": lambda g: torch.rand_like(torch.ones(2), generator=g),
    "bernoulli": lambda g: torch.full((20,), 0.5).bernoulli(generator=g),
    "normal": lambda g: torch.normal(0.0, 1.0, (3,), generator=g),
    "multinomial": lambda g: torch.multinomial(torch.ones(9), 5, generator=g),
    "poisson": lambda g: torch.poisson(torch.full((9,), 50.0), generator=g),
    "binomial": lambda g: torch.binomial(torch.full((9,), 50.0), T(0.5), generator=g),
    "uniform_": lambda g: torch.zeros(3).uniform_(generator=g),
    "normal_": lambda g: torch.zeros(3).normal_(generator=g),
    "log_normal_": lambda g: torch.zeros(3).log_normal_(generator=g),
    "bernoulli_": lambda g: torch.zeros(20).bernoulli_(generator=g),
    "cauchy_": lambda g: torch.zeros(3).cauchy_(generator=g),
    "exponential_": lambda g: torch.zeros(3).exponential_(generator=g),
    "geometric_": lambda g: torch.zeros(9).geometric_(0.1, generator=g),
    "random_": lambda g: torch.zeros(3).random_(generator=g),
}


@pytest.mark.parametrize("name", WITH_GENERATOR)
def test_a_generator_of_ones_own(name: str) -> None:
    before = torch.get_rng_state().tolist()
    first, again, other = (
        WITH_GENERATOR[name](torch.Generator().manual_seed(seed)).tolist() for seed in (3, 3, 4)
    )
    assert first == again != other
    assert torch.get_rng_state().tolist() == before


def test_states() -> None:
    torch.manual_seed(7)
    assert torch.initial_seed() == 7
    state = torch.get_rng_state()
    assert state.dtype is torch.uint8
    first = torch.rand(3)
    torch.set_rng_state(state)
    assert torch.equal(torch.rand(3), first)
    with torch.random.fork_rng():
        torch.rand(5)
    after = torch.rand(2)
    torch.set_rng_state(state)
    torch.rand(3)
    assert torch.equal(torch.rand(2), after)
    with torch.random.fork_rng(enabled=False):
        torch.rand(1)
    generator = torch.Generator().manual_seed(-1)
    assert generator.initial_seed() == 2**64 - 1 and generator.device == torch.device("cpu")
    torch.rand(4, generator=generator)
    copies = [
        generator.clone_state(), copy.deepcopy(generator), pickle.loads(pickle.dumps(generator)),
    ]  # fmt: skip
    expected = torch.rand(3, generator=generator)
    for other in copies:
        assert torch.equal(torch.rand(3, generator=other), expected)
    seeds = {torch.seed(), torch.Generator().seed()}
    assert len(seeds) == 2


def test_parameters_are_filled_under_no_grad_only() -> None:
    p = torch.zeros(3, requires_grad=True)
    fills = ("uniform_", "normal_", "exponential_", "log_normal_", "cauchy_", "random_")
    for name in (*fills, "bernoulli_"):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            getattr(p, name)()
        with torch.no_grad():
            assert getattr(p, name)() is p and p.is_leaf and p.requires_grad
    assert torch.randn(2, requires_grad=True).requires_grad


def test_out() -> None:
    taken = torch.zeros(3)
    assert torch.rand(3, out=taken) is taken and taken.any()
    whole = torch.zeros(3, dtype=torch.int32)
    assert torch.randint(5, 9, (3,), out=whole) is whole and whole.min() >= 5
    assert torch.randperm(3, out=whole) is whole


FROZEN, VALUE = "would be frozen into the graph", "needs the value of a tensor"


@pytest.mark.parametrize(("call", "words"), [
    (lambda: torch.manual_seed(0), FROZEN),
    (lambda: torch.set_rng_state(torch.zeros(5056, dtype=torch.uint8)), FROZEN),
    (torch.get_rng_state, VALUE), (torch.initial_seed, VALUE),
])  # fmt: skip
def test_what_a_trace_refuses(call: Any, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        torch.compile(lambda x: (call(), x * 2)[1], fullgraph=True)(torch.ones(2))


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: torch.rand(2, dtype=torch.int64), NotImplementedError, "not implemented for 'Long'"),
    (lambda: torch.rand(), TypeError, "it takes a size"),
    (lambda: torch.rand(-1), RuntimeError, "negative dimension -1"),
    (lambda: torch.rand(2, generator=3), TypeError, "must be a torch.Generator"),
    (lambda: torch.randint(5, 5, (2,)), RuntimeError, "'from' to be less than 'to'"),
    (lambda: torch.randint(0, 300, (2,), dtype=torch.uint8), RuntimeError, "unsigned char"),
    (lambda: torch.randint(3), TypeError, "it takes a size"),
    (lambda: torch.randint(2.5, (2,)), TypeError, "'high' must be int, not float"),
    (lambda: torch.randperm(-1), RuntimeError, "negative dimension"),
    (lambda: torch.randperm(300, dtype=torch.uint8), RuntimeError, "too large"),
    (lambda: torch.normal(0.0, 1.0), TypeError, "invalid combination"),
    (lambda: torch.normal(T([1.0]), 1.0, (2,)), TypeError, "invalid combination"),
    (lambda: torch.normal(0.0, -1.0, (2,)), RuntimeError, "std -1"),
    (lambda: torch.normal(0.0, T([1.0, -1.0])), RuntimeError, "all elements of std"),
    (lambda: torch.bernoulli(T([0.5, 2.0])), RuntimeError, "p_in <= 1"),
    (lambda: torch.zeros(2).bernoulli_(2), RuntimeError, r"in \[0, 1\], but got p=2"),
    (lambda: torch.multinomial(T([1.0, -1.0]), 1), RuntimeError, "element < 0"),
    (lambda: torch.multinomial(T([0.0, 0.0]), 1), RuntimeError, "sum of probabilities <= 0"),
    (lambda: torch.multinomial(T([1.0]), 2), RuntimeError, "without replacement"),
    (lambda: torch.multinomial(T([1.0]), 0), RuntimeError, "n_sample <= 0"),
    (lambda: torch.multinomial(T([1]), 1), RuntimeError, "got: Long"),
    (lambda: torch.poisson(T([-1.0])), RuntimeError, "rate to be non-negative"),
    (lambda: torch.binomial(T([3.0]), T([2.0])), ValueError, r"prob in \[0, 1\]"),
    (lambda: torch.zeros(2).uniform_(3, 2), RuntimeError, "from=3 > to=2"),
    (lambda: torch.zeros(2).uniform_(until=2), TypeError, "unexpected keyword argument 'until'"),
    (lambda: torch.zeros(2).normal_(0, -1), RuntimeError, "std -1"),
    (lambda: torch.zeros(2).exponential_(0), RuntimeError, "lambda=0"),
    (lambda: torch.zeros(2).geometric_(1), RuntimeError, "p=1"),
    (lambda: torch.zeros(2).log_normal_(0, 0), RuntimeError, "std=0"),
    (lambda: torch.zeros(2).cauchy_(0, 0), RuntimeError, "sigma=0"),
    (lambda: torch.zeros(2).random_(0), RuntimeError, "from=0 >= to=0"),
    (lambda: torch.manual_seed(2**64), ValueError, "more than 64 bits"),
    (lambda: torch.Generator().manual_seed(1.5), RuntimeError, "expected a long, but got float"),
    (lambda: torch.set_rng_state(torch.zeros(3)), TypeError, "torch.ByteTensor"),
    (lambda: torch.set_rng_state(torch.zeros(3, dtype=torch.uint8)), RuntimeError, "wrong size"),
    (lambda: torch.set_rng_state(torch.zeros(5056, dtype=torch.uint8)), RuntimeError, "Invalid"),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_refusals(call: Any, kind: type[Exception], message: str) -> None:
    state = torch.get_rng_state().tolist()
    with pytest.raises(kind, match=message):
        call()
    assert torch.get_rng_state().tolist() == state


def test_floats_that_skip_numbers_warn() -> None:
    with pytest.warns(UserWarning, match="out of bounds"):
        torch.randint(0, 2**25, (2,), dtype=torch.float32)


def test_words_one_by_one_are_those_drawn_at_once() -> None:
    """Also where the 624 words of the state end between two draws."""
    one, together = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    counts = (1, 0, 600, 22, 1, 1, 700, 3)
    parts = [torch.rand(count, generator=one) for count in counts]
    whole = torch.rand(sum(counts), generator=together)
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(one.get_state(), together.get_state())
