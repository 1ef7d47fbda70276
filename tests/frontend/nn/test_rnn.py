"""Recurrent layers and cells against their formulas in NumPy and float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.nn.utils import rnn
from graphc.errors import TraceError

Array = np.ndarray
Check = Callable[..., None]
State = tuple[Array, ...]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def step(kind: str, x: Array, state: State, w: Array, u: Array, b: Array, c: Array) -> State:
    """One step: gates from the input (w, b) and from the hidden state (u, c)."""
    left, right = x @ w.T + b, state[0] @ u.T + c
    if kind == "LSTM":
        i, f, g, o = np.split(left + right, 4, -1)
        cell = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(cell), cell
    if kind == "GRU":
        (r, z, n), (hr, hz, hn) = np.split(left, 3, -1), np.split(right, 3, -1)
        new, keep = np.tanh(n + sigmoid(r + hr) * hn), sigmoid(z + hz)
        return ((1 - keep) * new + keep * state[0],)
    return (np.maximum(left + right, 0) if kind == "relu" else np.tanh(left + right),)


def made(kind: str, cell: bool = False, **options: Any) -> Any:
    """A layer or cell with 3 inputs and 4 hidden units, in float64."""
    plain = kind in ("tanh", "relu")
    name = "RNN" if plain else kind
    options |= {"nonlinearity": kind} if plain else {}
    return getattr(nn, name + ("Cell" if cell else ""))(3, 4, **options).double()


def arrays(module: Any, suffix: str = "") -> list[Array]:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [getattr(module, name + suffix).detach().numpy() for name in names]


def run(kind: str, x: Array, state: State, weights: list[Array]) -> tuple[Array, State]:
    outputs = []
    for row in x:
        state = step(kind, row, state, *weights)
        outputs.append(state[0])
    return np.stack(outputs), state


KINDS = ("tanh", "relu", "LSTM", "GRU")
each_kind = pytest.mark.parametrize("kind", KINDS)


def tensors(kind: str, state: State) -> Any:
    given = tuple(map(torch.tensor, state))
    return given if kind == "LSTM" else given[0]


def states(kind: str, *shape: int) -> State:
    return tuple(normal(*shape, seed=i + 5) for i in range(2 if kind == "LSTM" else 1))


@each_kind
def test_a_layer_is_its_formula(kind: str, check: Check) -> None:
    layer, x, state = made(kind), normal(3, 2, 3), states(kind, 1, 2, 4)
    output, last = layer(torch.tensor(x), tensors(kind, state))
    expected, final = run(kind, x, tuple(s[0] for s in state), arrays(layer, "_l0"))
    check(output, expected)
    for found, want in zip(last if kind == "LSTM" else (last,), final):
        check(found, want[None])


@each_kind
def test_two_ways_are_joined(kind: str, check: Check) -> None:
    layer, x = made(kind, bidirectional=True), normal(3, 2, 3)
    output, last = layer(torch.tensor(x))
    zero = tuple(np.zeros((2, 4)) for _ in range(2))
    there, first = run(kind, x, zero, arrays(layer, "_l0"))
    back, second = run(kind, x[::-1], zero, arrays(layer, "_l0_reverse"))
    check(output, np.concatenate([there, back[::-1]], -1))
    h = last[0] if kind == "LSTM" else last
    check(h, np.stack([first[0], second[0]]))


@each_kind
def test_a_second_layer_reads_the_first(kind: str, check: Check) -> None:
    layer, x = made(kind, num_layers=2), normal(3, 2, 3)
    zero = tuple(np.zeros((2, 4)) for _ in range(2))
    below, _ = run(kind, x, zero, arrays(layer, "_l0"))
    expected, _ = run(kind, below, zero, arrays(layer, "_l1"))
    check(layer(torch.tensor(x))[0], expected)


@each_kind
def test_forms_of_the_input_agree(kind: str, check: Check) -> None:
    layer, first = made(kind), made(kind, batch_first=True)
    first.load_state_dict(layer.state_dict())
    x = torch.tensor(normal(3, 2, 3))
    expected, last = layer(x)
    output, state = first(x.transpose(0, 1))
    check(output.transpose(0, 1), expected.detach().numpy())
    single, alone = layer(x[:, 1])
    check(single, expected[:, 1].detach().numpy())
    pick = (lambda state: state[0]) if kind == "LSTM" else (lambda state: state)
    assert pick(state).shape == pick(last).shape == (1, 2, 4)
    check(pick(alone), pick(last)[:, 1].detach().numpy())


@each_kind
def test_gradients(kind: str, check_gradient: Check) -> None:
    layer = made(kind, num_layers=2, bidirectional=True)

    def call(x: Any, *state: Any) -> Any:
        output, last = layer(x, state if kind == "LSTM" else state[0])
        last = last if kind == "LSTM" else (last,)
        return torch.cat([output.reshape(-1), *(part.reshape(-1) for part in last)])

    check_gradient(call, normal(3, 2, 3), *states(kind, 4, 2, 4))


@each_kind
def test_gradients_of_weights(kind: str, check_gradient: Check) -> None:
    cell = made(kind, cell=True)
    x = torch.tensor(normal(2, 3))

    def call(*weights: Any) -> Any:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        for name, weight in zip(names, weights):
            cell._parameters[name] = weight
        return cell(x)[0] if kind == "LSTM" else cell(x)

    check_gradient(call, *arrays(cell))


@each_kind
def test_compiled_layers_agree(kind: str, check: Check) -> None:
    layer = made(kind, bidirectional=True)
    x, run = torch.tensor(normal(2, 2, 3)), torch.compile(layer)
    grads = []
    for call in (layer, run):
        layer.zero_grad()
        output, _ = call(x)
        (output * output).sum().backward()
        grads.append([output.detach(), *(p.grad for p in layer.parameters())])
    for eager, compiled in zip(*grads):
        check(compiled, eager.numpy(), 1e-10)


@each_kind
def test_packed_sequences_are_each_alone(kind: str, check: Check) -> None:
    layer, lengths = made(kind, num_layers=2, bidirectional=True), [1, 3, 2]
    x, state = torch.tensor(normal(3, 3, 3)), tensors(kind, states(kind, 4, 3, 4))
    packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    output, last = layer(packed, state)
    padded, _ = rnn.pad_packed_sequence(output)
    both = kind == "LSTM"
    for i, length in enumerate(lengths):
        own = tuple(h[:, i] for h in state) if both else state[:, i]
        expected, final = layer(x[:length, i], own)
        check(padded[:length, i], expected.detach().numpy())
        assert (padded[length:, i] == 0).all()
        for found, want in zip(last if both else (last,), final if both else (final,)):
            check(found[:, i], want.detach().numpy())


def test_packing_in_compiled_code() -> None:
    layer = nn.GRU(3, 4)

    def run(x: Any) -> Any:
        output, last = layer(rnn.pack_padded_sequence(x, [2, 1]))
        return rnn.pad_packed_sequence(output)[0].sum() + last.sum()

    x = torch.tensor(normal(2, 2, 3), dtype=torch.float32)
    assert torch.compile(run)(x).item() == pytest.approx(run(x).item(), rel=1e-5)
    with pytest.raises(TraceError, match="batch_sizes needs the value of a tensor"):
        torch.compile(layer)(rnn.pack_padded_sequence(x, [2, 1]))


@each_kind
@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=["vector", "batch"])
def test_a_cell_is_its_formula(kind: str, shape: tuple[int, ...], check: Check) -> None:
    cell, x, state = made(kind, cell=True), normal(*shape), states(kind, *shape[:-1], 4)
    weights = arrays(cell)
    for given, before in ((tensors(kind, state), state), (None, tuple(0 * s for s in state))):
        found = cell(torch.tensor(x), given)
        found = found if kind == "LSTM" else (found,)
        for one, want in zip(found, step(kind, x, before, *weights)):
            check(one, want)


def test_a_projection_is_of_the_output_only(check: Check) -> None:
    layer = nn.LSTM(3, 4, proj_size=2).double()
    weights, project = arrays(layer, "_l0"), layer.weight_hr_l0.detach().numpy()
    x, h, c = normal(3, 2, 3), np.zeros((2, 2)), np.zeros((2, 4))
    output, (last, cell) = layer(torch.tensor(x))
    for row in x:
        h, c = step("LSTM", row, (h, c), *weights)
        h = h @ project.T
    check(output[-1], h)
    check(last, h[None])
    check(cell, c[None])


def test_initial_values_are_within_their_bound() -> None:
    for module in (nn.LSTM(3, 16, 2, proj_size=2), nn.GRUCell(3, 16)):
        for weight in module.parameters():
            assert 0.1 < float(weight.abs().max()) <= 0.25


def test_dropout_lies_between_layers_and_in_training(check: Check) -> None:
    layer = nn.RNN(3, 4, 2, dropout=1.0)
    x = torch.tensor(normal(3, 2, 3), dtype=torch.float32)
    alone = nn.RNN(4, 4)
    alone.load_state_dict(
        {name.replace("_l1", "_l0"): value for name, value in layer.state_dict().items()
         if name.endswith("_l1")}
    )  # fmt: skip
    check(layer(x)[0], alone(torch.zeros(3, 2, 4))[0].detach().numpy(), 1e-6)
    layer.eval()
    assert (layer(x)[0] == layer(x)[0]).all()
    with pytest.warns(UserWarning, match="non-zero dropout expects num_layers greater than 1"):
        nn.GRU(3, 4, dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.GRU(3, 4, 2, dropout=0.5)


def test_what_the_layers_show() -> None:
    layer = nn.LSTM(3, 4, 2, bias=False, bidirectional=True, proj_size=2)
    assert [list(map(tuple, (w.shape for w in each))) for each in layer.all_weights] == [
        [(16, 3), (16, 2), (2, 4)], [(16, 3), (16, 2), (2, 4)],
        [(16, 4), (16, 2), (2, 4)], [(16, 4), (16, 2), (2, 4)],
    ]  # fmt: skip
    assert layer.flatten_parameters() is None
    assert repr(layer) == ("LSTM(3, 4, proj_size=2, num_layers=2, bias=False, bidirectional=True)")
    assert repr(nn.RNNCell(3, 4, nonlinearity="relu")) == "RNNCell(3, 4, nonlinearity=relu)"
    assert nn.RNN(3, 4, 1, "relu").mode == "RNN_RELU"
    with pytest.raises(NotImplementedError):
        nn.RNNBase("GRU", 3, 4)(torch.zeros(1, 1, 3))


def test_errors() -> None:
    with pytest.raises(RuntimeError, match=r"Expected 3, got 5[^$]*test_rnn"):
        nn.GRU(3, 4)(torch.zeros(2, 2, 5))
    with pytest.raises(RuntimeError, match=r"hidden\[1\] size \(1, 2, 4\), got \[1, 2, 5\]"):
        nn.LSTM(3, 4)(torch.zeros(2, 2, 3), (torch.zeros(1, 2, 4), torch.zeros(1, 2, 5)))
    with pytest.raises(RuntimeError, match="hx should also be 2-D but got 3-D tensor"):
        nn.GRU(3, 4)(torch.zeros(2, 3), torch.zeros(1, 1, 4))
    with pytest.raises(ValueError, match="2D or 3D, got 4D"):
        nn.GRU(3, 4)(torch.zeros(1, 2, 2, 3))
    with pytest.raises(ValueError, match=r"input dtype \(torch.float64\) does not match"):
        nn.GRU(3, 4)(torch.zeros(2, 2, 3).double())
    with pytest.raises(RuntimeError, match="hidden must have the same dtype, but got Float and D"):
        nn.GRU(3, 4)(torch.zeros(2, 2, 3), torch.zeros(1, 2, 4).double())
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        nn.GRU(3, 4)(torch.zeros(0, 2, 3))
    with pytest.raises(TypeError, match="a Tensor or a PackedSequence, got list"):
        nn.GRU(3, 4)([1.0])
    with pytest.raises(RuntimeError, match="to be 2D as the input is, got 1D"):
        nn.GRUCell(3, 4)(torch.zeros(2, 3), torch.zeros(4))
    with pytest.raises(TypeError, match="must be tuple of Tensors"):
        nn.LSTMCell(3, 4)(torch.zeros(2, 3), torch.zeros(2, 4))
    with pytest.raises(ValueError, match="proj_size has to be smaller"):
        nn.LSTM(3, 4, proj_size=5)
