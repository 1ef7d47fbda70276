"""Recurrent layers over whole sequences."""

from __future__ import annotations

import math
import warnings
from typing import Any

from frontend.engine.tensors.dtypes import TORCH_NAMES
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.views import own
from frontend.functions.creation import empty, zeros
from frontend.functions.scatter import index_select
from frontend.functions.shape import stack
from frontend.nn import init
from frontend.nn.checks import fail, scalar_name
from frontend.nn.modules.elsewhere import elsewhere
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter
from frontend.nn.recurrent import (
    CHUNKS,
    Carry,
    Even,
    RowCounts,
    first_rows,
    run_layers,
    unstacked,
    weights_of,
)
from graphc.errors import DTypeError, ShapeError
from graphc.system import IMPORTING

__all__ = ["RNNBase", "RNN", "LSTM", "GRU"]
__getattr__ = elsewhere(__name__, "rnn_cells")


class RNNBase(Module):
    """Weights, checks and the loop of the recurrent layers.

    Of layer k there are `weight_ih_lk` [gates · hidden, input], `weight_hh_lk`
    [gates · hidden, output], the biases `bias_ih_lk` and `bias_hh_lk` [gates · hidden] and, with
    `proj_size`, `weight_hr_lk` [proj_size, hidden]; those of the backward direction end in
    `_reverse`. The input of layer 0 is the layer's own, that of the others the output of the one
    below, [directions · output] wide. All start from U(-1/√hidden, 1/√hidden).
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        _check_sizes(input_size, hidden_size, num_layers, dropout, proj_size, mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={num_layers}",
                stacklevel=3,
            )
        for depth, suffixes in enumerate(self._suffixes()):
            below = len(suffixes) * (proj_size or hidden_size) if depth else input_size
            for suffix in suffixes:
                self._add_weights(suffix, below, device, dtype)
        self.reset_parameters()

    def _suffixes(self) -> list[list[str]]:
        """What the names of each layer's parameters end in, a suffix per direction."""
        ways = ("", "_reverse") if self.bidirectional else ("",)
        return [[f"_l{depth}{way}" for way in ways] for depth in range(self.num_layers)]

    def _add_weights(self, suffix: str, below: int, device: Any, dtype: Any) -> None:
        rows, outputs = CHUNKS[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, below), "weight_hh": (rows, outputs)
        }  # fmt: skip
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            parameter = Parameter(empty(shape, device=device, dtype=dtype))
            self.register_parameter(name + suffix, parameter)

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: the weights need no one block of memory here."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters, a list per layer and direction."""
        return [
            [weight for weight in weights_of(self, suffix) if weight is not None]
            for suffixes in self._suffixes()
            for suffix in suffixes
        ]

    def extra_repr(self) -> str:
        shown = [str(self.input_size), str(self.hidden_size)]
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
            "bidirectional": False,
        }  # fmt: skip
        shown += [f"{n}={getattr(self, n)}" for n, v in defaults.items() if getattr(self, n) != v]
        return ", ".join(shown)

    # -- checks ------------------------------------------------------------------------------

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise where the input's dtype, dimensions or size do not fit."""
        if input.dtype is not self.weight_ih_l0.dtype and STATE.autocast is None:
            have, wanted = TORCH_NAMES[input.dtype], TORCH_NAMES[self.weight_ih_l0.dtype]
            raise ValueError(
                f"RNN input dtype ({have}) does not match weight dtype ({wanted}). Convert input: "
                f"input.to({wanted}), or convert model: model.to({have})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise fail(ShapeError, f"input must have {rank} dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise fail(
                ShapeError,
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}",
            )

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, ...],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:  # fmt: skip
        """Raise where the size of a state is another."""
        if tuple(hx.shape) != expected_hidden_size:
            raise fail(ShapeError, msg.format(expected_hidden_size, list(hx.shape)))

    def _check_states(self, states: Carry, x: Tensor, rows: int) -> None:
        directions = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [self.proj_size or self.hidden_size, self.hidden_size]
        for position, (state, size) in enumerate(zip(states, sizes)):
            what = f"hidden[{position}]" if len(states) > 1 else "hidden"
            message = "Expected " + what + " size {}, got {}"
            self.check_hidden_size(state, (directions, rows, size), message)
            if state.dtype is not x.dtype and STATE.autocast is None:
                raise fail(
                    DTypeError,
                    f"input and {what} must have the same dtype, but got {scalar_name(x)} and "
                    f"{scalar_name(state)}",
                )

    def _states(self, hx: Any) -> Carry | None:
        """`hx` as a tuple of states."""
        return None if hx is None else (hx,)

    # -- running -----------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> Any:
        if self.mode not in CHUNKS or type(self) is RNNBase:
            return super().forward(input, hx)
        if not isinstance(input, Tensor):
            return self._forward_packed(input, hx)
        name = type(self).__name__
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{name}: Expected input to be 2D or 3D, got {input.dim()}D tensor instead"
            )
        batched = input.dim() == 3
        states = self._states(hx)
        if states is not None:
            _check_ranks(states, batched)
        axis = 0 if self.batch_first else 1  # of the batch
        x = input if batched else input.unsqueeze(axis)
        self.check_input(x, None)
        x = x.transpose(0, 1) if self.batch_first else x
        if states is not None and not batched:
            states = tuple(state.unsqueeze(1) for state in states)
        length, rows = x.shape[:2]
        if not length:
            raise fail(ShapeError, "Expected sequence length to be larger than 0 in RNN")
        flat = x.reshape(length * rows, self.input_size)
        y, finals = self._run(flat, Even(length, rows), states)
        y = own(y.reshape(length, rows, y.shape[1]))
        y = y.transpose(0, 1) if self.batch_first else y
        if not batched:
            y, finals = y.squeeze(axis), tuple(state.squeeze(1) for state in finals)
        return y, finals if len(finals) > 1 else finals[0]

    def _forward_packed(self, packed: Any, hx: Any) -> Any:
        """Sequences of several lengths, sorted, their time steps behind each other."""
        with IMPORTING:
            from frontend.nn.utils.rnn import PackedSequence

        if not isinstance(packed, PackedSequence):
            raise TypeError(
                f"{type(self).__name__}: Expected input to be a Tensor or a PackedSequence, got "
                f"{type(packed).__name__}"
            )
        self.check_input(packed.data, packed.batch_sizes)
        states, order = self._states(hx), packed.sorted_indices
        if states is not None and order is not None:
            states = tuple(index_select(state, 1, order) for state in states)
        y, finals = self._run(packed.data, packed.sizes(), states)
        if packed.unsorted_indices is not None:
            finals = tuple(index_select(state, 1, packed.unsorted_indices) for state in finals)
        output = PackedSequence(y, packed.batch_sizes, order, packed.unsorted_indices)
        return output, finals if len(finals) > 1 else finals[0]

    def _run(self, x: Tensor, counts: RowCounts, states: Carry | None) -> tuple[Tensor, Carry]:
        """All layers over x [sum of counts, input]: the output, and the final states
        [layers · directions, rows, size]."""
        layers = [[weights_of(self, suffix) for suffix in each] for each in self._suffixes()]
        count = sum(map(len, layers))
        rows = first_rows(counts)
        if states is None:
            initial = [self._zeros(rows, x)] * count
        else:
            self._check_states(states, x, rows)
            initial = list(zip(*map(unstacked, states)))
        dropout = self.dropout if self.training else 0.0
        y, finals = run_layers(self.mode, layers, x, counts, initial, dropout)
        return y, tuple(stack(each) for each in zip(*finals))

    def _zeros(self, rows: int, x: Tensor) -> Carry:
        h = zeros(rows, self.proj_size or self.hidden_size, dtype=x.dtype)
        return (h, zeros(rows, self.hidden_size, dtype=x.dtype)) if self.mode == "LSTM" else (h,)


