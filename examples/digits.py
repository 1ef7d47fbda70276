"""Train two networks on 8x8 handwritten digits, eagerly and compiled from the same source lines.

An MLP (64-128-64-10, Adam) and a small convolutional network (SGD with momentum). Both modes start
from the same weights and see the same batches; every fifth image is held out.

    python examples/digits.py           a table
    python examples/digits.py --json    the same as one JSON object
    python examples/digits.py --ranks 2    two processes, each with half of every batch
    graphc dump examples/digits.py:mlp --input 'f32[64,64]'
    graphc profile examples/digits.py:cnn_step
    graphc build examples/digits.py:mlp_step --input 'f32[n=64,64]' --input 'i64[n=64]<10' \\
        --kind page --data mlp_data -o page    a page that trains it in a browser
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import frontend as torch
from frontend import distributed, nn, optim
from frontend.distributed.run import main as start
from frontend.nn.functional import cross_entropy
from frontend.utils.data import DataLoader, DistributedSampler, TensorDataset

DATA = Path(__file__).parent / "data" / "digits.csv.gz"
BATCH = 64
SEED = 0


def make_mlp() -> nn.Module:
    """[N, 64] pixels to [N, 10] class scores."""
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    ).apply(scaled_for("relu"))


def make_cnn() -> nn.Module:
    """[N, 1, 8, 8] images to [N, 10] class scores.

    Its pooling averages: a maximum of two values that differ only by rounding sends the gradient to
    one pixel in one mode and to its neighbour in the other, and the losses part by 1e-3."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(),
        nn.Conv2d(16, 32, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(512, 128), nn.Tanh(), nn.Linear(128, 10),
    ).apply(scaled_for("tanh"))  # fmt: skip


def scaled_for(nonlinearity: str) -> Callable[[nn.Module], None]:
    """What gives a layer initial weights that keep the size of a signal through `nonlinearity`
    (PyTorch's default shrinks it), so that training sets off at once and steadily: rounding, which
    differs between the two modes, does not grow."""

    def scale(layer: nn.Module) -> None:
        if not isinstance(layer, nn.Conv2d | nn.Linear):
            return
        if nonlinearity == "relu":
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
        else:
            nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)

    return scale


def step_of(model: nn.Module, optimizer: optim.Optimizer, x: Any, y: Any) -> Any:
    """One training step; the loss."""
    loss = cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


# What the commands of graphc can be asked about. The annotations say what inputs they are shown on.

mlp = make_mlp()
cnn = make_cnn()
mlp_optimizer = optim.Adam(mlp.parameters(), lr=1e-3)
cnn_optimizer = optim.SGD(cnn.parameters(), lr=0.1, momentum=0.9)


def mlp_step(x: Annotated[Any, "f32[64,64]"], y: Annotated[Any, "i64[64]<10"]) -> Any:
    """A training step of the MLP; the loss."""
    return step_of(mlp, mlp_optimizer, x, y)


def cnn_step(x: Annotated[Any, "f32[64,1,8,8]"], y: Annotated[Any, "i64[64]<10"]) -> Any:
    """A training step of the convolutional network; the loss."""
    return step_of(cnn, cnn_optimizer, x, y)


def mlp_data() -> tuple[Any, ...]:
    """Pixels and labels that the MLP is trained on."""
    return read_digits((64,))[0].tensors


@dataclass(frozen=True)
class Job:
    """A network and how to train it. The learning rate falls linearly to 0, after rising linearly
    over `warmup` epochs."""

    name: str
    make: Callable[[], nn.Module]
    image: tuple[int, ...]
    optimizer: Callable[[Any], optim.Optimizer]
    epochs: int
    warmup: int = 0


JOBS = (
    Job("mlp", make_mlp, (64,), lambda params: optim.Adam(params, lr=1e-3), epochs=60),
    Job(
        "cnn", make_cnn, (1, 8, 8), lambda params: optim.SGD(params, lr=0.1, momentum=0.9),
        epochs=12, warmup=1,
    ),
)  # fmt: skip


@dataclass
class Run:
    """What one run gave. Times in seconds; `first` is that of the first step, which compiles."""

    model: nn.Module
    accuracy: float = 0.0
    first: float = 0.0
    times: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    @property
    def step(self) -> float:
        return median(self.times)


def read_digits(image: tuple[int, ...]) -> tuple[TensorDataset, TensorDataset]:
    """The images to train on, and every fifth one, held out; pixels scaled to 0 … 1."""
    table = np.loadtxt(DATA, delimiter=",")
    pixels = (table[:, :64] / 16).astype(np.float32).reshape(-1, *image)
    labels = table[:, 64].astype(np.int64)
    held_out = np.arange(len(table)) % 5 == 0
    train, test = (
        TensorDataset(torch.tensor(pixels[rows]), torch.tensor(labels[rows]))
        for rows in (~held_out, held_out)
    )
    return train, test


