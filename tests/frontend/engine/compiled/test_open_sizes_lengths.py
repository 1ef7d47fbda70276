"""Networks over sequences whose batch and length both vary: one program for all of them beside
that of the first signature, with the bits of eager mode or, of a scan, of code for each alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.nn import functional as F

SHAPES = ((4, 7), (5, 9), (3, 12), (8, 5), (2, 17))


class Tagger(nn.Module):
    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.layers = kind(6, 8, batch_first=True, **options)
        self.head = nn.Linear(16 if options.get("bidirectional") else 8, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.layers(x)[0])


class Scanned(nn.Module):
    """A cell in a loop of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(6, 8)

    def forward(self, x: Any) -> Any:
        zeros = torch.zeros(x.shape[0], 8)

        def step(carry: Any, x_t: Any) -> Any:
            h, c = self.cell(x_t, carry)
            return (h, c), h.clone()

        return torch.scan(step, (zeros, zeros), x, dim=1)[1]


class Masked(nn.Module):
    """Attention over recurrent outputs, of sequences that are shorter than the batch is long."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.GRU(6, 6, batch_first=True)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        lengths = 1 + torch.arange(x.shape[0]) % x.shape[1]
        over = torch.arange(x.shape[1])[None] >= lengths[:, None]
        y, _ = self.layers(x)
        y, _ = self.attention(y, y, y, key_padding_mask=over, need_weights=False)
        return (y * (~over)[..., None]).sum(1) / lengths[:, None]


class Convolved(nn.Module):
    """A stride and a pool over the length, odd or even."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(6, 8, 5, padding=2), nn.Conv1d(8, 8, 3, stride=2)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.second(F.relu(self.first(x.transpose(1, 2)))))
        return F.max_pool1d(self.norm(y), 2).mean(2)


def traces(compiled: Any) -> int:
    return sum(line.startswith("traced ") for line in compiled.explain().splitlines())


def stepped(make: Callable[[], Any], compile: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Losses, and gradients after each step, on batches of several shapes."""
    torch.manual_seed(0)
    model = make()

    def step(x: Any) -> Any:
        model.zero_grad()
        loss = F.tanh(model(x)).square().mean()
        loss.backward()
        return loss

    function, seen = compile(step), []
    for batch, length in SHAPES:
        x = torch.randn(batch, length, 6)
        seen += [function(x).detach().numpy(), *[p.grad.numpy() for p in model.parameters()]]
    return seen, function


def check(make: Callable[[], Any], reference: Callable[[Any], Any]) -> None:
    seen, step = stepped(make, torch.compile)
    expected, _ = stepped(make, reference)
    for actual, wanted in zip(seen, expected, strict=True):
        assert np.array_equal(actual, wanted)
    assert traces(step) == 2, step.explain()


def test_two_programs_serve_all_batches_and_lengths() -> None:
    check(lambda: Tagger(nn.LSTM), lambda step: step)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: Tagger(nn.GRU, bidirectional=True),
        lambda: Tagger(nn.RNN, num_layers=2),
        Masked,
    ],
    ids=["gru in two directions", "two layers", "attention with lengths"],
)
def test_two_programs_serve_further_networks(make: Callable[[], Any]) -> None:
    check(make, lambda step: step)


@pytest.mark.slow
def test_a_cell_in_a_scan() -> None:
    check(Scanned, lambda step: torch.compile(step, dynamic=False))


@pytest.mark.slow
def test_a_stride_and_a_pool_over_the_length() -> None:
    check(Convolved, lambda step: step)


def test_a_pool_of_a_stride_without_gradient() -> None:
    torch.manual_seed(0)
    layer = nn.Conv1d(6, 8, 3, stride=2)

    def pooled(x: Any) -> Any:
        return F.max_pool1d(layer(x.transpose(1, 2)), 2)

    compiled = torch.compile(pooled)
    with torch.no_grad():
        for batch, length in (*SHAPES, (3, 11), (2, 13), (2, 14), (4, 15), (3, 16)):
            x = torch.randn(batch, length, 6)
            assert np.array_equal(compiled(x).numpy(), pooled(x).numpy())
    assert traces(compiled) == 2, compiled.explain()


class Skipping(nn.Module):
    """Down, up again, padded to what was skipped, which is odd for odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.low = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(8, 8, 2, 2), nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x: Any) -> Any:
        a = F.relu(self.down(x))
        b = self.up(F.relu(self.low(F.max_pool2d(a, 2))))
        height, width = a.shape[2] - b.shape[2], a.shape[3] - b.shape[3]
        return self.out(torch.cat([a, F.pad(b, (0, width, 0, height))], 1))


