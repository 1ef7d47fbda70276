"""What a share changes besides gradients: running statistics of BatchNorm, the random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.tensors.generator import Generator, default_generator
from frontend.engine.tensors.generator_bytes import GeneratorState
from frontend.engine.tensors.memory_tracking import count_write


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


def drawn_inside(before: GeneratorState, now: Any) -> str:
    """What a report says of numbers that networks drew since: from where."""
    seed, counter = before.inside.tolist()
    drew = now._array("dropout").item(1) != counter
    return f", drawn from seed {seed} at {counter}" if drew else ""


class RandomStates:
    """The state of the default generator at the start of a step; each share draws from streams of
    its own that follow from it, whatever rank has the share. Steps whose code draws nothing start
    from the same words, so what follows from these is kept."""

    def __init__(self) -> None:
        self._words = np.empty(0, np.int32)  # those that the rest follows from
        self._began: dict[int, GeneratorState] = {}

    def open(self) -> None:
        """A step starts."""
        self.start = default_generator.state_arrays()
        self.seed, self.counter = map(int, self.start.inside)
        if not np.array_equal(self._words, self.start.twister):
            ahead = Generator()
            ahead.put_arrays(self.start)
            high, low = map(int, ahead.words(2))
            self.drawn = (high << 32) ^ (low & 0xFFFFFFFF)
            self._behind = ahead.state_arrays().twister
            self._words, self._began = self.start.twister, {}
        self.advanced = 0
        self.scripts_drew = False

    def begin(self, share: int) -> None:
        """Put the default generator at the start of a share's streams."""
        began = self._began.get(share)
        if began is None:
            seeded = Generator().manual_seed(mixed(self.drawn, share))
            began = self._began[share] = seeded.state_arrays()
        self.began = began._replace(inside=np.array([mixed(self.seed, share), self.counter]))
        default_generator.put_arrays(self.began)
        self.version = default_generator.twister._counter[0]

    def end(self) -> None:
        """Note what a share drew."""
        inside, twister = default_generator.inside, default_generator.twister
        self.advanced = max(self.advanced, int(inside._array("dropout")[1]) - self.counter)
        if twister._counter[0] != self.version:
            words = twister._array("a random draw")
            self.scripts_drew |= not np.array_equal(words, self.began.twister)

    def told(self) -> str:
        """What a report says of it."""
        inside = drawn_inside(self.start, default_generator.inside)
        return f"{inside}, drawn from words {self.drawn:x}" if self.scripts_drew else inside

    def leave(self) -> None:
        """Put the default generator behind the step: where all shares drew alike, the same on all
        ranks."""
        state = self.start._replace(twister=self._behind) if self.scripts_drew else self.start
        after = state._replace(inside=np.array([self.seed, self.counter + self.advanced]))
        default_generator.put_arrays(after)
