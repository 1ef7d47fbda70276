"""Which cases of a test the suite runs, where all of them are more than it has time for.

`@pytest.mark.sampled(n)` on a test with parameters: the suite runs a sample of its cases, the
others are marked `slow`; `pytest -m slow` runs those, and `.ci/run` does. Of several parameters
every value of each is in the sample, and of all cases one in n."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Case = Mapping[str, int]
"""Of each parameter which of its values it has: equal numbers for the same one."""


def sample(names: Sequence[str], cases: Sequence[Case], every: int) -> list[bool]:
    """Of each case whether it is in the sample. One in `every` is chosen by its name, so that
    another case more or less leaves the choice of the others as it is; then those with the most
    values that none chosen before has, so that they are few."""
    columns = [[case[parameter] for case in cases] for parameter in cases[0]]
    columns = [values for values in columns if len(set(values)) < len(cases)]
    chosen = [zlib.crc32(name.encode()) % every == 0 for name in names]
    rows = [[(i, values[at]) for i, values in enumerate(columns)] for at in range(len(cases))]
    known = {value for row, kept in zip(rows, chosen, strict=True) if kept for value in row}
    for wanted in range(len(columns), 0, -1):
        for position, row in enumerate(rows):
            if sum(value not in known for value in row) >= wanted:
                chosen[position] = True
                known.update(row)
    return chosen if any(chosen) else [True, *chosen[1:]]


def unsampled(items: Iterable[Any]) -> list[Any]:
    """The collected items whose test is sampled and which are not in the sample. Those that are
    slow anyway have no part in it."""
    tests: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            tests[item.nodeid.partition("[")[0]].append(item)
    left = []
    for cases in tests.values():
        (every,) = cases[0].get_closest_marker("sampled").args
        names = [case.name for case in cases]
        values = [{k: id(v) for k, v in case.callspec.params.items()} for case in cases]
        chosen = sample(names, values, every)
        left += [case for case, kept in zip(cases, chosen, strict=True) if not kept]
    return left
