"""`python -m tests.zoo.scripts --folder CHECKOUTS [NAME …]`: whole scripts of other people, not
changed, on small local data.

Each is run three times: on PyTorch and under `python -m frontend.run`, both with the random numbers
of same_draws.py, so that what they print is compared; and under `frontend.run` as it is, where
neither torch nor torchvision is installed: there it has to run through, and its loss to fall. Those
that draw by PyTorch's own generators alone (`seeded`) are run twice, both times as they are, and
once more where they have other options to be run with. Fails where one does not. Needs PyTorch, the
libraries of requirements.txt, and what scripts import themselves: matplotlib, six, for minimind
datasets, for nanochat pyarrow, tiktoken and rustbpe, here or in a folder of PYTHONPATH.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tests.zoo.script_list import SCRIPTS, Script

TOLERANCE = 2e-3
"""Of printed numbers, relative: scripts print four or five digits."""
SEEDED = 1e-4
"""The same where both sides start from the same seed; of numbers below 1 absolute."""
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
STAND_INS = ("gymnasium.py", "tiktoken", "sentencepiece.py", "wandb.py")
NOT_INSTALLED = ("torch", "torchgen", "functorch", "torchvision")
LAUNCHER = ("-m", "frontend.run")
SAME, AS_IT_IS = str(HERE / "same_draws.py"), str(HERE / "as_it_is.py")


def link_packages(folder: Path, without: tuple[str, ...]) -> Path:
    """What is installed, by links, but for some packages."""
    folder.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.name.partition("-")[0].partition(".")[0] not in without:
            (folder / entry.name).symlink_to(entry)
    return folder


def link_stand_ins(folder: Path) -> Path:
    """The modules that stand in for what is not installed."""
    folder.mkdir()
    for name in STAND_INS:
        if find_spec(name.removesuffix(".py")) is None:
            (folder / name).symlink_to(HERE / "stand_ins" / name)
    return folder


class Runs:
    """Runs scripts on one side, each in a fresh copy of what it needs."""

    def __init__(self, checkouts: Path, work: Path, side: str, paths: list[Path]):
        self.checkouts, self.folder, self.paths = checkouts, work / side, paths
        self.options = ("-S",) if side == "alone" else ()
        self.launch = {
            "oracle": (SAME,), "same": (*LAUNCHER, SAME), "seeded": (AS_IT_IS,),
            "installed": LAUNCHER, "alone": LAUNCHER,
        }[side]  # fmt: skip

    def run(self, script: Script, commands: tuple[str, ...]) -> tuple[str, str]:
        """What the commands print; and what is wrong, if something is."""
        without = shutil.ignore_patterns("tests")  # a package that would hide this one
        shutil.copytree(self.checkouts / script.copied, self.folder / script.copied, ignore=without)
        folder = self.folder / script.folder
        script.prepare(folder)
        places = (*self.paths, (folder / script.path).resolve(), os.environ.get("PYTHONPATH", "."))
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(map(str, places)),
            "HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
            # PyTorch does not compile what draws from NumPy; what it gives is eager mode's.
            "TORCHDYNAMO_DISABLE": "1", **dict(script.environment),
        }  # fmt: skip
        printed = ""
        for command in commands:
            result = subprocess.run(
                [sys.executable, *self.options, *self.launch, *shlex.split(command)], cwd=folder,
                capture_output=True, text=True, env=environment,
            )  # fmt: skip
            printed += result.stdout + result.stderr  # where loggers write
            if result.returncode:
                return printed, "\n      ".join(result.stderr.splitlines()[-12:])
        shutil.rmtree(self.folder)
        return printed, ""


def numbers_of(script: Script, printed: str) -> np.ndarray:
    """The numbers that a script printed."""
    groups = (match.groups() for match in re.finditer(script.numbers, printed, re.MULTILINE))
    return np.array([float(text) for each in groups for text in each if text is not None])


def differs(ours: np.ndarray, theirs: np.ndarray, tolerance: float, least: float) -> str:
    """What is wrong with the numbers of two runs, if something is."""
    if ours.shape != theirs.shape or not len(ours):
        return f"{len(ours)} numbers, PyTorch's are {len(theirs)}"
    difference = np.abs(ours - theirs) / np.maximum(np.abs(theirs), least)
    if difference.max() <= tolerance:
        return ""
    first = int(np.argmax(~(difference <= tolerance)))
    return f"number {first} of {len(ours)} is {ours[first]}, PyTorch's {theirs[first]}"


def rises(script: Script, numbers: np.ndarray) -> str:
    """What is wrong with the losses of one run, if something is."""
    if not len(numbers) or not np.isfinite(numbers).all():
        return f"it printed {numbers}"
    if script.falls and not numbers[-1] < numbers[0]:
        return f"the loss does not fall: {numbers}"
    return ""


def altered(script: Script) -> tuple[str, ...]:
    """The commands of the run that is not compared."""
    commands = script.commands
    for old, new in script.solo:
        commands = tuple(command.replace(old, new) for command in commands)
    return commands


def check(script: Script, sides: dict[str, Runs]) -> tuple[str, str]:
    """What is wrong with a script, if something is; and what is right."""
    notes = []
    if script.compared:
        wrong, note = compare(script, sides)
        if wrong:
            return wrong, ""
        notes.append(note)
        if script.seeded and not script.solo:
            return "", note
    printed, wrong = sides["same" if script.models else "alone"].run(script, altered(script))
    numbers = numbers_of(script, printed)
    wrong = wrong or rises(script, numbers)
    notes.append(f"as it is {numbers[0]:.4g} to {numbers[-1]:.4g}" if not wrong else "")
    return (f"as it is: {wrong}" if wrong else ""), "; ".join(notes)


def compare(script: Script, sides: dict[str, Runs]) -> tuple[str, str]:
    """The same of the two runs whose numbers are compared."""
    theirs, wrong = sides["seeded" if script.seeded else "oracle"].run(script, script.commands)
    if wrong:
        return f"PyTorch: {wrong}", ""
    side = ("installed" if script.models else "alone") if script.seeded else "same"
    ours, wrong = sides[side].run(script, script.commands)
    numbers, expected = (numbers_of(script, each)[: script.first] for each in (ours, theirs))
    bounds = (SEEDED, 1.0) if script.seeded else (TOLERANCE, 0.01)
    wrong = wrong or differs(numbers, expected, *bounds)
    if script.seeded:
        wrong = wrong or rises(script, numbers)
    where = "from the seed " if script.seeded else ""
    return wrong and f"beside PyTorch: {wrong}", f"{len(numbers)} numbers {where}are PyTorch's"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo.scripts", description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(SCRIPTS))
    parser.add_argument("--folder", type=Path, required=True, help="with the checkouts")
    chosen = parser.parse_args()
    names, failed = chosen.names or list(SCRIPTS), []
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        others = link_stand_ins(work / "others")
        alone = (link_packages(work / "packages", NOT_INSTALLED),)
        sides = {
            side: Runs(
                chosen.folder.resolve(),
                work,
                side,
                [ROOT, others, *(alone if side == "alone" else ())],
            )
            for side in ("oracle", "same", "seeded", "installed", "alone")
        }
        for name in names:
            start = time.perf_counter()
            wrong, right = check(SCRIPTS[name], sides)
            seconds = time.perf_counter() - start
            print(
                f"{'FAIL' if wrong else 'ok  '} {name}: {wrong or right} ({seconds:.0f} s)",
                flush=True,
            )
            failed += [name] if wrong else []
            for side in sides.values():
                shutil.rmtree(side.folder, ignore_errors=True)
    print(f"{len(names) - len(failed)} of {len(names)} scripts run")
    if failed:
        raise SystemExit("not: " + ", ".join(failed))


if __name__ == "__main__":
    main()
