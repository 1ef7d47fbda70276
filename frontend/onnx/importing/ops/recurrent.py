"""RNN, GRU and LSTM: one step, and a loop over time (`scan`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.onnx.importing.declarations import onnx_op
from frontend.onnx.importing.errors import OnnxError, OnnxNotHere

_ACTIVATIONS: dict[str, Callable[[Tensor, float, float], Any]] = {
    "relu": lambda x, a, b: F.relu(x),
    "tanh": lambda x, a, b: x.tanh(),
    "sigmoid": lambda x, a, b: x.sigmoid(),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, b: F.leaky_relu(x, a),
    "thresholdedrelu": lambda x, a, b: torch.where(x > a, x, 0),
    "scaledtanh": lambda x, a, b: a * (b * x).tanh(),
    "hardsigmoid": lambda x, a, b: (a * x + b).clamp(0, 1),
    "elu": lambda x, a, b: F.elu(x, a),
    "softsign": lambda x, a, b: F.softsign(x),
    "softplus": lambda x, a, b: F.softplus(x),
}
_OPTIONS = {
    "leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0), "affine": (1.0, 0.0), "scaledtanh": (1.0, 1.0),
}  # fmt: skip
Step = Callable[..., tuple[Tensor, ...]]


def _activations(
    names: Any, alphas: Any, betas: Any, default: list[str], directions: int
) -> list[list[Callable[..., Any]]]:
    """The functions of each direction."""
    names = names or default * directions
    if len(names) != len(default) * directions:
        raise OnnxError(f"{len(names)} activations, not {len(default) * directions}")
    alphas, betas = list(alphas or ()), list(betas or ())
    functions: list[Callable[..., Any]] = []
    for name in names:
        key = name.lower()
        if key not in _ACTIVATIONS:
            raise OnnxNotHere(f"activation {name}")
        alpha, beta = _OPTIONS.get(key, (0.0, 0.0))
        if key in _OPTIONS and alphas:
            alpha = alphas.pop(0)
        if key in ("affine", "scaledtanh", "hardsigmoid") and betas:
            beta = betas.pop(0)
        functions.append(lambda x, f=_ACTIVATIONS[key], a=alpha, b=beta: f(x, a, b))
    count = len(default)
    return [functions[i * count : (i + 1) * count] for i in range(directions)]


class _Layer:
    """The operands of a recurrent layer, in ONNX's order, with sequences first."""

    def __init__(
        self, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, lengths: Tensor | None,
        states: list[Tensor | None], hidden_size: int | None, direction: str, layout: int,
        clip: float | None, gates: int,
    ):  # fmt: skip
        self.layout, self.w, self.r, self.b, self.lengths = layout, w, r, b, lengths
        self.x = x.transpose(0, 1) if layout else x
        self.size = r.shape[-1]
        if hidden_size is not None and hidden_size != self.size:
            raise OnnxError(f"hidden_size is {hidden_size}, the weight's {self.size}")
        self.directions = w.shape[0]
        if direction not in ("forward", "reverse", "bidirectional"):
            raise OnnxError(f"direction {direction!r}")
        if (direction == "bidirectional") != (self.directions == 2):
            raise OnnxError(f"{self.directions} directions of weights, direction {direction!r}")
        self.backward = [direction == "reverse", True][: self.directions]
        self.clip = clip
        self.gates = gates
        batch = self.x.shape[1]
        self.states = [
            torch.zeros(self.directions, batch, self.size, dtype=x.dtype)
            if state is None
            else state.transpose(0, 1)
            if layout
            else state
            for state in states
        ]

    def clipped(self, x: Tensor) -> Tensor:
        return x if self.clip is None else x.clamp(-self.clip, self.clip)

    def biases(self, k: int) -> tuple[Tensor | None, Tensor | None]:
        """Of the inputs and of the states, of direction `k`."""
        if self.b is None:
            return None, None
        width = self.gates * self.size
        return self.b[k][:width], self.b[k][width:]

    def run(self, step: Callable[[int], Step]) -> list[Tensor]:
        """Y and the last states, of a step for each direction."""
        outputs, last = [], []
        for k in range(self.directions):
            one = step(k)
            bias, _ = self.biases(k)
            entered = F.linear(self.x, self.w[k], bias)
            begin = tuple([state[k] for state in self.states])
            times = torch.arange(self.x.shape[0])
            live = None if self.lengths is None else self.lengths.reshape(1, -1, 1)
            mask = times.reshape(-1, 1, 1) < (self.x.shape[0] if live is None else live)

            def kept(
                carry: Any, slices: Any, one: Step = one, masked: bool = live is not None
            ) -> Any:
                after = one(slices[0], *carry)
                if not masked:
                    return after, after[0]
                inside = slices[1]
                held = tuple([torch.where(inside, new, old) for new, old in zip(after, carry)])
                return held, torch.where(inside, after[0], 0)

            slices = (entered, mask) if live is not None else (entered,)
            end, ys = torch.scan(kept, begin, slices, reverse=self.backward[k])
            outputs.append(ys)
            last.append(end)
        y = torch.stack(outputs, 1)
        ends = [torch.stack([each[i] for each in last]) for i in range(len(self.states))]
        if self.layout:
            return [y.permute(2, 0, 1, 3), *(end.transpose(0, 1) for end in ends)]
        return [y, *ends]


