"""Layers and losses in float16 and bfloat16 against PyTorch's: the same dtypes, and numbers within
a few units of the type's last place, since the steps that round are not the same ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend

BOUND = {"float16": 4e-3, "bfloat16": 3e-2}
Make = Callable[[Any], Any]

LAYERS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "linear": (lambda nn: nn.Linear(4, 3), (2, 4)),
    "conv1d": (lambda nn: nn.Conv1d(2, 3, 3, padding=1), (2, 2, 5)),
    "conv2d": (lambda nn: nn.Conv2d(2, 3, 3), (2, 2, 5, 5)),
    "conv_transpose": (lambda nn: nn.ConvTranspose2d(2, 3, 3), (2, 2, 5, 5)),
    "batch_norm": (lambda nn: nn.BatchNorm2d(2), (2, 2, 3, 3)),
    "layer_norm": (lambda nn: nn.LayerNorm(4), (2, 4)),
    "group_norm": (lambda nn: nn.GroupNorm(2, 4), (2, 4, 3)),
    "rms_norm": (lambda nn: nn.RMSNorm(4), (2, 4)),
    "gelu": (lambda nn: nn.GELU(), (3, 4)),
    "softmax": (lambda nn: nn.Softmax(1), (3, 4)),
    "log_softmax": (lambda nn: nn.LogSoftmax(1), (3, 4)),
    "prelu": (lambda nn: nn.PReLU(), (3, 4)),
    "glu": (lambda nn: nn.GLU(), (3, 4)),
    "max_pool": (lambda nn: nn.MaxPool2d(2), (1, 2, 4, 4)),
    "avg_pool": (lambda nn: nn.AvgPool2d(2), (1, 2, 4, 4)),
    "upsample": (lambda nn: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3)),
    "lstm": (lambda nn: nn.LSTM(4, 3), (5, 2, 4)),
    "gru": (lambda nn: nn.GRU(4, 3), (5, 2, 4)),
    "transformer": (
        lambda nn: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), (2, 3, 4)
    ),
}  # fmt: skip
LOSSES = ["cross_entropy", "mse_loss", "l1_loss", "smooth_l1_loss", "kl_div",
          "binary_cross_entropy_with_logits"]  # fmt: skip


def close(ours: Any, theirs: Any, dtype: str, computed_in: str = "") -> None:
    assert str(ours.dtype) == str(theirs.dtype) == f"torch.{dtype}"
    mine, other = (x.detach().float().numpy() for x in (ours, theirs))
    bound = BOUND[computed_in or dtype] * max(1.0, np.abs(other).max())
    assert np.abs(mine - other).max() <= bound


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(peer: Any, name: str, dtype: str) -> None:
    make, shape = LAYERS[name]
    peer.torch.manual_seed(0)
    theirs, mine = make(peer.torch.nn), make(frontend.nn)
    mine.load_state_dict({k: frontend.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    numbers = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    results = []
    for system, layer in ((peer.torch, theirs), (frontend, mine)):
        layer.to(getattr(system, dtype))
        x = system.tensor(numbers).to(getattr(system, dtype)).requires_grad_()
        result = layer(x)
        result = result[0] if isinstance(result, tuple) else result
        result.float().sum().backward()
        results.append((result, x.grad))
    (expected, gradient), (result, ours) = results
    close(result, expected, dtype)
    close(ours, gradient, dtype)
    compiled = frontend.compile(mine)(frontend.tensor(numbers).to(getattr(frontend, dtype)))
    close(compiled[0] if isinstance(compiled, tuple) else compiled, expected, dtype)


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", LOSSES)
def test_losses(peer: Any, name: str, dtype: str) -> None:
    numbers = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    results = []
    for system in (frontend, peer.torch):
        x = system.tensor(numbers).to(getattr(system, dtype))
        target = system.tensor([0, 2, 1, 1]) if name == "cross_entropy" else x.sigmoid()
        options = {"reduction": "batchmean"} if name == "kl_div" else {}
        results.append(getattr(system.nn.functional, name)(x, target, **options))
    close(*results, dtype)


NORMS: dict[str, Make] = {
    "batch_norm": lambda nn: nn.BatchNorm2d(4),
    "batch_norm_plain": lambda nn: nn.BatchNorm2d(4, affine=False),
    "batch_norm_of_batches": lambda nn: nn.BatchNorm2d(4, track_running_stats=False),
    "instance_norm": lambda nn: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "group_norm": lambda nn: nn.GroupNorm(2, 4),
    "layer_norm": lambda nn: nn.LayerNorm(6),
    "rms_norm": lambda nn: nn.RMSNorm(6),
}


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("name", NORMS)
def test_autocast_behind_a_convolution(peer: Any, name: str, dtype: str) -> None:
    """A half-type input and float32 parameters: training, then inference, with what is kept."""
    peer.torch.manual_seed(0)
    make = lambda nn: nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), NORMS[name](nn), nn.ReLU())  # noqa: E731
    theirs = make(peer.torch.nn)
    state = {k: frontend.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
    numbers = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)

    def run(system: Any, layer: Any, call: Any) -> tuple[list[Any], dict[str, Any]]:
        results = []
        for training in (True, False):
            layer.train(training)
            x = system.tensor(numbers, requires_grad=True)
            layer.zero_grad()
            with system.autocast("cpu", dtype=getattr(system, dtype)):
                y = call(x)
            (y.float() * system.tensor(numbers[:, :1, :6, :6])).sum().backward()
            results += [y, x.grad, *[p.grad for p in layer.parameters()]]
        return results, layer.state_dict()

    expected, kept = run(peer.torch, theirs, theirs)
    for compiled in (False, True):
        mine = make(frontend.nn)
        mine.load_state_dict(state)
        results, now = run(frontend, mine, frontend.compile(mine) if compiled else mine)
        assert len(results) == len(expected)
        for one, other in zip(results, expected, strict=True):
            close(one, other, str(other.dtype).split(".")[1], dtype)
        for key, other in kept.items():
            close(now[key], other, str(other.dtype).split(".")[1], dtype)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrences_under_autocast(peer: Any, name: str, short: bool) -> None:
    """Of a float32 input, and of one that a layer before made bfloat16."""
    peer.torch.manual_seed(0)
    theirs = getattr(peer.torch.nn, name)(4, 3, 2)
    mine = getattr(frontend.nn, name)(4, 3, 2)
    mine.load_state_dict({k: frontend.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    numbers = np.random.default_rng(0).standard_normal((3, 2, 4)).astype(np.float32)

    def run(system: Any, layer: Any, call: Any) -> list[Any]:
        layer.zero_grad()
        x = system.tensor(numbers)
        with system.autocast("cpu", dtype=system.bfloat16):
            y, states = call(x.bfloat16() if short else x)
        y.float().square().sum().backward()
        states = states if isinstance(states, tuple) else (states,)
        return [y, *states, *[p.grad for p in layer.parameters()]]

    try:
        expected, same_types = run(peer.torch, theirs, theirs), True
    except RuntimeError as error:  # its LSTM of bfloat16 is one of processors with AVX-512
        assert "could not create a primitive" in str(error)
        with peer.torch.backends.mkldnn.flags(enabled=False):  # this gives results in float32
            expected, same_types = run(peer.torch, theirs, theirs), False
    for call in (mine, frontend.compile(mine)):
        for one, other in zip(run(frontend, mine, call), expected, strict=True):
            kind = str((other if same_types else one).dtype).split(".")[1]
            close(one, other.to(getattr(peer.torch, kind)), kind, "bfloat16")


def residual_net(nn: Any) -> Any:
    """Convolutions and batch norms with a residual sum, strides and a 1x1 beside it."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norms = nn.ModuleList([nn.BatchNorm2d(outputs) for _ in range(3)])
            self.beside = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.norms[0](self.first(x)).relu()
            y = self.norms[1](self.second(y))
            return (y + self.norms[2](self.beside(x))).relu()

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        Block(8, 16, 2), Block(16, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


@pytest.mark.parametrize("how", ["autocast", "bfloat16"])
def test_a_residual_net_trains(peer: Any, how: str) -> None:
    """Under autocast with float32 parameters, by `torch.amp` (bfloat16 needs no scaler), and all in
    bfloat16: losses as PyTorch's, eager and compiled."""
    peer.torch.manual_seed(0)
    theirs = residual_net(peer.torch.nn)
    state = {k: frontend.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
    random = np.random.default_rng(0)
    numbers = random.standard_normal((8, 3, 12, 12)).astype(np.float32)
    labels = random.integers(0, 5, 8)

    def losses(system: Any, model: Any, call: Any) -> list[float]:
        x, y = system.tensor(numbers), system.tensor(labels)
        if how == "bfloat16":
            model.to(system.bfloat16)
            x = x.to(system.bfloat16)
        optimizer = system.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        scaler = system.amp.GradScaler("cpu", enabled=False)
        found = []
        for _ in range(4):
            optimizer.zero_grad()
            with system.amp.autocast("cpu", system.bfloat16, enabled=how == "autocast"):
                loss = system.nn.functional.cross_entropy(call(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append(float(loss.detach()))
        kinds = {p.dtype for p in model.parameters()} | {p.grad.dtype for p in model.parameters()}
        assert kinds == {system.bfloat16 if how == "bfloat16" else system.float32}
        return found

    expected = losses(peer.torch, theirs, theirs)
    assert expected[-1] < 0.8 * expected[0]
    for compiled in (False, True):
        mine = residual_net(frontend.nn)
        mine.load_state_dict(state)
        found = losses(frontend, mine, frontend.compile(mine) if compiled else mine)
        np.testing.assert_allclose(found, expected, rtol=0.05)
