"""Random graphs over the op table, and their derived ones: graph interpreter, plan, loops and
native code agree, with passes and without (tests/test_random_graphs.py tells in what, and draws
them). A case is some graphs; hypothesis makes smaller what it finds."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.frame import Fuzzer

GRAPHS = 5  # of a case
DERIVED = 5  # every so many cases are of derived graphs

Case = int  # a seed


def draw(random: np.random.Generator, size: int) -> Case:
    return int(random.integers(1 << 30))


def check(case: Case) -> str:
    from hypothesis import HealthCheck, given, seed, settings

    from tests import test_random_graphs as drawn
    from tests.conftest import _same_bits

    derived = case % DERIVED == 0
    hold: Any = drawn.hold_derived if derived else drawn.hold_levels

    @seed(case)
    @settings(max_examples=GRAPHS, deadline=None, database=None, print_blob=False,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(case=drawn.joints() if derived else drawn.graphs())
    def run(case: Any) -> None:
        hold(*case, _same_bits)

    run()
    return f"{GRAPHS} derived graphs agree" if derived else f"{GRAPHS} graphs agree"


def program(case: Case) -> str:
    return f"from tests.fuzz import levels\nlevels.check({case!r})"


FUZZER = Fuzzer("levels", draw, check, program)
