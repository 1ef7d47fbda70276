"""`python -m tests.zoo [NAME …] [--few] [--family F]`: models of other people's libraries, run on
the frontend and on PyTorch with the same weights; fails where outputs or losses differ.

Two processes work side by side: PyTorch's is a model ahead.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.zoo import exports, packages
from tests.zoo.catalogue import DRAWING, FEW, NAMES, STEPPED
from tests.zoo.module_classes import module_classes

TOLERANCE = 1e-4
"""Of outputs and losses, relative."""
COUNTED = ("vit_pytorch", "x_transformers")
"""Libraries of which every class of modules is looked for."""
MOVED = 1e-3
"""Of how far a training step moves the parameters, relative."""


class Side:
    """A process that runs models: `ask`, then `answer`."""

    def __init__(self, side: str, folder: Path, draws: bool):
        worker = Path(__file__).with_name("worker.py")
        root = str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        self.process: Any = subprocess.Popen(
            [sys.executable, str(worker), side, str(folder), "draws" if draws else "own"],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip

    def ask(self, name: str) -> None:
        self.process.stdin.write(f"{name} step\n" if name in STEPPED else f"{name}\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended: exit {self.process.wait()}")
        result: dict[str, Any] = json.loads(line)
        return result

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def relative(x: Any, y: Any) -> float:
    """The greatest difference over the greatest value; infinite where one is not finite."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.shape != y.shape or not np.isfinite(y).all():
        return float("inf")
    difference = np.abs(x - y).max(initial=0.0)
    return float(difference / max(np.abs(y).max(initial=0.0), 1e-30)) if difference else 0.0


def verdict(folder: Path, ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[bool, str]:
    """Whether a model agrees, and a line about it."""
    for side, result in (("PyTorch", theirs), ("frontend", ours)):
        if "error" in result:
            return False, f"{side}: {result['error']}\n      " + "\n      ".join(result["where"])
    with np.load(folder / "oracle.npz") as expected, np.load(folder / "frontend.npz") as actual:
        if sorted(expected.files) != sorted(actual.files) or not expected.files:
            return False, f"outputs {actual.files}, PyTorch's are {expected.files}"
        output = max(relative(actual[key], expected[key]) for key in expected.files)
    loss = relative(ours["loss"], theirs["loss"])
    worst, text = max(output, loss), f"output {output:.1e}, loss {loss:.1e}"
    if "step" in ours:
        step = relative(ours["step"][0], theirs["step"][0])
        moved = relative(ours["step"][1], theirs["step"][1])
        worst = max(worst, step, moved * TOLERANCE / MOVED)
        text += f", compiled step {step:.1e}, moved {moved:.1e} ({ours['step_seconds']} s)"
    return worst <= TOLERANCE, f"{text}, {ours['seconds']} s beside {theirs['seconds']} s"


def compare(names: list[str], draws: bool) -> tuple[list[str], set[str]]:
    """The names of models that do not agree; and the classes of modules in those that do."""
    failed, classes = [], set[str]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in names:
            (folder / name).mkdir(parents=True)
        oracle, frontend = Side("oracle", folder, draws), Side("frontend", folder, draws)
        oracle.ask(names[0])
        for name, following in zip(names, [*names[1:], None]):
            theirs = oracle.answer()
            if following is not None:
                oracle.ask(following)
            if "error" in theirs:
                ours = theirs
            else:
                frontend.ask(name)
                ours = frontend.answer()
            agrees, text = verdict(folder / name, ours, theirs)
            print(f"{'ok  ' if agrees else 'FAIL'} {name}: {text}", flush=True)
            failed += [] if agrees else [name]
            classes |= set(ours["classes"]) if agrees else set()
            shutil.rmtree(folder / name)
        oracle.close()
        frontend.close()
    return failed, classes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of the catalogue, as timm/resnet18")
    parser.add_argument("--few", action="store_true", help="the dozen that .ci/run compares")
    parser.add_argument("--family", help="timm, torchvision, transformers, …")
    parser.add_argument("--packages", action="store_true", help="packages: see packages.py")
    parser.add_argument("--checkouts", type=Path, help="with repositories: see repositories.py")
    parser.add_argument("--export", action="store_true", help="as ONNX: see exports.py")
    parser.add_argument("--every", type=int, default=1, help="one of so many names (of --export)")
    chosen = parser.parse_args()
    if chosen.packages or chosen.checkouts:
        packages.main(chosen.names, chosen.few, chosen.checkouts)
        return
    names = chosen.names or (FEW if chosen.few else NAMES)
    names = [n for n in names if chosen.family is None or n.startswith(f"{chosen.family}/")]
    if chosen.export:
        exports.main([name for name in names if name not in DRAWING][:: chosen.every])
        return
    failed, classes = list[str](), set[str]()
    for draws in (False, True):
        some = [name for name in names if (name in DRAWING) is draws]
        if some:
            differing, met = compare(some, draws)
            failed, classes = failed + differing, classes | met
    for family in sorted({name.partition("/")[0] for name in names}):
        all_names = [name for name in names if name.startswith(f"{family}/")]
        count = sum(name not in failed for name in all_names)
        print(f"{family}: {count} of {len(all_names)} agree")
        if family in COUNTED and not chosen.names:
            missing = sorted(module_classes(family) - classes)
            number = len(module_classes(family))
            print(f"{family}: {number - len(missing)} of its {number} classes of modules were run")
            print("  not: " + ", ".join(missing))
    stepped = [name for name in names if name in STEPPED]
    print(f"compiled steps: {sum(n not in failed for n in stepped)} of {len(stepped)} agree")
    if failed:
        raise SystemExit("not as PyTorch: " + ", ".join(failed))


if __name__ == "__main__":
    main()
