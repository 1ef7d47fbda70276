"""Functions that the tests build: training steps with their optimizers, and inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn

SIZES = (32, 7, 100, 1, 2, 33, 0)
Arguments = tuple[torch.Tensor, ...]
Drawn = Callable[[int], Arguments]


def training(model: Any, optimizer: Any, classes: int) -> Any:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x).reshape(-1, classes), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def drawing(shape: tuple[int, ...], labels: int, behind: tuple[int, ...] = ()) -> Drawn:
    """Images (or whatever has this shape) and labels of a batch."""

    def draw(n: int) -> Arguments:
        generator = np.random.default_rng(n)
        x = generator.standard_normal((n, *shape)).astype(np.float32)
        y = generator.integers(0, labels, (n, *behind))
        return torch.from_numpy(x), torch.from_numpy(y)

    return draw


def mlp() -> tuple[Any, Drawn]:
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    return training(model, torch.optim.Adam(model.parameters()), 10), drawing((64,), 10)


def lenet() -> tuple[Any, Drawn]:
    model = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
        nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return training(model, optimizer, 10), drawing((3, 32, 32), 10)


class LastStep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 12, batch_first=True)
        self.out = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(x)[0][:, -1])


def lstm() -> tuple[Any, Drawn]:
    model = LastStep()
    return training(model, torch.optim.Adam(model.parameters()), 10), drawing((9, 8), 10)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(65, 32)
        layer = nn.TransformerEncoderLayer(
            32, 4, 64, batch_first=True, dropout=0.0, activation="gelu"
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(32, 65)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.layers(self.embedding(tokens)))


def tokens(n: int) -> Arguments:
    generator = np.random.default_rng(n)
    pair = (generator.integers(0, 65, (n, 13)) for _ in range(2))
    one, two = pair
    return torch.from_numpy(one), torch.from_numpy(two)


def gpt() -> tuple[Any, Drawn]:
    model = Decoder()
    return training(model, torch.optim.AdamW(model.parameters()), 65), tokens


def inference() -> tuple[Any, Drawn]:
    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10)).eval()
    return model, lambda n: drawing((64,), 10)(n)[:1]


def dropout() -> tuple[Any, Drawn]:
    model = nn.Sequential(nn.Linear(64, 48), nn.Dropout(0.3), nn.Linear(48, 10))
    return training(model, torch.optim.SGD(model.parameters(), lr=0.1), 10), drawing((64,), 10)


MODELS: dict[str, Callable[[], tuple[Any, Drawn]]] = {
    "mlp": mlp, "lenet": lenet, "lstm": lstm, "gpt": gpt, "inference": inference,
    "dropout": dropout,
}  # fmt: skip


def cases(*names: str) -> list[Any]:
    """Models as parameters: what compiles for long is slow."""
    return [
        name if name in ("mlp", "inference") else pytest.param(name, marks=pytest.mark.slow)
        for name in names
    ]


def compiled(name: str) -> tuple[Any, Drawn]:
    """A compiled function, its batch open, and what draws its arguments."""
    torch.manual_seed(0)
    function, draw = MODELS[name]()
    labels = ("input",) if name == "inference" else ("x", "y")
    return torch.compile(function, threads=1, dynamic={x: {0: "batch"} for x in labels}), draw
