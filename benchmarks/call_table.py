"""Some eighty small calls that loops make, beside PyTorch's eager mode: a row is a statement, run
for 64 values of `i`, without and with gradient where it has one.

`python benchmarks/small_calls.py --table` prints microseconds a call, each peer in a process of its
own, rows in turn, the minimum of many. The names of a statement are set up by `SETUP`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from harness import Worker, missing_package, processor, stay_on

VALUES = 64
"""How many values `i` takes in one timed loop."""
LEAST = 2e-3
"""Seconds of one timed loop, at least."""

SETUP = """
nn, F = torch.nn, torch.nn.functional
torch.manual_seed(0)
v, u, t = torch.rand(256), torch.rand(256), torch.rand(())
a, b, m = torch.rand(64, 64), torch.rand(64, 64), torch.rand(8, 8)
x, logits, images = torch.rand(1, 64), torch.rand(64, 10), torch.rand(1, 1, 28, 28)
rows = [torch.rand(64) for _ in range(8)]
targets, where, n = torch.arange(64) % 10, torch.arange(64) % 64, torch.arange(256)
mask, scratch = a > 0.5, torch.zeros(64, 64)
linear, norm, drop = nn.Linear(64, 64), nn.LayerNorm(64), nn.Dropout(0.5)
conv, bn, embedding = nn.Conv2d(1, 6, 5), nn.BatchNorm1d(10), nn.Embedding(64, 16)
mlp = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
cell, gru = nn.LSTMCell(64, 64), nn.GRUCell(64, 64)
lenet = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
    nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
    nn.Linear(84, 10))
state, hidden = (torch.zeros(1, 64), torch.zeros(1, 64)), torch.zeros(1, 64)
trained = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
for p in trained.parameters(): p.grad = torch.rand(p.shape) * 1e-3
parameters = list(trained.parameters())
sgd = torch.optim.SGD(parameters, lr=1e-6, momentum=0.9)
adam, adamw = torch.optim.Adam(parameters, lr=1e-6), torch.optim.AdamW(parameters, lr=1e-6)
weights = {name: p.detach() for name, p in mlp.named_parameters()}
def loss(w, row, target):
    out = torch.func.functional_call(mlp, w, (row[None],))
    return F.cross_entropy(out, target[None])
def zeroed():
    for p in parameters: p.grad = torch.zeros(1).expand(p.shape)
"""

# A statement; "g" behind the bar where it is timed with gradient too.
ROWS = """
v[i] | g
v[3] | g
a[i] | g
a[i, 3] | g
a[i:i + 4] | g
a[:, i] | g
a[:, 1:] | g
a[..., 0] | g
a[None] | g
v[::2] | g
a[where] | g
a[where, targets] | g
a[mask] | g
v[v > 0.5] |
scratch[i] = 1.0 |
scratch[i] = v[:64] |
scratch[mask] = 0.0 |
v[i].item() |
t.item() |
float(t) |
bool(t > 0) |
int(n[i]) |
len(a) |
rows[0].tolist() |
a.shape |
a.size(0) |
a.view(-1) | g
a.reshape(32, 128) | g
a.t() | g
a.transpose(0, 1) | g
x.unsqueeze(0) | g
x.squeeze(0) | g
a.contiguous() | g
a.detach() |
a.clone() | g
a.to(torch.float64) | g
n.float() |
v.numpy() if not v.requires_grad else None |
torch.tensor(1.0) |
torch.tensor([1, 2, 3]) |
torch.zeros(16, 16) |
torch.ones(256) |
torch.full((16, 16), 2.0) |
torch.arange(16) |
torch.zeros_like(a) |
torch.empty(16, 16) |
torch.rand(16, 16) |
torch.randn(256) |
torch.randint(0, 10, (16,)) |
torch.randperm(64) |
torch.multinomial(v, 1) |
a + a | g
a * 2.0 | g
v + t | g
a - v[:64] | g
a / 0.8 | g
a @ b | g
a > 0.5 |
n == 3 |
torch.exp(a) | g
torch.where(mask, a, b) | g
a.sum() | g
a.sum(1) | g
a.mean() | g
a.max() | g
a.max(1) | g
a.argmax() |
logits.argmax(1) |
torch.topk(logits, 3) | g
F.softmax(logits, -1) | g
F.log_softmax(logits, 1) | g
torch.cat(rows) | g
torch.stack(rows) | g
a.split(16) | g
a.chunk(4, 1) | g
scratch.add_(1.0) |
scratch.mul_(0.5) |
scratch.copy_(b) |
F.relu(a) | g
F.gelu(a) | g
F.cross_entropy(logits, targets) | g
F.mse_loss(a, b) | g
(logits.argmax(1) == targets).float().mean().item() |
linear(x) | g
norm(x) | g
drop(a) | g
conv(images) | g
bn(logits) | g
embedding(where) | g
mlp(x) | g
lenet(images) | g
cell(x, state) | g
gru(x, hidden) | g
sgd.step() |
adam.step() |
adamw.step() |
sgd.zero_grad() |
nn.utils.clip_grad_norm_(parameters, 1.0) |
trained.state_dict() |
with torch.no_grad(): pass |
(v * 2.0).sum().backward() | G
mlp(x).sum().backward() | G
torch.vmap(torch.dot)(a, b) |
torch.vmap(lambda p, q: p @ q, in_dims=(0, None))(a, b) |
torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weights, a, targets) |
torch.func.jacrev(lambda p: torch.tanh(a @ p))(b[0]) |
torch.func.hessian(lambda p: torch.tanh(m @ p).sum())(m[0]) |
"""


def rows() -> list[tuple[str, bool]]:
    """Statements, each with whether it is timed with gradient."""
    found = []
    for line in ROWS.strip().splitlines():
        statement, _, kind = line.rpartition("|")
        kind = kind.strip()
        if kind != "G":
            found.append((statement.strip(), False))
        if kind:
            found.append((statement.strip(), True))
    return found


def row(torch: ModuleType, statement: str, gradient: bool) -> Callable[[int], float]:
    """What times a row: takes a number of loops, gives the seconds of one call."""
    space: dict[str, Any] = {"torch": torch, "clock": time.perf_counter}
    exec(SETUP, space)
    floats = ("v", "u", "t", "a", "b", "m", "x", "logits", "images")
    if gradient:
        for name in floats:
            space[name].requires_grad_()
        for each in space["rows"]:
            each.requires_grad_()
    names = [name for name in space if not name.startswith("__")]
    lines = [
        f"def timed(loops, {', '.join(f'{name}={name}' for name in names)}):",
        "    start = clock()",
        "    for _ in range(loops):",
        f"        for i in range({VALUES}):",
        f"            {statement}",
        "    return (clock() - start) / loops",
    ]
    if not gradient:
        inner = [f"    {line}" for line in lines[1:]]
        lines = [lines[0], "    with torch.no_grad():", *inner]
    exec("\n".join(lines), space)
    timed = space["timed"]
    return lambda loops: float(timed(loops)) / VALUES


def serve_rows(torch: ModuleType) -> None:
    """The worker's side: for each line `row R N`, the least seconds a call of N timed loops."""
    known: dict[int, tuple[Callable[[int], float], int]] = {}
    print(json.dumps({"ready": True, "value": 0.0}), flush=True)
    for line in sys.stdin:
        _, number, count = line.split()
        at = int(number)
        try:
            if at not in known:
                timed = row(torch, *rows()[at])
                for _ in range(3):
                    once = timed(1)
                known[at] = (timed, max(1, math.ceil(LEAST / (once * VALUES))))
            timed, loops = known[at]
            print(
                json.dumps({"us": 1e6 * min(timed(loops) for _ in range(int(count)))}), flush=True
            )
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)


