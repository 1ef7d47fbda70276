"""The fourteen workloads against every installed peer: time, first call, memory.

    python benchmarks/peers.py
    python benchmarks/peers.py --only 'mlp*' --threads 2 --json
    python benchmarks/peers.py --peers eager,torch       eager mode against PyTorch's

Each way to run a peer (a memory format, a level of graphc) has a process of its own, on as many
processors as it has threads; threads spin or park as the peer does by default. The processes of a
workload take turns, and the minimum counts; of a peer's ways the fastest counts.

What is timed is one call on the same arrays each time: the whole training step, or one inference
with frozen weights, whose result is a new array where the peer does not offer another way. The
first call is measured in two processes more: `cold`, from the start of the process, with an empty
compile cache, to the result of the second step, imports included; and `warm`, the first step alone
with a filled cache, imports and the building of the model done. Memory is how far the process grew
beyond its imports while it ran with a warm cache; for graphc also what its plan says (parameters,
state, batch, results, arena).

`--save` appends the run to a file of this machine in benchmarks/history, `--against` tells what
changed since the last one in there (or in the file it names) beyond the noise of both.

Losses (outputs) after two steps are compared between peers: one that is off prints WRONG and makes
the exit status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Worker, missing_package, processor, stay_on
from peer_history import FOLDER, changes, commit, comparable, history, history_file, saved
from peer_tables import target, text

TURN_MS = 120.0
TOLERANCE = 1e-4  # of the loss or the output's root mean square, after two steps
WARM_UP_MS = 150.0


# -- a peer's process -----------------------------------------------------------------------------


def serve(options: argparse.Namespace) -> None:
    """Sets one peer up, makes two steps and says how long they took; then answers `turn`."""
    stay_on(options.threads)
    from peer_setups import SETUPS, Choice, caches

    folder = Path(options.folder)
    cache = folder / f"cache-{options.worker}-{options.layout}-{options.level}"
    os.environ.update(caches(options.worker, cache, options.fresh))
    choice = Choice(options.threads, options.layout, options.level, options.keep_grads, folder)
    started = time.perf_counter()
    try:
        setup = SETUPS[options.worker](choice)
    except ModuleNotFoundError as error:
        print(json.dumps({"missing": missing_package(error)}), flush=True)
        return
    imported, baseline = time.perf_counter(), _peak_bytes(forgotten=True)
    from workloads import BY_NAME, checksum

    try:
        ready = setup(BY_NAME[options.workload], load_state(folder), choice)
        built = time.perf_counter()
        ready.read(ready.step())
        first = time.perf_counter()
        value = checksum(ready.read(ready.step()))
        second = time.perf_counter()
    except Exception as error:
        # The other peers can still be measured; this one is printed as failed.
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:400]}), flush=True)
        return
    greeting = {
        "ready": True, "value": value, "import_s": imported - started, "build_s": built - imported,
        "first_s": first - built, "second_s": second - first, **ready.facts(),
    }  # fmt: skip
    print(json.dumps(greeting), flush=True)
    for line in sys.stdin:
        times = _turn(ready.step, float(line.split()[1]))
        answer = {"min_us": min(times) / 1e3, "median_us": statistics.median(times) / 1e3,
                  "grown_bytes": _peak_bytes() - baseline}  # fmt: skip
        print(json.dumps(answer), flush=True)


def _turn(step: Any, milliseconds: float) -> list[int]:
    """Nanoseconds of each step of a turn: at least two."""
    times: list[int] = []
    stop = time.perf_counter_ns() + milliseconds * 1e6
    while len(times) < 2 or time.perf_counter_ns() < stop:
        start = time.perf_counter_ns()
        step()
        times.append(time.perf_counter_ns() - start)
    return times


def _peak_bytes(forgotten: bool = False) -> int:
    """The most memory this process had, once it is `forgotten` since then. Where the system keeps
    no such mark, getrusage's, which counts what the parent had, too."""
    mark = Path("/proc/self/clear_refs")
    if not mark.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    if forgotten:
        mark.write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kilobytes) << 10


def save_state(folder: Path, state: dict[str, Any]) -> None:
    import numpy as np

    np.savez(folder / "state.npz", **state)


