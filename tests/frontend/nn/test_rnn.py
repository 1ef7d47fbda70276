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
from graphc.autodiff import regions
from graphc.errors import TraceError
from tests.frontend.layer_cases.recurrent import (
    KINDS,
    LENGTHS,
    OPTIONS,
    PROJECTED,
    State,
    layer_of,
    make_cell,
    make_layer,
    states_in,
    step,
    weights_of,
)
from tests.frontend.layer_cases.refusals.recurrent import REFUSALS
from tests.frontend.layer_cases.refusals.refusal import Refusal

Array = np.ndarray
Check = Callable[..., None]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def layer_in_f64(kind: str, **options: Any) -> Any:
    """A layer with 3 inputs and 4 hidden units."""
    return make_layer(nn, kind, 3, 4, **options).double()


def cell_in_f64(kind: str, **options: Any) -> Any:
    return make_cell(nn, kind, 3, 4, **options).double()


each_kind = pytest.mark.parametrize("kind", KINDS)
each_start = pytest.mark.parametrize("start", ["zeros", "random"])


def tensors(kind: str, state: State) -> Any:
    parts = tuple(map(torch.tensor, state))
    return parts if kind == "LSTM" else parts[0]


def states(kind: str, *shape: int) -> State:
    return tuple(normal(*shape, seed=i + 5) for i in range(2 if kind == "LSTM" else 1))


@pytest.mark.sampled(20)
@each_start
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@each_kind
def test_a_layer_is_its_formula(
    kind: str, options: dict[str, Any], start: str, check: Check
) -> None:
    layer, x = layer_in_f64(kind, **options), normal(2, 2, 3)
    state = states(kind, states_in(options), 2, 4)
    if start == "zeros":
        state = tuple(0 * part for part in state)
    output, last = layer(torch.tensor(x), *([] if start == "zeros" else [tensors(kind, state)]))
    expected, final = layer_of(kind, layer, x, state)
    check(output, expected)
    for actual, part in zip(last if kind == "LSTM" else (last,), final):
        check(actual, part)


@each_start
@pytest.mark.parametrize("options", PROJECTED.values(), ids=PROJECTED)
def test_a_projection_is_of_the_output_only(
    options: dict[str, Any], start: str, check: Check
) -> None:
    layer, x, count = layer_in_f64("LSTM", **options), normal(3, 2, 3), states_in(options)
    state = (normal(count, 2, 3, seed=5), normal(count, 2, 4, seed=6))
    if start == "zeros":
        state = (0 * state[0], 0 * state[1])
    output, last = layer(torch.tensor(x), *([] if start == "zeros" else [tensors("LSTM", state)]))
    expected, final = layer_of("LSTM", layer, x, state)
    check(output, expected)
    for actual, part in zip(last, final):
        check(actual, part)


@each_kind
def test_forms_of_the_input_agree(kind: str, check: Check) -> None:
    layer, first = layer_in_f64(kind), layer_in_f64(kind, batch_first=True)
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


@pytest.mark.sampled(3)
@each_kind
def test_gradients(kind: str, check_gradient: Check) -> None:
    layer = layer_in_f64(kind, num_layers=2, bidirectional=True)

    def call(x: Any, *state: Any) -> Any:
        output, last = layer(x, state if kind == "LSTM" else state[0])
        last = last if kind == "LSTM" else (last,)
        return torch.cat([output.reshape(-1), *(part.reshape(-1) for part in last)])

    check_gradient(call, normal(3, 2, 3), *states(kind, 4, 2, 4))


@each_kind
def test_gradients_of_weights(kind: str, check_gradient: Check) -> None:
    cell = cell_in_f64(kind)
    x = torch.tensor(normal(2, 3))

    def call(*weights: Any) -> Any:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        for name, weight in zip(names, weights):
            cell._parameters[name] = weight
        return cell(x)[0] if kind == "LSTM" else cell(x)

    check_gradient(call, *weights_of(cell).values())


