"""What data parallel training costs: a step on ranks beside its own part and the all-reduce; and
whether weights have the same bits for any number of ranks.

    python benchmarks/ranks.py [--ranks 2] [--transport local|mpi] [--steps 40] [--models mlp gpt]
                               [--kinds eager backward whole] [--batch 64] [--seconds 60] [--json]
    python benchmarks/ranks.py --bits 100 [--ranks 1 2 4 8]

The first: for each model, and each kind of step (op by op; with a compiled model; compiled as a
whole), all on the same threads, by turns in one run:

- own: the step of this rank's part of the batch, in this process alone
- pieces: the same in as many pieces as a rank has shares, their gradients added up (what smaller
  batches cost)
- exchange: the all-reduce of arrays as large as the buckets, averaged
- ranks: the step of all ranks, and its ratio to own + exchange
- shares: the same with `set_deterministic`, its ratio to own + exchange, and to pieces + exchange
  (of an eager model too the shares of a rank are one program)

Before anything is timed steps run until nothing compiles in the background. A row is timed for at
most `--seconds`, and once at least: what is slow has fewer rounds than `--steps`. A call takes as
long as on the slowest rank; of calls the least counts, beside it the least processor time of a
rank, which says more where the machine has other work. The model of docs/distributed.md is fitted
to messages of several sizes. The second: the digest of the weights behind so many steps; exit code
1 where ranks differ, kinds do, or, of shares, numbers of ranks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import workloads

import frontend as torch
import frontend.distributed as dist
from frontend.distributed.run import main as start
from frontend.engine.eager.kernels.gradient_worker import THREAD
from frontend.nn.parallel import DistributedDataParallel

SHARES = 8
SIZES = [1 << n for n in range(8, 25, 2)]
MODELS = {"mlp": "mlp-sgd", "lenet": "lenet-sgd", "gpt": "gpt-adamw", "resnet18": "resnet18-sgd"}
KINDS = ("eager", "backward", "whole")
CALLS = 3
"""Calls of one function before it is another's turn."""
WARM_UP = 10
RATIOS = (
    ("ranks/own", "ranks", "own"),
    ("shares/own", "shares", "own"),
    ("shares/pieces", "shares", "pieces"),
)
"""Name, what is measured, and what it is held against, each along with the exchange."""


@dataclass(frozen=True)
class Times:
    """Seconds of a call: the least and the median on the slowest rank, and the least processor time
    of a rank, the mean of all."""

    least: float
    median: float
    processor: float


def timed(calls: Mapping[str, Callable[[], Any]], rounds: int, seconds: float) -> dict[str, Times]:
    """The times of functions that are called by turns, all ranks at once, in so many rounds or as
    many as fit into the seconds."""
    a_round = (CALLS + 1) * sum(warmed_up(call) for call in calls.values())
    rounds = max(1, min(rounds, int(seconds / a_round)))
    samples = np.empty((len(calls), rounds * CALLS, 2))
    for number in range(rounds):
        for call, row in zip(calls.values(), samples):
            call()  # another one has had the cache
            for each in range(number * CALLS, (number + 1) * CALLS):
                dist.barrier()
                begin, spent = time.perf_counter(), time.process_time()
                call()
                row[each] = time.perf_counter() - begin, time.process_time() - spent
    everywhere = [torch.empty(*samples.shape, dtype=torch.float64) for _ in ranks_of_world()]
    dist.all_gather(everywhere, torch.tensor(samples))
    of_ranks = np.stack([each.numpy() for each in everywhere])
    slowest, processor = of_ranks[..., 0].max(0), of_ranks[..., 1].min(2).mean(0)
    return {
        name: Times(float(wall.min()), float(np.median(wall)), float(spent))
        for name, wall, spent in zip(calls, slowest, processor)
    }


def warmed_up(call: Callable[[], Any]) -> float:
    """Call until no rank compiles in the background any more. The seconds of the last call, on the
    slowest rank."""
    while True:
        for _ in range(WARM_UP):
            begin = time.perf_counter()
            call()
        seconds = time.perf_counter() - begin
        busy = any(thread.name == THREAD for thread in threading.enumerate())
        anywhere = torch.tensor([float(busy), seconds], dtype=torch.float64)
        dist.all_reduce(anywhere, dist.ReduceOp.MAX)
        if not anywhere[0].item():
            return float(anywhere[1])


