"""Recurrent networks as loops over time: what the layers and the cells of `nn` share.

A step is a function `step(carry, x_t) -> (carry, y_t)`. `carry` is (h,), or (h, c) for the LSTM;
`x_t` [rows, gates] is the input's part of the gates, made for all time steps by one product before
the loop, with the biases that can go along. So the loop holds only what depends on the step before.

Time steps lie behind each other in one matrix; `counts` says how many rows each has. With a padded
batch all are equal, `Even`; with a packed one they never grow, since the sequences are sorted by
length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from frontend.engine.eager.autocasting import lower_precision
from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.bounded import Bounded
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.pointwise import sigmoid, tanh
from frontend.functions.shape import cat, narrow
from frontend.nn import functional as F
from frontend.nn.parameter import Parameter
from graphc.ir.nodes import Graph
from graphc.ir.types import DType, TensorType
from graphc.ops.control import scan as scan_op
from graphc.ops.nn.recurrent import gru_cell, lstm_cell
from graphc.ops.parts import split
from graphc.system import import_module

Carry = tuple[Tensor, ...]
Step = Callable[[Carry, Tensor], tuple[Carry, Tensor]]
Fixed = tuple[Tensor | None, ...]

CHUNKS = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
"""How many gates, each as wide as the hidden state, a mode has."""


class Even(NamedTuple):
    """The time steps of a padded batch: how many, and of how many rows. Both may be open."""

    length: int
    rows: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many rows each has."""
        return (self.rows,) * self.length


RowCounts = tuple[int, ...] | Even
"""How many rows the time steps have."""


def first_rows(counts: RowCounts) -> int:
    """How many rows the first time step has."""
    return counts.rows if isinstance(counts, Even) else counts[0]


class Weights(NamedTuple):
    """The weights of one layer in one direction: gates from the input, gates from the hidden
    state, their biases, and the LSTM's projection of its output."""

    input: Tensor
    hidden: Tensor
    input_bias: Tensor | None = None
    hidden_bias: Tensor | None = None
    projection: Tensor | None = None


def parts(x: Tensor, sizes: Sequence[int], axis: int) -> tuple[Tensor, ...]:
    """Parts of these sizes along an axis. Their gradients are joined once, not added up."""
    return CONTEXT.apply(split, (x,), {"sizes": tuple(sizes), "axis": axis})


