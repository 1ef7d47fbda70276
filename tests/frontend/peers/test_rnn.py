"""Recurrent layers and cells against PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import frontend
from tests.frontend.layer_cases.recurrent import (
    KINDS,
    LENGTHS,
    OPTIONS,
    PROJECTED,
    make_cell,
    make_layer,
    states_in,
)
from tests.frontend.layer_cases.refusals.recurrent import REFUSALS
from tests.frontend.layer_cases.refusals.refusal import Refusal


def states(peer: Any, kind: str, count: int, *batch: int) -> Any:
    """h_0, for the LSTM (h_0, c_0)."""
    parts = tuple(peer.normal(count, *batch, 4) for _ in range(2))
    return parts if kind == "LSTM" else parts[0]


@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_layers(peer: Any, kind: str, options: dict[str, Any], with_state: bool) -> None:
    count = states_in(options)
    x = peer.normal(2, 3, 5) if "batch_first" in options else peer.normal(3, 2, 5)
    arguments = (x, states(peer, kind, count, 2)) if with_state else (x,)
    training = (True,) if with_state else (False,)
    peer.module(lambda nn: make_layer(nn, kind, 5, 4, **options), *arguments, training=training)


@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("first", [False, True], ids=["", "batch first"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_batch(peer: Any, kind: str, first: bool, with_state: bool) -> None:
    arguments = (peer.normal(3, 5), states(peer, kind, 2)) if with_state else (peer.normal(3, 5),)
    make = lambda nn: make_layer(nn, kind, 5, 4, bidirectional=True, batch_first=first)  # noqa: E731
    peer.module(make, *arguments, training=(True,))


@pytest.mark.parametrize("options", PROJECTED.values(), ids=PROJECTED)
@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "state"])
def test_projected(peer: Any, options: dict[str, Any], with_state: bool) -> None:
    count = states_in(options)
    hx = (peer.normal(count, 2, 3), peer.normal(count, 2, 4))
    arguments = (peer.normal(3, 2, 5), hx) if with_state else (peer.normal(3, 2, 5),)
    peer.module(lambda nn: nn.LSTM(5, 4, **options), *arguments, training=(True,))


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_of_one_and_no_rows(peer: Any, kind: str) -> None:
    peer.module(lambda nn: make_layer(nn, kind, 1, 1), peer.normal(1, 1, 1), training=(True,))
    peer.module(
        lambda nn: make_layer(nn, kind, 3, 4),
        peer.normal(2, 0, 3),
        training=(True,),
        modes=("eager",),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_for_training_only(peer: Any, kind: str) -> None:
    peer.module(
        lambda nn: make_layer(nn, kind, 3, 4, num_layers=2, dropout=0.5), peer.normal(2, 2, 3),
        training=(False,), modes=("eager",),
    )  # fmt: skip
    peer.module(
        lambda nn: make_layer(nn, kind, 3, 4, num_layers=2, dropout=1.0), peer.normal(2, 2, 3),
        training=(True,), modes=("eager",),
    )  # fmt: skip


def packed_model(t: Any, kind: str, lengths: list[int], **options: Any) -> Any:
    """A module that packs, runs the layer, and pads again."""
    rnn = t.nn.utils.rnn

    class Model(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = make_layer(t.nn, kind, 5, 4, **options)

        def forward(self, x: Any, hx: Any = None) -> Any:
            packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            output, last = self.layer(packed, hx)
            return (*rnn.pad_packed_sequence(output), output.data, last)

    return Model()


@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(peer: Any, kind: str, lengths: list[int], with_state: bool) -> None:
    x = peer.normal(max(lengths), len(lengths), 5)
    arguments = (x, states(peer, kind, 2, len(lengths))) if with_state else (x,)

    def make(nn: Any) -> Any:
        t = frontend if nn is frontend.nn else peer.torch
        return packed_model(t, kind, lengths, bidirectional=True)

    compiled = with_state and lengths == LENGTHS["mixed"]
    peer.module(
        make, *arguments, training=(True,), modes=("eager", "compiled") if compiled else ("eager",)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_through_layers(peer: Any, kind: str) -> None:
    def make(nn: Any) -> Any:
        t = frontend if nn is frontend.nn else peer.torch
        options: dict[str, Any] = {"proj_size": 2} if kind == "LSTM" else {}
        return packed_model(t, kind, [3, 1, 2], num_layers=2, batch_first=True, **options)

    peer.module(make, peer.normal(3, 3, 5), training=(True,), modes=("eager",))


@pytest.mark.parametrize("batch", [(), (3,)], ids=["vector", "batch"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("kind", KINDS)
def test_cells(peer: Any, kind: str, bias: bool, batch: tuple[int, ...]) -> None:
    state = tuple(peer.normal(*batch, 4) for _ in range(2))
    for hx in ((), (state if kind == "LSTM" else state[0],)):
        arguments = (peer.normal(*batch, 5), *hx)
        peer.module(lambda nn: make_cell(nn, kind, 5, 4, bias=bias), *arguments, training=(True,))


TEXTS = {
    "LSTM": lambda nn: nn.LSTM(3, 4, 2, False, True, 0.5, True, 2),
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


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusals(peer: Any, case: Refusal) -> None:
    peer.same_words(case)
