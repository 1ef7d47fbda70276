"""Recurrent layers and cells: options, lengths of packed sequences, and the formulas.
`tests/frontend/nn` holds each to its formula in float64, `tests/frontend/peers` to PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray
State = tuple[Array, ...]
Options = dict[str, Any]

KINDS = ("tanh", "relu", "LSTM", "GRU")
OPTIONS: dict[str, Options] = {
    "plain": {},
    "no bias": {"bias": False},
    "two layers": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "batch first": {"batch_first": True},
    "all": {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False},
}
PROJECTED: dict[str, Options] = {
    "one way": {"num_layers": 2, "proj_size": 3},
    "two ways": {"num_layers": 2, "proj_size": 3, "bidirectional": True},
}
"""Options of an LSTM with 4 hidden units."""
LENGTHS: dict[str, list[int]] = {
    "falling": [3, 2, 2, 1], "mixed": [1, 3, 2, 2], "equal": [2, 2], "one": [2]
}  # fmt: skip


def make_layer(nn: Any, kind: str, *sizes: int, **options: Any) -> Any:
    """The layer, of either system's `nn`."""
    return _class(nn, kind, "")(*sizes, **_named(kind, options))


def make_cell(nn: Any, kind: str, *sizes: int, **options: Any) -> Any:
    return _class(nn, kind, "Cell")(*sizes, **_named(kind, options))


def _class(nn: Any, kind: str, suffix: str) -> Any:
    return getattr(nn, ("RNN" if kind in ("tanh", "relu") else kind) + suffix)


def _named(kind: str, options: Options) -> Options:
    return {**options, "nonlinearity": kind} if kind in ("tanh", "relu") else options


def states_in(options: Options) -> int:
    """How many layers and directions have a state."""
    return int(options.get("num_layers", 1)) * (1 + options.get("bidirectional", False))


# -- formulas -------------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def step(kind: str, x: Array, state: State, weights: dict[str, Array]) -> State:
    """One step: gates from the input and from the hidden state."""
    left = x @ weights["weight_ih"].T + weights.get("bias_ih", 0)
    right = state[0] @ weights["weight_hh"].T + weights.get("bias_hh", 0)
    if kind == "LSTM":
        i, f, g, o = np.split(left + right, 4, -1)
        cell = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        return (hidden @ weights["weight_hr"].T if "weight_hr" in weights else hidden), cell
    if kind == "GRU":
        (r, z, n), (hr, hz, hn) = np.split(left, 3, -1), np.split(right, 3, -1)
        new, keep = np.tanh(n + sigmoid(r + hr) * hn), sigmoid(z + hz)
        return ((1 - keep) * new + keep * state[0],)
    return (np.maximum(left + right, 0) if kind == "relu" else np.tanh(left + right),)


def weights_of(module: Any, suffix: str = "") -> dict[str, Array]:
    """Those of one layer and direction, by their names without the suffix."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    tensors = {name: getattr(module, name + suffix, None) for name in names}
    return {name: w.detach().numpy() for name, w in tensors.items() if w is not None}


def run(kind: str, x: Array, state: State, weights: dict[str, Array]) -> tuple[Array, State]:
    """All steps of one layer in one direction over [time, batch, size]."""
    outputs = []
    for row in x:
        state = step(kind, row, state, weights)
        outputs.append(state[0])
    return np.stack(outputs), state


def layer_of(kind: str, layer: Any, x: Array, state: State) -> tuple[Array, State]:
    """The outputs and last states of a whole layer; `state` is stacked by layer and direction."""
    x = np.swapaxes(x, 0, 1) if layer.batch_first else x
    ways = 2 if layer.bidirectional else 1
    last: list[State] = []
    for number in range(layer.num_layers):
        outputs = []
        for way in range(ways):
            weights = weights_of(layer, f"_l{number}" + "_reverse" * way)
            before = tuple(part[number * ways + way] for part in state)
            there, after = run(kind, x[::-1] if way else x, before, weights)
            outputs.append(there[::-1] if way else there)
            last.append(after)
        x = np.concatenate(outputs, -1)
    final = tuple(np.stack(parts) for parts in zip(*last))
    return (np.swapaxes(x, 0, 1) if layer.batch_first else x), final