def peer(name: str) -> ModuleType:
    if name == "graphc":
        import frontend

        return frontend
    import torch

    torch.set_num_threads(1)
    return torch


def table_main(arguments: Sequence[str]) -> None:
    """The command line of `small_calls.py --table`."""
    parser = argparse.ArgumentParser(description="Small calls, a table of statements")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each row (default: 5)")
    parser.add_argument("--loops", type=int, default=5, help="timed loops in a turn (default: 5)")
    parser.add_argument("--only", default="", help="rows with this in them")
    parser.add_argument("--peers", default="graphc,torch")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        stay_on(1)
        try:
            serve_rows(peer(options.worker))
        except ModuleNotFoundError as error:
            print(json.dumps({"missing": missing_package(error)}), flush=True)
        return
    chosen = [at for at, (text, _) in enumerate(rows()) if options.only in text]
    if not chosen:
        parser.error(f"no row has {options.only!r} in it")
    best = _measured(options.peers.split(","), chosen, options.rounds, options.loops)
    if options.json:
        print(json.dumps({_label(at): best[at] for at in chosen}, indent=1))
    else:
        print("\n".join(_lines(best, chosen)))


def _measured(
    names: list[str], chosen: list[int], rounds: int, loops: int
) -> dict[int, dict[str, float]]:
    """Microseconds a call, by row and peer."""
    best: dict[int, dict[str, float]] = {at: {} for at in chosen}
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(name, ["--table"])) for name in names]
        for worker in workers:
            if worker.missing:
                print(
                    f"{worker.name}: left out, {worker.missing} is not installed", file=sys.stderr
                )
        workers = [worker for worker in workers if not worker.missing]
        for at in chosen:
            for _ in range(rounds):
                for worker in workers:
                    answer = worker.ask(f"row {at} {loops}")
                    if "error" in answer:
                        raise SystemExit(f"{worker.name}, {_label(at)}: {answer['error']}")
                    known = best[at].get(worker.name, math.inf)
                    best[at][worker.name] = min(known, answer["us"])
    return best


def _label(at: int) -> str:
    statement, gradient = rows()[at]
    return statement + (", with gradient" if gradient else "")


def _lines(best: dict[int, dict[str, float]], chosen: list[int]) -> list[str]:
    """The table, and the geometric mean of the first peer's time over each other's."""
    first, *others = best[chosen[0]]
    lines = [f"{processor()}, 1 thread, µs a call", "", f"{'':<60}{first:>10}"]
    lines[-1] += "".join([f"{other:>10}{'ratio':>8}" for other in others])
    for at in chosen:
        mine = best[at][first]
        theirs = [best[at][other] for other in others]
        parts = "".join([f"{us:>10.2f}{mine / us:>8.2f}" for us in theirs])
        lines.append(f"{_label(at):<60}{mine:>10.2f}{parts}")
    for other in others:
        ratios = [best[at][first] / best[at][other] for at in chosen]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        above = sum(ratio > 2 for ratio in ratios)
        lines.append(
            f"{first} over {other}: geometric mean {mean:.2f}, {above} of {len(ratios)} above 2"
        )
    return lines
