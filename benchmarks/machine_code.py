"""Whether a change of the compiler's own files left the code it makes as it was.

usage: python benchmarks/machine_code.py > before.json    in one checkout
       python benchmarks/machine_code.py --against before.json    in another
       python benchmarks/machine_code.py --loops …    loops instead of object code, in seconds

in : the groups of code_digests/subjects.py: the workloads, the same with open sizes, what eager
     mode compiles for each sample of the op table, the problems of the strategies' tests, products
     of narrow elements; or those of --group, and of them those of --only
out: as JSON, for each subject and target digests of its plans, of each kernel and of the drivers;
     with --against, the lines that differ, and exit code 1 where there are some

Digests are of object code, or with --loops of loops in which no name counts: equal loops give equal
object code as long as codegen/llvm stays as it was. `--against` looks at the subjects and targets
of this run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the tests' problems
sys.path.insert(0, str(Path(__file__).resolve().parent))

from code_digests.digests import Compiler, Digests
from code_digests.subjects import GROUPS, Subject, subjects

from graphc.codegen.target import named

TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
EXTENDED = "x86-64-v4+bf16+vnni"


def digests_of(subject: Subject, compiler: Compiler) -> Digests:
    """Those of all programs and bodies of a subject."""
    digests = {}
    for name, program in subject.programs.items():
        parts = compiler.program(*program)
        digests |= {f"{name}/{part}": text for part, text in parts.items()}
    for name, body in subject.bodies.items():
        parts = compiler.strategies(body)
        digests |= {f"{name}/{part}": text for part, text in parts.items()}
    return digests


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """A line for each digest of `after` that is another one, or not there, in `before`, and for
    each that is there only."""
    for subject, targets in after.items():
        for target, digests in targets.items():
            known = before.get(subject, {}).get(target, {})
            for part in {**known, **digests}:
                if known.get(part) != digests.get(part):
                    yield f"{subject} {target} {part}: {known.get(part)} -> {digests.get(part)}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Digests of the code of all workloads")
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a name, or *")
    parser.add_argument("--group", action="append", choices=tuple(GROUPS), help="all where none is")
    parser.add_argument("--small", action="store_true", help="workloads at the size of the tests")
    parser.add_argument("--loops", action="store_true", help="of loops instead of object code")
    parser.add_argument("--target", action="append", choices=(*TARGETS, EXTENDED),
                        help="all but that with extensions where none is")  # fmt: skip
    parser.add_argument("--against", type=Path, metavar="FILE", help="digests of another checkout")
    options = parser.parse_args()
    options.group = options.group or list(GROUPS)
    return options


def main() -> None:
    options = parsed()
    os.environ["GRAPHC_CACHE"] = "off"  # nothing that another checkout kept
    compilers = [Compiler(named(n), options.loops) for n in options.target or TARGETS]
    by_name: dict[str, dict[str, Digests]] = {}
    for group in options.group:
        started, count = time.process_time(), 0
        for subject in subjects(group, options.only, options.small):
            by_target = {c.target.name: digests_of(subject, c) for c in compilers}
            by_name[subject.name] = by_target
            count += sum(map(len, by_target.values()))
        took = time.process_time() - started
        print(f"{group}: {count} digests, {took:.1f} s of processor", file=sys.stderr, flush=True)
    if not by_name:
        sys.exit(f"nothing is named like {options.only!r}")
    if options.against is None:
        print(json.dumps(by_name, indent=1))
        return
    lines = list(differences(json.loads(options.against.read_text()), by_name))
    total = sum(len(digests) for targets in by_name.values() for digests in targets.values())
    print(*lines, f"{len(lines)} of {total} digests differ", sep="\n")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
