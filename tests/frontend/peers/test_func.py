"""torch.func: derivatives of functions, vmap, Modules as functions, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .conftest import Peer


def loss(s: Any, x: Any, w: Any) -> Any:
    return (s.tanh(x @ w) ** 2).sum()


def layer(s: Any, x: Any, w: Any) -> Any:
    return s.sin(x @ w) * x[:, :1]


def test_gradients(peer: Peer) -> None:
    x, w = peer.normal(4, 3), peer.normal(3, 2)

    def call(s: Any, x: Any, w: Any) -> Any:
        f = lambda a, b: loss(s, a, b)  # noqa: E731
        with_aux = lambda a: (loss(s, a["x"], a["w"]), {"twice": a["x"] * 2})  # noqa: E731
        return (
            s.func.grad(f)(x, w), s.func.grad(f, argnums=(1, 0))(x, w),
            s.func.grad_and_value(f, argnums=-1)(x, w),
            s.func.grad(with_aux, has_aux=True)({"x": x, "w": w}),
            s.func.grad(lambda a: s.func.grad(f)(a, w).sum())(x),
        )  # fmt: skip

    peer.function(call, x, w)


def test_products(peer: Peer) -> None:
    x, w, t = peer.normal(4, 3), peer.normal(3, 2), peer.normal(4, 3)

    def call(s: Any, x: Any, w: Any, t: Any) -> Any:
        value, pull = s.func.vjp(lambda a: {"y": layer(s, a, w), "z": a.sum()}, x)
        two, pull_two = s.func.vjp(lambda a, b: (layer(s, a, b), a * 2), x, w)
        return (
            value, pull({"y": value["y"] * 2, "z": value["z"]}), pull_two((two[0], t)),
            s.func.jvp(lambda a: layer(s, a, w), (x,), (t,)),
            s.func.jvp(lambda a, b: (layer(s, a, b), b), (x, w), (t, w * 3)),
            s.func.jvp(lambda a: s.func.grad(lambda b: loss(s, b, w))(a), (x,), (t,)),
        )  # fmt: skip

    peer.function(call, x, w, t)


def test_jacobians(peer: Peer) -> None:
    x, w = peer.normal(2, 3), peer.normal(3, 2)

    def call(s: Any, x: Any, w: Any) -> Any:
        f = lambda a, b: layer(s, a, b)  # noqa: E731
        return (
            s.func.jacrev(f)(x, w), s.func.jacfwd(f, argnums=1)(x, w),
            s.func.jacrev(f, argnums=(0, 1))(x, w), s.func.jacfwd(f, argnums=(1, 0))(x, w),
            s.func.jacrev(lambda a: (a * 2, {"s": a.sum(0)}))(x),
            s.func.jacfwd(lambda a: (a * 2, {"s": a.sum(0)}))(x),
            s.func.jacrev(lambda a: (a**3, a.sum()), has_aux=True)(x),
            s.func.hessian(lambda a: loss(s, a, w))(x),
            s.func.jacrev(s.func.jacfwd(lambda a: (a**3).sum(1)))(x),
        )  # fmt: skip

    peer.function(call, x, w, gradients=False)


def test_a_linearization_runs_the_function_once(peer: Peer) -> None:
    x, t = peer.normal(3), peer.normal(3)

    def call(s: Any, x: Any, t: Any) -> Any:
        x, t = x.detach(), t.detach()
        value, push = s.func.linearize(lambda a: a.sin() * a, x)
        return value, push(t), push(t * 2)

    peer.function(call, x, t, gradients=False, modes=("eager",))


def test_derivatives_off_the_tape_and_on_it(peer: Peer) -> None:
    def flags(s: Any, log: list[Any]) -> Any:
        x, w = s.ones(3), s.ones(3, requires_grad=True)
        f = lambda a: (a**2 * w).sum()  # noqa: E731
        g = lambda a: (a**2).sum()  # noqa: E731
        for function, point in ((f, x), (g, x), (g, w)):
            gradient, value = s.func.grad_and_value(function)(point)
            log.append((gradient.requires_grad, value.requires_grad))
            with s.no_grad():
                gradient, value = s.func.grad_and_value(function)(point)
                log.append((gradient.requires_grad, value.requires_grad, gradient))
                log.append(s.func.jacrev(lambda a: a * 2)(point).requires_grad)
        s.func.grad(f)(x).sum().backward()
        return w.grad

    ours, theirs = _both(peer, flags)
    assert ours == theirs


def _both(peer: Peer, run: Any) -> tuple[Any, Any]:
    import frontend

    def shown(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [shown(item) for item in value]
        return value.tolist() if hasattr(value, "tolist") else value

    logs: list[Any] = []
    for system in (frontend, peer.torch):
        log: list[Any] = []
        log.append(run(system, log))
        logs.append(shown(log))
    return logs[0], logs[1]


def test_vmap(peer: Peer) -> None:
    x, w = peer.normal(4, 3, 2), peer.normal(2, 5)

    def call(s: Any, x: Any, w: Any) -> Any:
        one = lambda a: s.softmax(a @ w, -1).sum(0)  # noqa: E731
        return (
            s.vmap(one)(x), s.func.vmap(one, in_dims=0, out_dims=1)(x),
            s.vmap(lambda a, b: a @ b, in_dims=(0, None))(x, w),
            s.vmap(lambda a, b: (a.sum(), b * 2), in_dims=(2, 0), out_dims=(0, -1))(x, w),
            s.vmap(lambda d: {"y": d["x"] + d["w"]}, in_dims=({"x": 2, "w": None},))(
                {"x": x, "w": w[:, :2].sum()}
            ),
            s.vmap(s.vmap(s.dot))(x, x * 2),
            s.vmap(s.func.grad(lambda a: (a**3).sum()))(x),
            s.vmap(lambda a, k: a * k, in_dims=(1, None))(x, 3),
            s.func.jacrev(s.vmap(lambda a: (a**2).sum()))(x),
        )  # fmt: skip

    peer.function(call, x, w)


VMAP_ERRORS = [
    "torch.vmap(torch.sin)()",
    "torch.vmap(torch.sin, in_dims=3)(x)",
    "torch.vmap(torch.add)(x, x[:1])",
    "torch.vmap(torch.add)(x, 1)",
    "torch.vmap(torch.sin, in_dims=None)(x)",
    "torch.vmap(torch.add, in_dims=(0,))(x, x)",
    "torch.vmap(lambda a: 1)(x)",
    "torch.vmap(torch.sin, out_dims=(0, 0))(x)",
    "torch.vmap(lambda a: a + torch.rand(3))(x)",
    "torch.vmap(torch.sin, randomness='some')(x)",
    "torch.func.grad(torch.sin)(x)",
    "torch.func.grad(torch.sum, argnums=1)(x)",
    "torch.func.grad(torch.sum, has_aux=True)(x)",
    "torch.func.jvp(torch.sin, x, (x,))",
    "torch.func.jvp(torch.sin, (x,), (x, x))",
    "torch.func.vjp(torch.sin, x)[1]((x, x))",
    "torch.func.functional_call(torch.nn.Linear(3, 2), {'weight': x}, x, strict=True)",
    "torch.func.functional_call(torch.nn.Linear(3, 2), [{'bias': x}, {'bias': x}], x)",
    "torch.func.functional_call(torch.nn.Linear(3, 2), 3, x)",
    "torch.func.stack_module_state([])",
]


@pytest.mark.parametrize("source", VMAP_ERRORS)
def test_errors(peer: Peer, source: str) -> None:
    peer.refusal(lambda s: eval(source, {"torch": s, "x": s.zeros(2, 3)}))


def test_modules_as_functions(peer: Peer) -> None:
    x = peer.normal(4, 3)
    states = [peer.normal(2, 3), peer.normal(2)]

    def call(s: Any, x: Any, weight: Any, bias: Any) -> Any:
        module = s.nn.Sequential(s.nn.Linear(3, 2), s.nn.Tanh())
        parameters = {"0.weight": weight, "0.bias": bias}
        value = lambda p, x: s.func.functional_call(module, p, (x,)).sum()  # noqa: E731
        return (
            s.func.functional_call(module, parameters, x),
            s.func.functional_call(module, ({"0.weight": weight}, {"0.bias": bias}), (x,), {}),
            s.func.grad(value)(parameters, x),
            s.vmap(s.func.grad(value), in_dims=(None, 0))(parameters, x),
        )

    peer.function(call, x, *states, modes=("eager",))


def test_tied_parameters_and_buffers(peer: Peer) -> None:
    def run(s: Any, log: list[Any]) -> Any:
        first = s.nn.Linear(2, 2, bias=False)
        module = s.nn.Sequential(first, s.nn.Linear(2, 2, bias=False), s.nn.BatchNorm1d(2))
        module[1].weight = first.weight
        x, replaced = s.ones(3, 2), {"0.weight": s.eye(2) * 3}
        log.append(s.func.functional_call(module[:2], replaced, x))
        with s.no_grad():
            first.weight.copy_(s.eye(2))
        log.append(s.func.functional_call(module[:2], replaced, x, tie_weights=False))
        means = {"2.running_mean": s.zeros(2), "2.running_var": s.ones(2)}
        s.func.functional_call(module, {**replaced, **means}, x)
        log.append(list(means.values()))
        log.append(module[2].running_mean)
        parameters, buffers = s.func.stack_module_state([s.nn.BatchNorm1d(2) for _ in range(3)])
        log.append([(n, list(p.shape), p.requires_grad, p.is_leaf) for n, p in parameters.items()])
        return [(n, list(p.shape)) for n, p in buffers.items()]

    ours, theirs = _both(peer, run)
    np.testing.assert_equal(ours, theirs)