def ranks_of_world() -> range:
    return range(dist.get_world_size())


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

    def step(self, model: Any, kind: str, call: Any, pieces: int = 1) -> Callable[[], Any]:
        """A step of a model that is called by `call`, in so many pieces."""
        chosen = self.workload.optimizer
        assert chosen is not None
        optimizer = getattr(torch.optim, chosen.name)(model.parameters(), **chosen.options)

        def step(*batch: Any) -> Any:
            optimizer.zero_grad()
            rows = len(batch[0]) // pieces
            for i in range(pieces):
                inputs, labels = [each[i * rows : (i + 1) * rows] for each in batch]
                loss = workloads.loss_of(torch, call(inputs), labels)
                (loss if pieces == 1 else loss / pieces).backward()
            optimizer.step()
            return loss

        step = torch.compile(step, fullgraph=True) if kind == "whole" else step
        return lambda: step(*self.data)

    def alone(self, kind: str, pieces: int = 1) -> Callable[[], Any]:
        """A step in this process alone."""
        model = self.model()
        call = torch.compile(model, fullgraph=True) if kind == "backward" else model
        return self.step(model, kind, call, pieces)

    def ranked(self, kind: str) -> tuple[Any, Callable[[], Any]]:
        """The model of a step on all ranks, and the step."""
        model = self.model()
        call = torch.compile(model, fullgraph=True) if kind == "backward" else model
        ddp = DistributedDataParallel(call)
        return ddp, self.step(model, kind, ddp)


def exchanged(ddp: Any) -> Callable[[], Any]:
    """What reduces as much as a model does."""
    flats = [torch.zeros(bucket.flat.size) for bucket in ddp.reducer.buckets]

    def exchange() -> None:
        works = [dist.all_reduce(flat, dist.ReduceOp.AVG, async_op=True) for flat in flats]
        for work in works:
            work.wait()

    return exchange


def in_shares(step: Callable[[], Any]) -> Callable[[], Any]:
    """The step of another model, with `set_deterministic`."""

    def call() -> None:
        dist.set_deterministic(True, shares=SHARES)
        step()
        dist.set_deterministic(False)

    return call


def measured(case: RankedWorkload, kind: str, rounds: int, limit: float) -> dict[str, Any]:
    """Times of one model, in seconds."""
    ddp, ranked = case.ranked(kind)
    calls = {
        "own": case.alone(kind), "pieces": case.alone(kind, SHARES // dist.get_world_size()),
        "exchange": exchanged(ddp), "ranks": ranked, "shares": in_shares(case.ranked(kind)[1]),
    }  # fmt: skip
    result: dict[str, Any] = {
        "bytes": sum(bucket.flat.nbytes for bucket in ddp.reducer.buckets),
        **{name: asdict(times) for name, times in timed(calls, rounds, limit).items()},
    }
    for name, whole, part in RATIOS:
        result[name] = {
            each: result[whole][each] / (result[part][each] + result["exchange"][each])
            for each in ("least", "median", "processor")
        }
    return result


def digests(case: RankedWorkload, kind: str, steps: int) -> dict[str, str]:
    """Of the weights behind so many steps, without shares and with them. Raises SystemExit where
    ranks differ."""
    found = {}
    for name in ("ranks", "shares"):
        dist.set_deterministic(name == "shares", shares=SHARES)
        model, step = case.ranked(kind)
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


def fitted(rounds: int, limit: float) -> dict[str, Any]:
    """Latency and bandwidth of all-reduces by size, and how far the model is off."""
    flats = {str(size): torch.zeros(size // 4) for size in SIZES}
    calls = {size: lambda flat=flat: dist.all_reduce(flat) for size, flat in flats.items()}
    seconds = np.array([times.least for times in timed(calls, rounds, limit).values()])
    sizes = np.array(SIZES)
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
    extent = arguments.steps, arguments.seconds
    results: dict[str, Any] = {} if arguments.bits else {"model": fitted(*extent)}
    for name in arguments.models:
        case = RankedWorkload(name, arguments.batch)
        for kind in arguments.kinds:
            label = f"{name} {kind}"
            if arguments.bits:
                results[label] = digests(case, kind, arguments.bits)
            else:
                results[label] = measured(case, kind, *extent)
            if dist.get_rank() == 0:
                print(_line(label, results[label]), flush=True)
    first = dist.get_rank() == 0
    dist.destroy_process_group()
    return results if first else {}


def _line(label: str, row: dict[str, Any]) -> str:
    if "own" not in row:
        return f"{label:18} {row['ranks']}  {SHARES} shares {row['shares']}"
    lines = [f"{label:18} {row['bytes'] / 1e6:6.2f} MB"]
    for title, each in (("wall, least", "least"), ("processor", "processor")):
        names = ("own", "pieces", "exchange", "ranks", "shares")
        shown = [f"{name} {row[name][each] * 1e3:8.2f}" for name in names]
        shown += [f"{name} {row[name][each]:.2f}" for name, *_ in RATIOS]
        lines.append(f"  {title:12} {'  '.join(shown)}")
    return "\n".join(lines)


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
    parser.add_argument("--steps", type=int, default=40, help="rounds of timing")
    parser.add_argument("--seconds", type=float, default=60, help="of timing, for a row at most")
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