def train(job: Job, compiled: bool, advance: Callable[[], None]) -> Run:
    """Train a fresh network; `advance` is called after each step."""
    torch.manual_seed(SEED)
    model = job.make()
    optimizer = job.optimizer(model.parameters())
    digits, held_out = read_digits(job.image)
    batches = batches_of(digits)
    trained = replicated(model, compiled)

    def step(x: Any, y: Any) -> Any:
        return step_of(trained, optimizer, x, y)

    if compiled and trained is model:
        step = torch.compile(step)
    run = Run(model)
    peak = optimizer.param_groups[0]["lr"]
    total, rising = job.epochs * len(batches), job.warmup * len(batches)
    for epoch in range(job.epochs):
        if isinstance(batches.sampler, DistributedSampler):
            batches.sampler.set_epoch(epoch)
        for x, y in batches:
            done = len(run.losses)
            rise = min(1.0, (done + 1) / rising) if rising else 1.0
            optimizer.param_groups[0]["lr"] = peak * rise * (1 - done / total)
            start = time.perf_counter()
            loss = step(x, y)
            run.times.append(time.perf_counter() - start)
            run.losses.append(loss.item())
            advance()
    run.first = run.times.pop(0)
    run.accuracy = accuracy(model, held_out)
    return run


def batches_of(digits: TensorDataset) -> DataLoader:
    """Shuffled batches; of several processes each gets its part of every batch."""
    if distributed.is_initialized():
        sampler = DistributedSampler(digits, seed=SEED + 1, drop_last=True)
        part = BATCH // distributed.get_world_size()
        return DataLoader(digits, part, sampler=sampler, drop_last=True)
    order = torch.Generator().manual_seed(SEED + 1)
    return DataLoader(digits, BATCH, shuffle=True, drop_last=True, generator=order)


def replicated(model: nn.Module, compiled: bool) -> nn.Module:
    """The model as it is; as one of several processes a replica, whose gradients are averaged
    between the compiled backward and the optimizer's step."""
    if not distributed.is_initialized():
        return model
    return nn.parallel.DistributedDataParallel(torch.compile(model) if compiled else model)


def accuracy(model: nn.Module, digits: TensorDataset) -> Any:
    """The part of the digits whose greatest score is that of their label."""
    x, y = digits.tensors
    with torch.no_grad():
        return (model(x).argmax(1) == y).to(torch.float64).mean().item()


def compare(job: Job, progress: Progress) -> dict[str, Any]:
    """Both modes of one network."""
    runs = {}
    steps = job.epochs * len(batches_of(read_digits(job.image)[0]))
    for mode in ("eager", "compiled"):
        task = progress.add_task(f"{job.name} {mode}", total=steps)
        runs[mode] = train(job, mode == "compiled", partial(progress.advance, task))
    result: dict[str, Any] = {
        mode: {"accuracy": run.accuracy, "step_us": run.step * 1e6} for mode, run in runs.items()
    }
    result["compiled"]["compile_s"] = runs["compiled"].first - runs["compiled"].step
    curves = np.array([run.losses for run in runs.values()])
    result["max_loss_difference"] = float(np.abs(curves[0] - curves[1]).max())
    return result


def table_of(results: dict[str, Any]) -> Table:
    """The results for people."""
    table = Table(title="8x8 digits, every fifth image held out")
    table.add_column("network")
    table.add_column("mode")
    for name in (
        "held-out accuracy",
        "time per step",
        "time to compile",
        "greatest loss difference",
    ):
        table.add_column(name, justify="right")
    for name, result in results.items():
        for mode in ("eager", "compiled"):
            row = result[mode]
            compiled = mode == "compiled"
            table.add_row(
                name, mode, f"{row['accuracy']:.2%}", f"{row['step_us']:,.0f} µs",
                f"{row['compile_s']:.2f} s" if compiled else "",
                f"{result['max_loss_difference']:.1e}" if compiled else "",
                end_section=compiled,
            )  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on handwritten digits, eager and compiled.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--ranks", type=int, default=1, help="processes that train one model")
    arguments = parser.parse_args()
    rank = 0
    if arguments.ranks > 1:
        if "RANK" not in os.environ:  # this process starts the ranks
            sys.exit(start(["--nproc-per-node", str(arguments.ranks), *sys.argv]))
        distributed.init_process_group()
        rank = distributed.get_rank()
    console = Console(stderr=True)
    quiet = arguments.json or not console.is_terminal or rank > 0
    with Progress(console=console, disable=quiet, transient=True) as progress:
        results = {job.name: compare(job, progress) for job in JOBS}
    if distributed.is_initialized():
        distributed.destroy_process_group()
    if rank > 0:
        return
    if arguments.json:
        json.dump(results, sys.stdout, indent=2)
        print()
    else:
        Console().print(table_of(results))


if __name__ == "__main__":
    main()
