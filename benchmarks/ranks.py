"""What data parallel training costs: a step on ranks beside its own part and the all-reduce; and
whether weights have the same bits for any number of ranks.

    python benchmarks/ranks.py [--ranks 2] [--transport local|mpi] [--steps 40] [--models mlp gpt]
                               [--kinds eager backward whole] [--batch 64] [--json]
    python benchmarks/ranks.py --bits 100 [--ranks 1 2 4 8]

The first: for each model, and each kind of step (op by op; with a compiled model; compiled as a
whole), the time of a step of all ranks, each on its part of the batch; the same step without the
exchange; the exchange alone; and the first over the sum of the others. With `set_deterministic`
too. The model of docs/distributed.md is fitted to messages of several sizes and held against the
exchange. Times are medians of the slowest rank. The second: the digest of the weights behind so
many steps; exit code 1 where ranks differ, kinds do, or, of shares, numbers of ranks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import workloads

import frontend as torch
import frontend.distributed as dist
from frontend.distributed.run import main as start
from frontend.nn.parallel import DistributedDataParallel

SHARES = 8
SIZES = [1 << n for n in range(8, 25, 2)]
MODELS = {"mlp": "mlp-sgd", "lenet": "lenet-sgd", "gpt": "gpt-adamw", "resnet18": "resnet18-sgd"}
KINDS = ("eager", "backward", "whole")


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


class RankedWorkload:
    """A workload of the table on this rank's part of its batch."""

    def __init__(self, name: str, batch: int | None):
        self.workload = workloads.BY_NAME[MODELS[name]]
        rows = batch or max(self.workload.batch["rows"], SHARES)
        arrays = self.workload.data(
            np.random.default_rng(0), **{**self.workload.batch, "rows": rows}
        )
        rank, count = dist.get_rank(), dist.get_world_size()
        part = slice(rank * rows // count, (rank + 1) * rows // count)
        self.data = [torch.tensor(array[part]) for array in arrays]

    def model(self) -> Any:
        torch.manual_seed(0)
        return self.workload.model(torch)

    def step(self, model: Any, kind: str, ranks: bool) -> Callable[[], Any]:
        """A step of a model, on all `ranks` or in this process alone."""
        call = torch.compile(model, fullgraph=True) if kind == "backward" else model
        call = DistributedDataParallel(call) if ranks else call
        chosen = self.workload.optimizer
        assert chosen is not None
        optimizer = getattr(torch.optim, chosen.name)(model.parameters(), **chosen.options)

        def step(*batch: Any) -> Any:
            optimizer.zero_grad()
            loss = workloads.loss_of(torch, call(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
            return loss

        step = torch.compile(step, fullgraph=True) if kind == "whole" else step
        return lambda: step(*self.data)


def measured(case: RankedWorkload, kind: str, steps: int) -> dict[str, float]:
    """Times of one model, in seconds."""
    alone = case.model()
    own = timed(case.step(alone, kind, ranks=False), steps)
    flat = torch.zeros(sum(p.numel() for p in alone.parameters()))
    exchange = timed(lambda: dist.all_reduce(flat), steps)
    result = {"own": own, "exchange": exchange, "bytes": float(flat.numpy().nbytes)}
    for name in ("ranks", "shares"):
        if name == "shares":
            dist.set_deterministic(True, shares=SHARES)
        result[name] = timed(case.step(case.model(), kind, ranks=True), steps)
        result[f"{name}_ratio"] = result[name] / (own + exchange)
    dist.set_deterministic(False)
    return result


def digests(case: RankedWorkload, kind: str, steps: int) -> dict[str, str]:
    """Of the weights behind so many steps, without shares and with them. Raises SystemExit where
    ranks differ."""
    found = {}
    for name in ("ranks", "shares"):
        dist.set_deterministic(name == "shares", shares=SHARES)
        model = case.model()
        step = case.step(model, kind, ranks=True)
        for _ in range(steps):
            step()
        content = b"".join(t.detach().numpy().tobytes() for t in model.parameters())
        found[name] = hashlib.sha256(content).hexdigest()[:16]
    dist.set_deterministic(False)
    everywhere: list[Any] = []
    dist.all_gather_object(everywhere, found)
    if any(each != found for each in everywhere):
        sys.exit(f"the weights of ranks differ: {everywhere}")
    return found


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


def on_this_rank(arguments: argparse.Namespace) -> dict[str, Any]:
    """What is found, by row."""
    dist.init_process_group("mpi")
    results: dict[str, Any] = {} if arguments.bits else {"model": fitted(arguments.steps)}
    for name in arguments.models:
        case = RankedWorkload(name, arguments.batch)
        for kind in arguments.kinds:
            label = f"{name} {kind}"
            if arguments.bits:
                results[label] = digests(case, kind, arguments.bits)
            else:
                results[label] = measured(case, kind, arguments.steps)
            if dist.get_rank() == 0:
                print(_line(label, results[label]), flush=True)
    first = dist.get_rank() == 0
    dist.destroy_process_group()
    return results if first else {}


def _line(label: str, row: dict[str, Any]) -> str:
    if "own" not in row:
        return f"{label:18} {row['ranks']}  {SHARES} shares {row['shares']}"
    return (
        f"{label:18} {row['bytes'] / 1e6:6.2f} MB  own {row['own'] * 1e3:8.2f} ms  "
        f"exchange {row['exchange'] * 1e3:6.2f}  ranks {row['ranks'] * 1e3:8.2f} "
        f"({row['ranks_ratio']:.2f})  {SHARES} shares {row['shares'] * 1e3:8.2f} "
        f"({row['shares_ratio']:.2f})"
    )


def compared(runs: dict[int, dict[str, dict[str, str]]]) -> list[str]:
    """What differs that is to be the same: of shares all, else the kinds of one model."""
    wrong = []
    for name in {label.split()[0] for run in runs.values() for label in run}:
        for count, run in runs.items():
            same = {row["ranks"] for label, row in run.items() if label.split()[0] == name}
            if len(same) > 1:
                wrong.append(f"{name} on {count} ranks: the kinds of steps differ")
        shares = {
            row["shares"]
            for run in runs.values()
            for label, row in run.items()
            if label.split()[0] == name
        }
        if len(shares) > 1:
            wrong.append(f"{name} in {SHARES} shares: {', '.join(sorted(shares))}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--bits", type=int, default=0, metavar="STEPS")
    parser.add_argument("--batch", type=int, help="rows of the batch of all ranks")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--transport", choices=("local", "mpi"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", help=argparse.SUPPRESS)  # where rank 0 puts what it found
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        results = on_this_rank(arguments)
        if results:
            Path(arguments.out).write_text(json.dumps(results), "utf-8")
        return
    runs: dict[int, Any] = {}
    chosen = ["--transport", arguments.transport] if arguments.transport else []
    for count in arguments.ranks:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "results.json"
            given = [*chosen, *sys.argv, "--out", str(out)]
            if code := start(["--nproc-per-node", str(count), *given]):
                sys.exit(code)
            runs[count] = json.loads(out.read_text("utf-8"))
    if arguments.json:
        print(json.dumps(runs, indent=2))
    for count, run in runs.items() if not arguments.bits else ():
        model = run["model"]
        rate, off = model["gigabytes_per_second"], model["worst_error"]
        told = f"{model['latency_us']:.0f} µs + bytes / {rate:.2f} GB/s, off by {off:.0%}"
        print(f"{count} ranks: all-reduce {told}")
    wrong = compared(runs) if arguments.bits else []
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
