"""What recurrent layers and cells refuse."""

from __future__ import annotations

from typing import Any

from tests.frontend.layer_cases.refusals.refusal import Refusal


def lstm_states(t: Any, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(map(t.zeros, shapes))


REFUSALS = [
    Refusal(
        lambda t: t.nn.GRU(3, 4)(t.zeros(2, 2, 5)),
        RuntimeError,
        "input.size(-1) must be equal to input_size. Expected 3, got",
    ),
    Refusal(
        lambda t: t.nn.RNN(3, 4)(t.zeros(0, 2, 3)),
        RuntimeError,
        "Expected sequence length to be larger than 0 in RNN",
    ),
    Refusal(
        lambda t: t.nn.GRU(3, 4)(t.zeros(2, 2, 3), t.zeros(2, 2, 4)),
        RuntimeError,
        "Expected hidden size (1, 2, 4), got [2, 2, 4]",
    ),
    Refusal(
        lambda t: t.nn.LSTM(3, 4)(t.zeros(2, 2, 3), lstm_states(t, (1, 2, 4), (1, 2, 5))),
        RuntimeError,
        "Expected hidden[1] size (1, 2, 4), got [1, 2, 5]",
    ),
    Refusal(
        lambda t: t.nn.GRU(3, 4)(t.zeros(2, 2, 3), t.zeros(1, 4)),
        RuntimeError,
        "For batched 3-D input, hx should also be 3-D but got 2-D",
    ),
    Refusal(
        lambda t: t.nn.LSTM(3, 4)(t.zeros(2, 3), lstm_states(t, (1, 4), (1, 1, 4))),
        RuntimeError,
        "For unbatched 2-D input, hx and cx should also be 2-D but",
    ),
    Refusal(
        lambda t: t.nn.GRU(3, 4)(t.nn.utils.rnn.pack_padded_sequence(t.zeros(2, 2, 5), [2, 1])),
        RuntimeError,
        "input.size(-1) must be equal to input_size. Expected 3, got",
    ),
    Refusal(
        lambda t: t.nn.GRU(3, 4)(
            t.nn.utils.rnn.pack_padded_sequence(t.zeros(2, 2, 3), [2, 1]), t.zeros(1, 3, 4)
        ),
        RuntimeError,
        "Expected hidden size (1, 2, 4), got [1, 3, 4]",
    ),
    Refusal(
        lambda t: t.nn.LSTM(3, 4)(t.zeros(2, 2, 3).double()),
        ValueError,
        "RNN input dtype (torch.float64) does not match weight dtype",
    ),
    Refusal(lambda t: t.nn.LSTM(3, 0), ValueError, "hidden_size must be greater than zero"),
    Refusal(
        lambda t: t.nn.LSTM(3, 4.0), TypeError, "hidden_size should be of type int, got: float"
    ),
    Refusal(lambda t: t.nn.GRU(3, 4, 0), ValueError, "num_layers must be greater than zero"),
    Refusal(
        lambda t: t.nn.GRU(3, 4, dropout=True),
        ValueError,
        "dropout should be a number in range [0, 1] representing the",
    ),
    Refusal(
        lambda t: t.nn.GRU(3, 4, proj_size=2),
        ValueError,
        "proj_size argument is only supported for LSTM, not RNN or",
    ),
    Refusal(
        lambda t: t.nn.LSTM(3, 4, proj_size=4),
        ValueError,
        "proj_size has to be smaller than hidden_size",
    ),
    Refusal(
        lambda t: t.nn.LSTM(3, 4, proj_size=-1),
        ValueError,
        "proj_size should be a positive integer or zero to disable",
    ),
    Refusal(lambda t: t.nn.RNNBase("other", 3, 4), ValueError, "Unrecognized RNN mode: other"),
    Refusal(
        lambda t: t.nn.RNN(3, 4, nonlinearity="sin"),
        ValueError,
        "Unknown nonlinearity 'sin'. Select from 'tanh' or 'relu'.",
    ),
    Refusal(
        lambda t: t.nn.GRUCell(3, 4)(t.zeros(1, 1, 3)),
        ValueError,
        "GRUCell: Expected input to be 1D or 2D, got 3D instead",
    ),
    Refusal(
        lambda t: t.nn.GRUCell(3, 4)(t.zeros(2, 5)),
        RuntimeError,
        "input has inconsistent input_size: got 5 expected 3",
    ),
    Refusal(
        lambda t: t.nn.GRUCell(3, 4)(t.zeros(2, 3), t.zeros(1, 2, 4)),
        ValueError,
        "GRUCell: Expected hidden to be 1D or 2D, got 3D instead",
    ),
    Refusal(
        lambda t: t.nn.GRUCell(3, 4)(t.zeros(2, 3), t.zeros(3, 4)),
        RuntimeError,
        "Input batch size 2 doesn't match hidden0 batch size 3",
    ),
    Refusal(
        lambda t: t.nn.LSTMCell(3, 4)(t.zeros(2, 3), lstm_states(t, (2, 4), (2, 5))),
        RuntimeError,
        "hidden1 has inconsistent hidden_size: got 5, expected 4",
    ),
    Refusal(
        lambda t: t.nn.LSTMCell(3, 4)(t.zeros(2, 3), t.zeros(2, 4)),
        TypeError,
        "lstm_cell(): argument 'hx' (position 2) must be tuple of",
    ),
    Refusal(
        lambda t: t.nn.RNNCell(3, 4, nonlinearity="sin")(t.zeros(2, 3)),
        RuntimeError,
        "Unknown nonlinearity: sin",
    ),
]