def _check_sizes(
    input_size: Any, hidden_size: Any, num_layers: int, dropout: Any, proj_size: int, mode: str
) -> None:
    number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
    if not number or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element "
            "being zeroed"
        )
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
    sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
    for name, size in sizes.items():
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if mode not in CHUNKS:
        raise ValueError(f"Unrecognized RNN mode: {mode}")
    if proj_size and mode != "LSTM":
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def _check_ranks(states: Carry, batched: bool) -> None:
    rank = 3 if batched else 2
    if all(state.dim() == rank for state in states):
        return
    kind = "batched 3-D" if batched else "unbatched 2-D"
    ranks = [f"{state.dim()}-D" for state in states]
    if len(states) == 1:
        shown = f"hx should also be {rank}-D but got {ranks[0]} tensor"
    else:
        shown = f"hx and cx should also be {rank}-D but got ({', '.join(ranks)}) tensors"
    raise fail(ShapeError, f"For {kind} input, {shown}")


class RNN(RNNBase):
    """Elman's network: h_t = tanh(x_t weight_ihᵀ + bias_ih + h weight_hhᵀ + bias_hh), or relu.

    Input [length, batch, input] ([batch, length, input] with `batch_first`, [length, input]
    without a batch) or a PackedSequence, and h_0 [layers · directions, batch, hidden] (zeros by
    default), give the last layer's states of all time steps [length, batch, directions · hidden]
    and the last states of all layers, as h_0. Raises ValueError, RuntimeError where sizes do not
    fit.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first,
            dropout, bidirectional, proj_size, device, dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory, its gates in the order input, forget, cell, output; the rest as
    `RNN`. The state is a pair (h, c); `proj_size` projects h, not c, to a smaller size."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            proj_size, device, dtype,
        )  # fmt: skip

    def _states(self, hx: Any) -> Carry | None:
        return None if hx is None else (hx[0], hx[1])


class GRU(RNNBase):
    """Gated recurrent units, their gates in the order reset, update, new; the rest as `RNN`."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            proj_size, device, dtype,
        )  # fmt: skip
