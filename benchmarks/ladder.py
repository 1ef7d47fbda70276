"""What a static graph gains, rung by rung: `graphc compare` on the project's own steps.

    python benchmarks/ladder.py                         the MLP, CNN and transformer of examples/
    python benchmarks/ladder.py --only 'lstm' --rounds 4
    python benchmarks/ladder.py train.py:step --input 'f32[32,64]' --input 'i64[32]<10'
    python benchmarks/ladder.py --all --rounds 10 --write docs

The last takes all of them and writes docs/ladders.json, a picture of each, and
docs/dynamic_and_static.md; where the machine was not quiet the page says so. What the rungs are
stands in graphc/debug/compare/rungs.py. `--page docs` writes the pictures and the page anew from
the figures that are stored, which is what a test holds them to.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from pathlib import Path
from typing import Any

from ladder_page import FIGURES, write_page

from graphc.debug.compare.ladder import TURN_SECONDS, Measured, climb
from graphc.debug.compare.text import table
from graphc.debug.files import write_file
from graphc.errors import GraphError

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES, STEPS = "examples/digits.py", "benchmarks/steps.py"
LADDERS = {
    "mlp_step": (f"{EXAMPLES}:mlp_step", "MLP on 8x8 digits, Adam, batch 64"),
    "cnn_step": (f"{EXAMPLES}:cnn_step", "CNN on 8x8 digits, SGD, batch 64"),
    "transformer_step": (
        "examples/transformer.py:transformer_step", "transformer of 2 layers of 96, AdamW, batch 32"
    ),
    "resnet18_sgd": (f"{STEPS}:resnet18_sgd", "ResNet-18 on 32x32, SGD, batch 16"),
    "lstm_adam": (f"{STEPS}:lstm_adam", "LSTM over 50 steps, Adam, batch 32"),
    "lenet_sgd": (f"{STEPS}:lenet_sgd", "LeNet on 3x32x32, SGD, batch 32"),
    "gpt_adamw": (f"{STEPS}:gpt_adamw", "GPT of 4 layers of 256, AdamW, batch 8"),
}  # fmt: skip
FIRST = ("mlp_step", "cnn_step", "transformer_step")


def measured(name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """The ladder of one of the project's steps, named as in LADDERS."""
    reference, title = LADDERS[name]
    what = Measured(str(ROOT / reference), title=title)
    ladder = climb(what, rounds, seconds, lambda line: print(f"{name}, {line}", file=sys.stderr))
    return {**ladder, "name": reference}


def of_file(options: argparse.Namespace) -> dict[str, Any]:
    """The ladder of a user's file."""
    what = Measured(options.reference, tuple(options.inputs))
    return climb(what, options.rounds, options.seconds)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Eager against compiled, one change at a time")
    parser.add_argument("reference", nargs="?", metavar="FILE.py:NAME", help="a step of your own")
    parser.add_argument("--input", metavar="TYPE", action="append", default=[], dest="inputs")
    parser.add_argument("--all", action="store_true", help=f"all of {', '.join(LADDERS)}")
    parser.add_argument("--only", metavar="PATTERN", help="those whose names contain or match it")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each rung (default: 6)")
    parser.add_argument("--seconds", type=float, default=TURN_SECONDS, help="of a turn (0.15)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no tables")
    parser.add_argument("--write", metavar="FOLDER", help="write figures, pictures and the page")
    parser.add_argument("--page", metavar="FOLDER", help="write pictures and page from the figures")
    options = parser.parse_args()
    pattern = options.only
    options.names = [
        name for name in (LADDERS if options.all or pattern else FIRST)
        if not pattern or pattern in name or fnmatch.fnmatchcase(name, pattern)
    ]  # fmt: skip
    if not options.names:
        parser.error(f"no ladder is named like {pattern!r}: there are {', '.join(LADDERS)}")
    if options.reference and (options.all or pattern or options.write):
        parser.error("a file's own ladder is printed, and not among those that are written")
    if options.rounds < 1 or not options.seconds > 0:
        parser.error("at least 1 round, and a positive number of seconds")
    return options


def stored(folder: Path) -> dict[str, Any]:
    """The ladders that the folder has, none where it has none."""
    path = folder / FIGURES
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def run(options: argparse.Namespace) -> None:
    if options.page:
        write_page(stored(Path(options.page)), Path(options.page))
        return
    ladders = {}
    for name in options.names if not options.reference else [options.reference]:
        if options.reference:
            ladders[name] = of_file(options)
        else:
            ladders[name] = measured(name, options.rounds, options.seconds)
        if not options.json:
            print("\n".join(table(ladders[name])), end="\n\n", flush=True)
        if options.write:  # after each: a run that is stopped keeps what it has
            folder = Path(options.write)
            both = stored(folder) | {name: ladders[name]}
            ordered = {key: both[key] for key in LADDERS if key in both}
            write_file(folder / FIGURES, json.dumps(ordered, indent=1) + "\n", "the figures")
    if options.json:
        print(json.dumps(ladders, indent=1))
    if options.write:
        write_page(stored(Path(options.write)), Path(options.write))
    if any(ladder["wrong"] for ladder in ladders.values()):
        raise SystemExit(1)


def main() -> None:
    try:
        run(arguments())
    except GraphError as error:
        raise SystemExit(f"ladder.py: {error}") from error


if __name__ == "__main__":
    main()
