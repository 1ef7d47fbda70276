"""Eager mode on native kernels where others are at work too: threads, interrupts, traces."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.engine.eager.kernels import kernel_families
from frontend.nn import functional as F
from graphc.codegen.program import compiled_spec, link

pytestmark = pytest.mark.usefixtures("fresh_native")


def rows(*shape: int) -> Any:
    numbers = np.random.default_rng(sum(shape)).standard_normal(shape)
    return torch.tensor(numbers, dtype=torch.float32)


def several(n: int) -> list[bytes]:
    """Ops of several kinds, forward and backward, at a size."""
    w = rows(6, 5).requires_grad_()
    loss = F.cross_entropy(F.gelu(rows(n, 6) @ w), torch.arange(n) % 5)
    loss.backward()
    return [loss.detach().numpy().tobytes(), w.grad.numpy().tobytes()]


def test_threads_compute_at_once() -> None:
    sizes = (3, 9, 4, 17)
    results: dict[int, list[bytes]] = {}
    ready = threading.Barrier(len(sizes))

    def run(n: int) -> None:
        torch.set_eager_backend("native")
        ready.wait()
        results[n] = several(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: several(n) for n in sizes}


@pytest.mark.parametrize("place", ["lower", "compile_kernel", "load", "driver"])
def test_an_interrupt_while_an_op_is_compiled(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call compiles it, and nothing is remembered of the one that was left."""
    module: Any = compiled_spec if place in ("lower", "compile_kernel") else link
    name = "single_driver" if place == "driver" else place
    x = rows(5, 7)
    monkeypatch.setattr(link, "_native", {})

    def interrupted(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            torch.sum(x, 1)
        with pytest.raises(KeyboardInterrupt):
            x * 2.0 + x
    assert all(not known.refused for known in kernel_families._FAMILIES.values())
    assert np.allclose(torch.sum(x, 1).numpy(), x.numpy().sum(1), atol=1e-5)
    assert (x * 2.0 + x).numpy().tobytes() == (x.numpy() * np.float32(2) + x.numpy()).tobytes()


def test_traces_begin_and_end_between_native_ops() -> None:
    inner = torch.compile(lambda x: F.gelu(x) * 2.0)
    seen: list[Any] = []
    x = rows(4, 3).requires_grad_()
    y = F.gelu(x)
    y.register_hook(lambda g: seen.append(inner(g)))  # traced in the middle of a sweep
    y.sum().backward()
    ones = torch.ones(4, 3)
    assert seen[0].numpy().tobytes() == (F.gelu(ones) * 2.0).numpy().tobytes()

    @torch.compile
    def step(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        F.gelu(leaf).sum().backward()
        return leaf.grad

    assert step(x.detach()).numpy().tobytes() == x.grad.numpy().tobytes()
