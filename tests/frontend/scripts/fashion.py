"""Garments from pictures of 28 x 28 with a 784-512-512-10 network.

With a folder of Fashion-MNIST's files they are read; without one, pictures are made up.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(28 * 28, 512),
            nn.ReLU(),
            nn.Linear(512, 512),
            nn.ReLU(),
            nn.Linear(512, 10),
        )

    def forward(self, x):
        return self.linear_relu_stack(self.flatten(x))


def fill(module, seed):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for p in module.parameters():
            bound = 1 / np.sqrt(p.shape[-1])
            p.copy_(torch.from_numpy(rng.uniform(-bound, bound, p.shape).astype(np.float32)))
    return module


def made_up(count, seed):
    """Pictures of ten kinds: a kind's own pattern, and noise."""
    patterns = np.random.default_rng(0).random((10, 1, 28, 28))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count)
    pictures = 0.5 * patterns[labels] + 0.5 * rng.random((count, 1, 28, 28))
    return TensorDataset(torch.from_numpy(pictures.astype(np.float32)), torch.from_numpy(labels))


def datasets(folder):
    if folder is None:
        return made_up(160, 1), made_up(64, 2)
    from torchvision.datasets import FashionMNIST
    from torchvision.transforms import ToTensor

    return [FashionMNIST(folder, train=train, transform=ToTensor()) for train in (True, False)]


def test(dataloader, model, loss_fn):
    size, batches = len(dataloader.dataset), len(dataloader)
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for x, y in dataloader:
            pred = model(x)
            test_loss += loss_fn(pred, y).item()
            correct += (pred.argmax(1) == y).type(torch.float).sum().item()
    return test_loss / batches, correct / size


def main(compile=False, folder=None, epochs=2, batch_size=32):
    training, testing = datasets(folder)
    train_dataloader = DataLoader(training, batch_size=batch_size)
    test_dataloader = DataLoader(testing, batch_size=batch_size)
    model = fill(NeuralNetwork(), 1)
    print(model)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)

    def step(x, y):
        pred = model(x)
        loss = loss_fn(pred, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    if compile:
        step = torch.compile(step)
    losses, tests = [], []
    for _ in range(epochs):
        model.train()
        for batch, (x, y) in enumerate(train_dataloader):
            loss = step(x, y)
            if batch % 100 == 0:
                current = (batch + 1) * len(x)
                print(f"loss: {loss.item():>7f}  [{current:>5d}/{len(training):>5d}]")
            losses.append(loss.item())
        tests.append(test(test_dataloader, model, loss_fn))
    return {"losses": losses, "tests": tests}


if __name__ == "__main__":
    print(main())
