"""What a share changes besides gradients: running statistics of BatchNorm, the random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.tensors.generator import default_generator
from frontend.tensors.memory_tracking import count_write
from frontend.tensors.tensor import from_data
from graphc.ir.types import DType


def statistics(norm: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Copies of the running mean and variance, and how many batches they are of."""
    means = norm.running_mean._array("BatchNorm").copy()
    variances = norm.running_var._array("BatchNorm").copy()
    count = norm.num_batches_tracked
    return means, variances, 0 if count is None else int(count)


def put(norm: Any, means: np.ndarray, variances: np.ndarray) -> None:
    for tensor, array in ((norm.running_mean, means), (norm.running_var, variances)):
        tensor._array("BatchNorm")[...] = array
        count_write(tensor._counter)


def put_count(norm: Any, count: int) -> None:
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked._array("BatchNorm")[...] = count
        count_write(norm.num_batches_tracked._counter)


def mixed(seed: int, share: int) -> int:
    """A seed for a share: the finalizer of splitmix64."""
    x = (seed + (share + 1) * 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    x ^= x >> 31
    return x - 2**64 if x >= 2**63 else x


def seed_stream(seed: int, counter: int) -> None:
    default_generator.state._assign(from_data([seed, counter], DType.i64))