@pytest.mark.slow
def test_images_of_odd_and_even_sizes() -> None:
    torch.manual_seed(0)
    model = Skipping()
    compiled = torch.compile(model)
    with torch.no_grad():
        for rows, height, width in ((2, 8, 8), (3, 9, 11), (2, 12, 16), (4, 7, 13), (5, 15, 10)):
            x = torch.randn(rows, 3, height, width)
            assert np.array_equal(compiled(x).numpy(), model(x).numpy())
    assert traces(compiled) == 2, compiled.explain()


def test_lengths_and_batches_of_one_have_code_of_their_own() -> None:
    torch.manual_seed(0)
    model = Tagger(nn.LSTM)
    compiled = torch.compile(model)
    with torch.no_grad():
        for batch, length in (*SHAPES[:2], (1, 6), (1, 9), (3, 1), (7, 1), (6, 6)):
            x = torch.randn(batch, length, 6)
            assert np.array_equal(compiled(x).numpy(), model(x).numpy())
    assert traces(compiled) <= 7


def test_eager_resizing_after_a_trace_with_open_sizes() -> None:
    """The tables of weights were kept with what had stood for a size."""
    compiled = torch.compile(lambda x: F.interpolate(x, size=x.shape[2:], mode="bilinear"))

    def half(x: Any) -> Any:
        return F.interpolate(F.max_pool2d(x, 2), size=x.shape[2:], mode="bilinear")

    halved = torch.compile(half)
    for height, width in ((8, 8), (9, 11), (12, 16), (7, 13)):
        x = torch.arange(2 * height * width).reshape(1, 2, height, width) / 7
        for function, own in ((compiled, None), (halved, half)):
            expected = x if own is None else own(x)
            assert np.array_equal(function(x).numpy(), expected.numpy())


class Enlarging(nn.Module):
    """A map that is halved twice with what is over, and enlarged to the size it came from."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.low = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)
        self.up = nn.ConvTranspose2d(4, 4, 2, 2)

    def forward(self, x: Any) -> Any:
        a = self.down(x)
        b = self.up(self.low(a))
        return torch.cat([a, b], 1).sum(1) + (a + b).mean(1)


def test_sizes_that_have_to_fit_are_open_in_multiples() -> None:
    torch.manual_seed(0)
    model = Enlarging()
    axes = {0: "batch", 2: "height", 3: "width"}
    compiled = torch.compile(model, dynamic={"x": axes})
    with torch.no_grad():
        for shape in ((2, 3, 12, 20), (5, 3, 8, 16), (3, 3, 40, 8)):
            x = torch.randn(*shape)
            assert np.array_equal(compiled(x).numpy(), model(x).numpy())
        assert traces(compiled) == 1, compiled.explain()
        assert "f32[batch,3,4*height,4*width]" in compiled.explain()
        x = torch.randn(2, 3, 11, 7)  # no multiples, and fit: 6 of 3 twice, 4 of 2 twice
        assert np.array_equal(compiled(x).numpy(), model(x).numpy())
        with pytest.raises(RuntimeError, match=r"Sizes of tensors must match|differ in another"):
            compiled(torch.randn(2, 3, 10, 8))


@pytest.mark.parametrize(
    "options",
    [{}, {"padding": 1}, {"padding": 1, "count_include_pad": False}, {"ceil_mode": True},
     {"padding": 1, "ceil_mode": True}],
)  # fmt: skip
def test_means_over_windows_serve_all_sizes(options: Any) -> None:
    def mean(x: Any) -> Any:
        return F.avg_pool2d(x, (3, 2), 2, **options)

    compiled = torch.compile(mean, dynamic={"x": {2: "height", 3: "width"}})
    lengths = (11, 7), (5, 21), (31, 9)
    for height, width in lengths:
        x = torch.randn(2, 3, height, width)
        assert np.array_equal(compiled(x).numpy(), mean(x).numpy())
        grown = x.clone().requires_grad_()
        mean(grown).square().sum().backward()
        other = x.clone().requires_grad_()
        compiled(other).square().sum().backward()
        assert np.array_equal(grown.grad.numpy(), other.grad.numpy())
    made = [text for text in compiled.explain().splitlines() if "made a number" in text]
    assert made == []
    assert traces(compiled) <= 2, compiled.explain()
