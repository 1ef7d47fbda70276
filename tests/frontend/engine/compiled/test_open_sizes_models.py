"""Training steps of whole models, compiled for any batch: one specialization, the bits of those
that are compiled for each size alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.nn import functional as F

Model = tuple[Any, Callable[[int], Any]]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 6, batch_first=True)
        self.head = nn.Linear(6, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x).mean(1))


def perceptron() -> Model:
    layers = (nn.Linear(6, 9), nn.BatchNorm1d(9), nn.GELU(), nn.Dropout(0.2), nn.Linear(9, 4))
    return nn.Sequential(*layers), lambda n: torch.randn(n, 6)


def convolutional() -> Model:
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 4)
    )
    return model, lambda n: torch.randn(n, 2, 6, 6)


def recurrent() -> Model:
    return Recurrent(), lambda n: torch.randn(n, 3, 5)


def attending() -> Model:
    return Attending(), lambda n: torch.randn(n, 5, 8)


def trained(make: Callable[[], Model], dynamic: bool | None) -> tuple[list[float], list[Any], Any]:
    """Losses and weights after steps on batches of several sizes."""
    torch.manual_seed(0)
    model, draw = make()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)

    @torch.compile(dynamic=dynamic)
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for rows in (4, 6, 3, 9):
        x = draw(rows)
        losses.append(step(x, torch.arange(rows) % 4).item())
    return losses, [parameter.detach().numpy() for parameter in model.parameters()], step


@pytest.mark.slow
@pytest.mark.parametrize("make", [perceptron, convolutional, recurrent, attending])
def test_a_training_step_of_any_batch(make: Callable[[], Model]) -> None:
    losses, weights, step = trained(make, None)
    expected, expected_weights, _ = trained(make, False)
    assert losses == expected
    for actual, wanted in zip(weights, expected_weights, strict=True):
        assert np.array_equal(actual, wanted)
    told = step.explain()
    assert told.count("new signature") == 1, told  # the second size; none after it


@pytest.mark.slow
def test_a_context_that_grows() -> None:
    """Positions, masks and attention of every length by the code of the second."""
    torch.manual_seed(0)
    embedding, positions = nn.Embedding(11, 8), nn.Embedding(40, 8)
    heads, mask = nn.Linear(8, 24), torch.tril(torch.ones(40, 40))

    def model(ids: Any) -> Any:
        batch, length = ids.shape
        x = embedding(ids) + positions(torch.arange(length))
        q, k, v = heads(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) * 0.5
        scores = scores.masked_fill(mask[:length, :length] == 0, float("-inf"))
        return (F.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, 8)

    compiled = torch.compile(model)
    with torch.no_grad():
        for length in (2, 3, 4, 7, 19):
            ids = torch.arange(length).unsqueeze(0) % 11
            result = compiled(ids).numpy()
            alone = torch.compile(model, dynamic=False)(ids).numpy()
            assert np.array_equal(result, alone)
    assert compiled.explain().count("new signature") == 1
