"""How long large programs take to compile, and how much longer ones of twice the size.

usage: python benchmarks/large_programs.py [--scale 1.0]

in : nothing; each size in a process of its own, without the cache of kernels
out: a table of CPU seconds from the first call of a compiled function to its result
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

PROGRAMS = {
    "chain": 3000, "chain_backward": 2250, "sum_of_inputs": 500, "outputs": 250, "layers": 1000,
    "layers_backward": 1000,
}  # fmt: skip


def _elementwise(x: Any, count: int) -> Any:
    y = x
    for i in range(count):
        y = y.sin() if i % 3 == 0 else y * 0.99 if i % 3 == 1 else y + x
    return y


def chain(count: int) -> tuple[Callable[..., Any], list[Any]]:
    """Elementwise ops, one behind the other."""
    import frontend as torch

    return lambda x: _elementwise(x, count), [torch.ones(50)]


def chain_backward(count: int) -> tuple[Callable[..., Any], list[Any]]:
    """The same, and its gradient."""
    import frontend as torch

    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        _elementwise(x, count).sum().backward()
        return x.grad

    return gradient, [torch.ones(50)]


def sum_of_inputs(count: int) -> tuple[Callable[..., Any], list[Any]]:
    """Many inputs."""
    import frontend as torch

    return lambda *xs: sum(xs[1:], xs[0]), [torch.ones(50) for _ in range(count)]


def outputs(count: int) -> tuple[Callable[..., Any], list[Any]]:
    """Many outputs, each a kernel of its own."""
    import frontend as torch

    return lambda x: [(x * float(i + 1)).sin() for i in range(count)], [torch.ones(50)]


def _sequential(count: int) -> Any:
    from frontend import nn

    return nn.Sequential(*[m for _ in range(count) for m in (nn.Linear(8, 8), nn.Tanh())])


def layers(count: int) -> tuple[Callable[..., Any], list[Any]]:
    """A Sequential of (Linear, Tanh)."""
    import frontend as torch

    model = _sequential(count).requires_grad_(False)
    return lambda x: model(x), [torch.ones(4, 8)]


def layers_backward(count: int) -> tuple[Callable[..., Any], list[Any]]:
    """The same, and its gradients."""
    import frontend as torch

    model = _sequential(count)

    def step(x: Any) -> Any:
        model.zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss

    return step, [torch.ones(4, 8)]


def seconds(name: str, count: int) -> float:
    """CPU seconds of a first call, behind that of a small one."""
    import frontend as torch

    for size in (3, count):
        function, arguments = globals()[name](size)
        begun = time.process_time()
        torch.compile(function, fullgraph=True)(*arguments)
    return time.process_time() - begun


def measured(name: str, count: int) -> float:
    """The same, of a process of its own."""
    settings = {**os.environ, "GRAPHC_CACHE": "off", "GRAPHC_PROCESSES": "1"}
    command = [sys.executable, __file__, "--one", name, "--count", str(count)]
    return float(subprocess.run(command, env=settings, check=True, capture_output=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--one", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(seconds(arguments.one, arguments.count))
        return
    print("| program | n | CPU s | 2n | CPU s | times |\n|---|---|---|---|---|---|")
    for name, size in PROGRAMS.items():
        count = max(1, int(size * arguments.scale))
        once, twice = measured(name, count), measured(name, 2 * count)
        row = (name, count, f"{once:.2f}", 2 * count, f"{twice:.2f}", f"{twice / once:.1f}")
        print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