@pytest.mark.sampled(3)
@each_kind
def test_compiled_layers_agree(kind: str, check: Check) -> None:
    layer = layer_in_f64(kind, bidirectional=True)
    x, run = torch.tensor(normal(2, 2, 3)), torch.compile(layer)
    grads = []
    for call in (layer, run):
        layer.zero_grad()
        output, _ = call(x)
        (output * output).sum().backward()
        grads.append([output.detach(), *(p.grad for p in layer.parameters())])
    for eager, compiled in zip(*grads):
        check(compiled, eager.numpy(), 1e-10)


@pytest.mark.sampled(8)
@each_kind
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_packed_sequences_are_each_alone(kind: str, lengths: list[int], check: Check) -> None:
    layer, count = layer_in_f64(kind, num_layers=2, bidirectional=True), len(lengths)
    x = torch.tensor(normal(max(lengths), count, 3))
    state = tensors(kind, states(kind, 4, count, 4))
    packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    output, last = layer(packed, state)
    padded, _ = rnn.pad_packed_sequence(output)
    both = kind == "LSTM"
    for i, length in enumerate(lengths):
        own = tuple(h[:, i] for h in state) if both else state[:, i]
        expected, final = layer(x[:length, i], own)
        check(padded[:length, i], expected.detach().numpy())
        assert (padded[length:, i] == 0).all()
        for actual, part in zip(last if both else (last,), final if both else (final,)):
            check(actual[:, i], part.detach().numpy())


def test_packing_in_compiled_code() -> None:
    layer = nn.GRU(3, 4)

    def run(x: Any) -> Any:
        output, last = layer(rnn.pack_padded_sequence(x, [2, 1]))
        return rnn.pad_packed_sequence(output)[0].sum() + last.sum()

    x = torch.tensor(normal(2, 2, 3), dtype=torch.float32)
    assert torch.compile(run, fullgraph=True)(x).item() == pytest.approx(run(x).item(), rel=1e-5)
    with pytest.raises(TraceError, match="batch_sizes needs the value of a tensor"):
        torch.compile(layer, fullgraph=True)(rnn.pack_padded_sequence(x, [2, 1]))


@each_kind
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=["vector", "batch"])
def test_a_cell_is_its_formula(kind: str, shape: tuple[int, ...], bias: bool, check: Check) -> None:
    cell, x = cell_in_f64(kind, bias=bias), normal(*shape)
    state, weights = states(kind, *shape[:-1], 4), weights_of(cell)
    for hx, before in (((tensors(kind, state),), state), ((), tuple(0 * s for s in state))):
        results = cell(torch.tensor(x), *hx)
        for result, expected in zip(
            results if kind == "LSTM" else (results,), step(kind, x, before, weights)
        ):
            check(result, expected)


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
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.RNNBase("GRU", 3, 4)(torch.zeros(1, 1, 3))


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusals(case: Refusal) -> None:
    case.check(torch)


def test_refusals_of_our_own() -> None:
    with pytest.raises(RuntimeError, match=r"Expected 3, got 5[^$]*test_rnn"):
        nn.GRU(3, 4)(torch.zeros(2, 2, 5))
    with pytest.raises(ValueError, match="2D or 3D, got 4D"):
        nn.GRU(3, 4)(torch.zeros(1, 2, 2, 3))
    with pytest.raises(RuntimeError, match="hidden must have the same dtype, but got Float and D"):
        nn.GRU(3, 4)(torch.zeros(2, 2, 3), torch.zeros(1, 2, 4).double())
    with pytest.raises(TypeError, match="a Tensor or a PackedSequence, got list"):
        nn.GRU(3, 4)([1.0])
    with pytest.raises(RuntimeError, match="to be 2D as the input is, got 1D"):
        nn.GRUCell(3, 4)(torch.zeros(2, 3), torch.zeros(4))


def test_the_backward_of_a_step_is_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = nn.GRU(3, 4, batch_first=True), torch.ones(2, 5, 3)

    def trained() -> list[float]:
        layer.zero_grad()
        layer(x)[0].sum().backward()
        return [float(p.grad.sum()) for p in layer.parameters()]

    def derived(*arguments: object) -> None:
        raise AssertionError("derived again")

    first = trained()
    monkeypatch.setattr(regions, "_ScanBackward", derived)
    assert trained() == first
