"""The models of the workloads, written once for PyTorch and for the frontend.

Each function takes the namespace it is to be built from (`torch` or `frontend`) and sizes, and
returns a Module, or for the last three a plain function. The sizes of the table are the defaults.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def mlp(torch: ModuleType, inputs: int = 784, hidden: int = 512, classes: int = 10) -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, classes),
    )  # fmt: skip


def lenet(torch: ModuleType, side: int = 32, classes: int = 10) -> Any:
    """Two 5x5 convolutions with pooling, three fully connected layers (LeCun et al., 1998), with
    relu and max pooling as they are written today."""
    nn = torch.nn
    left = ((side - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16 * left * left, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, classes),
    )  # fmt: skip


def resnet18(
    torch: ModuleType,
    widths: tuple[int, ...] = (64, 128, 256, 512),
    blocks: int = 2,
    classes: int = 10,
) -> Any:
    """ResNet-18 (He et al., 2015) for 32x32 images: a 3x3 stem without pooling."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.shortcut = nn.Sequential()
            if stride != 1 or inputs != outputs:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False),
                    nn.BatchNorm2d(outputs),
                )

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.bn1(self.conv1(x)))
            return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))

    layers = [nn.Conv2d(3, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0])]
    layers.append(nn.ReLU())
    inputs = widths[0]
    for stage, width in enumerate(widths):
        for number in range(blocks):
            layers.append(Block(inputs, width, 2 if stage and not number else 1))
            inputs = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]
    return nn.Sequential(*layers)


def gpt(
    torch: ModuleType,
    vocabulary: int = 65,
    length: int = 128,
    width: int = 256,
    heads: int = 4,
    layers: int = 4,
) -> Any:
    """A decoder of pre-norm blocks (as GPT-2, Radford et al., 2019): causal attention, GELU."""
    nn = torch.nn
    functional = nn.functional

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.ln1 = nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.ln2 = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, time, _ = x.shape
            parts = self.qkv(self.ln1(x)).split(width, dim=2)
            q, k, v = (
                part.view(batch, time, heads, width // heads).transpose(1, 2) for part in parts
            )
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, time, width))
            return x + self.down(functional.gelu(self.up(self.ln2(x))))

    class Decoder(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(vocabulary, width)
            self.position = nn.Parameter(torch.zeros(length, width))
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.norm(self.blocks(self.token(tokens) + self.position)))

    return Decoder()


def lstm(torch: ModuleType, inputs: int = 64, hidden: int = 128, classes: int = 10) -> Any:
    """An LSTM over [batch, time, inputs], and a linear layer on its last output."""
    nn = torch.nn

    class Classifier(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
            self.head = nn.Linear(hidden, classes)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return Classifier()


def chain(torch: ModuleType) -> Any:
    def run(x: Any) -> Any:
        inner = x * torch.sigmoid(x) + torch.tanh(x) / 2
        return torch.clamp(torch.exp(inner), max=10.0) - x**2 / 3

    return run


def softmax(torch: ModuleType) -> Any:
    return lambda x: torch.softmax(x, dim=-1)


def layer_norm(torch: ModuleType) -> Any:
    """Without scale and shift."""
    return lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:])
