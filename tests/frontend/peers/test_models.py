"""Against PyTorch: the same weights give the same outputs, gradients and ten training steps, eager
and compiled. Skipped where torch is not installed."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import frontend

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
PIXELS = RNG.random((16, 1, 8, 8), dtype=np.float32)
WORDS = RNG.integers(0, 30, (8, 12))
LABELS = RNG.integers(0, 10, 16)


def mlp(t: ModuleType) -> Any:
    nn = t.nn
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 128),
        nn.ReLU(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def cnn(t: ModuleType) -> Any:
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding="same"), nn.Tanh(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.GELU(), nn.Linear(64, 10),
    )  # fmt: skip


def transformer(t: ModuleType) -> Any:
    """Two blocks of causal attention and a GELU MLP over 30 words, scores for the next word."""
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self, width: int, heads: int):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            split = (batch, length, 3, self.heads, width // self.heads)
            q, k, v = self.qkv(self.norm1(x)).view(*split).permute(2, 0, 3, 1, 4).unbind(0)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.norm2(x))

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(30, 32), nn.Embedding(12, 32)
            self.blocks = nn.Sequential(Block(32, 4), Block(32, 4))
            self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 30)

        def forward(self, x: Any) -> Any:
            h = self.words(x) + self.places(t.arange(x.shape[1]))
            return self.head(self.norm(self.blocks(h)))

    return Transformer()


def next_word_loss(t: ModuleType, scores: Any, words: Any) -> Any:
    return t.nn.functional.cross_entropy(scores[:, :-1].reshape(-1, 30), words[:, 1:].reshape(-1))


def class_loss(t: ModuleType, scores: Any, labels: Any) -> Any:
    return t.nn.functional.cross_entropy(scores, labels)


CASES: dict[str, tuple[Callable[..., Any], np.ndarray, np.ndarray, Callable[..., Any]]] = {
    "mlp": (mlp, PIXELS, LABELS, class_loss),
    "cnn": (cnn, PIXELS, LABELS, class_loss),
    "transformer": (transformer, WORDS, WORDS, next_word_loss),
}
OPTIMIZERS: dict[str, Callable[[ModuleType, Any], Any]] = {
    "adam": lambda t, params: t.optim.Adam(params, lr=1e-3),
    "adamw": lambda t, params: t.optim.AdamW(params, lr=1e-3, amsgrad=True),
    "sgd": lambda t, params: t.optim.SGD(
        params, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-3
    ),
    "dampened": lambda t, params: t.optim.SGD(params, lr=0.02, momentum=0.9, dampening=0.5),
}


def twins(name: str) -> tuple[Any, Any]:
    """The network in PyTorch and here, with PyTorch's weights."""
    torch.manual_seed(0)
    theirs, ours = CASES[name][0](torch), CASES[name][0](frontend)
    state = theirs.state_dict()
    assert [(k, tuple(v.shape)) for k, v in state.items()] == [
        (k, tuple(v.shape)) for k, v in ours.state_dict().items()
    ]
    ours.load_state_dict({k: frontend.tensor(v.numpy()) for k, v in state.items()})
    return theirs, ours


def difference(ours: Any, theirs: Any) -> float:
    """Greatest difference over greatest magnitude."""
    a, b = ours.detach().numpy(), theirs.detach().numpy()
    assert a.shape == b.shape and a.dtype == b.dtype
    return float(np.abs(a - b).max() / np.abs(b).max())


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients(name: str, compiled: bool) -> None:
    theirs, ours = twins(name)
    _, x, y, loss = CASES[name]
    forward = frontend.compile(ours) if compiled else ours
    outputs = []
    for t, net in ((frontend, forward), (torch, theirs)):
        out = net(t.tensor(x))
        loss(t, out, t.tensor(y)).backward()
        outputs.append(out)
    assert difference(*outputs) <= 1e-5
    for (label, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert difference(p.grad, q.grad) <= 1e-5, label


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", CASES)
def test_ten_training_steps(name: str, optimizer: str, compiled: bool) -> None:
    _, x, y, loss = CASES[name]
    curves = []
    for t, net in zip((torch, frontend), twins(name)):
        opt = OPTIMIZERS[optimizer](t, net.parameters())

        def step(x: Any, y: Any, t: Any = t, net: Any = net, opt: Any = opt) -> Any:
            out = loss(t, net(x), y)
            opt.zero_grad()
            out.backward()
            opt.step()
            return out

        if compiled and t is frontend:
            step = frontend.compile(step)
        curves.append([step(t.tensor(x), t.tensor(y)).item() for _ in range(10)])
    assert curves[0][-1] < curves[0][0]
    np.testing.assert_allclose(curves[1], curves[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizer_states_come_along(optimizer: str) -> None:
    """A state dict of PyTorch's optimizer loads here, and the next steps agree."""
    theirs, ours = twins("mlp")
    opts = [
        OPTIMIZERS[optimizer](t, n.parameters()) for t, n in ((torch, theirs), (frontend, ours))
    ]

    def step(t: Any, net: Any, opt: Any) -> float:
        opt.zero_grad()
        out = class_loss(t, net(t.tensor(PIXELS)), t.tensor(LABELS))
        out.backward()
        opt.step()
        return out.item()

    for _ in range(3):
        step(torch, theirs, opts[0])
    saved = opts[0].state_dict()
    state = {
        i: {k: frontend.tensor(v.numpy()) if torch.is_tensor(v) else v for k, v in held.items()}
        for i, held in saved["state"].items()
    }
    opts[1].load_state_dict({"state": state, "param_groups": saved["param_groups"]})
    ours.load_state_dict({k: frontend.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    for _ in range(3):
        expected = step(torch, theirs, opts[0])
        assert step(frontend, ours, opts[1]) == pytest.approx(expected, abs=1e-5)
