"""`python -m tests.fuzz --minutes N [names]`: draw on, and print what is found."""

from __future__ import annotations

import argparse
import os
import sys
import time

# As in the suite: what is checked is made anew.
os.environ.setdefault("GRAPHC_CACHE", "off")
os.environ.setdefault("GRAPHC_PROCESSES", "1")
os.environ.setdefault("GRAPHC_VERIFY", "1")


def main() -> int:
    """0 where nothing was found."""
    from tests.fuzz.frame import report, run
    from tests.fuzz.registry import FUZZERS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(FUZZERS))
    parser.add_argument("--minutes", type=float, default=1.0, help="for all together")
    parser.add_argument("--cases", type=int, help="no more than this for each")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first case")
    parser.add_argument("--every-line", nargs="+", metavar="part", help="instead: interrupts at "
                        "every line of the files with such a part in their names")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.every_line:
        return _interrupt_at_every_line(arguments.every_line)
    unknown = set(arguments.names) - FUZZERS.keys()
    if unknown:
        parser.error(f"no fuzzer is called {', '.join(sorted(unknown))}")
    names = arguments.names or list(FUZZERS)
    failed = False
    for name in names:
        fuzzer = FUZZERS[name]
        tally = run(fuzzer, arguments.seed, arguments.cases, 60 * arguments.minutes / len(names))
        print(f"{name}: seeds from {arguments.seed}: {tally}", flush=True)
        for finding in tally.findings:
            print(report(fuzzer, finding), flush=True)
        failed |= bool(tally.findings)
    return int(failed)


def _interrupt_at_every_line(parts: list[str]) -> int:
    from tests.fuzz.interrupts import PROGRAMS, every_line

    for name in PROGRAMS:
        for again in (False, True):
            count = every_line(name, again, parts)
            print(f"{name}, {('first', 'second')[again]} call: {count} lines", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
