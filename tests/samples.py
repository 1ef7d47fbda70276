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
    another case more or less leaves the choice of the others as it is."""
    columns = [[case[parameter] for case in cases] for parameter in cases[0]]
    columns = [values for values in columns if len(set(values)) < len(cases)]
    known = [set[int]() for _ in columns]
    chosen = []
    for position, name in enumerate(names):
        row = [values[position] for values in columns]
        new = any(value not in values for value, values in zip(row, known, strict=True))
        chosen.append(new or zlib.crc32(name.encode()) % every == 0)
        if chosen[-1]:
            for value, values in zip(row, known, strict=True):
                values.add(value)
    return chosen if any(chosen) else [True, *chosen[1:]]


def unsampled(items: Iterable[Any]) -> list[Any]:
    """The collected items whose test is sampled and which are not in the sample."""
    tests: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            tests[item.nodeid.partition("[")[0]].append(item)
    left = []
    for cases in tests.values():
        (every,) = cases[0].get_closest_marker("sampled").args
        names = [case.name for case in cases]
        values = [{k: id(v) for k, v in case.callspec.params.items()} for case in cases]
        chosen = sample(names, values, every)
        left += [case for case, kept in zip(cases, chosen, strict=True) if not kept]
    return left
