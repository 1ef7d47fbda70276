"""All fuzzers, by name."""

from __future__ import annotations

from tests.fuzz import (
    autograd,
    batches,
    cache_files,
    caught,
    checkpoints,
    eager_ops,
    fallbacks,
    forks,
    graph_texts,
    interrupts,
    joins,
    kernels,
    kills,
    levels,
    op_sizes,
    packing,
    ranks,
    scalars,
    sizes,
    state,
    targets,
    told,
)
from tests.fuzz.frame import Fuzzer

_MODULES = (
    checkpoints, cache_files, kills, graph_texts, joins, kernels, levels, targets, state,
    interrupts, autograd, packing, sizes, op_sizes,
    eager_ops, caught, scalars, told, forks, ranks, fallbacks, batches,
)  # fmt: skip

FUZZERS: dict[str, Fuzzer] = {module.FUZZER.name: module.FUZZER for module in _MODULES}
