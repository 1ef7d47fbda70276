"""A seed's numbers are PyTorch's: draws, in sequence, eager and compiled, the state behind them,
and what is built of them. Bits where integers and scaling decide, else units in the last place."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend

EXACT, NEAR = 0.0, 4.0
Call = Callable[..., Any]
Draw = Callable[[Any], Any]


def arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple | list):
        return [array for each in value for array in arrays(each)]
    value = value.detach()
    if str(value.dtype).endswith("bfloat16") or str(value.dtype) == "bf16":
        value = value.float()
    return [value.numpy()]


def assert_alike(actual: Any, wanted: Any, ulps: float, dtype: Any = None) -> None:
    """`dtype`: what the units are of, where the arrays are wider."""
    for ours, theirs in zip(arrays(actual), arrays(wanted), strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if ulps == EXACT or not np.issubdtype(ours.dtype, np.inexact):
            np.testing.assert_array_equal(ours, theirs)
            continue
        unit = 2.0**-7 * np.abs(theirs) if dtype == "bfloat16" else np.spacing(np.abs(theirs))
        with np.errstate(invalid="ignore"):
            apart = np.abs(ours.astype(np.float64) - theirs) / unit.astype(np.float64)
        apart = np.where(ours == theirs, 0, apart)
        assert np.max(apart, initial=0) <= ulps


def assert_same_state(torch: Any, ulps: float = NEAR) -> None:
    ours = frontend.get_rng_state().numpy()
    theirs = torch.get_rng_state().numpy()
    assert ours.shape == theirs.shape == (5056,)
    spare = slice(5024, 5032)  # a normal number, of a logarithm and a sine
    apart = [np.frombuffer(state[spare].tobytes(), np.float64)[0] for state in (ours, theirs)]
    assert abs(apart[0] - apart[1]) <= ulps * np.spacing(abs(apart[1]))
    np.testing.assert_array_equal(np.delete(ours, spare), np.delete(theirs, spare))


def both(torch: Any, draw: Draw, ulps: float, seed: int = 5, dtype: Any = None) -> None:
    """The same of a draw, and of the next one, and of the state behind both."""
    for library in (frontend, torch):
        library.manual_seed(seed)
    for _ in range(2):
        assert_alike(draw(frontend), draw(torch), ulps, dtype)
        assert_same_state(torch)


SIZES = [(), (0,), (1,), (3,), (15,), (16,), (17,), (31,), (32,), (5, 7), (700,), (3, 1000)]
DTYPES = ("float32", "float64", "float16", "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_uniform_numbers(peer: Any, shape: tuple[int, ...], dtype: str) -> None:
    both(peer.torch, lambda t: t.rand(shape, dtype=getattr(t, dtype)), EXACT)
    both(
        peer.torch,
        lambda t: t.empty(shape, dtype=getattr(t, dtype)).uniform_(-0.3, 0.7),
        EXACT,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_normal_numbers(peer: Any, shape: tuple[int, ...], dtype: str) -> None:
    ulps = 1 if dtype in ("float16", "bfloat16") else NEAR
    both(peer.torch, lambda t: t.randn(shape, dtype=getattr(t, dtype)), ulps, dtype=dtype)
    both(
        peer.torch,
        lambda t: t.empty(shape, dtype=getattr(t, dtype)).normal_(0, 0.02),
        ulps + 1,
        dtype=dtype,
    )


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 1), (0, 10), (-5, 100), (0, 2**28 - 1), (0, 2**28), (7, 2**28 + 8), (0, 2**31),
        (0, 2**32 - 1), (0, 2**32 + 1), (0, 2**62 + 3), (-(2**63), 2**63 - 1),
        (-(2**62), 2**62 + 5),
    ],
)  # fmt: skip
def test_whole_numbers(peer: Any, low: int, high: int) -> None:
    both(peer.torch, lambda t: t.randint(low, high, (50,)), EXACT)
    both(peer.torch, lambda t: t.empty(50, dtype=t.int64).random_(low, high), EXACT)


@pytest.mark.parametrize(
    "dtype",
    [
        "int64",
        "int32",
        "int16",
        "uint8",
        "int8",
        "bool",
        "float32",
        "float64",
        "float16",
        "bfloat16",
    ],
)
def test_whole_numbers_of_a_dtype(peer: Any, dtype: str) -> None:
    def kind(t: Any) -> Any:
        return getattr(t, dtype)

    both(peer.torch, lambda t: t.empty(40, dtype=kind(t)).random_(), EXACT)
    both(peer.torch, lambda t: t.randint(0, 2, (40,), dtype=kind(t)), EXACT)
    if dtype != "bool":
        both(peer.torch, lambda t: t.empty(40, dtype=kind(t)).random_(3, None), EXACT)
        both(peer.torch, lambda t: t.empty(40, dtype=kind(t)).random_(100), EXACT)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 600, 40_000])
def test_permutations(peer: Any, count: int) -> None:
    both(peer.torch, lambda t: t.randperm(count), EXACT)


F32 = "float32"
OTHERS: dict[str, tuple[Call, float]] = {
    "bernoulli_": (lambda t, kind: t.empty(40, dtype=kind).bernoulli_(0.3), EXACT),
    "bernoulli": (lambda t, kind: t.bernoulli(t.linspace(0, 1, 40).to(kind)), EXACT),
    "bernoulli_ of f64": (
        lambda t, kind: t.empty(40, dtype=kind).bernoulli_(t.linspace(0, 1, 40).double()), EXACT,
    ),
    "exponential_": (lambda t, kind: t.empty(40, dtype=kind).exponential_(1.5), NEAR),
    "geometric_": (lambda t, kind: t.empty(40, dtype=kind).geometric_(0.3), EXACT),
    "cauchy_": (lambda t, kind: t.empty(40, dtype=kind).cauchy_(0, 2), NEAR),
    "log_normal_": (lambda t, kind: t.empty(40, dtype=kind).log_normal_(0.5, 0.3), NEAR),
    "normal": (
        lambda t, kind: t.normal(t.zeros(20, dtype=kind), t.arange(20).to(kind)), NEAR,
    ),
    "multinomial": (lambda t, kind: t.multinomial(t.linspace(1, 5, 30).to(kind), 9), EXACT),
    "multinomial of one": (
        lambda t, kind: t.multinomial(t.linspace(1, 5, 30).to(kind).reshape(2, 15), 1, True),
        EXACT,
    ),
    "multinomial with replacement": (
        lambda t, kind: t.multinomial(t.linspace(1, 5, 30).to(kind).reshape(2, 15), 40, True),
        EXACT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_distributions(peer: Any, name: str, dtype: str) -> None:
    draw, ulps = OTHERS[name]
    both(peer.torch, lambda t: draw(t, getattr(t, dtype)), ulps)


@pytest.mark.parametrize("name", ["bernoulli_", "bernoulli", "exponential_", "geometric_"])
def test_other_distributions_in_half(peer: Any, name: str) -> None:
    draw, ulps = OTHERS[name]
    both(peer.torch, lambda t: draw(t, t.bfloat16), ulps and 1, dtype="bfloat16")


LAYOUTS: dict[str, Draw] = {
    "transposed": lambda t: t.zeros(9, 6).t(),
    "every other": lambda t: t.zeros(9, 6)[:, ::2],
    "columns": lambda t: t.zeros(9, 6)[:, :4],
    "rows": lambda t: t.zeros(9, 6)[3:7],
    "permuted": lambda t: t.zeros(4, 5, 6).permute(1, 2, 0),
    "some, permuted": lambda t: t.zeros(4, 5, 6)[:, :, :4].permute(2, 0, 1),
}
FILLS: dict[str, tuple[Draw, float]] = {
    "uniform_": (lambda x: x.uniform_(), EXACT),
    "normal_": (lambda x: x.normal_(), NEAR),
    "random_": (lambda x: x.random_(100), EXACT),
    "bernoulli_": (lambda x: x.bernoulli_(0.4), EXACT),
    "exponential_": (lambda x: x.exponential_(), NEAR),
}


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_are_filled_in_the_order_of_memory(peer: Any, layout: str, fill: str) -> None:
    function, ulps = FILLS[fill]
    both(peer.torch, lambda t: function(LAYOUTS[layout](t)), ulps)
    both(peer.torch, lambda t: t.rand_like(LAYOUTS[layout](t)), EXACT)
    both(peer.torch, lambda t: t.randn_like(LAYOUTS[layout](t)), NEAR)
    both(peer.torch, lambda t: t.randint_like(LAYOUTS[layout](t), 9), EXACT)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("count", [3, 20])
def test_complex_numbers(peer: Any, count: int, dtype: str) -> None:
    def parts(t: Any, draw: Call) -> Any:
        return t.view_as_real(draw(count, dtype=getattr(t, dtype)))

    both(peer.torch, lambda t: parts(t, t.rand), EXACT)
    both(peer.torch, lambda t: parts(t, t.randn), NEAR + 1)


# -- sequences -----------------------------------------------------------------------------------

KINDS: list[tuple[Call, float]] = [
    (lambda t, n: t.rand(n), EXACT),
    (lambda t, n: t.rand(n, dtype=t.float64), EXACT),
    (lambda t, n: t.randn(n), NEAR),
    (lambda t, n: t.randn(n, dtype=t.float64), NEAR),
    (lambda t, n: t.randn(n % 7), NEAR),
    (lambda t, n: t.randint(1000, (n,)), EXACT),
    (lambda t, n: t.randint(2**40, (n,)), EXACT),
    (lambda t, n: t.randperm(n), EXACT),
    (lambda t, n: t.empty(n).bernoulli_(0.25), EXACT),
    (lambda t, n: t.empty(n).exponential_(), NEAR),
]


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("drawn", range(6))
def test_sequences_of_draws(peer: Any, drawn: int, mode: str) -> None:
    random = np.random.default_rng(drawn)
    plan = [
        (KINDS[random.integers(len(KINDS))], int(random.integers(0, 40 if mode == "eager" else 30)))
        for _ in range(25 if mode == "eager" else 7)
    ]
    if mode == "eager":
        plan = [(kind, size * 30 if random.random() < 0.1 else size) for kind, size in plan]

    def run(t: Any) -> Any:
        return [draw(t, size) for (draw, _), size in plan]

    ours = frontend.compile(lambda: run(frontend)) if mode == "compiled" else lambda: run(frontend)
    seed = int(random.integers(2**40))
    for library in (frontend, peer.torch):
        library.manual_seed(seed)
    for _ in range(2):
        for (_, ulps), actual, wanted in zip((p[0] for p in plan), ours(), run(peer.torch)):
            assert_alike(actual, wanted, ulps)
        assert_same_state(peer.torch)


def test_states_are_exchanged(peer: Any) -> None:
    torch = peer.torch
    for library in (frontend, torch):
        library.manual_seed(2**50 + 9)
    assert frontend.initial_seed() == torch.initial_seed()
    assert_same_state(torch)
    frontend.randn(5)
    torch.set_rng_state(torch.from_numpy(frontend.get_rng_state().numpy().copy()))
    assert_alike(frontend.randn(8), torch.randn(8), NEAR)
    torch.rand(1000)
    torch.randn(3)
    frontend.set_rng_state(frontend.tensor(torch.get_rng_state().numpy()))
    assert frontend.initial_seed() == torch.initial_seed()
    assert_alike(frontend.randn(8), torch.randn(8), NEAR)
    assert_alike(frontend.rand(8), torch.rand(8), EXACT)
    ours, theirs = frontend.Generator(), torch.Generator()
    np.testing.assert_array_equal(ours.get_state().numpy(), theirs.get_state().numpy())
    theirs.manual_seed(11)
    ours.set_state(frontend.tensor(theirs.get_state().numpy()))
    assert_alike(frontend.rand(5, generator=ours), torch.rand(5, generator=theirs), EXACT)


# -- what is built of draws ----------------------------------------------------------------------

INITIALISERS: dict[str, Call] = {
    "uniform_": lambda init, x: init.uniform_(x, -1, 2),
    "normal_": lambda init, x: init.normal_(x, 0, 0.02),
    "xavier_uniform_": lambda init, x: init.xavier_uniform_(x, 1.4),
    "xavier_normal_": lambda init, x: init.xavier_normal_(x),
    "kaiming_uniform_": lambda init, x: init.kaiming_uniform_(x, nonlinearity="relu"),
    "kaiming_normal_": lambda init, x: init.kaiming_normal_(x, mode="fan_out"),
    "trunc_normal_": lambda init, x: init.trunc_normal_(x, 0, 0.02),
    "trunc_normal_ near": lambda init, x: init.trunc_normal_(x, 0.0, 1.0, -0.5, 1.0),
    "trunc_normal_ of few": lambda init, x: init.trunc_normal_(x, 0.0, 1.0, 1.0, 1.6),
    "sparse_": lambda init, x: init.sparse_(x, 0.3),
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_initialisers(peer: Any, name: str) -> None:
    both(
        peer.torch,
        lambda t: INITIALISERS[name](t.nn.init, t.empty(7, 9)),
        EXACT if "uniform" in name or name.endswith("few") else NEAR + 1,
    )


@pytest.mark.parametrize("shape", [(7, 9), (9, 7), (4, 3, 2)], ids=str)
def test_orthogonal_matrices(peer: Any, shape: tuple[int, ...]) -> None:
    for library in (frontend, peer.torch):
        library.manual_seed(3)
    ours, theirs = (t.nn.init.orthogonal_(t.empty(shape)).numpy() for t in (frontend, peer.torch))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert_same_state(peer.torch)


LAYERS: dict[str, Call] = {
    "Linear": lambda nn: nn.Linear(7, 9),
    "Linear without bias": lambda nn: nn.Linear(7, 9, bias=False),
    "Bilinear": lambda nn: nn.Bilinear(3, 4, 5),
    "Conv1d": lambda nn: nn.Conv1d(4, 6, 3),
    "Conv2d": lambda nn: nn.Conv2d(4, 6, 3, groups=2),
    "Conv3d": lambda nn: nn.Conv3d(2, 3, 3),
    "ConvTranspose1d": lambda nn: nn.ConvTranspose1d(4, 6, 3),
    "ConvTranspose2d": lambda nn: nn.ConvTranspose2d(4, 6, 3),
    "ConvTranspose3d": lambda nn: nn.ConvTranspose3d(4, 6, 3),
    "Embedding": lambda nn: nn.Embedding(11, 5, padding_idx=2),
    "EmbeddingBag": lambda nn: nn.EmbeddingBag(11, 5),
    "RNN": lambda nn: nn.RNN(4, 5, 2),
    "LSTM": lambda nn: nn.LSTM(4, 5, 2, bidirectional=True),
    "LSTM with projections": lambda nn: nn.LSTM(4, 5, proj_size=3),
    "GRU": lambda nn: nn.GRU(4, 5),
    "RNNCell": lambda nn: nn.RNNCell(4, 5),
    "LSTMCell": lambda nn: nn.LSTMCell(4, 5),
    "GRUCell": lambda nn: nn.GRUCell(4, 5),
    "MultiheadAttention": lambda nn: nn.MultiheadAttention(8, 2),
    "MultiheadAttention of other widths": lambda nn: nn.MultiheadAttention(
        8, 2, kdim=3, vdim=5, add_bias_kv=True
    ),
    "TransformerEncoderLayer": lambda nn: nn.TransformerEncoderLayer(8, 2, 16),
    "TransformerDecoderLayer": lambda nn: nn.TransformerDecoderLayer(8, 2, 16),
    "Transformer": lambda nn: nn.Transformer(8, 2, 1, 1, 16),
    "BatchNorm2d": lambda nn: nn.BatchNorm2d(4),
    "LayerNorm": lambda nn: nn.LayerNorm(4),
    "PReLU": lambda nn: nn.PReLU(4),
    "AdaptiveLogSoftmaxWithLoss": lambda nn: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]),
    "Sequential": lambda nn: nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 10)
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_born_with_the_same_weights(peer: Any, name: str) -> None:
    def weights(t: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(LAYERS[name](t.nn).state_dict().values())

    both(peer.torch, weights, NEAR)


# -- batches -------------------------------------------------------------------------------------


def batches(t: Any, **options: Any) -> list[Any]:
    data = t.utils.data.TensorDataset(t.arange(23))
    return [part[0] for part in t.utils.data.DataLoader(data, batch_size=4, **options)]


BATCHES: dict[str, Draw] = {
    "in order": lambda t: [t.rand(1), *batches(t), t.rand(1)],
    "shuffled": lambda t: [*batches(t, shuffle=True), t.rand(1)],
    "a generator": lambda t: batches(t, shuffle=True, generator=t.Generator().manual_seed(4)),
    "replaced": lambda t: batches(
        t, sampler=t.utils.data.RandomSampler(range(23), replacement=True, num_samples=70)
    ),
    "some": lambda t: batches(t, sampler=t.utils.data.RandomSampler(range(23), num_samples=60)),
    "subset": lambda t: batches(t, sampler=t.utils.data.SubsetRandomSampler(range(5, 20))),
    "weighted": lambda t: batches(
        t, sampler=t.utils.data.WeightedRandomSampler([0.1, 3.0, 1.0, 0.5], 20)
    ),
    "weighted, once": lambda t: batches(
        t, sampler=t.utils.data.WeightedRandomSampler([0.1, 3.0, 1.0, 0.5], 3, replacement=False)
    ),
    "split": lambda t: [
        t.tensor(list(part.indices)) for part in t.utils.data.random_split(range(20), [12, 8])
    ],
    "of ranks": lambda t: [
        t.tensor(list(t.utils.data.DistributedSampler(range(20), 3, 1, seed=6)))
    ],
    "two at once": lambda t: [
        pair for each in zip(batches(t, shuffle=True), batches(t, shuffle=True)) for pair in each
    ],
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_come_in_the_same_order(peer: Any, name: str) -> None:
    if name == "of ranks":
        pytest.importorskip("torch.utils.data.distributed")
    both(peer.torch, BATCHES[name], EXACT)


class Drawing:
    """Items that are drawn where they are fetched."""

    def __init__(self, torch: Any):
        self.torch = torch

    def __len__(self) -> int:
        return 8

    def __getitem__(self, item: int) -> Any:
        return self.torch.rand(2)


def test_workers_draw_the_same(peer: Any) -> None:
    def fetched(t: Any) -> Any:
        return list(t.utils.data.DataLoader(Drawing(t), batch_size=2, num_workers=2))

    both(peer.torch, fetched, EXACT)
