"""`python -m tests.zoo --packages [NAME …] [--few]`: packages that people build on PyTorch, as they
are installed (package_requirements.txt), each in processes of its own with a time limit: whether it
imports, whether it does what it is for, whether that is PyTorch's result (where PyTorch is
installed), and whether a compiled step gives the eager one's. `--checkouts FOLDER`: the same of
repositories (repositories.py) that lie there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tests.zoo import (  # noqa: F401 (they declare)
    package_domains,
    package_frameworks,
    package_scripts,
    package_unseen,
    repositories,
)
from tests.zoo.package_list import PACKAGES, Package

SECONDS = 1800
"""Of one process: package_worker.py bounds its processor time, as machines have other work."""
TOLERANCE = 1e-4
"""Relative to the greatest value of each result."""
HERE = Path(__file__).parent


def run(side: str, name: str, folder: Path) -> dict[str, Any]:
    """The report of one process (package_worker.py)."""
    root = str(HERE.parents[1])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    environment = {
        **os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg",
        "WANDB_MODE": "disabled", "YOLO_OFFLINE": "1", "PYTHONHASHSEED": "0",
    }  # fmt: skip
    command = [sys.executable, str(HERE / "package_worker.py"), side, name, str(folder)]
    lost = {"imports": False, "works": False, "compiled": "-"}
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=environment, cwd=folder
        )
    except subprocess.TimeoutExpired:
        return {**lost, "error": f"no answer in {SECONDS} s", "where": []}
    last = (result.stdout.strip().splitlines() or [""])[-1]
    if not last.startswith("{"):
        ending = result.stderr.strip().splitlines()[-1:]
        late = result.returncode == -signal.SIGXCPU
        error = "too much processor time" if late else f"exit {result.returncode}"
        return {**lost, "error": error, "where": ending}
    report: dict[str, Any] = json.loads(last)
    return report


def distance(folder: Path) -> float:
    """How far the two sides' results are apart, relative; infinite where they are others."""
    with np.load(folder / "oracle.npz") as expected, np.load(folder / "frontend.npz") as actual:
        if expected.files != actual.files or not expected.files:
            return float("inf")
        worst = 0.0
        for key in expected.files:
            x, y = actual[key].astype(np.float64), expected[key].astype(np.float64)
            if x.shape != y.shape or not np.isfinite(y).all():
                return float("inf")
            scale = max(float(np.abs(y).max(initial=0.0)), 1e-6)
            worst = max(worst, float(np.abs(x - y).max(initial=0.0)) / scale)
    return worst


def verdict(name: str, has_oracle: bool) -> tuple[dict[str, Any], str]:
    """The frontend's report, with `equal` (None where nobody knows), and a line about it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ours = run("frontend", name, folder)
        theirs = run("oracle", name, folder) if has_oracle and ours["works"] else {}
        apart = distance(folder) if theirs.get("works") else None
    known = apart is not None
    ours["equal"] = apart <= TOLERANCE if known else None
    marks = ["yes" if ours["imports"] else "no", "yes" if ours["works"] else "no",
             f"{apart:.0e}" if known else "-", str(ours["compiled"])]  # fmt: skip
    stop = ours.get("error", "") or (f"PyTorch: {theirs['error']}" if "error" in theirs else "")
    line = f"{name:28}" + "".join(f"{mark:9}" for mark in marks) + stop
    return ours, "\n      ".join([line.rstrip(), *ours.get("where", [])])


def is_there(package: Package) -> bool:
    """Whether a package is installed, a repository checked out."""
    if package.checkout:
        return Path(os.environ["CHECKOUTS"], package.checkout).is_dir()
    return find_spec(package.modules[0].partition(".")[0]) is not None


def main(names: list[str], few: bool, checkouts: Path | None) -> None:
    """Run the named packages, all where none is, or where a folder of checkouts is given the
    repositories in it; SystemExit where one does not do what the list says it does."""
    has_oracle = find_spec("torch") is not None
    if checkouts is not None:
        os.environ["CHECKOUTS"] = str(checkouts.resolve())
    chosen = names or [
        name
        for name, each in PACKAGES.items()
        if bool(each.checkout) == (checkouts is not None) and (each.light or not few)
    ]
    installed = [name for name in chosen if is_there(PACKAGES[name])]
    print(f"{'':28}{'imports':9}{'works':9}{'apart':9}compiled")
    counts = dict.fromkeys(("imports", "works", "equal"), 0)
    failed = []
    for name in installed:
        ours, line = verdict(name, has_oracle)
        print(line, flush=True)
        for mark in counts:
            counts[mark] += bool(ours[mark])
        good = ours["works"] and ours["equal"] is not False
        failed += [] if good or PACKAGES[name].stops else [name]
    told = ", ".join(f"{count} {mark}" for mark, count in counts.items())
    print(f"{len(installed)} of {len(chosen)} are installed: {told}")
    if failed:
        raise SystemExit("not as the list says: " + ", ".join(failed))
