"""Recurrent layers and cells against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import frontend

LAYERS: dict[str, Callable[..., Any]] = {
    "tanh": lambda nn, *sizes, **options: nn.RNN(*sizes, **options),
    "relu": lambda nn, *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
    "lstm": lambda nn, *sizes, **options: nn.LSTM(*sizes, **options),
    "gru": lambda nn, *sizes, **options: nn.GRU(*sizes, **options),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "two layers": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "batch first": {"batch_first": True},
    "all": {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False},
}


def states(peer: Any, kind: str, count: int, *batch: int) -> Any:
    """h_0, for the LSTM (h_0, c_0)."""
    made = tuple(peer.normal(count, *batch, 4) for _ in range(2))
    return made if kind == "lstm" else made[0]


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "given"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("kind", LAYERS)
def test_layers(peer: Any, kind: str, options: dict[str, Any], given: bool) -> None:
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    x = peer.normal(2, 3, 5) if "batch_first" in options else peer.normal(3, 2, 5)
    arguments = (x, states(peer, kind, count, 2)) if given else (x,)
    training = (True,) if given else (False,)
    peer.module(lambda nn: LAYERS[kind](nn, 5, 4, **options), *arguments, training=training)


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "given"])
@pytest.mark.parametrize("first", [False, True], ids=["", "batch first"])
@pytest.mark.parametrize("kind", LAYERS)
def test_without_a_batch(peer: Any, kind: str, first: bool, given: bool) -> None:
    arguments = (peer.normal(3, 5), states(peer, kind, 2)) if given else (peer.normal(3, 5),)
    make = lambda nn: LAYERS[kind](nn, 5, 4, bidirectional=True, batch_first=first)  # noqa: E731
    peer.module(make, *arguments, training=(True,))


@pytest.mark.parametrize("bidirectional", [False, True], ids=["one way", "two ways"])
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "given"])
def test_projected(peer: Any, bidirectional: bool, given: bool) -> None:
    count = 4 if bidirectional else 2
    hx = (peer.normal(count, 2, 3), peer.normal(count, 2, 4))
    arguments = (peer.normal(3, 2, 5), hx) if given else (peer.normal(3, 2, 5),)
    peer.module(
        lambda nn: nn.LSTM(5, 4, num_layers=2, proj_size=3, bidirectional=bidirectional),
        *arguments, training=(True,),
    )  # fmt: skip


@pytest.mark.parametrize("kind", LAYERS)
def test_sizes_of_one_and_no_rows(peer: Any, kind: str) -> None:
    peer.module(lambda nn: LAYERS[kind](nn, 1, 1), peer.normal(1, 1, 1), training=(True,))
    peer.module(
        lambda nn: LAYERS[kind](nn, 3, 4), peer.normal(2, 0, 3), training=(True,), modes=("eager",)
    )


@pytest.mark.parametrize("kind", LAYERS)
def test_dropout_is_for_training_only(peer: Any, kind: str) -> None:
    peer.module(
        lambda nn: LAYERS[kind](nn, 3, 4, num_layers=2, dropout=0.5), peer.normal(2, 2, 3),
        training=(False,), modes=("eager",),
    )  # fmt: skip
    peer.module(
        lambda nn: LAYERS[kind](nn, 3, 4, num_layers=2, dropout=1.0), peer.normal(2, 2, 3),
        training=(True,), modes=("eager",),
    )  # fmt: skip


LENGTHS: dict[str, list[int]] = {
    "falling": [3, 2, 2, 1], "mixed": [1, 3, 2, 2], "equal": [2, 2], "one": [2]
}  # fmt: skip


def packed_model(t: Any, kind: str, lengths: list[int], **options: Any) -> Any:
    """A module that packs, runs the layer, and pads again."""
    rnn = t.nn.utils.rnn

    class Model(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = LAYERS[kind](t.nn, 5, 4, **options)

        def forward(self, x: Any, hx: Any = None) -> Any:
            packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            output, last = self.layer(packed, hx)
            return (*rnn.pad_packed_sequence(output), output.data, last)

    return Model()


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "given"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("kind", LAYERS)
def test_packed_sequences(peer: Any, kind: str, lengths: list[int], given: bool) -> None:
    x = peer.normal(max(lengths), len(lengths), 5)
    arguments = (x, states(peer, kind, 2, len(lengths))) if given else (x,)

    def make(nn: Any) -> Any:
        t = frontend if nn is frontend.nn else peer.torch
        return packed_model(t, kind, lengths, bidirectional=True)

    compiled = given and lengths == LENGTHS["mixed"]
    peer.module(
        make, *arguments, training=(True,), modes=("eager", "compiled") if compiled else ("eager",)
    )


@pytest.mark.parametrize("kind", LAYERS)
def test_packed_sequences_through_layers(peer: Any, kind: str) -> None:
    def make(nn: Any) -> Any:
        t = frontend if nn is frontend.nn else peer.torch
        options: dict[str, Any] = {"proj_size": 2} if kind == "lstm" else {}
        return packed_model(t, kind, [3, 1, 2], num_layers=2, batch_first=True, **options)

    peer.module(make, peer.normal(3, 3, 5), training=(True,), modes=("eager",))


CELLS: dict[str, Callable[..., Any]] = {
    "tanh": lambda nn, **options: nn.RNNCell(5, 4, **options),
    "relu": lambda nn, **options: nn.RNNCell(5, 4, nonlinearity="relu", **options),
    "lstm": lambda nn, **options: nn.LSTMCell(5, 4, **options),
    "gru": lambda nn, **options: nn.GRUCell(5, 4, **options),
}


@pytest.mark.parametrize("batch", [(), (3,)], ids=["vector", "batch"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("kind", CELLS)
def test_cells(peer: Any, kind: str, bias: bool, batch: tuple[int, ...]) -> None:
    made = tuple(peer.normal(*batch, 4) for _ in range(2))
    for hx in ((), (made if kind == "lstm" else made[0],)):
        arguments = (peer.normal(*batch, 5), *hx)
        peer.module(lambda nn: CELLS[kind](nn, bias=bias), *arguments, training=(True,))


TEXTS = {
    "lstm": lambda nn: nn.LSTM(3, 4, 2, False, True, 0.5, True, 2),
    "gru": lambda nn: nn.GRU(3, 4, bias=False),
    "relu": lambda nn: nn.RNN(3, 4, 2, "relu", dropout=0.25),
    "cell": lambda nn: nn.RNNCell(3, 4, False, "relu"),
    "lstm cell": lambda nn: nn.LSTMCell(3, 4),
    "gru cell": lambda nn: nn.GRUCell(3, 4, bias=False),
}


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS)
def test_texts_and_names(peer: Any, make: Any) -> None:
    ours, theirs = make(frontend.nn), make(peer.torch.nn)
    assert repr(ours) == repr(theirs)
    if hasattr(theirs, "all_weights"):
        assert shapes(ours) == shapes(theirs)


def shapes(layer: Any) -> list[list[tuple[int, ...]]]:
    return [[tuple(weight.shape) for weight in each] for each in layer.all_weights]


def lstm_states(t: Any, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(map(t.zeros, shapes))


ERRORS: dict[str, Callable[[Any], Any]] = {
    "size": lambda t: t.nn.GRU(3, 4)(t.zeros(2, 2, 5)),
    "no steps": lambda t: t.nn.RNN(3, 4)(t.zeros(0, 2, 3)),
    "hidden": lambda t: t.nn.GRU(3, 4)(t.zeros(2, 2, 3), t.zeros(2, 2, 4)),
    "lstm hidden": lambda t: t.nn.LSTM(3, 4)(
        t.zeros(2, 2, 3), lstm_states(t, (1, 2, 4), (1, 2, 5))
    ),
    "rank": lambda t: t.nn.GRU(3, 4)(t.zeros(2, 2, 3), t.zeros(1, 4)),
    "lstm rank": lambda t: t.nn.LSTM(3, 4)(t.zeros(2, 3), lstm_states(t, (1, 4), (1, 1, 4))),
    "packed size": lambda t: t.nn.GRU(3, 4)(
        t.nn.utils.rnn.pack_padded_sequence(t.zeros(2, 2, 5), [2, 1])
    ),
    "packed hidden": lambda t: t.nn.GRU(3, 4)(
        t.nn.utils.rnn.pack_padded_sequence(t.zeros(2, 2, 3), [2, 1]), t.zeros(1, 3, 4)
    ),
    "dtype": lambda t: t.nn.LSTM(3, 4)(t.zeros(2, 2, 3).double()),
    "hidden size": lambda t: t.nn.LSTM(3, 0),
    "hidden type": lambda t: t.nn.LSTM(3, 4.0),
    "layers": lambda t: t.nn.GRU(3, 4, 0),
    "dropout": lambda t: t.nn.GRU(3, 4, dropout=True),
    "projection": lambda t: t.nn.GRU(3, 4, proj_size=2),
    "large projection": lambda t: t.nn.LSTM(3, 4, proj_size=4),
    "negative projection": lambda t: t.nn.LSTM(3, 4, proj_size=-1),
    "mode": lambda t: t.nn.RNNBase("other", 3, 4),
    "nonlinearity": lambda t: t.nn.RNN(3, 4, nonlinearity="sin"),
    "cell rank": lambda t: t.nn.GRUCell(3, 4)(t.zeros(1, 1, 3)),
    "cell size": lambda t: t.nn.GRUCell(3, 4)(t.zeros(2, 5)),
    "cell state rank": lambda t: t.nn.GRUCell(3, 4)(t.zeros(2, 3), t.zeros(1, 2, 4)),
    "cell state rows": lambda t: t.nn.GRUCell(3, 4)(t.zeros(2, 3), t.zeros(3, 4)),
    "cell state size": lambda t: t.nn.LSTMCell(3, 4)(t.zeros(2, 3), lstm_states(t, (2, 4), (2, 5))),
    "cell state type": lambda t: t.nn.LSTMCell(3, 4)(t.zeros(2, 3), t.zeros(2, 4)),
    "cell nonlinearity": lambda t: t.nn.RNNCell(3, 4, nonlinearity="sin")(t.zeros(2, 3)),
}


@pytest.mark.parametrize("wrong", ERRORS.values(), ids=ERRORS)
def test_errors(peer: Any, wrong: Callable[[Any], Any]) -> None:
    """The same exception type, and PyTorch's words at the start of the message."""
    with pytest.raises(Exception) as theirs:
        wrong(peer.torch)
    with pytest.raises(theirs.type) as ours:
        wrong(frontend)
    assert str(ours.value).startswith(str(theirs.value).partition(", not ")[0])
