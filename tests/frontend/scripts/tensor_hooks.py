"""Hooks on tensors, along fc1 -> fc2: looking at gradients, keeping them, changing them."""

import warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 2)
        self.fc2 = nn.Linear(2, 1)
        with torch.no_grad():
            self.fc1.weight.copy_(torch.tensor([[1.0, -2.0, 0.5], [0.25, 1.5, -1.0]]))
            self.fc1.bias.copy_(torch.tensor([0.5, -0.5]))
            self.fc2.weight.copy_(torch.tensor([[2.0, -3.0]]))
            self.fc2.bias.fill_(1.0)

    def forward(self, x):
        self.hidden = self.fc1(x)
        return self.fc2(torch.tanh(self.hidden))


def look():
    """Every hook only prints; what it returns is None, so the gradients stay."""
    net, seen = Net(), {}
    x = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)

    def show(name):
        def hook(grad):
            seen[name] = grad.tolist()
            print(name, grad)

        return hook

    out = net(x)
    handles = [
        net.hidden.register_hook(show("hidden")),
        net.fc1.weight.register_hook(show("fc1.weight")),
        net.fc2.weight.register_hook(show("fc2.weight")),
        out.register_hook(show("out")),
        x.register_hook(show("x")),
    ]
    net.hidden.retain_grad()
    out.backward()
    print("kept", net.hidden.grad, net.hidden.is_leaf, net.fc1.weight.is_leaf)
    seen["kept"] = net.hidden.grad.tolist()
    first_pass = dict(seen)
    for handle in handles:
        handle.remove()
    seen.clear()
    net(x).sum().backward()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        none = net.hidden.grad is None  # of the second run: nobody asked for it
    return {
        "seen": first_pass, "order": list(first_pass), "none": none,
        "warned": ["is not a leaf Tensor is being accessed" in str(w.message) for w in caught],
        "after removal": len(seen), "added up": net.fc1.weight.grad.tolist(),
    }  # fmt: skip


def change():
    """A hook on a tensor that is used changes what everything before it receives."""
    net = Net()
    x = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    net(x).backward()
    plain = net.fc1.weight.grad.clone()
    net.zero_grad()
    y = net(x)
    first = net.hidden.register_hook(lambda grad: grad * 2)
    net.hidden.register_hook(lambda grad: grad + 1)
    net.hidden.retain_grad()
    y.backward(retain_graph=True)
    changed = net.fc1.weight.grad.clone()
    kept = net.hidden.grad.clone()
    net.zero_grad()
    first.remove()
    y.backward()
    clipped = torch.tensor([3.0, -4.0], requires_grad=True)
    clipped.register_hook(lambda grad: grad.clamp(-1, 1))
    (clipped**2).sum().backward()
    return {
        "plain": plain.tolist(),
        "changed": changed.tolist(),
        "kept": kept.tolist(),
        "first removed": net.fc1.weight.grad.tolist(),
        "clipped": clipped.grad.tolist(),
    }


def train(compile):
    """Steps with a hook on a weight that lets half of the gradient through."""
    net = Net()
    net.fc1.weight.register_hook(lambda grad: grad * 0.5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((8, 3)).astype(np.float32))
    y = x.sum(1, keepdim=True)

    def step(x, y):
        hidden = net.fc1(x)
        hidden.register_hook(lambda grad: grad.clamp(-0.05, 0.05))
        loss = F.mse_loss(net.fc2(torch.tanh(hidden)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        step = torch.compile(step)
    return [step(x, y).item() for _ in range(5)]


def main(compile=False):
    return {"look": look(), "change": change(), "losses": train(compile)}


if __name__ == "__main__":
    print(main())
