"""Layers as functions of their weights, against PyTorch's: `torch.lstm`, `torch.embedding_bag`, …;
and rare methods of tensors."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import frontend

RANDOM = np.random.default_rng(5)
HIDDEN, FEATURES, ROWS, LENGTH = 4, 3, 2, 5
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def drawn(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def weights_of(name: str, layers: int, ways: int, biases: bool, projected: int) -> list[np.ndarray]:
    rows, output = GATES[name] * HIDDEN, projected or HIDDEN
    params = []
    for layer in range(layers):
        for _ in range(ways):
            below = ways * output if layer else FEATURES
            params += [drawn(rows, below), drawn(rows, output)]
            params += [drawn(rows), drawn(rows)] if biases else []
            params += [drawn(projected, HIDDEN)] if projected else []
    return params


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "layers", "ways", "biases", "projected"),
    [("lstm", 2, 2, True, 0), ("lstm", 1, 1, False, 2), ("gru", 2, 1, True, 0),
     ("gru", 1, 2, False, 0), ("rnn_tanh", 2, 1, True, 0), ("rnn_relu", 1, 2, True, 0)],
)  # fmt: skip
def test_recurrent_layers(
    peer: Any, name: str, layers: int, ways: int, biases: bool, projected: int, packed: bool
) -> None:
    sizes = np.array([2, 2, 1])
    x = drawn(sum(sizes), FEATURES) if packed else drawn(ROWS, LENGTH, FEATURES)
    h, c = drawn(layers * ways, ROWS, projected or HIDDEN), drawn(layers * ways, ROWS, HIDDEN)

    def call(t: Any, x: Any, h: Any, c: Any, *params: Any) -> Any:
        states = (h, c) if name == "lstm" else h
        rest = (states, params, biases, layers, 0.0, True, ways == 2)
        if packed:
            return getattr(t, name)(x, t.tensor(sizes), *rest)
        return getattr(t, name)(x, *rest, True)

    peer.function(call, x, h, c, *weights_of(name, layers, ways, biases, projected))


@pytest.mark.parametrize("biases", [(1, 1), (0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("name", GATES)
def test_cells(peer: Any, name: str, biases: tuple[int, int]) -> None:
    w_ih, w_hh, b_ih, b_hh = weights_of(name, 1, 1, True, 0)

    def call(t: Any, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
        cell = t.lstm_cell if name == "lstm" else getattr(t, f"{name}_cell")
        own = [b if given else None for b, given in zip((b_ih, b_hh), biases)]
        return cell(x, (h, c) if name == "lstm" else h, w_ih, w_hh, *own)

    used = drawn(ROWS, FEATURES), drawn(ROWS, HIDDEN), drawn(ROWS, HIDDEN), w_ih, w_hh, b_ih, b_hh
    peer.function(call, *used)


def test_what_does_not_fit_is_refused() -> None:
    x, h = frontend.zeros(LENGTH, ROWS, FEATURES), frontend.zeros(1, ROWS, HIDDEN)
    params = [frontend.zeros(w.shape) for w in weights_of("gru", 1, 1, True, 0)]
    for hx, weights, message in (
        (h[:, :1], params, "Expected hidden size"), (h, params[:3], "3 weights for 1 layers"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            frontend.gru(x, hx, weights, True, 1, 0.0, False, False, False)
    with pytest.raises(TypeError, match="takes the arguments"):
        frontend.gru(x, h, params)
    with pytest.raises(RuntimeError, match="two hidden states"):
        frontend.lstm_cell(x[0], [h[0]], params[0], params[1])


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"include_last_offset": True}])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_embedding_bag(peer: Any, mode: int, options: dict[str, Any]) -> None:
    indices, offsets = np.array([0, 2, 3, 1, 1]), np.array([0, 2, 2, 5])
    padding = options.get("padding_idx")
    last = options.get("include_last_offset", False)

    def call(t: Any, weight: Any, i: Any, o: Any) -> Any:
        # PyTorch takes other results on faster ways: of "sum" only the first is compared.
        results = t.embedding_bag(weight, i, o, False, mode, False, None, last, padding)
        return results if mode else results[0]

    peer.function(call, drawn(4, 3), indices, offsets)


def test_places_in_place(peer: Any) -> None:
    def call(t: Any, x: Any, v: Any) -> Any:
        put = t.index_put_(x.clone(), (t.tensor([0, 2]), t.tensor([1, 1])), v)
        twice = t.index_put_(x.clone(), (t.tensor([1, 1]),), v[:1], accumulate=True)
        part = t.as_strided_(x * 1, (2, 3), (1, 2), 1)
        return put, twice, part, (x * 2).as_strided_((4,), (3,))

    peer.function(call, drawn(3, 4), drawn(2))


@pytest.mark.filterwarnings("ignore:non-inplace resize")
def test_rare_methods() -> None:
    torch = pytest.importorskip("torch")

    def call(t: Any) -> Any:
        x = t.arange(24.0).reshape(2, 3, 4)
        shown = [x.dim_order(), x.permute(1, 2, 0).dim_order(), x[:, :1].dim_order()]
        shown += [x.transpose(0, 2).dim_order(), t.tensor(1.0).dim_order()]
        shown += [
            x[:1].expand(4, 3, 4).permute(order).dim_order() for order in permutations((0, 1, 2))
        ]
        assert x.resize_as(t.zeros(6, 4)).shape == (6, 4)
        mapped = t.zeros(2, 2).map2_(t.ones(2), t.full((2, 1), 3.0), lambda a, b, c: a + b * c - 1)
        for refused, words in (
            (lambda: x.resize(5), "requested resize to 5"),
            (lambda: x[:, :1].dim_order(ambiguity_check=True), "does not have unique dim order"),
        ):
            with pytest.raises(RuntimeError, match=words):
                refused()
        return shown, x.resize(4, 6).tolist(), mapped.tolist()

    assert call(frontend) == call(torch)
