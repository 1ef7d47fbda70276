"""The workloads as pure functions for JAX: models over a dictionary of parameters, optimizers.

Names of parameters are those of the models in `workload_models`. Convolutions run in the layout
asked for, `NCHW` or `NHWC`: weights and images are turned once, before anything is timed. Gradients
come from `jax.value_and_grad`; a training step is one jitted function whose parameters and state
are donated, so that they are updated in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from workloads import Arrays, Optimizer, Workload

P = dict[str, Any]
Forward = Callable[[P, P, Any, bool], tuple[Any, P]]
"""(parameters, buffers, input, training) to (output, new buffers)."""

EPS = 1e-5


def linear(p: P, name: str, x: Any) -> Any:
    y = x @ p[f"{name}.weight"].T
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


class Images:
    """Convolutions, pooling and batch norm in one layout."""

    def __init__(self, layout: str) -> None:
        self.last = layout == "NHWC"
        self.numbers = (layout, "HWIO" if self.last else "OIHW", layout)
        self.spatial = (1, 2) if self.last else (2, 3)

    def conv(self, w: Any, x: Any, stride: int = 1, padding: int = 0) -> Any:
        pads = [(padding, padding)] * 2
        return jax.lax.conv_general_dilated(
            x, w, (stride, stride), pads, dimension_numbers=self.numbers
        )

    def channels(self, vector: Any) -> Any:
        return vector if self.last else vector[:, None, None]

    def max_pool(self, x: Any) -> Any:
        window = (1, 2, 2, 1) if self.last else (1, 1, 2, 2)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")

    def batch_norm(self, p: P, b: P, new: P, name: str, x: Any, training: bool) -> Any:
        scale, shift = p[f"{name}.weight"], p[f"{name}.bias"]
        if training:
            axes = (0, *self.spatial)
            mean, var = jnp.mean(x, axes), jnp.var(x, axes)
            count = x.size // x.shape[-1 if self.last else 1]
            statistics = {"mean": mean, "var": var * (count / (count - 1))}
            for key, value in statistics.items():
                full = f"{name}.running_{key}"
                new[full] = 0.9 * b[full] + 0.1 * value
            full = f"{name}.num_batches_tracked"
            new[full] = b[full] + 1
        else:
            mean, var = b[f"{name}.running_mean"], b[f"{name}.running_var"]
        factor = scale * jax.lax.rsqrt(var + EPS)
        return (x - self.channels(mean)) * self.channels(factor) + self.channels(shift)


# -- models ---------------------------------------------------------------------------------------


def mlp(p: P, b: P, x: Any, training: bool) -> tuple[Any, P]:
    for name in ("0", "2"):
        x = jax.nn.relu(linear(p, name, x))
    return linear(p, "4", x), b


def lenet(images: Images) -> Forward:
    def forward(p: P, b: P, x: Any, training: bool) -> tuple[Any, P]:
        for name in ("0", "3"):
            bias = images.channels(p[f"{name}.bias"])
            x = images.max_pool(jax.nn.relu(images.conv(p[f"{name}.weight"], x) + bias))
        x = jnp.transpose(x, (0, 3, 1, 2)) if images.last else x
        x = x.reshape(x.shape[0], -1)
        for name in ("7", "9"):
            x = jax.nn.relu(linear(p, name, x))
        return linear(p, "11", x), b

    return forward


def resnet(images: Images) -> Forward:
    def forward(p: P, b: P, x: Any, training: bool) -> tuple[Any, P]:
        new = dict(b)

        def norm(name: str, x: Any) -> Any:
            return images.batch_norm(p, b, new, name, x, training)

        x = jax.nn.relu(norm("1", images.conv(p["0.weight"], x, padding=1)))
        blocks = sorted({int(name.split(".")[0]) for name in p if ".conv1." in name})
        for block in blocks:
            short = f"{block}.shortcut.0.weight"
            # All but the first stage halve the image where the shortcut has weights.
            stride = 2 if short in p else 1
            y = images.conv(p[f"{block}.conv1.weight"], x, stride, 1)
            y = jax.nn.relu(norm(f"{block}.bn1", y))
            y = norm(f"{block}.bn2", images.conv(p[f"{block}.conv2.weight"], y, 1, 1))
            if short in p:
                x = norm(f"{block}.shortcut.1", images.conv(p[short], x, stride))
            x = jax.nn.relu(y + x)
        x = jnp.mean(x, images.spatial)
        return linear(p, str(blocks[-1] + 3), x), new

    return forward


def layer_norm(x: Any) -> Any:
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + EPS)


def gpt(heads: int) -> Forward:
    def norm(p: P, name: str, x: Any) -> Any:
        return layer_norm(x) * p[f"{name}.weight"] + p[f"{name}.bias"]

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = q @ jnp.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1) @ v

    def forward(p: P, b: P, tokens: Any, training: bool) -> tuple[Any, P]:
        x = p["token.weight"][tokens] + p["position"]
        batch, time, width = x.shape
        layers = len({name.split(".")[1] for name in p if name.startswith("blocks.")})
        for number in range(layers):
            at = f"blocks.{number}"
            parts = jnp.split(linear(p, f"{at}.qkv", norm(p, f"{at}.ln1", x)), 3, axis=-1)
            q, k, v = (
                part.reshape(batch, time, heads, width // heads).swapaxes(1, 2) for part in parts
            )
            y = attention(q, k, v).swapaxes(1, 2).reshape(batch, time, width)
            x = x + linear(p, f"{at}.out", y)
            y = linear(p, f"{at}.up", norm(p, f"{at}.ln2", x))
            x = x + linear(p, f"{at}.down", jax.nn.gelu(y, approximate=False))
        return linear(p, "head", norm(p, "norm", x)), b

    return forward


def lstm(p: P, b: P, x: Any, training: bool) -> tuple[Any, P]:
    bias = p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"]
    gates = x @ p["lstm.weight_ih_l0"].T + bias  # for all time steps in one product
    recurrent = p["lstm.weight_hh_l0"].T
    zero = jnp.zeros((x.shape[0], recurrent.shape[0]), x.dtype)

    def step(carry: Any, g: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(g + h @ recurrent, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    (h, _), _ = jax.lax.scan(step, (zero, zero), gates.swapaxes(0, 1))
    return linear(p, "head", h), b


def _plain(function: Callable[[Any], Any]) -> Forward:
    return lambda p, b, x, training: (function(x), b)


def _chain(x: Any) -> Any:
    inner = x * jax.nn.sigmoid(x) + jnp.tanh(x) / 2
    return jnp.minimum(jnp.exp(inner), 10.0) - x**2 / 3


def forward_of(workload: Workload, layout: str, size: str) -> Forward:
    images = Images(layout)
    models: Mapping[str, Forward] = {
        "mlp": mlp, "lenet": lenet(images), "resnet18": resnet(images), "lstm": lstm,
        "gpt": gpt(workload.sizes(size).get("heads", 4)), "chain": _plain(_chain),
        "softmax": _plain(lambda x: jax.nn.softmax(x, axis=-1)), "layer_norm": _plain(layer_norm),
    }  # fmt: skip
    return models[workload.model.__name__]


# -- optimizers -----------------------------------------------------------------------------------


def optimizer_of(optimizer: Optimizer) -> tuple[Callable[[P], Any], Callable[..., Any]]:
    """(parameters → state) and (parameters, gradients, state → parameters, state)."""
    options = optimizer.options
    rate = options["lr"]
    if optimizer.name == "SGD":
        momentum = options["momentum"]

        def descend(p: P, g: P, velocity: P) -> tuple[P, P]:
            velocity = {name: momentum * velocity[name] + g[name] for name in p}
            return {name: p[name] - rate * velocity[name] for name in p}, velocity

        # From zeros the first velocity is the gradient, as in PyTorch.
        return lambda p: {name: jnp.zeros_like(x) for name, x in p.items()}, descend
    decay, first, second = options.get("weight_decay", 0.0), 0.9, 0.999

    def start(p: P) -> Any:
        return (
            {name: jnp.zeros_like(x) for name, x in p.items()},
            {name: jnp.zeros_like(x) for name, x in p.items()},
            jnp.zeros(()),
        )

    def adam(p: P, g: P, state: Any) -> tuple[P, Any]:
        m, v, step = state
        step = step + 1
        m = {name: first * m[name] + (1 - first) * g[name] for name in p}
        v = {name: second * v[name] + (1 - second) * g[name] ** 2 for name in p}
        size = rate / (1 - first**step)
        scale = jnp.sqrt(1 - second**step)
        new = {
            name: p[name] * (1 - rate * decay) - size * m[name] / (jnp.sqrt(v[name]) / scale + 1e-8)
            for name in p
        }
        return new, (m, v, step)

    return start, adam


# -- a step ---------------------------------------------------------------------------------------


def prepare(
    workload: Workload, state: Arrays, layout: str = "NCHW", size: str = "full"
) -> Callable[[], Any]:
    """The workload as a step: returns the loss or the output, finished."""
    forward = forward_of(workload, layout, size)
    arrays = list(workload.inputs(size))
    last = layout == "NHWC" and workload.images
    if last:
        arrays[0] = np.ascontiguousarray(arrays[0].transpose(0, 2, 3, 1))
        state = {n: x.transpose(2, 3, 1, 0) if x.ndim == 4 else x for n, x in state.items()}
    batch = [jnp.asarray(array) for array in arrays]
    tracked = ("running_mean", "running_var", "num_batches_tracked")
    buffers = {n: jnp.asarray(x) for n, x in state.items() if n.endswith(tracked)}
    parameters = {n: jnp.asarray(x) for n, x in state.items() if n not in buffers}
    if workload.optimizer is None:
        # The weights are constants of the function: they are frozen, and this is the faster way.
        infer = jax.jit(lambda x: forward(parameters, buffers, x, False)[0])
        return lambda: jax.block_until_ready(infer(batch[0]))
    start, update = optimizer_of(workload.optimizer)

    def loss_of(p: P, b: P, x: Any, y: Any) -> tuple[Any, P]:
        output, b = forward(p, b, x, True)
        logs = jax.nn.log_softmax(output.reshape(-1, output.shape[-1]))
        return -jnp.mean(jnp.take_along_axis(logs, y.reshape(-1, 1), 1)), b

    def train(p: P, b: P, state: Any, x: Any, y: Any) -> Any:
        (loss, b), g = jax.value_and_grad(loss_of, has_aux=True)(p, b, x, y)
        p, state = update(p, g, state)
        return loss, p, b, state

    run = jax.jit(train, donate_argnums=(0, 1, 2))
    kept = [parameters, buffers, start(parameters)]

    def step() -> Any:
        loss, *kept[:] = run(*kept, *batch)
        # All of the step has to be done, not the loss alone.
        jax.block_until_ready(kept)
        return loss

    return step
