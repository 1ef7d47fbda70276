"""All fuzzers, by name."""

from __future__ import annotations

from tests.fuzz import (
    cache_files,
    checkpoints,
    graph_texts,
    joins,
    kernels,
    kills,
    levels,
    targets,
)
from tests.fuzz.frame import Fuzzer

FUZZERS: dict[str, Fuzzer] = {
    module.FUZZER.name: module.FUZZER
    for module in (checkpoints, cache_files, kills, graph_texts, joins, kernels, levels, targets)
}
