"""A small GAN: a generator learns a shifted normal distribution, a discriminator tells it apart."""

import numpy as np
import torch
import torch.nn as nn


def fill(module, seed):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for p in module.parameters():
            values = rng.standard_normal(tuple(p.shape)) / np.sqrt(p.shape[-1])
            p.copy_(torch.from_numpy(values.astype(np.float32)))
    return module


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid()
        )

    def forward(self, x):
        return self.net(x)


def main(compile=False):
    generator, discriminator = fill(Generator(), 1), fill(Discriminator(), 2)
    criterion = nn.BCELoss()
    opt_g = torch.optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(discriminator.parameters(), lr=0.01, betas=(0.5, 0.999))

    def step(real, noise):
        ones = torch.ones(real.size(0), 1)
        zeros = torch.zeros(real.size(0), 1)
        # the discriminator: real samples are 1, generated ones 0
        opt_d.zero_grad()
        fake = generator(noise)
        loss_real = criterion(discriminator(real), ones)
        loss_fake = criterion(discriminator(fake.detach()), zeros)
        loss_d = loss_real + loss_fake
        loss_d.backward()
        opt_d.step()
        # the generator: the discriminator should take its samples for real
        opt_g.zero_grad()
        loss_g = criterion(discriminator(fake), ones)
        loss_g.backward()
        opt_g.step()
        return loss_d, loss_g

    if compile:
        step = torch.compile(step)
    rng = np.random.default_rng(0)
    losses = []
    for epoch in range(6):
        real = torch.from_numpy((rng.standard_normal((32, 2)) * 0.5 + 2).astype(np.float32))
        noise = torch.from_numpy(rng.standard_normal((32, 4)).astype(np.float32))
        loss_d, loss_g = step(real, noise)
        losses.append([loss_d.item(), loss_g.item()])
        print(f"{epoch}: D {loss_d.item():.4f} G {loss_g.item():.4f}")
    with torch.no_grad():
        mean = generator(torch.ones(1, 4)).mean().item()
    return {"losses": losses, "mean": mean}


if __name__ == "__main__":
    print(main())
