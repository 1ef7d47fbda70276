"""Contractions at hardware speed: each shape of the table as a fraction of what the core can do.

    python benchmarks/contractions.py
    python benchmarks/contractions.py --only 'conv*backward*' --peers torch --json

A row gives graphc's rate, its fraction of FMA peak (or of read bandwidth, where memory is the
limit) measured in the same process, the figure to reach, and how many times as fast as each peer it
is. The rate is that of the bare foreign call on arrays it has seen; the ratios take what a caller
sees on both sides, Python's part and new arrays for results included (peers that can write into
given arrays do). A peer's fastest way counts, such as PyTorch's better memory format. With more
than one thread graphc's kernels are run in parts by native code, since an executable has one, and
the ratios take that.

Each peer runs in a process of its own with the same number of threads and processors; all take
turns, and the minimum counts. Before a row is timed every result is compared with float64: one that
is off prints WRONG, one that cannot be had FAILED, and either makes the exit status 1.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from contraction_cases import CASES, Case, operands, reference
from contraction_peers import PEERS, Run, Unsupported
from harness import Worker, missing_package, processor, stay_on

TOLERANCE = 1e-5  # of the greatest result; a chain of 4096 roundings errs by a tenth of that
TURN_MS = 8.0
SPIN_S = 0.25
"""How long the threads of the one before may still spin."""
BUSY = 0.93  # below this share of the best peak seen, somebody else had part of the core
SAMPLE_US = 20.0  # what one reading of the clock covers at least


# -- a peer's process -----------------------------------------------------------------------------


class Server:
    """Answers `case NUMBER FILE` and `turn`; graphc's also measures the machine."""

    def __init__(self, name: str, threads: int, level: str) -> None:
        self.setup = PEERS[name](threads, level)
        self.runs: dict[str, Run] = {}
        self.counts: dict[str, int] = {}
        self.peak: Any = None
        self.reader: Any = None
        if name == "graphc":
            from graphc.debug.profile.rates import OperationRate

            self.peak = OperationRate("fma")

    def answer(self, line: str) -> dict[str, Any]:
        command, *arguments = line.split(maxsplit=2)
        answer: dict[str, Any] = getattr(self, command)(*arguments)
        return answer

    def case(self, number: str, file: str) -> dict[str, Any]:
        """Sets the case up and compares its results with those in `file`."""
        case = CASES[int(number)]
        self.runs = {}
        started = time.perf_counter()
        try:
            self.runs = dict(self.setup(case, operands(case)))
            elapsed = time.perf_counter() - started
            with np.load(file.strip()) as exact:
                expected = [exact[name] for name in exact.files]
            errors = {
                name: _error(run.results(run.step(1)), expected)
                for name, run in self.runs.items()
                if run.results
            }
        except Unsupported as error:
            return {"unsupported": str(error)}
        except Exception as error:
            # The other rows can still be measured; this one is printed as failed.
            return {"failed": f"{type(error).__name__}: {error}"}
        self.counts = {name: _count(run) for name, run in self.runs.items()}
        self.reader = None
        if self.peak and case.nbytes:
            from graphc.debug.profile.rates import ReadRate

            self.reader = ReadRate(case.nbytes)
        facts = {key: fact for run in self.runs.values() for key, fact in run.facts.items()}
        return {"errors": errors, "setup_s": elapsed, **facts}

    def turn(self) -> dict[str, Any]:
        """The least microseconds of each way to run the case; from graphc the machine's rates."""
        answer: dict[str, Any] = {}
        if self.peak:
            answer["peak"] = self.peak.measure() * 2e-9
        if self.reader:
            answer["bandwidth"] = self.reader.measure() * 1e-9
        answer["us"] = {name: _turn(run, self.counts[name]) for name, run in self.runs.items()}
        return answer

    def machine(self) -> dict[str, Any]:
        from graphc.debug.profile.machine import measured

        self.peak.measure(200)
        rates = measured().levels
        levels = {level.name: level.rate * 1e-9 for level in rates}
        sizes = {level.name: level.nbytes for level in rates}
        return {"peak": self.peak.best * 2e-9, "levels": levels, "bytes": sizes}


def _error(actual: list[Any], expected: list[Any]) -> float:
    """The greatest difference over the greatest exact value; infinite where shapes differ."""
    if [part.shape for part in actual] != [part.shape for part in expected]:
        return float("inf")
    worst = [
        np.abs(part - exact).max() / np.abs(exact).max() for part, exact in zip(actual, expected)
    ]
    return float(np.max(worst))  # NaN where there is one


def _count(run: Run) -> int:
    """How often the work is done between two readings of the clock."""
    run.step(1)
    return max(1, round(SAMPLE_US / (_seconds(run, 1) * 1e6 + 0.01)))