@onnx_op("RNN")
def rnn(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: Any = None, activation_beta: Any = None,
    activations: Any = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, output_sequence: int = 0,
) -> Any:  # fmt: skip
    layer = _Layer(x, w, r, b, lengths, [initial_h], hidden_size, direction, layout, clip, 1)
    functions = _activations(activations, activation_alpha, activation_beta, ["Tanh"], w.shape[0])

    def step(k: int) -> Step:
        (f,), (_, bias) = functions[k], layer.biases(k)
        return lambda e, h: (f(layer.clipped(e + F.linear(h, r[k], bias))),)

    return layer.run(step)


@onnx_op("LSTM")
def lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, initial_c: Tensor | None = None, p: Tensor | None = None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    input_forget: int = 0, layout: int = 0, output_sequence: int = 0,
) -> Any:  # fmt: skip
    states = [initial_h, initial_c]
    layer = _Layer(x, w, r, b, lengths, states, hidden_size, direction, layout, clip, 4)
    default = ["Sigmoid", "Tanh", "Tanh"]
    functions = _activations(activations, activation_alpha, activation_beta, default, w.shape[0])

    def step(k: int) -> Step:
        (f, g, h), (_, bias) = functions[k], layer.biases(k)
        peeps = None if p is None else p[k].split(layer.size)

        def one(entered: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
            gates = (entered + F.linear(hidden, r[k], bias)).split(layer.size, 1)
            i, o, forget, c = gates
            if peeps is not None:
                i, forget = i + peeps[0] * cell, forget + peeps[2] * cell
            i = f(layer.clipped(i))
            forget = 1 - i if input_forget else f(layer.clipped(forget))
            after = forget * cell + i * g(layer.clipped(c))
            if peeps is not None:
                o = o + peeps[1] * after
            return f(layer.clipped(o)) * h(after), after

        return one

    return layer.run(step)


@onnx_op("GRU")
def gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: Any = None, activation_beta: Any = None,
    activations: Any = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> Any:  # fmt: skip
    layer = _Layer(x, w, r, b, lengths, [initial_h], hidden_size, direction, layout, clip, 3)
    default = ["Sigmoid", "Tanh"]
    functions = _activations(activations, activation_alpha, activation_beta, default, w.shape[0])
    n = layer.size

    def step(k: int) -> Step:
        (f, g), (_, bias) = functions[k], layer.biases(k)
        of_gates = None if bias is None else bias[: 2 * n]
        of_new = None if bias is None else bias[2 * n :]
        gate_weight, new_weight = r[k][: 2 * n], r[k][2 * n :]

        def one(entered: Tensor, h: Tensor) -> tuple[Tensor, ...]:
            z, reset = (entered[:, : 2 * n] + F.linear(h, gate_weight, of_gates)).split(n, 1)
            z, reset = f(layer.clipped(z)), f(layer.clipped(reset))
            if linear_before_reset:
                new = reset * F.linear(h, new_weight, of_new)
            else:
                new = F.linear(reset * h, new_weight, of_new)
            new = g(layer.clipped(entered[:, 2 * n :] + new))
            return ((1 - z) * new + z * h,)

        return one

    return layer.run(step)
