"""Double backward: a critic whose slope is held near 1 between real and generated samples."""

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


def main(compile=False):
    critic = fill(nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1)), 1)
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=0.005)

    def penalty(real, fake, mix):
        between = (mix * real + (1 - mix) * fake).detach().requires_grad_(True)
        scores = critic(between)
        (slope,) = torch.autograd.grad(
            outputs=scores, inputs=between, grad_outputs=torch.ones_like(scores),
            create_graph=True, retain_graph=True,
        )  # fmt: skip
        return ((slope.norm(2, dim=1) - 1) ** 2).mean()

    def step(real, fake, mix):
        optimizer.zero_grad()
        loss = critic(fake).mean() - critic(real).mean()
        held = penalty(real, fake, mix)
        (loss + 10 * held).backward()
        optimizer.step()
        return loss, held

    if compile:
        step = torch.compile(step)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(5):
        real, fake = (rng.standard_normal((16, 3)).astype(np.float32) + s for s in (1.0, -1.0))
        mix = rng.random((16, 1), np.float32)
        result = step(*(torch.from_numpy(np.asarray(v, np.float32)) for v in (real, fake, mix)))
        losses.append([value.item() for value in result])

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x**4).sum()
    orders = []
    for _ in range(3):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        orders.append(y.tolist())
    print(y, y.grad_fn is not None)
    return {
        "losses": losses,
        "orders": orders,
        "weight": critic[0].weight.detach().abs().sum().item(),
    }


if __name__ == "__main__":
    print(main())