def _seconds(run: Run, count: int) -> float:
    started = time.perf_counter()
    run.step(count)
    return time.perf_counter() - started


def _turn(run: Run, count: int) -> float:
    best, stop = float("inf"), time.perf_counter() + TURN_MS * 1e-3
    while True:
        best = min(best, _seconds(run, count))
        if time.perf_counter() > stop:
            return best * 1e6 / count


def serve(name: str, threads: int, level: str) -> None:
    stay_on(threads)
    os.environ["GRAPHC_CACHE"] = "off"  # what is reported of compiling is then no look-up
    try:
        server = Server(name, threads, level)
    except ModuleNotFoundError as error:
        print(json.dumps({"missing": missing_package(error)}), flush=True)
        return
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(server.answer(line)), flush=True)


# -- the measuring side ---------------------------------------------------------------------------


def measure(case: Case, workers: list[Worker], rounds: int, threads: int) -> dict[str, Any]:
    """One row: for each peer its least time and its error, with graphc's fraction of the bound."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exact.npz"
        np.savez(file, *reference(case, operands(case)))
        answers = {w.name: w.ask(f"case {CASES.index(case)} {file}") for w in workers}
    able = [worker for worker in workers if "errors" in answers[worker.name]]
    least: dict[str, dict[str, float]] = {worker.name: {} for worker in able}
    limits: dict[str, float] = {}
    for index in range(rounds if able else 0):
        first = index % len(able)
        for worker in able[first:] + able[:first]:
            if threads > 1:
                time.sleep(SPIN_S)
            turn = worker.ask("turn")
            for name in ("peak", "bandwidth"):
                if name in turn:
                    limits[name] = max(limits.get(name, 0.0), turn[name])
            for name, us in turn["us"].items():
                known = least[worker.name].get(name, us)
                least[worker.name][name] = min(us, known)
    row: dict[str, Any] = {"name": case.name, "flops": case.flops, "bytes": case.nbytes,
                           "target": case.target, "lead": case.lead, "gain": case.gain,
                           "peers": {}}  # fmt: skip
    for worker in workers:
        answer = answers[worker.name]
        row["peers"][worker.name] = {"us": least.get(worker.name), **answer}
        wrong = [
            f"{way} WRONG by {error:.1g} of the greatest result"
            for way, error in answer.get("errors", {}).items()
            if not error <= TOLERANCE
        ]
        wrong += [f"FAILED: {answer['failed']}"] if "failed" in answer else []
        if wrong:
            row.setdefault("wrong", {})[worker.name] = wrong
    row["row_peak"], row["bandwidth"] = limits.get("peak"), limits.get("bandwidth")
    return row


def judge(row: dict[str, Any], threads: int) -> None:
    """Adds the rate, its fraction of the bound, the ratios, and what of the figures is not met."""
    own = row["peers"].get("graphc", {}).get("us")
    others = {
        name: min(peer["us"].values())
        for name, peer in row["peers"].items()
        if name != "graphc" and peer["us"]
    }
    row["best_us"] = others
    if not own:
        return
    # The clock of a shared machine wanders, so the peak seen in the row's own rounds counts.
    bound = row["bandwidth"] if row["bytes"] else row["row_peak"] * threads
    work = row["bytes"] or row["flops"]
    row["rate"] = work / own["native"] * 1e-3  # per microsecond and thousand: in 1e9 a second
    row["fraction"] = row["rate"] / bound
    row["ratio"] = {name: us / own.get("call", own["native"]) for name, us in others.items()}
    if "one" in own:
        row["speedup"] = own["one"] / own["native"]
    short = []
    if row["target"] and row["fraction"] < row["target"]:
        short.append("bound")
    if row["lead"] and row["ratio"] and min(row["ratio"].values()) < row["lead"]:
        short.append("peer")
    if "direct" in own:
        row["of_direct"] = own["direct"] / own["native"]
        short += ["direct"] if row["of_direct"] < row["gain"] else []
    row["short"] = short
    if "bare" in own:
        row["of_bare"] = own["native"] / own["bare"]


def heading(peers: list[str]) -> str:
    columns = "".join(f"{'× ' + name[:8]:>11}" for name in peers)
    return f"{'':<52}{'rate':>7}{'':5}{'of bound':>9}{'figure':>8}{'call µs':>11}{columns}"


def line(row: dict[str, Any], peers: list[str], peak: float) -> str:
    name = f"{row['name']:<52}"
    wrong = "; ".join(f"{name} {', '.join(how)}" for name, how in row.get("wrong", {}).items())
    if "rate" not in row:
        text = "  ".join(f"{peer} {us:.1f} µs" for peer, us in row["best_us"].items())
        return f"{name}{text}  {wrong}"
    own = row["peers"]["graphc"]["us"]
    unit = "GB/s" if row["bytes"] else "GF/s"
    figure = f"{row['target']:.2f}" if row["target"] else "-"
    ratios = "".join(
        f"{row['ratio'][peer]:>11.2f}" if peer in row["ratio"] else f"{'-':>11}" for peer in peers
    )
    notes = ["short of " + " and ".join(row["short"])] if row["short"] else []
    notes += [f"{row['of_bare']:.3f} of the bare product's time"] if "of_bare" in row else []
    if "of_direct" in row:
        wanted = f"figure {row['gain']}"
        notes.append(f"{row['of_direct']:.2f} times the direct kernel's speed ({wanted})")
    if not row["bytes"] and row["row_peak"] < BUSY * peak:
        notes.append(f"busy machine: its peak was {row['row_peak']:.0f} GF/s then")
    notes += [f"{row['speedup']:.2f} times one thread"] if "speedup" in row else []
    notes += [wrong] if wrong else []
    return (
        f"{name}{row['rate']:>7.1f} {unit}{row['fraction']:>9.3f}{figure:>8}"
        f"{own.get('call', own['native']):>11.1f}{ratios}  {'; '.join(notes)}"
    )


def chosen(pattern: str) -> list[Case]:
    """The cases whose name contains `pattern` or, with wildcards, matches it."""
    matches = [case for case in CASES if pattern in case.name]
    return matches or [case for case in CASES if fnmatch.fnmatchcase(case.name, f"*{pattern}*")]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures what the options ask for, printing rows as they come unless JSON is wanted."""
    cases = chosen(options.only)
    say = (lambda *_: None) if options.json else (lambda *text: print(*text, flush=True))
    names = ["graphc", *(name for name in options.peers if name != "graphc")]
    arguments = ["--threads", str(options.threads), "--level", options.level]
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(n, arguments, options.threads)) for n in names]
        missing = {worker.name: worker.missing for worker in workers if worker.missing}
        present = [worker for worker in workers if not worker.missing]
        others = [worker.name for worker in present if worker.name != "graphc"]
        machine = present[0].ask("machine")
        peak = machine["peak"]
        result: dict[str, Any] = {"processor": processor(), "threads": options.threads,
                                  "level": options.level, "machine": machine, "missing": missing,
                                  "rows": []}  # fmt: skip
        say(f"{result['processor']}, {options.threads} thread(s), level {options.level}")
        levels = ", ".join(f"{k} {v:.0f}" for k, v in machine["levels"].items())
        say(f"one core: FMA peak {machine['peak']:.1f} GF/s; reads in GB/s: {levels}")
        for name, package in missing.items():
            say(f"{name}: left out, {package} is not installed")
        say(heading(others))
        for case in cases:
            row = measure(case, present, options.rounds, options.threads)
            peak = max(peak, row["row_peak"] or 0.0)
            judge(row, options.threads)
            result["rows"].append(row)
            say(line(row, others, peak))
        result["peak"] = peak
    return result


