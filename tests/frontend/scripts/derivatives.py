"""Derivatives without backward(): autograd.grad, Jacobians and Hessians."""

import torch
from torch.autograd.functional import hessian, jacobian


def rosenbrock(x):
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def polar(r, angle):
    return torch.stack([r * torch.cos(angle), r * torch.sin(angle)])


def newton(x, steps):
    """Newton's method by hand, with 2 x 2 matrices."""
    path = []
    for _ in range(steps):
        h = hessian(rosenbrock, x)
        g = jacobian(rosenbrock, x)
        det = h[0, 0] * h[1, 1] - h[0, 1] * h[1, 0]
        inverse = (
            torch.stack([torch.stack([h[1, 1], -h[0, 1]]), torch.stack([-h[1, 0], h[0, 0]])]) / det
        )
        x = x - inverse @ g
        path.append(rosenbrock(x).item())
    return x, path


def main(compile=False):
    x = torch.tensor([1.5, -0.5, 2.0], dtype=torch.float64, requires_grad=True)
    unused = torch.tensor(1.0, requires_grad=True)
    gradient, none = torch.autograd.grad(rosenbrock(x), [x, unused], allow_unused=True)
    print(gradient, none)
    weighted = torch.autograd.grad(
        outputs=x**2, inputs=x, grad_outputs=torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    )
    both = jacobian(polar, (torch.tensor(2.0), torch.tensor(0.5)))
    matrix = jacobian(lambda m: m @ m.t(), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    end, path = newton(torch.tensor([-1.2, 1.0], dtype=torch.float64), 5)
    try:
        torch.autograd.grad(rosenbrock(x), unused)
        said = ""
    except RuntimeError as error:
        said = str(error).split(".")[0]
    print(said)
    return {
        "gradient": gradient.tolist(),
        "none": none is None,
        "untouched": x.grad is None,
        "weighted": weighted[0].tolist(),
        "polar": [part.tolist() for part in both],
        "matrix": [list(matrix.shape), matrix.sum().item()],
        "hessian": hessian(rosenbrock, x.detach()).tolist(),
        "newton": [end.tolist(), path],
    }


if __name__ == "__main__":
    print(main())
