"""Recurrent cells: one time step of the recurrent layers."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty, zeros
from frontend.nn import init
from frontend.nn.checks import fail
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter
from frontend.nn.recurrent import Carry, cell_step, weights_of
from graphc.errors import ShapeError

__all__ = ["RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]


class RNNCellBase(Module):
    """Weights and checks of the cells. `weight_ih` [chunks · hidden, input], `weight_hh`
    [chunks · hidden, hidden] and the biases `bias_ih`, `bias_hh` [chunks · hidden] start from
    U(-1/√hidden, 1/√hidden)."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size

        def parameter(*shape: int) -> Parameter:
            return Parameter(empty(shape, device=device, dtype=dtype))

        self.weight_ih = parameter(rows, input_size)
        self.weight_hh = parameter(rows, hidden_size)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, parameter(rows) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += "" if self.bias else f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _step(self, mode: str, input: Tensor, states: tuple[Tensor, ...] | None) -> Carry:
        """The states after one step, for a batch [rows, input] or one vector [input]."""
        self._ranked("input", input)
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if x.shape[1] != self.input_size:
            raise fail(
                ShapeError,
                f"input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}",
            )
        count = 2 if mode == "LSTM" else 1
        if states is None:
            zero = zeros(x.shape[0], self.hidden_size, dtype=x.dtype)
            carry: Carry = (zero,) * count
        else:
            carry = tuple(self._checked(i, x, h, batched, count) for i, h in enumerate(states))
        weights = weights_of(self)
        carry = cell_step(mode, weights, carry, x)
        return carry if batched else tuple(state.squeeze(0) for state in carry)

    def _ranked(self, what: str, x: Tensor) -> None:
        if x.dim() not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {x.dim()}D instead"
            )

    def _checked(
        self, position: int, x: Tensor, state: Tensor, batched: bool, count: int
    ) -> Tensor:
        """A state as [rows, hidden]. Raises where it does not fit the rows x."""
        what = f"hx[{position}]" if count == 2 else "hidden"
        self._ranked(what, state)
        if (state.dim() == 2) is not batched:
            rank = 2 if batched else 1
            raise fail(
                ShapeError,
                f"{type(self).__name__}: Expected {what} to be {rank}D as the input is, got "
                f"{state.dim()}D instead",
            )
        h = state if batched else state.unsqueeze(0)
        if h.shape[0] != x.shape[0]:
            raise fail(
                ShapeError,
                f"Input batch size {x.shape[0]} doesn't match hidden{position} batch size "
                f"{h.shape[0]}",
            )
        if h.shape[1] != self.hidden_size:
            raise fail(
                ShapeError,
                f"hidden{position} has inconsistent hidden_size: got {h.shape[1]}, expected "
                f"{self.hidden_size}",
            )
        return h


class RNNCell(RNNCellBase):
    """h' = tanh(x weight_ihᵀ + bias_ih + h weight_hhᵀ + bias_hh), or relu of it: input
    [rows, input_size] or [input_size], `hx` alike (zeros by default)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        states = None if hx is None else (hx,)
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, states)[0]


class LSTMCell(RNNCellBase):
    """One step of the LSTM: `(h', c')` from the input and `hx = (h, c)` (zeros by default). The
    gates stand in the weights in the order input, forget, cell, output."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        if hx is not None and (isinstance(hx, Tensor) or len(hx) != 2):
            raise TypeError("lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors: "
                            f"(h, c), not {type(hx).__name__}")  # fmt: skip
        h, c = self._step("LSTM", input, hx)
        return h, c


class GRUCell(RNNCellBase):
    """One step of the GRU: h' from the input and `hx` (zeros by default). The gates stand in the
    weights in the order reset, update, new."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("GRU", input, None if hx is None else (hx,))[0]