def chunks(x: Tensor, count: int) -> tuple[Tensor, ...]:
    """[rows, count · n] as `count` matrices [rows, n]."""
    return parts(x, (x.shape[1] // count,) * count, 1)


def unstacked(state: Tensor) -> list[Tensor]:
    """[n, rows, size] as n matrices."""
    return [part.squeeze(0) for part in parts(state, (1,) * state.shape[0], 0)]


# -- steps ---------------------------------------------------------------------------------------


def gates_of(mode: str, weights: Weights, x: Tensor) -> Tensor:
    """The input's part of the gates: [rows, input] to [rows, gates · hidden]."""
    bias = weights.input_bias
    # The GRU's reset gate scales what the hidden state gives, its bias included: that one stays.
    if bias is not None and weights.hidden_bias is not None and mode != "GRU":
        bias = bias + weights.hidden_bias
    return F.linear(x, weights.input, bias)


def fixed_of(mode: str, weights: Weights) -> Fixed:
    """What a step takes of weights, made once for all steps."""
    recurrent = weights.hidden.t()
    if mode == "LSTM":
        projection = weights.projection
        return recurrent, None if projection is None else projection.t()
    return (recurrent, weights.hidden_bias) if mode == "GRU" else (recurrent,)


def step_of(mode: str, fixed: Fixed) -> Step:
    """One time step. h' = tanh or relu of the gates; of the LSTM (Hochreiter, Schmidhuber, 1997)
    c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c'), projected where there are weights for that; of
    the GRU (Cho et al., 2014) h' = n + σ(z) (h - n), n = tanh(n_x + σ(r) n_h)."""
    recurrent: Any = fixed[0]
    if mode == "LSTM":
        return _lstm_step(recurrent, fixed[1])
    if mode == "GRU":
        return _gru_step(recurrent, fixed[1])
    activation = tanh if mode == "RNN_TANH" else F.relu

    def step(carry: Carry, x_t: Tensor) -> tuple[Carry, Tensor]:
        h = activation(x_t + carry[0] @ recurrent)
        return (h,), h

    return step


def _lstm_step(recurrent: Tensor, projected: Tensor | None) -> Step:
    def step(carry: Carry, x_t: Tensor) -> tuple[Carry, Tensor]:
        h, c = carry
        i, f, g, o = chunks(x_t + h @ recurrent, 4)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        h = h if projected is None else h @ projected
        return (h, c), h

    return step


def _gru_step(recurrent: Tensor, bias: Tensor | None) -> Step:
    def step(carry: Carry, x_t: Tensor) -> tuple[Carry, Tensor]:
        h = carry[0]
        hidden = h @ recurrent
        hidden = hidden if bias is None else hidden + casted(bias, hidden.dtype)
        r, z, n = chunks(x_t, 3)
        hidden_r, hidden_z, hidden_n = chunks(hidden, 3)
        new = tanh(n + sigmoid(r + hidden_r) * hidden_n)
        h = new + sigmoid(z + hidden_z) * (h - new)
        return (h,), h

    return step


_CELLS = {"LSTM": lstm_cell, "GRU": gru_cell}
_FIT: Bounded[Any, bool] = Bounded(1024)
"""By mode and types, whether the op of a cell takes operands."""


def is_one_op(mode: str, weights: Weights, states: Carry, x: Tensor) -> bool:
    """Whether one op computes a step: of matrices of one dtype whose sizes fit."""
    if mode not in _CELLS or weights.projection is not None or STATE.autocast is not None:
        return False
    types = tuple([operand.tensor_type for operand in _operands(weights, states, x)])
    fit = _FIT.get((mode, types))
    if fit is None:
        fit = _FIT[mode, types] = _fits(mode, weights, types)
    return fit


def _operands(weights: Weights, states: Carry, x: Tensor) -> tuple[Tensor, ...]:
    both = (weights.input_bias, weights.hidden_bias)
    biases = [bias for bias in both if bias is not None]
    return (x, *states, weights.input, weights.hidden, *biases)


def _fits(mode: str, weights: Weights, types: tuple[TensorType, ...]) -> bool:
    biased = weights.input_bias is not None
    if biased is not (weights.hidden_bias is not None) or any(type.is_symbolic for type in types):
        return False
    x, *states, w_ih, w_hh = types[:-2] if biased else types
    if len({type.dtype for type in types}) > 1 or x.dtype not in (DType.f32, DType.f64):
        return False
    if any(len(type.shape) != 2 for type in (x, *states, w_ih, w_hh)):
        return False
    rows, hidden = x.shape[0], w_hh.shape[1]
    wide = CHUNKS[mode] * hidden
    wanted = [(rows, hidden)] * len(states) + [(wide, x.shape[1]), (wide, hidden)]
    fits = [type.shape for type in (*states, w_ih, w_hh)] == wanted
    return fits and all(type.shape == (wide,) for type in types[len(states) + 3 :])


def cell_step(mode: str, weights: Weights, states: Carry, x: Tensor) -> Carry:
    """The states after one time step of input x [rows, input]."""
    if is_one_op(mode, weights, states, x):
        results: Carry = CONTEXT.apply(_CELLS[mode], _operands(weights, states, x), {})
        return results[: len(states)]
    step = step_of(mode, fixed_of(mode, weights))
    return step(states, gates_of(mode, weights, x))[0]


# -- loops ---------------------------------------------------------------------------------------


def scan(
    step: Step, carry: Carry, xs: Sequence[Tensor], reverse: bool
) -> tuple[Carry, list[Tensor]]:
    """`step` over time steps whose numbers of rows never grow. `carry` has as many rows as the
    first. The last state of each row, and the outputs in the order of `xs`."""
    if reverse:
        return _scan_back(step, carry, xs)
    outputs, ended = [], []
    for x_t in xs:
        rows, before = x_t.shape[0], carry[0].shape[0]
        if rows < before:  # these sequences are over: their states are final
            ended.append(tuple(narrow(state, 0, rows, before - rows) for state in carry))
            carry = tuple(narrow(state, 0, 0, rows) for state in carry)
        carry, y = step(carry, x_t)
        outputs.append(y)
    if ended:
        carry = tuple(map(cat, zip(carry, *reversed(ended))))
    return carry, outputs


def _scan_back(step: Step, initial: Carry, xs: Sequence[Tensor]) -> tuple[Carry, list[Tensor]]:
    outputs = []
    rows = xs[-1].shape[0]
    carry = tuple(narrow(state, 0, 0, rows) for state in initial)
    for x_t in reversed(xs):
        before, rows = rows, x_t.shape[0]
        if rows > before:  # shorter sequences set in: at their last element
            entering = (narrow(state, 0, before, rows - before) for state in initial)
            carry = tuple(map(cat, zip(carry, entering)))
        carry, y = step(carry, x_t)
        outputs.append(y)
    return carry, outputs[::-1]


def _over_time(
    mode: str, fixed: Fixed, carry: Carry, gates: Tensor, counts: RowCounts, reverse: bool
) -> tuple[Carry, Tensor]:
    """A step over the rows of each time step; the last states, and the outputs row by row."""
    if not isinstance(counts, Even) and all(count == counts[0] for count in counts):
        counts = Even(len(counts), counts[0])
    traced, native = STATE.mode is not None, STATE.backend == "native"
    if not isinstance(counts, Even) or not (traced or native):
        sizes = counts.sizes if isinstance(counts, Even) else counts
        final, ys = scan(step_of(mode, fixed), carry, parts(gates, sizes, 0), reverse)
        return final, cat(ys)
    # In a trace one loop of the graph, where all steps are alike; and so on native kernels: eager
    # gradients are the bits of compiled ones, whose weights' gradients are sums over all steps.
    length, rows = counts
    xs = gates.reshape(length, rows, gates.shape[1])
    if traced:
        control = import_module("frontend.functions.control")  # it traces, not needed at import
        final, y = control.scan(step_of(mode, fixed), carry, xs, reverse=reverse)
    else:
        final, y = _loop_op(mode, fixed, carry, xs, reverse)
    return final, y.reshape(length * rows, y.shape[2])


_BODIES: Bounded[Any, tuple[Graph, tuple[int, ...]]] = Bounded(256)
"""By mode and types, the graph of a step, and which of the fixed tensors it takes."""


def _loop_op(
    mode: str, fixed: Fixed, carry: Carry, xs: Tensor, reverse: bool
) -> tuple[Carry, Tensor]:
    """`control.scan` as the one op it is in a trace, on tensors as they are."""
    tensors = (*fixed, *carry, xs)
    types = [None if x is None else x.tensor_type for x in tensors]
    key = (mode, STATE.autocast, *types)
    plain = all(x is None or type(x) in _PLAIN for x in tensors)
    known = _BODIES.get(key) if plain else None
    around: Sequence[Tensor | None]
    if known is not None:
        body, taken = known
        around = [fixed[i] for i in taken]
    else:
        control = import_module("frontend.functions.control")
        body, around = control.step_graph(step_of(mode, fixed), carry, xs)
        numbers = {id(x): i for i, x in enumerate(fixed)}
        if plain and all(id(x) in numbers for x in around):
            _BODIES[key] = body, tuple([numbers[id(x)] for x in around])
    attributes = {
        "carry": len(carry), "sequences": 1, "length": xs.shape[0], "reverse": reverse,
        "body": body,
    }  # fmt: skip
    *final, ys = CONTEXT.apply(scan_op, (*carry, xs, *around), attributes)
    return tuple(final), ys


_PLAIN = (Tensor, Parameter)
"""Classes whose functions are the frontend's own."""


def run_layers(
    mode: str,
    layers: Sequence[Sequence[Weights]],
    x: Tensor,
    counts: RowCounts,
    initial: Sequence[Carry],
    dropout: float,
) -> tuple[Tensor, list[Carry]]:
    """Layers over x [sum of counts, input], each in one direction or in two whose outputs are
    joined; `dropout` between layers. `initial` and the final states go layer by layer, forward
    before backward. The last layer's output is [sum of counts, directions · output].

    Under autocast all but a GRU compute in the region's dtype; a GRU's state has the input's."""
    run = _run_layers if mode == "GRU" else _run_layers_short
    return run(mode, layers, x, counts, initial, dropout)


def _run_layers(
    mode: str,
    layers: Sequence[Sequence[Weights]],
    x: Tensor,
    counts: RowCounts,
    initial: Sequence[Carry],
    dropout: float,
) -> tuple[Tensor, list[Carry]]:
    finals: list[Carry] = []
    for depth, directions in enumerate(layers):
        x = F.dropout(x, dropout) if depth else x
        outputs = []
        for reverse, weights in enumerate(directions):
            gates = gates_of(mode, weights, x)
            fixed, carry = fixed_of(mode, weights), initial[len(finals)]
            final, ys = _over_time(mode, fixed, carry, gates, counts, bool(reverse))
            finals.append(final)
            outputs.append(ys)
        x = outputs[0] if len(outputs) == 1 else cat(outputs, 1)
    return x, finals


_run_layers_short = lower_precision(_run_layers)


def weights_of(module: Any, suffix: str = "") -> Weights:
    """The parameters of a layer whose names end in `suffix`; those it does not have are None."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    return Weights(*[getattr(module, name + suffix, None) for name in names])  # type: ignore[arg-type]