def summary(result: dict[str, Any]) -> str:
    rows = result["rows"]
    figures = ("target", "lead", "of_direct")
    judged = [row for row in rows if "short" in row and any(map(row.get, figures))]
    met = sum(not row["short"] for row in judged)
    wrong = sum("wrong" in row for row in rows)
    compiled = [
        (row["peers"]["graphc"].get("compile_ms_a_kernel", 0.0), row["name"]) for row in rows
    ]
    slowest, where = max(compiled)
    return (
        f"\n{met} of {len(judged)} figures met, {wrong} of {len(rows)} rows wrong or failed; "
        f"the best peak of a core seen was {result['peak']:.1f} GF/s\n"
        f"slowest to compile: {slowest:.1f} ms a kernel, {where}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Contractions against the limits of the core")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.add_argument("--threads", type=int, default=1, help="of every peer (default: 1)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a row's name, or *")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each peer (default: 8)")
    parser.add_argument("--peers", default=list(PEERS)[1:], type=lambda text: text.split(","),
                        metavar="NAMES", help=f"of {','.join(list(PEERS)[1:])}")  # fmt: skip
    parser.add_argument("--level", default="exact", choices=["exact", "relaxed"])
    parser.add_argument("--worker", choices=list(PEERS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options.worker, options.threads, options.level)
        return
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    unknown = [name for name in options.peers if name and name not in PEERS]
    if unknown:
        parser.error(f"no peer is named {', '.join(unknown)}")
    if options.rounds < 1 or options.threads < 1 or (available or 1) < options.threads:
        parser.error(f"at least 1 round, and 1 to {available} threads")
    if not chosen(options.only):
        parser.error(f"no row is named like {options.only!r}")
    options.peers = [name for name in options.peers if name]
    result = run(options)
    print(json.dumps(result, indent=2) if options.json else summary(result))
    if any("wrong" in row for row in result["rows"]):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
