"""Modules, optimizers and functions that few programs have, beside PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import frontend

torch = pytest.importorskip("torch")

LAZY: dict[str, Any] = {
    "LazyLinear": (lambda nn: nn.LazyLinear(3), (2, 5)),
    "LazyConv2d": (lambda nn: nn.LazyConv2d(4, 3, groups=2), (2, 6, 5, 5)),
    "LazyConvTranspose1d": (lambda nn: nn.LazyConvTranspose1d(4, 3, bias=False), (2, 6, 5)),
    "LazyBatchNorm2d": (lambda nn: nn.LazyBatchNorm2d(), (4, 6, 2, 2)),
    "LazyInstanceNorm1d": (lambda nn: nn.LazyInstanceNorm1d(), (2, 6, 5)),
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy_modules(name: str) -> None:
    make, shape = LAZY[name]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = make(torch.nn), make(frontend.nn)
        assert repr(ours) == repr(theirs)
        want = theirs(torch.tensor(x))
    ours.load_state_dict({k: frontend.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    got = ours(frontend.tensor(x))
    assert repr(ours) == repr(theirs) and type(ours).__name__ == type(theirs).__name__
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), atol=1e-5)


def trained(system: Any, name: str, **options: Any) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    w, b, x, y = (
        random.standard_normal(shape).astype(np.float32) for shape in ((4, 6), (4,), (9, 6), (9, 4))
    )
    w, b = (system.tensor(value, requires_grad=True) for value in (w, b))
    x, y = system.tensor(x), system.tensor(y)
    kind = getattr(system.optim, name)
    optimizer = kind([w] if name == "Muon" else [w, b], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((system.tanh(x @ w.T + b) - y) ** 2).mean() * (1 + (w**4).mean())
        loss.backward()
        return loss

    for _ in range(2):
        if name == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return [w.detach().numpy(), b.detach().numpy()]


@pytest.mark.parametrize(
    ("name", "options", "bound"),
    [
        ("LBFGS", {"max_iter": 5}, 1e-5),
        ("LBFGS", {"max_iter": 5, "line_search_fn": "strong_wolfe", "history_size": 3}, 1e-4),
        ("Adafactor", {"weight_decay": 0.1, "maximize": True}, 1e-5),
        ("Muon", {"adjust_lr_fn": "match_rms_adamw", "nesterov": False}, 1e-3),
    ],
)
def test_optimizers(name: str, options: dict[str, Any], bound: float) -> None:
    for ours, theirs in zip(trained(frontend, name, **options), trained(torch, name, **options)):
        np.testing.assert_allclose(ours, theirs, atol=bound)


def test_fractional_pooling(peer: Any) -> None:
    samples = np.random.default_rng(0).random((2, 3, 3)).astype(np.float32)
    for count in (2, 3):
        x, drawn = peer.normal(2, 3, *(9, 8, 7)[:count]), samples[..., :count]

        def call(system: Any, x: Any, drawn: Any = drawn, count: int = count) -> Any:
            pool = getattr(system.nn.functional, f"fractional_max_pool{count}d")
            options = {"output_size": (4, 3, 2)[:count], "return_indices": True}
            return pool(x, (2, 3, 2)[:count], _random_samples=system.tensor(drawn), **options)

        peer.function(call, x, modes=("eager",))


def test_adaptive_softmax(peer: Any) -> None:
    x, target = peer.normal(6, 8), np.array([0, 2, 3, 6, 7, 11])
    peer.module(
        lambda nn: nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0), x, target,
        modes=("eager",), training=(True,),
    )  # fmt: skip


def test_symmetric_indefinite_factors(peer: Any) -> None:
    a = peer.normal(3, 6, 6)
    a = a + a.swapaxes(1, 2)
    a[0, range(6), range(6)] = 0
    peer.function(
        lambda s, a: tuple(s.linalg.ldl_factor_ex(a.detach())), a, modes=("eager",),
        gradients=False, bound=1e-4,
    )  # fmt: skip


@pytest.mark.parametrize(
    "source",
    [
        'torch.einsum("ij,jk->ik", torch.ones(2, 2, dtype=torch.int64), torch.ones(2, 2))',
        "torch.nn.functional.one_hot(torch.tensor([0, 2, 1]), 5)",
        "torch.nn.functional.one_hot(torch.tensor([0, 3]), 2)",
        "torch.nn.functional.one_hot(torch.tensor([0, -1]))",
        "torch.histc(torch.tensor([1.0, 1, 1]), 4)",
        'torch.histc(torch.tensor([1.0, float("nan")]), 4, 0, 2)',
        "torch.linspace(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3))",
        "(lambda x: (x.flatten() is x, x.reshape(2) is x, x.ravel() is x))(torch.ones(2))",
        "x.scatter(2, torch.zeros(2, 3).long(), 1.0)",
        "x.scatter(0, torch.zeros(2).long(), torch.ones(2))",
        "torch.index_copy(x, 0, torch.zeros(3).long(), x)",
        "torch.nn.functional.adaptive_max_pool2d(x, 2)",
        'hasattr(x, "__array_namespace__"), hasattr(x, "__array_function__")',
        "memoryview(x)",
        "np.concatenate([x, x]).shape, np.asarray(x).dtype.name, np.linalg.norm(g.detach())",
    ],
)
def test_expressions(peer: Any, source: str) -> None:
    peer.expression(source)
