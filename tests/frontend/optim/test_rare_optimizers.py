"""L-BFGS, Adafactor and Muon: against their published steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.errors import TraceError


def rosenbrock(x: Any) -> Any:
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_finds_minima(search: str | None) -> None:
    matrix = torch.tensor([[3.0, 1.0], [1.0, 2.0]])
    x = torch.tensor([4.0, -3.0], requires_grad=True)
    start = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    curved = start if search else x
    options = {"line_search_fn": search, "max_iter": 60} if search else {"max_iter": 30}
    optimizer = torch.optim.LBFGS([curved], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = rosenbrock(start) if search else 0.5 * x @ matrix @ x
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert first > 10
    want = [1.0, 1.0] if search else [0.0, 0.0]
    np.testing.assert_allclose(curved.detach().numpy(), want, atol=1e-4)
    state = optimizer.state[curved]
    assert state["n_iter"] <= state["func_evals"] and len(state["old_dirs"]) <= 100


def test_lbfgs_refuses_what_it_cannot_do() -> None:
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    with pytest.raises(ValueError, match="parameter groups"):
        torch.optim.LBFGS([{"params": [x]}, {"params": [y]}])
    optimizer = torch.optim.LBFGS([x])
    with pytest.raises(TypeError, match="closure"):
        optimizer.step()
    with pytest.raises(TraceError, match="decides by values"):
        torch.compile(lambda: optimizer.step(lambda: x.sum()), fullgraph=True)()


def test_adafactor_takes_its_steps() -> None:
    random = np.random.default_rng(0)
    start, gradients = random.standard_normal((3, 4)), random.standard_normal((3, 3, 4))
    p = torch.tensor(start, requires_grad=True)
    optimizer = torch.optim.Adafactor([p], lr=0.3, weight_decay=0.1, d=1.5)
    x, rows, columns = start.copy(), np.zeros((3, 1)), np.zeros((1, 4))
    eps = np.finfo(np.float64).eps
    for t, g in enumerate(gradients, 1):
        p.grad = torch.tensor(g)
        optimizer.step()
        alpha = max(1e-3, np.sqrt((x**2).mean())) * min(0.3, 1 / math.sqrt(t))
        x *= 1 - 0.3 * 0.1
        rows += ((g**2).mean(1, keepdims=True) - rows) * t**-0.8
        columns += ((g**2).mean(0, keepdims=True) - columns) * t**-0.8
        u = g / np.sqrt(np.maximum(rows @ columns / max(rows.mean(), eps), eps**2))
        x -= alpha * u / max(1, np.sqrt((u**2).mean()) / 1.5)
        np.testing.assert_allclose(p.detach().numpy(), x, rtol=1e-6)
    assert set(optimizer.state[p]) == {"step", "row_var", "col_var"}
    vector = torch.ones(3, requires_grad=True)
    vector.grad = torch.ones(3)
    torch.optim.Adafactor([vector]).step()
    assert torch.allclose(vector, torch.tensor(0.99))


def test_muon_steps_along_orthogonal_matrices() -> None:
    from frontend.optim.muon import orthogonal

    g = torch.tensor(np.random.default_rng(0).standard_normal((6, 4)), dtype=torch.float32)
    values = np.linalg.svd(orthogonal(g, (3.4445, -4.7750, 2.0315), 5, 1e-7).float().numpy())[1]
    assert values.min() > 0.5 and values.max() < 1.3
    p = torch.zeros(6, 4, requires_grad=True)
    p.grad = g
    optimizer = torch.optim.Muon([p], lr=0.1, weight_decay=0.0)
    optimizer.step()
    step = -p.detach() / (0.1 * math.sqrt(6 / 4))
    momentum = g * 0.05 * 1.95  # Nesterov's, of a buffer that was 0
    want = orthogonal(momentum, (3.4445, -4.7750, 2.0315), 5, 1e-7).float()
    assert torch.allclose(step, want, atol=0.05)
    with pytest.raises(ValueError, match="2D parameters"):
        torch.optim.Muon([torch.zeros(3, requires_grad=True)])
