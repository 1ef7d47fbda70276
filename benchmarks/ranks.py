"""What data parallel training costs: a step on ranks beside its own part and the all-reduce.

    python benchmarks/ranks.py [--ranks 2] [--transport local|mpi] [--steps 40] [--json]

For each model: the time of a step of all ranks, each on its part of the batch; the same step
without the exchange; the exchange alone; and the first over the sum of the others. With
`set_deterministic` too. The model of docs/distributed.md is fitted to messages of several sizes and
held against the exchange. Times are medians of the slowest rank.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import frontend as torch
import frontend.distributed as dist
import frontend.nn.functional as F
from frontend import nn
from frontend.distributed.run import main as start
from frontend.nn.parallel import DistributedDataParallel

BATCH = 64
SHARES = 8
SIZES = [1 << n for n in range(8, 25, 2)]


def mlp() -> Any:
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*layers)


def lenet() -> Any:
    first = [nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)]
    second = [nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()]
    return nn.Sequential(*first, *second, nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 10))


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (mlp, (784,)), "lenet": (lenet, (1, 28, 28)),
}  # fmt: skip


def timed(function: Callable[[], Any], steps: int) -> float:
    """The median time in seconds on the slowest rank; all ranks begin together."""
    function(), function()
    times = []
    for _ in range(steps):
        dist.barrier()
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    slowest = torch.tensor([median(times)], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def step_of(model: Any, forward: Any, x: Any, y: Any) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(forward(x), y).backward()
        optimizer.step()

    return step


def measured(name: str, compiled: bool, steps: int) -> dict[str, float]:
    """Times of one model, in seconds."""
    make, shape = MODELS[name]
    rank, count = dist.get_rank(), dist.get_world_size()
    rng = np.random.default_rng(rank)
    x = torch.from_numpy(rng.standard_normal((BATCH // count, *shape)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, 10, BATCH // count))
    torch.manual_seed(0)
    alone = make()
    run = torch.compile(alone, fullgraph=True) if compiled else alone
    own = timed(step_of(alone, run, x, y), steps)
    flat = torch.zeros(sum(p.numel() for p in alone.parameters()))
    exchange = timed(lambda: dist.all_reduce(flat), steps)
    result = {"own": own, "exchange": exchange, "bytes": float(flat.nbytes)}
    for kind in ("ranks", "shares"):
        if kind == "shares":
            dist.set_deterministic(True, shares=SHARES)
        torch.manual_seed(0)
        net = make()
        model = DistributedDataParallel(torch.compile(net, fullgraph=True) if compiled else net)
        result[kind] = timed(step_of(model, model, x, y), steps)
    dist.set_deterministic(False)
    return result


def fitted(steps: int) -> dict[str, Any]:
    """Latency and bandwidth of all-reduces by size, and how far the model is off."""
    times = []
    for size in SIZES:
        flat = torch.zeros(size // 4)
        times.append(timed(lambda flat=flat: dist.all_reduce(flat), steps))
    sizes, seconds = np.array(SIZES), np.array(times)
    # Relative errors count: each row is divided by what was measured.
    rows = np.stack([np.ones(len(sizes)), sizes], 1) / seconds[:, None]
    (latency, per_byte), *_ = np.linalg.lstsq(rows, np.ones(len(sizes)), rcond=None)
    off = np.abs(rows @ [latency, per_byte] - 1)
    return {
        "latency_us": latency * 1e6, "gigabytes_per_second": 1e-9 / per_byte,
        "worst_error": float(off.max()), "times_us": dict(zip(SIZES, (seconds * 1e6).tolist())),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--transport", choices=("local", "mpi"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if "RANK" not in os.environ:
        chosen = ["--transport", arguments.transport] if arguments.transport else []
        sys.exit(start(["--nproc-per-node", str(arguments.ranks), *chosen, *sys.argv]))
    dist.init_process_group("mpi")
    results: dict[str, Any] = {"model": fitted(arguments.steps)}
    for name in MODELS:
        for compiled in (False, True):
            label = f"{name} {'compiled' if compiled else 'eager'}"
            results[label] = measured(name, compiled, arguments.steps)
    if dist.get_rank() == 0 and arguments.json:
        print(json.dumps(results, indent=2))
    elif dist.get_rank() == 0:
        model = results.pop("model")
        rate, off = model["gigabytes_per_second"], model["worst_error"]
        print(
            f"all-reduce: {model['latency_us']:.0f} µs + bytes / {rate:.2f} GB/s, off by {off:.0%}"
        )
        for label, row in results.items():
            both = row["own"] + row["exchange"]
            print(f"{label:16} {row['bytes'] / 1e6:6.2f} MB  own {row['own'] * 1e3:7.2f} ms  "
                  f"exchange {row['exchange'] * 1e3:6.2f}  ranks {row['ranks'] * 1e3:7.2f} "
                  f"({row['ranks'] / both:.2f})  {SHARES} shares {row['shares'] * 1e3:7.2f} "
                  f"({row['shares'] / both:.2f})")  # fmt: skip
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
