"""Epochs over loaders, beside PyTorch's: datasets of tensors, of own classes that index tensors,
arrays or files, of dicts; samplers, splits, workers.

`python benchmarks/loaders.py` prints milliseconds an epoch, each peer in a process of its own, rows
in turn, the minimum of many. `--only`, `--peers`, `--rounds`, `--json`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from call_table import peer
from harness import Worker, missing_package, processor, stay_on

ROWS = 4096
"""Samples of an epoch; batches of 64."""


def datasets(torch: ModuleType) -> dict[str, Callable[[], Any]]:
    """By row, what makes a loader. (Workers are started anew for each epoch unless persistent.)"""
    data = torch.utils.data
    generator = np.random.default_rng(0)
    images = generator.standard_normal((ROWS, 64)).astype(np.float32)
    labels = generator.integers(0, 10, ROWS)
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    folder = Path(tempfile.mkdtemp(prefix="loaders"))
    for number in range(64):
        np.save(folder / f"{number}.npy", images[number])

    class Own(data.Dataset):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            return ROWS

        def __getitem__(self, i: int) -> Any:
            return x[i], y[i]

    class Arrays(Own):
        def __getitem__(self, i: int) -> Any:
            return images[i], int(labels[i])

    class Dicts(Own):
        def __getitem__(self, i: int) -> Any:
            return {"image": x[i], "label": y[i], "at": i}

    class Files(Own):
        def __len__(self) -> int:
            return 512

        def __getitem__(self, i: int) -> Any:
            return torch.from_numpy(np.load(folder / f"{i % 64}.npy")), i % 10

    class Stream(data.IterableDataset):  # type: ignore[name-defined, misc]
        def __iter__(self) -> Any:
            return iter([(x[i], y[i]) for i in range(ROWS)])

    def loader(dataset: Any, **options: Any) -> Callable[[], Any]:
        return lambda: data.DataLoader(dataset, batch_size=64, **options)

    own, tensors = Own(), data.TensorDataset(x, y)
    weighted = data.WeightedRandomSampler([1.0] * ROWS, ROWS)
    return {
        "TensorDataset": loader(tensors),
        "TensorDataset, shuffled": loader(tensors, shuffle=True),
        "own, tensors": loader(own),
        "own, tensors, shuffled": loader(own, shuffle=True),
        "own, arrays and numbers": loader(Arrays(), shuffle=True),
        "own, dicts": loader(Dicts()),
        "own, files": loader(Files()),
        "iterable": loader(Stream()),
        "weighted sampler": loader(own, sampler=weighted),
        "split": lambda: data.DataLoader(data.random_split(own, [3072, 1024])[0], batch_size=64),
        "joined": loader(data.ConcatDataset([own, own])),
        "own, two workers": loader(own, num_workers=2),
        "own, two workers kept": loader(own, num_workers=2, persistent_workers=True),
        "dicts, two workers kept": loader(Dicts(), num_workers=2, persistent_workers=True),
    }


def serve(torch: ModuleType) -> None:
    """The worker's side: for each line, JSON [row, epochs], the least milliseconds of an epoch."""
    rows = datasets(torch)
    made: dict[str, Any] = {}
    print(json.dumps({"ready": True, "value": 0.0}), flush=True)
    for line in sys.stdin:
        name, epochs = json.loads(line)
        if name not in made:
            made[name] = rows[name]()
            for _ in made[name]:
                pass
        times = []
        for _ in range(epochs):
            start = time.perf_counter()
            count = sum(1 for _ in made[name])
            times.append(time.perf_counter() - start)
        print(json.dumps({"ms": 1e3 * min(times), "batches": count}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Epochs over loaders")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each row (default: 5)")
    parser.add_argument("--epochs", type=int, default=2, help="epochs in a turn (default: 2)")
    parser.add_argument("--only", default="", help="rows with this in their names")
    parser.add_argument("--peers", default="graphc,torch")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        stay_on(2)
        try:
            serve(peer(options.worker))
        except ModuleNotFoundError as error:
            print(json.dumps({"missing": missing_package(error)}), flush=True)
        return
    chosen = [name for name in datasets(peer("graphc")) if options.only in name]
    if not chosen:
        parser.error(f"no row has {options.only!r} in its name")
    best: dict[str, dict[str, float]] = {name: {} for name in chosen}
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(name)) for name in options.peers.split(",")]
        for worker in [worker for worker in workers if worker.missing]:
            print(f"{worker.name}: left out, {worker.missing} is not installed", file=sys.stderr)
        for name in chosen:
            for _ in range(options.rounds):
                for worker in [worker for worker in workers if not worker.missing]:
                    answer = worker.ask(json.dumps([name, options.epochs]))
                    known = best[name].get(worker.name, math.inf)
                    best[name][worker.name] = min(known, answer["ms"])
    if options.json:
        print(json.dumps(best, indent=1))
        return
    first, *others = best[chosen[0]]
    print(f"{processor()}, ms an epoch\n")
    print(f"{'':<28}{first:>10}" + "".join([f"{other:>10}{'ratio':>8}" for other in others]))
    for name, row in best.items():
        parts = "".join([f"{row[x]:>10.2f}{row[first] / row[x]:>8.2f}" for x in others])
        print(f"{name:<28}{row[first]:>10.2f}{parts}")


if __name__ == "__main__":
    main()
