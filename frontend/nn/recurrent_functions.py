"""Recurrent layers and cells as functions of their weights: `torch.lstm`, `torch.gru_cell`, …

Weights of a layer in one direction are w_ih [gates · hidden, input], w_hh [gates · hidden, output],
the biases b_ih and b_hh [gates · hidden] where there are biases and, of an LSTM with projections,
w_hr [output, hidden]; `params` has those of all layers, forward before backward, behind each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.views import own
from frontend.functions.declarations import public
from frontend.functions.shape import stack
from frontend.nn.checks import fail
from frontend.nn.recurrent import (
    Carry,
    Even,
    RowCounts,
    Weights,
    cell_step,
    first_rows,
    run_layers,
    unstacked,
)
from frontend.nn.utils.rnn import known_array
from graphc.errors import ShapeError

# -- layers --------------------------------------------------------------------------------------

_PADDED = (
    "input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
    "batch_first",
)  # fmt: skip
_PACKED = ("data", "batch_sizes", *_PADDED[1:-1])


def _layers(name: str, mode: str) -> Callable[..., tuple[Tensor, ...]]:
    def function(*arguments: Any, **keywords: Any) -> tuple[Tensor, ...]:
        packed = "data" in keywords or "batch_sizes" in keywords
        packed |= len(arguments) > 3 and not isinstance(arguments[3], bool)
        names = _PACKED if packed else _PADDED
        named = dict(zip(names, arguments)) | keywords
        if named.keys() != set(names) or len(named) != len(arguments) + len(keywords):
            raise TypeError(f"{name}() takes the arguments {', '.join(names)}")
        if packed:
            sizes = tuple(known_array(named["batch_sizes"], f"{name}()'s batch_sizes").tolist())
            return _run(name, mode, named["data"], sizes, named)
        x = named["input"]
        if x.dim() != 3:
            raise fail(ShapeError, f"{name}(): input must have 3 dimensions, got {x.dim()}")
        x = x.transpose(0, 1) if named["batch_first"] else x
        length, rows, features = x.shape
        if not length:
            raise fail(ShapeError, "Expected sequence length to be larger than 0 in RNN")
        y, *finals = _run(name, mode, x.reshape(length * rows, features), Even(length, rows), named)
        y = own(y.reshape(length, rows, y.shape[1]))
        return (y.transpose(0, 1) if named["batch_first"] else y, *finals)

    states = "the states (h, c)" if mode == "LSTM" else "the state h"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The outputs of all time steps, and {states} after the last: of
    `nn.{name.partition("_")[0].upper()}`, as a function of its weights. Takes (input
    [length, batch, features] ([batch, length, features] with batch_first), hx, params, has_biases,
    num_layers, dropout, train, bidirectional, batch_first), or a packed sequence's (data,
    batch_sizes, hx, params, …) without batch_first; hx is [layers · directions, batch, hidden],
    of an LSTM a pair of such. Raises RuntimeError where sizes do not fit."""
    return function


def _run(
    name: str, mode: str, x: Tensor, counts: RowCounts, named: dict[str, Any]
) -> tuple[Tensor, ...]:
    """All layers over x [sum of counts, features]: the output, and the final states."""
    directions = 2 if named["bidirectional"] else 1
    count = named["num_layers"] * directions
    rows = first_rows(counts)
    states = tuple(named["hx"]) if mode == "LSTM" else (named["hx"],)
    for state in states:
        if state.dim() != 3 or tuple(state.shape[:2]) != (count, rows):
            raise fail(
                ShapeError,
                f"{name}(): Expected hidden size ({count}, {rows}, hidden), got "
                f"{tuple(state.shape)}",
            )
    weights = _weights(name, named["params"], count, named["has_biases"])
    layers = [weights[i : i + directions] for i in range(0, count, directions)]
    initial = list(zip(*map(unstacked, states)))
    dropout = named["dropout"] if named["train"] else 0.0
    y, finals = run_layers(mode, layers, x, counts, initial, dropout)
    return (y, *(stack(each) for each in zip(*finals)))


def _weights(name: str, params: Sequence[Tensor], count: int, biases: bool) -> list[Weights]:
    plain = 4 if biases else 2
    each = len(params) // count if count else 0
    if each * count != len(params) or each not in (
        (plain, plain + 1) if name == "lstm" else (plain,)
    ):
        raise fail(
            ShapeError,
            f"{name}(): {len(params)} weights for {count} layers and directions, not {plain} each",
        )
    result = []
    for start in range(0, len(params), each):
        own = params[start : start + each]
        projection = own[plain] if each > plain else None
        b_ih, b_hh = own[2:4] if biases else (None, None)
        result.append(Weights(own[0], own[1], b_ih, b_hh, projection))
    return result


lstm = public()(_layers("lstm", "LSTM"))
gru = public()(_layers("gru", "GRU"))
rnn_tanh = public()(_layers("rnn_tanh", "RNN_TANH"))
rnn_relu = public()(_layers("rnn_relu", "RNN_RELU"))

# -- cells ---------------------------------------------------------------------------------------


def _step(
    mode: str, input: Tensor, states: Carry, w_ih: Tensor, w_hh: Tensor,
    b_ih: Tensor | None, b_hh: Tensor | None,
) -> Carry:  # fmt: skip
    if mode != "GRU" and b_ih is None:
        b_ih, b_hh = b_hh, None
    weights = Weights(w_ih, w_hh, b_ih, b_hh)
    return cell_step(mode, weights, states, input)


@public()
def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor,
    b_ih: Tensor | None = None, b_hh: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The states (h, c) after one step of `nn.LSTMCell`, of input [rows, features] and the states
    hx = (h, c), each [rows, hidden]. Raises RuntimeError where sizes do not fit."""
    if len(hx) != 2:
        raise fail(ShapeError, f"lstm_cell expects two hidden states, not {len(hx)}")
    return _step("LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)


def _cell(name: str, mode: str, module: str) -> Callable[..., Tensor]:
    def function(
        input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor,
        b_ih: Tensor | None = None, b_hh: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        return _step(mode, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The state [rows, hidden] after one step of `nn.{module}`, of input
    [rows, features] and the state hx. Raises RuntimeError where sizes do not fit."""
    return function


gru_cell = public()(_cell("gru_cell", "GRU", "GRUCell"))
rnn_tanh_cell = public()(_cell("rnn_tanh_cell", "RNN_TANH", "RNNCell"))
rnn_relu_cell = public()(_cell("rnn_relu_cell", "RNN_RELU", "RNNCell"))
