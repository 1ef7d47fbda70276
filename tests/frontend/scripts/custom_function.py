"""Functions with gradients of one's own: a cubic that saves its input, and rounding whose gradient
passes straight through."""

import numpy as np
import torch
import torch.nn as nn


class Cubic(torch.autograd.Function):
    """(5 x^3 - 3 x) / 2"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * (5 * x**3 - 3 * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * x**2 - 1)


class Round(torch.autograd.Function):
    """To multiples of `width`; the gradient is that of the identity where |x| < 1."""

    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x.abs() < 1)
        ctx.width = width
        return torch.round(x / width) * width

    @staticmethod
    def backward(ctx, grad_output):
        (inside,) = ctx.saved_tensors
        return grad_output * inside.to(grad_output.dtype), None


class Scaled(torch.autograd.Function):
    """x * w, which notes whose gradients were asked for."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        print("wanted", ctx.needs_input_grad)
        grad_x = grad_output * w if ctx.needs_input_grad[0] else None
        grad_w = grad_output * x if ctx.needs_input_grad[1] else None
        return grad_x, grad_w


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.0))
        self.b = nn.Parameter(torch.tensor(-1.0))
        self.c = nn.Parameter(torch.tensor(0.0))
        self.d = nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        return self.a + self.b * Cubic.apply(self.c + self.d * Round.apply(x, 0.125))


def main(compile=False):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    x = torch.from_numpy(np.linspace(-3, 3, 40).astype(np.float32))
    y = torch.sin(x)

    def step(x, y):
        loss = (net(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        step = torch.compile(step)
    losses = [step(x, y).item() for _ in range(8)]
    w = torch.tensor([2.0, -1.0], requires_grad=True)
    Scaled.apply(torch.tensor([3.0, 4.0]), w).sum().backward()
    z = torch.tensor([0.3, -0.7, 1.5], requires_grad=True)
    rounded = Round.apply(z, 0.25)
    rounded.sum().backward()
    print(rounded.grad_fn.name())
    cube = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(Cubic.apply(cube).sum(), cube, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), cube)
    return {
        "losses": losses, "w": w.grad.tolist(), "z": z.grad.tolist(), "rounded": rounded.tolist(),
        "slope": slope.tolist(), "bend": bend.tolist(),
        "checked": torch.autograd.gradcheck(Cubic.apply, (cube,)),
        "parameters": [p.item() for p in net.parameters()],
    }  # fmt: skip


if __name__ == "__main__":
    print(main())
