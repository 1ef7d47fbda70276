"""Initial weights: a function applied to every module, outside of autograd."""

import numpy as np
import torch
import torch.nn as nn


@torch.no_grad()
def init_weights(module):
    print("init", type(module).__name__)
    if isinstance(module, nn.Linear):
        module.weight.fill_(0.5)
        module.bias.zero_()
        module.weight[0] = torch.arange(module.in_features, dtype=torch.float32)
    elif isinstance(module, nn.Conv2d):
        module.weight.copy_(torch.eye(3))
        nn.init.constant_(module.bias, 0.1)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)


def main(compile=False):
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Sequential(nn.Linear(32, 4), nn.ReLU(), nn.Linear(4, 2)),
    )
    same = net.apply(init_weights) is net
    print(net)
    for name, p in net.named_parameters():
        print(name, tuple(p.shape), p.requires_grad, p.is_leaf)
    print(net[4][2].weight)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 1, 4, 4)).astype(np.float32))
    out = net(x)
    out.sum().backward()
    return {
        "same": same,
        "out": out.tolist(),
        "sums": {name: p.sum().item() for name, p in net.named_parameters()},
        "grads": {name: p.grad.sum().item() for name, p in net[4].named_parameters()},
        "count": sum(p.numel() for p in net.parameters() if p.requires_grad),
    }


if __name__ == "__main__":
    print(main())
