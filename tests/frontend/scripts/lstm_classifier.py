"""Which of three letters does a word hold most of? An LSTM reads it to its end."""

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence


class Classifier(nn.Module):
    def __init__(self, words, size, hidden, classes):
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.lstm = nn.LSTM(size, hidden, num_layers=2, batch_first=True)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x):
        output, _ = self.lstm(self.embedding(x))
        return self.fc(output[:, -1])

    def of_lengths(self, x, lengths):
        packed = pack_padded_sequence(
            self.embedding(x), lengths, batch_first=True, enforce_sorted=False
        )
        _, (hidden, _) = self.lstm(packed)
        return self.fc(hidden[-1])


def fill(module, seed):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for p in module.parameters():
            values = rng.standard_normal(tuple(p.shape)) / np.sqrt(p.shape[-1])
            p.copy_(torch.from_numpy(values.astype(np.float32)))
    return module


def main(compile=False):
    model = fill(Classifier(3, 4, 8, 3), 1)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    letters = np.random.default_rng(0).integers(0, 3, (24, 4))
    most = np.array([np.bincount(word, minlength=3).argmax() for word in letters])
    x, y = torch.from_numpy(letters), torch.from_numpy(most)

    def step(x, y):
        model.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    if compile:
        step = torch.compile(step)
    losses = [step(x, y).item() for _ in range(6)]
    model.eval()
    with torch.no_grad():
        scores = model(x[:2])
        shorter = model.of_lengths(x[:3], torch.tensor([2, 4, 3]))
    return {"losses": losses, "scores": scores.tolist(), "shorter": shorter.tolist()}


if __name__ == "__main__":
    print(main())
