"""Small scripts of the kind that PyTorch's examples are, on data they draw: the losses of ten steps
are PyTorch's from the seed alone. Nothing is drawn inside the networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend

STEPS = 10
Script = Callable[[Any], list[float]]


def train(
    t: Any, model: Any, optimizer: Any, loss_of: Callable[..., Any], batches: Any
) -> list[float]:
    """The losses of the first steps. On our side the loss is compiled where that is asked for."""
    losses = []
    while len(losses) < STEPS:
        for batch in batches():
            if len(losses) == STEPS:
                break
            optimizer.zero_grad()
            loss = loss_of(*batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def loader(t: Any, *data: Any, batch_size: int = 8, **options: Any) -> Any:
    dataset = t.utils.data.TensorDataset(*data)
    shuffled = t.utils.data.DataLoader(dataset, batch_size, shuffle=True, **options)
    return lambda: shuffled


def mlp(t: Any) -> list[float]:
    nn = t.nn
    images, labels = t.rand(64, 1, 12, 12), t.randint(0, 10, (64,))
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 32), nn.ReLU(), nn.Linear(32, 10))
    loss = nn.CrossEntropyLoss()
    optimizer = t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return train(t, model, optimizer, lambda x, y: loss(model(x), y), loader(t, images, labels))


def lenet(t: Any) -> list[float]:
    nn, F = t.nn, t.nn.functional

    class Net(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2 = nn.Linear(64, 20), nn.Linear(20, 10)

        def forward(self, x: Any) -> Any:
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            return F.log_softmax(self.fc2(F.relu(self.fc1(x.flatten(1)))), dim=1)

    model = Net()
    images, labels = t.randn(48, 1, 16, 16), t.randint(10, (48,))
    optimizer = t.optim.Adadelta(model.parameters(), lr=1.0)
    return train(
        t, model, optimizer, lambda x, y: F.nll_loss(model(x), y), loader(t, images, labels)
    )


def gpt(t: Any) -> list[float]:
    nn, F = t.nn, t.nn.functional
    tokens, width, length = 30, 16, 12

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            parts = self.qkv(self.norm1(x)).chunk(3, -1)
            q, k, v = (p.unflatten(-1, (2, width // 2)).transpose(1, 2) for p in parts)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(2)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
            self.head.weight = self.words.weight
            self.apply(self.begin)

        def begin(self, module: Any) -> None:
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, mean=0.0, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, mean=0.0, std=0.02)

        def forward(self, x: Any) -> Any:
            x = self.words(x) + self.places(t.arange(x.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    text = t.randint(tokens, (400,))
    model = GPT()
    optimizer = t.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)

    def batches() -> Any:
        places = t.randint(len(text) - length - 1, (4,)).tolist()
        x = t.stack([text[i : i + length] for i in places])
        y = t.stack([text[i + 1 : i + 1 + length] for i in places])
        return [(x, y)]

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    return train(t, model, optimizer, loss_of, batches)


def recurrent(kind: str) -> Script:
    def script(t: Any) -> list[float]:
        nn = t.nn
        rnn = getattr(nn, kind)(5, 12, num_layers=2, batch_first=True)
        head = nn.Linear(12, 5)
        parameters = [*rnn.parameters(), *head.parameters()]
        waves = t.sin(t.rand(32, 1) * 6 + t.arange(20) / 3).unsqueeze(-1) * t.randn(5)
        optimizer = t.optim.Adam(parameters, lr=0.02)

        def loss_of(x: Any) -> Any:
            return nn.functional.mse_loss(head(rnn(x[:, :-1])[0]), x[:, 1:])

        return train(t, rnn, optimizer, loss_of, loader(t, waves))

    return script


def regression(t: Any) -> list[float]:
    weight = t.randn(4, 1) * 5
    bias = t.randn(1) * 5
    fc = t.nn.Linear(4, 1)

    def batches() -> Any:
        x = t.randn(32).unsqueeze(1)
        x = t.cat([x**i for i in range(1, 5)], 1)
        return [(x, x.mm(weight) + bias.item())]

    optimizer = t.optim.SGD(fc.parameters(), lr=1e-3)
    return train(t, fc, optimizer, lambda x, y: t.nn.functional.smooth_l1_loss(fc(x), y), batches)


def vae(t: Any) -> list[float]:
    nn, F = t.nn, t.nn.functional
    encode, mean, spread = nn.Linear(64, 24), nn.Linear(24, 6), nn.Linear(24, 6)
    decode, out = nn.Linear(6, 24), nn.Linear(24, 64)
    parts = nn.ModuleList([encode, mean, spread, decode, out])
    optimizer = t.optim.Adam(parts.parameters(), lr=1e-2)

    def loss_of(x: Any) -> Any:
        hidden = F.relu(encode(x))
        mu, logvar = mean(hidden), spread(hidden)
        std = t.exp(0.5 * logvar)
        z = mu + t.randn_like(std) * std
        made = t.sigmoid(out(F.relu(decode(z))))
        apart = F.binary_cross_entropy(made, x, reduction="sum")
        return (apart - 0.5 * t.sum(1 + logvar - mu.pow(2) - logvar.exp())) / len(x)

    return train(t, parts, optimizer, loss_of, loader(t, t.rand(40, 64)))


def dcgan(t: Any) -> list[float]:
    nn = t.nn
    make = nn.Sequential(
        nn.ConvTranspose2d(8, 8, 4, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip
    judge = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 4), nn.Flatten(0)
    )
    for module in [*make, *judge]:
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(module.weight, 0.0, 0.02)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.02)
            nn.init.zeros_(module.bias)
    loss = nn.BCEWithLogitsLoss()
    optimizers = [t.optim.Adam(m.parameters(), lr=2e-3, betas=(0.5, 0.999)) for m in (judge, make)]
    real = t.rand(24, 1, 8, 8) * 2 - 1
    losses = []
    for _ in range(STEPS // 2):
        fake = make(t.randn(6, 8, 1, 1))
        some = real[t.randperm(24)[:6]]
        optimizers[0].zero_grad()
        judged = loss(judge(some), t.ones(6)) + loss(judge(fake.detach()), t.zeros(6))
        judged.backward()
        optimizers[0].step()
        optimizers[1].zero_grad()
        cheated = loss(judge(fake), t.ones(6))
        cheated.backward()
        optimizers[1].step()
        losses += [judged.item(), cheated.item()]
    return losses


def resnet(t: Any) -> list[float]:
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, inner: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inner, inner, 3, padding=1, bias=False)
            self.conv2 = nn.Conv2d(inner, inner, 3, padding=1, bias=False)
            self.bn1, self.bn2 = nn.BatchNorm2d(inner), nn.BatchNorm2d(inner)

        def forward(self, x: Any) -> Any:
            return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))

    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), Block(8), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 4),
    )  # fmt: skip
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    images, labels = t.randn(40, 3, 8, 8), t.randint(4, (40,))
    optimizer = t.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    rate = t.optim.lr_scheduler.StepLR(optimizer, 4)

    def loss_of(x: Any, y: Any) -> Any:
        rate.step()
        return F.cross_entropy(model(x), y, label_smoothing=0.1)

    optimizer.step()  # the schedule's own order
    return train(t, model, optimizer, loss_of, loader(t, images, labels))


def transformer(t: Any) -> list[float]:
    nn = t.nn
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    source, target = t.randn(24, 6, 16), t.rand(24, 5, 16)
    optimizer = t.optim.RMSprop(model.parameters(), lr=1e-3)

    def loss_of(x: Any, y: Any) -> Any:
        return nn.functional.mse_loss(model(x, y), y)

    return train(t, model, optimizer, loss_of, loader(t, source, target))


def policy(t: Any) -> list[float]:
    """Actions are drawn from what the network says, and rewarded."""
    nn = t.nn
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = t.optim.Adam(net.parameters(), lr=1e-2)
    best = t.randint(3, (16,))

    def batches() -> Any:
        return [(t.empty(16, 4).uniform_(-1, 1),)]

    def loss_of(x: Any) -> Any:
        chances = net(x).softmax(-1)
        actions = t.multinomial(chances.detach(), 1)
        rewards = (actions[:, 0] == best).float()
        return -(chances.gather(1, actions)[:, 0].log() * (rewards - 0.3)).mean()

    return train(t, net, optimizer, loss_of, batches)


def matrix_factors(t: Any) -> list[float]:
    users, items = t.nn.Embedding(20, 6), t.nn.Embedding(30, 6, sparse=False)
    t.nn.init.xavier_uniform_(items.weight)
    pairs = t.stack([t.randint(20, (80,)), t.randint(30, (80,))], 1)
    rating = t.normal(3.0, 1.0, (80,))
    train_set, _ = t.utils.data.random_split(t.utils.data.TensorDataset(pairs, rating), [60, 20])
    batches = t.utils.data.DataLoader(
        train_set, 6, sampler=t.utils.data.WeightedRandomSampler(t.rand(60), 60)
    )
    optimizer = t.optim.Adagrad([*users.parameters(), *items.parameters()], lr=0.1)

    def loss_of(pair: Any, wanted: Any) -> Any:
        return ((users(pair[:, 0]) * items(pair[:, 1])).sum(-1) - wanted).abs().mean()

    return train(t, users, optimizer, loss_of, lambda: batches)


SCRIPTS: dict[str, Script] = {
    "mlp": mlp, "lenet": lenet, "gpt": gpt, "lstm": recurrent("LSTM"), "gru": recurrent("GRU"),
    "regression": regression, "vae": vae, "dcgan": dcgan, "resnet": resnet,
    "transformer": transformer, "policy": policy, "matrix factors": matrix_factors,
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("seed", [0, 1234])
def test_losses_from_the_seed_alone(peer: Any, name: str, seed: int) -> None:
    losses = []
    for library in (frontend, peer.torch):
        library.manual_seed(seed)
        losses.append(SCRIPTS[name](library))
    assert len(losses[0]) == STEPS and all(map(math.isfinite, losses[1]))
    np.testing.assert_allclose(*losses, rtol=1e-4, atol=1e-5)
    ours, theirs = frontend.rand(3), peer.torch.rand(3)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
