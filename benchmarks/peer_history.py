"""Runs of `peers.py` kept in a file a machine, and what changed between them beyond noise.

in : the result of a run; a file of earlier ones, a line of JSON each
out: the file with one line more; or lines about each way whose time, first call or memory changed

How noisy a way is, its rounds say: half the spread between the quartiles of their minima, relative
to the least of them, in both runs together. A time has changed where the least times are further
apart than `NOISES` times that, and than `LEAST`. First calls are measured once, so they count from
`ONCE` on.
"""

from __future__ import annotations

import hashlib
import json
import re
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "history"
NOISES, LEAST, ONCE = 2.0, 0.02, 0.25
Result = dict[str, Any]


def history_file(result: Result, folder: Path = FOLDER) -> Path:
    """The file of the machine that a result is of: its processor and how many there are."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", result["processor"]).strip("-").lower() or "unknown"
    facts = (result["processor"], result["processors"], result["system"])
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()[:8]
    return folder / f"{name}-{digest}.jsonl"


def saved(result: Result, path: Path) -> None:
    """Append a result. A line that a killed run left unfinished is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **result})
    ends = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("" if ends else "\n") + line + "\n")


def history(path: Path) -> list[Result]:
    """The results of a file, oldest first; lines that are none are left out. Raises OSError."""
    runs = []
    for line in path.read_text("utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "rows" in entry:
            runs.append(entry)
    return runs


def comparable(results: list[Result], result: Result) -> Result | None:
    """The latest earlier result with the same threads and kinds of arrays; None for none."""
    for before in reversed(results):
        same = ("threads", "keep_grads", "arrays", "processor", "processors")
        if all(before.get(name) == result.get(name) for name in same):
            return before
    return None


def changes(before: Result, now: Result) -> Iterator[str]:
    """Lines: what is faster, slower or larger than before, beyond noise; what is there no more."""
    old = {row["name"]: row for row in before["rows"]}
    for row in now["rows"]:
        if row["name"] not in old:
            yield f"{row['name']}: new"
            continue
        ways = old[row["name"]]["ways"]
        for name, entry in row["ways"].items():
            if "us" not in entry:
                if "us" in ways.get(name, {}):
                    yield f"{row['name']} by {name}: had {ways[name]['us']:.1f} µs, now no time"
            elif "us" in ways.get(name, {}):
                for change in _way_changes(ways[name], entry):
                    yield f"{row['name']} by {name}: {change}"


def _way_changes(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    ratio = now["us"] / before["us"]
    noise = max(NOISES * (spread(before) + spread(now)), LEAST)
    if abs(ratio - 1) > noise:
        word = "slower" if ratio > 1 else "faster"
        factor = max(ratio, 1 / ratio)
        yield (
            f"{word} by {factor:.2f} ({before['us']:.1f} to {now['us']:.1f} µs; noise {noise:.0%})"
        )
    for run, what, words in (
        ("cold", "process_s", "first two steps, empty cache"), ("warm", "first_s", "first step"),
    ):  # fmt: skip
        pair = [entry.get(run, {}).get(what) for entry in (before, now)]
        if None not in pair and pair[0] and abs(pair[1] / pair[0] - 1) > ONCE:
            yield f"{words}: {pair[0]:.2f} to {pair[1]:.2f} s"
    pair = [entry.get("grown_bytes") for entry in (before, now)]
    if all(pair) and abs(pair[1] / pair[0] - 1) > ONCE:
        yield f"memory: {pair[0] / 1e6:.1f} to {pair[1] / 1e6:.1f} MB"


def spread(entry: dict[str, Any]) -> float:
    """Half the distance between the quartiles of a way's rounds, over the least of them."""
    rounds = entry.get("rounds_us") or [entry["us"]]
    if len(rounds) < 2:
        return 0.0
    first, _, third = statistics.quantiles(rounds, n=4, method="inclusive")
    return (third - first) / 2 / min(rounds)


def commit() -> str:
    """What of the project ran, with a + where files differ from the commit."""
    command = ["git", "-C", str(FOLDER.parent), "describe", "--always", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"
