"""Freeze the first layers, train the head; then let the last of the frozen ones go as well."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

RNG = np.random.default_rng


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.features(x))


def fill(module, seed):
    rng = RNG(seed)
    with torch.no_grad():
        for p in module.parameters():
            values = rng.standard_normal(tuple(p.shape)) / np.sqrt(p.shape[-1])
            p.copy_(torch.from_numpy(values.astype(np.float32)))
    return module


def run(net, x, y, steps, compile):
    optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, net.parameters()), lr=0.05)

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        step = torch.compile(step)
    return [step(x, y).item() for _ in range(steps)]


def main(compile=False):
    net = fill(Net(), 1)
    x = torch.from_numpy(RNG(2).standard_normal((20, 6)).astype(np.float32))
    y = torch.from_numpy(RNG(3).integers(0, 3, 20))
    start = {name: p.clone() for name, p in net.state_dict().items()}

    def changed():
        return [name for name, p in net.state_dict().items() if not torch.equal(p, start[name])]

    for p in net.features.parameters():
        p.requires_grad = False
    head = run(net, x, y, 4, compile)
    first = changed()
    no_grad = [name for name, p in net.named_parameters() if p.grad is None]
    net.features[2].requires_grad_(True)
    both = run(net, x, y, 4, compile)
    trainable = sum(p.numel() for p in net.parameters() if p.requires_grad)
    print("changed:", first, "then:", changed(), "of", trainable)
    return {
        "head": head, "both": both, "first": first, "no grad": no_grad, "changed": changed(),
        "trainable": trainable,
    }  # fmt: skip


if __name__ == "__main__":
    print(main())
