"""LeNet on images of 32 x 32: two convolutions, two poolings, three linear layers."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.view(-1, 400)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def fill(module, seed):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for p in module.parameters():
            fan_in = p[0].numel() if p.dim() > 1 else p.numel()
            values = rng.standard_normal(tuple(p.shape)) / np.sqrt(fan_in)
            p.copy_(torch.from_numpy(values.astype(np.float32)))
    return module


def main(compile=False):
    net = fill(LeNet(), 1)
    print(net)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.standard_normal((16, 3, 32, 32)).astype(np.float32))
    labels = torch.from_numpy(rng.integers(0, 10, 16))

    def step(inputs, labels):
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        step = torch.compile(step)
    losses = []
    for _ in range(2):
        for i in range(0, 16, 8):
            losses.append(step(images[i : i + 8], labels[i : i + 8]).item())
    net.eval()
    with torch.no_grad():
        outputs = net(images)
        _, predicted = torch.max(outputs, 1)
    correct = (predicted == labels).sum().item()
    return {
        "losses": losses,
        "predicted": predicted.tolist(),
        "correct": correct,
        "outputs": outputs[0].tolist(),
    }


if __name__ == "__main__":
    print(main())