def load_state(folder: Path) -> dict[str, Any]:
    import numpy as np

    with np.load(folder / "state.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


# -- the measuring side ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """One way to run a peer."""

    peer: str
    layout: str = "NCHW"
    level: str = "exact"

    @property
    def name(self) -> str:
        if self.peer == "eager":
            return "graphc eager"
        level = f" {self.level}" if self.peer == "graphc" else ""
        return self.peer + level + (" NHWC" if self.layout == "NHWC" else "")

    @property
    def column(self) -> str:
        return self.name.removesuffix(" NHWC")


def ways(workload: Any, peers: list[str], levels: list[str]) -> list[Way]:
    chosen_ways = []
    for peer in peers:
        if peer == "graphc":
            chosen_ways += [Way(peer, level=level) for level in levels]
        elif peer == "eager":
            chosen_ways.append(Way(peer))
        elif peer != "onnxruntime" or not workload.trains:
            layouts = ("NCHW", "NHWC") if workload.images and peer != "onnxruntime" else ("NCHW",)
            chosen_ways += [Way(peer, layout) for layout in layouts]
    return chosen_ways


def measure(workload: Any, options: argparse.Namespace) -> dict[str, Any]:
    """One row: for each way its times, or why there are none."""
    from workloads import initial_state

    row: dict[str, Any] = {"name": workload.name, "title": workload.title,
                           "target": dict(workload.target), "trains": workload.trains,
                           "ways": {}}  # fmt: skip
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        save_state(folder, initial_state(workload))
        present = []
        for way in ways(workload, options.peers, options.levels):
            entry: dict[str, Any] = {"column": way.column}
            row["ways"][way.name] = entry
            reason = _cannot(workload, way, folder)
            if reason:
                entry["missing"] = reason
                continue
            worker = _started(stack, way, workload, folder, options, entry)
            if worker is not None:
                present.append((worker, entry))
        _rounds(present, options)
    _judge(row)
    return row


def _cannot(workload: Any, way: Way, folder: Path) -> str | None:
    """Why ONNX Runtime has no model to run."""
    if way.peer != "onnxruntime":
        return None
    script = [sys.executable, sys.argv[0], "--export", workload.name, "--folder", str(folder)]
    done = subprocess.run(script, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return f"no model: {last[:200]}"


def _started(
    stack: ExitStack, way: Way, workload: Any, folder: Path, options: Any, entry: dict[str, Any]
) -> Worker | None:
    """The process that will be timed, with its cache filled. `entry` gets what the first calls
    took, or why the way cannot be run."""
    arguments = [
        "--workload", workload.name, "--threads", str(options.threads), "--folder", str(folder),
        "--layout", way.layout, "--level", way.level,
    ]  # fmt: skip
    arguments += ["--keep-grads"] if options.keep_grads else []
    if not options.no_first:
        begun = time.perf_counter()
        with Worker(way.peer, [*arguments, "--fresh"], options.threads) as fresh:
            entry["cold"] = {"process_s": time.perf_counter() - begun, **fresh.greeting}
        if "ready" not in fresh.greeting:
            entry.update(fresh.greeting)
            return None
        if way.peer == "jax":  # its fresh run filled no cache
            Worker(way.peer, arguments, options.threads).__exit__()
    worker = stack.enter_context(Worker(way.peer, arguments, options.threads))
    entry["warm"] = worker.greeting
    if "ready" not in worker.greeting:
        entry.update(worker.greeting)
        return None
    return worker


def _rounds(present: list[tuple[Worker, dict[str, Any]]], options: argparse.Namespace) -> None:
    """Turns of all processes, each round beginning with the next one."""
    for worker, _ in present:
        worker.ask(f"turn {WARM_UP_MS}")
    for index in range(options.rounds if present else 0):
        first = index % len(present)
        for worker, entry in present[first:] + present[:first]:
            if options.threads > 1:
                time.sleep(0.05)  # for the threads of the one before to stop spinning
            answer = worker.ask(f"turn {TURN_MS}")
            worker.rounds.append(answer)
            entry["us"], entry["median_us"] = worker.min_us, worker.median_us
            entry["rounds_us"] = [round["min_us"] for round in worker.rounds]
            entry["grown_bytes"] = answer["grown_bytes"]


def _judge(row: dict[str, Any]) -> None:
    """Adds the fastest way of each peer, the best peer, ratios, and values that are off."""
    timed = {name: entry for name, entry in row["ways"].items() if "us" in entry}
    best: dict[str, str] = {}
    for name, entry in timed.items():
        column = entry["column"]
        if column not in best or entry["us"] < timed[best[column]]["us"]:
            best[column] = name
    row["best_way"] = best
    others = {c: timed[n] for c, n in best.items() if not c.startswith("graphc")}
    row["ratio"], row["met"] = {}, {}
    if others:
        row["best_peer"] = min(others, key=lambda column: others[column]["us"])
        fastest = others[row["best_peer"]]["us"]
        for column in [column for column in best if column not in others]:
            level = column.split()[1]
            row["ratio"][level] = fastest / timed[column]["us"]
            row["met"][level] = row["ratio"][level] >= target(row, level)
    values = {name: entry["warm"]["value"] for name, entry in timed.items()}
    if values:
        middle = statistics.median_low(values.values())
        row["wrong"] = {
            name: value for name, value in values.items()
            if not abs(value - middle) <= TOLERANCE * abs(middle)
        }  # fmt: skip


def run(options: argparse.Namespace) -> dict[str, Any]:
    from workloads import chosen

    result: dict[str, Any] = {
        "processor": processor(), "processors": os.cpu_count(), "system": platform.system(),
        "commit": commit(), "threads": options.threads, "levels": options.levels,
        "rounds": options.rounds, "keep_grads": options.keep_grads, "arrays": "seen",
        "first_calls": not options.no_first, "missing": {}, "rows": [],
    }  # fmt: skip
    for workload in chosen(options.only):
        row = measure(workload, options)
        result["rows"].append(row)
        times = ", ".join(
            f"{name} {entry['us']:.0f}" for name, entry in row["ways"].items() if "us" in entry
        )
        print(f"{workload.name}: {times} µs", file=sys.stderr, flush=True)
        for entry in row["ways"].values():
            if "missing" in entry and not entry["missing"].startswith("no model"):
                result["missing"][entry["column"]] = f"{entry['missing']} is not installed"
    return result


def arguments() -> argparse.Namespace:
    from workloads import chosen

    peers = ["graphc", "torch", "torch.compile", "jax", "onnxruntime"]
    parser = argparse.ArgumentParser(description="The workloads against every installed peer")
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a name, or *")
    parser.add_argument(
        "--file", metavar="FILE.py:NAME",
        help="a function or step of your own instead: the rungs of `graphc compare`, and peers",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, default=1, help="of every peer (default: 1)")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each (default: 6)")
    known = [*peers, "eager"]
    parser.add_argument(
        "--peers", default=",".join(peers), help=f"of {','.join(known)} (the last is ours)"
    )
    parser.add_argument("--levels", default="exact", help="of graphc (default: exact)")
    parser.add_argument("--keep-grads", action="store_true", help="graphc keeps .grad too")
    parser.add_argument("--no-first", action="store_true", help="leave first calls out")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.add_argument(
        "--save", nargs="?", const=FOLDER, type=Path, metavar="FOLDER",
        help="append the run to a file of this machine (benchmarks/history)",
    )  # fmt: skip
    parser.add_argument(
        "--against", nargs="?", const=FOLDER, type=Path, metavar="FILE",
        help="what changed since the last run in there (benchmarks/history, of this machine)",
    )  # fmt: skip
    for name in ("--worker", "--workload", "--folder", "--export"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--layout", default="NCHW", help=argparse.SUPPRESS)
    parser.add_argument("--level", default="exact", help=argparse.SUPPRESS)
    parser.add_argument("--fresh", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker or options.export:
        return options
    options.peers, options.levels = options.peers.split(","), options.levels.split(",")
    unknown = set(options.peers) - set(known) | set(options.levels) - {"none", "exact", "relaxed"}
    if unknown:
        parser.error(f"no peer or level is named {', '.join(sorted(unknown))}")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    if options.rounds < 1 or options.threads < 1 or (available or 1) < options.threads:
        parser.error(f"at least 1 round, and 1 to {available} threads")
    if not chosen(options.only):
        parser.error(f"no workload is named like {options.only!r}")
    return options


def against(result: dict[str, Any], place: Path) -> list[str]:
    """What changed since the last run in a file, or in this machine's file of a folder."""
    named = place.is_file()
    path = place if named else history_file(result, place)
    try:
        before = comparable(history(path) if named or path.exists() else [], result)
    except OSError as error:
        raise SystemExit(f"--against {path}: {error.strerror}") from error
    if before is None:
        return [f"{path} has no run like this one"]
    lines = list(changes(before, result)) or ["nothing beyond noise"]
    return [f"changed since {before['time']} ({before.get('commit', 'unknown')}):", *lines]


def of_file(options: argparse.Namespace) -> None:
    """A user's file beside PyTorch and JAX."""
    from graphc.debug.compare.ladder import Measured, climb
    from graphc.debug.compare.peers import PEERS
    from graphc.debug.compare.text import table

    peers = tuple(peer for peer in options.peers if peer in PEERS)
    ladder = climb(Measured(options.file, peers=peers), options.rounds)
    print(json.dumps(ladder, indent=2) if options.json else "\n".join(table(ladder)))


def main() -> None:
    options = arguments()
    if options.worker:
        serve(options)
        return
    if options.file:
        of_file(options)
        return
    if options.export:
        from peer_setups import export
        from workloads import BY_NAME

        export(BY_NAME[options.export], load_state(Path(options.folder)), Path(options.folder))
        return
    if options.against:
        if options.against != FOLDER and not options.against.exists():  # before all measuring
            raise SystemExit(f"--against {options.against}: there is no such file or folder")
    result = run(options)
    print(json.dumps(result, indent=2) if options.json else text(result))
    if options.against:
        print("\n".join(against(result, options.against)), file=sys.stderr)
    if options.save:
        path = history_file(result, options.save)
        saved(result, path)
        print(f"saved in {path}", file=sys.stderr)
    if any(row.get("wrong") for row in result["rows"]):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
