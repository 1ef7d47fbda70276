"""__torch_function__ against PyTorch: which functions are asked, in what order, what comes out."""

from __future__ import annotations

from typing import Any

import pytest

import frontend

from .conftest import Peer

CALLS = (
    "x + 1", "1 + x", "x - y", "y - x", "y * x", "x @ x", "-x", "x > 0", "x == y", "x[0]", "x[:2]",
    "abs(x)", "torch.relu(x)", "torch.add(y, x)", "torch.cat([y, x])", "torch.stack((x, x))",
    "F.relu(x)", "F.linear(y, x[None])", "F.softmax(x, 0)", "F.mse_loss(x, y)", "x.sum()",
    "x.sum(0, keepdim=True)", "x.max(0)", "x.unbind()", "x.view(1, -1)", "x.t()", "x.detach()",
    "x.clone()", "x.shape", "x.dtype", "x.requires_grad", "x.size()", "x.dim()", "x.tolist()",
    "x.add_(1)", "y.add(x)", "torch.where(x > 0, x, y)", "torch.sort(x)", "torch.is_tensor(x)",
    "x.to(torch.float64)", "x.numel()", "len(x)", "list(x)", "torch.einsum('i,i->', x, y)",
)  # fmt: skip


def subclass(s: Any, log: list[Any], name: str = "Sub", base: Any = None) -> Any:
    class Sub(base or s.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            log.append([name, types[0].__name__])
            return super().__torch_function__(func, types, args, kwargs or {})

    Sub.__name__ = name
    return Sub


def kinds(value: Any) -> Any:
    if isinstance(value, tuple | list) and not hasattr(value, "numel"):
        return [kinds(item) for item in value]
    return type(value).__name__


@pytest.mark.parametrize("source", CALLS)
def test_types_of_results(peer: Peer, source: str) -> None:
    def run(s: Any) -> Any:
        log: list[Any] = []
        kind = subclass(s, log)
        names = {"torch": s, "F": s.nn.functional, "y": s.ones(3)}
        names["x"] = s.tensor([1.0, -2.0, 3.0]).as_subclass(kind)
        log.clear()
        value = eval(source, names)
        return kinds(value), bool(log), log[:1]

    ours, theirs = run(frontend), run(peer.torch)
    assert source == "x.dtype" or ours[0] == theirs[0]
    assert ours[1:] == theirs[1:]


def test_who_is_asked_first(peer: Peer) -> None:
    def run(s: Any, log: list[Any]) -> Any:
        first = subclass(s, log, "First")
        second = subclass(s, log, "Second", first)
        other = subclass(s, log, "Other")
        a, b = (s.ones(2).as_subclass(kind) for kind in (first, second))
        c = s.ones(2).as_subclass(other)
        log.clear()
        for call in (lambda: s.add(a, b), lambda: s.add(b, a), lambda: a + b):
            log.append(type(call()).__name__)
        for call in (lambda: s.add(a, c), lambda: s.cat([c, a])):
            try:
                call()
            except TypeError:
                log.append("refused")

    peer.script(run)


def test_other_objects_and_modes(peer: Peer) -> None:
    def run(s: Any, log: list[Any]) -> Any:
        from importlib import import_module

        overrides = import_module(f"{s.__name__}.overrides")

        class Mode(overrides.TorchFunctionMode):
            def __torch_function__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                log.append([func.__name__, len(args)])
                return func(*args, **(kwargs or {}))

        class Thing:
            @classmethod
            def __torch_function__(
                cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                return "taken" if func in (s.add, s.relu) else NotImplemented

        x, thing = s.ones(2), Thing()
        with Mode():
            s.add(x, s.ones(2))
            s.relu(x)
        log.append([s.add(x, thing), s.relu(thing), s.add(thing, 2)])
        log.append(overrides.has_torch_function((x, thing)))
        log.append(overrides.is_tensor_like(thing))
        return s.sum(thing)

    peer.script(run)
