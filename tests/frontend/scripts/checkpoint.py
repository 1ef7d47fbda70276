"""Save in the middle of training, load into new objects, go on: the losses are the same."""

import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def fill(module, seed):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for p in module.parameters():
            values = rng.standard_normal(tuple(p.shape)) / np.sqrt(p.shape[-1])
            p.copy_(torch.from_numpy(values.astype(np.float32)))
    return module


def build(seed):
    model = fill(nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)), seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return model, optimizer


def trainer(model, optimizer, compile):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return torch.compile(step) if compile else step


def main(compile=False):
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((24, 5)).astype(np.float32))
    y = (x**2).sum(1, keepdim=True)
    model, optimizer = build(1)
    step = trainer(model, optimizer, compile)
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        for epoch in range(8):
            loss = step(x, y)
            losses.append(loss.item())
            if epoch == 3:
                torch.save(
                    {
                        "epoch": epoch,
                        "model_state_dict": model.state_dict(),
                        "optimizer_state_dict": optimizer.state_dict(),
                        "loss": loss.item(),
                    },
                    path,
                )
        checkpoint = torch.load(path)
    model, optimizer = build(7)
    model.load_state_dict(checkpoint["model_state_dict"])
    optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
    model.train()
    step = trainer(model, optimizer, compile)
    resumed = [step(x, y).item() for _ in range(checkpoint["epoch"] + 1, 8)]
    print("resumed at epoch", checkpoint["epoch"] + 1)
    return {
        "losses": losses,
        "resumed": resumed,
        "same": resumed == losses[4:],
        "keys": sorted(checkpoint),
        "loss": checkpoint["loss"],
    }


if __name__ == "__main__":
    print(main())
