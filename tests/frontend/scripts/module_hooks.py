"""Hooks on modules: before and after forward, after backward, and what the old kind misses."""

import warnings

import torch
import torch.nn as nn


def fixed(module):
    """The same weights everywhere: ramps over [-1, 1]."""
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
    return module


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 3)
        self.fc2 = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


class Mixed(nn.Module):
    """Several inputs, several operations: y = (a + b) * c."""

    def forward(self, a, b, c):
        return (a + b) * c


def values(grads):
    return [None if g is None else g.tolist() for g in grads]


def walk():
    """Every hook prints and keeps what it is given."""
    net, calls = fixed(Net()), []

    def before(module, args):
        calls.append(["before", type(module).__name__, args[0].tolist()])
        print("before", module, args)

    def after(module, args, output):
        calls.append(["after", args[0].tolist(), output.tolist()])
        print("after", module, output)

    def back(module, grad_input, grad_output):
        calls.append(["back", values(grad_input), values(grad_output)])
        print("back", module, grad_input, grad_output)

    handles = []
    for layer in (net.fc1, net.fc2, net):
        handles.append(layer.register_forward_pre_hook(before))
        handles.append(layer.register_forward_hook(after))
        handles.append(layer.register_full_backward_hook(back))
    x = torch.tensor([[1.0, -1.0], [0.5, 2.0]], requires_grad=True)
    net(x).sum().backward()
    count = len(calls)
    for handle in handles:
        handle.remove()
    net(x).sum().backward()
    return {"calls": calls, "silent": len(calls) == count, "x": x.grad.tolist()}


def replacing():
    """What a hook returns stands in for what it was given."""
    net = fixed(Net())
    x = torch.tensor([[1.0, -1.0]], requires_grad=True)
    with net.fc1.register_forward_pre_hook(lambda module, args: (args[0] * 2,)):
        doubled_input = net(x).tolist()
    with net.fc2.register_forward_hook(lambda module, args, output: output + 10):
        moved = net(x).tolist()
    with net.fc1.register_full_backward_hook(lambda module, gi, go: (gi[0] * 100,)):
        net(x).sum().backward()
    with net.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"x": kwargs["x"] + 1}), with_kwargs=True
    ):
        named = net(x=x).tolist()
    return {
        "plain": net(x).tolist(), "doubled input": doubled_input, "moved": moved, "named": named,
        "x": x.grad.tolist(),
        "weight": net.fc1.weight.grad.tolist(),
    }  # fmt: skip


def old_on_layers():
    """On a layer of one operation the old hook gives that operation's inputs: bias, input, weight;
    on the whole it gives those of the last layer, not its own input."""
    net, calls = fixed(Net()), []

    def hook(module, grad_input, grad_output):
        calls.append([type(module).__name__, values(grad_input), values(grad_output)])
        print("old", module, grad_input, grad_output)

    for layer in (net.fc1, net.fc2, net):
        layer.register_backward_hook(hook)
    x = torch.tensor([[1.0, -1.0], [0.5, 2.0]], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net(x).sum().backward()
    return calls


def old_and_full():
    """The old hook on a module of several operations sees the inputs of the last one only: here
    the product's, not a, b and c."""
    calls = {}
    for kind in ("old", "full"):
        a, b, c = (torch.tensor([v, -v], requires_grad=True) for v in (1.0, 2.0, 3.0))
        module = Mixed()

        def hook(module, grad_input, grad_output, kind=kind):
            print(kind, len(grad_input), grad_input, grad_output)
            calls[kind] = [values(grad_input), values(grad_output)]

        register = "register_backward_hook" if kind == "old" else "register_full_backward_hook"
        getattr(module, register)(hook)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            module(a, b, c).sum().backward()
        calls[kind + " warns"] = ["non-full backward hook" in str(w.message) for w in caught]
        calls[kind + " grads"] = values([a.grad, b.grad, c.grad])
    return calls


def order():
    """Global hooks come first, then the module's in the order of registration."""
    said = []
    relu = nn.ReLU()
    everywhere = nn.modules.module.register_module_forward_hook(
        lambda module, args, output: said.append("global")
    )
    relu.register_forward_hook(lambda module, args, output: said.append("first"))
    relu.register_forward_hook(lambda module, args, output: said.append("second"))
    relu.register_forward_hook(lambda module, args, output: said.append("third"), prepend=True)
    relu(torch.tensor([1.0]))
    everywhere.remove()
    relu(torch.tensor([1.0]))
    return said


def main(compile=False):
    return {
        "walk": walk(), "replacing": replacing(), "old on layers": old_on_layers(),
        "old and full": old_and_full(), "order": order(),
    }  # fmt: skip


if __name__ == "__main__":
    print(main())
