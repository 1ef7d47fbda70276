"""A transformer encoder with positions of sines and cosines sorts sequences, some padded."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PositionalEncoding(nn.Module):
    def __init__(self, size, longest=16):
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, size, 2) * (-math.log(10000.0) / size))
        table = torch.zeros(1, longest, size)
        table[0, :, 0::2] = torch.sin(position * rate)
        table[0, :, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[:, : x.size(1)]


class Classifier(nn.Module):
    def __init__(self, words, size, classes):
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(words, size, padding_idx=0)
        self.positions = PositionalEncoding(size)
        layer = nn.TransformerEncoderLayer(
            size, nhead=2, dim_feedforward=24, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.fc = nn.Linear(size, classes)

    def forward(self, x):
        padding = x == 0
        h = self.positions(self.embedding(x) * math.sqrt(self.size))
        h = self.encoder(h, src_key_padding_mask=padding)
        h = h.masked_fill(padding.unsqueeze(-1), 0.0)
        return self.fc(h.sum(1) / (~padding).sum(1, keepdim=True))


def fill(module, seed):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, p in module.named_parameters():
            values = rng.standard_normal(tuple(p.shape)) / np.sqrt(p.shape[-1])
            if "norm" in name and name.endswith("weight"):
                values = np.ones(tuple(p.shape))
            p.copy_(torch.from_numpy(values.astype(np.float32)))
    return module


def main(compile=False):
    model = fill(Classifier(7, 8, 3), 1)
    print(model.encoder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    rng = np.random.default_rng(0)
    words = rng.integers(1, 7, (16, 5))
    words[rng.random((16, 5)).cumsum(1) > 3.0] = 0
    x, y = torch.from_numpy(words), torch.from_numpy(words.sum(1) % 3)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        step = torch.compile(step)
    losses = [step(x, y).item() for _ in range(6)]
    with torch.no_grad():
        accuracy = (model(x).argmax(1) == y).float().mean().item()
    return {"losses": losses, "accuracy": accuracy, "state": list(model.state_dict())[:6]}


if __name__ == "__main__":
    print(main())
