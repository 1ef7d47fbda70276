"""Rates of one core, measured again and again: operations, and bytes by working set.

Both by small kernels that are made through graphc's own LoopBuilder and code generator, so that a
fraction of them says what is left to gain, not what another compiler would do. Whatever else the
machine does can only make them slower: `best` is the best seen so far.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from graphc.codegen.llvm.jit import KERNEL_FUNCTION, kernel_function
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.target import host
from graphc.ir.dims import fixed
from graphc.ir.types import DType

CHAINS = 12  # covers latency 4 on 2 units, and leaves operands in registers where there are 16
UNROLL = 4
READS = 16  # vectors a turn of the reading loop
ENDLESS = 1 << 40
BURSTS, BURST_SECONDS = 24, 4e-4
"""Short enough for one to fall between what else the machine does."""
CACHES = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
"""Sizes where the system does not tell them."""


class OperationRate:
    """Element operations of float32 a second: "fma", or "plain", additions and multiplications in
    turn, which some processors have units of their own for."""

    def __init__(self, op: str):
        self.best = 0.0
        self._done = CHAINS * UNROLL * host().lanes(DType.f32)
        self._turns = int(BURST_SECONDS * 5e10 / self._done)
        self._run = _native(_chains(op))

    def measure(self, bursts: int | None = None) -> float:
        """The rate now: the best of some bursts."""
        rate = self._turns * self._done / _least(self._run, self._turns, bursts or BURSTS)
        self.best = max(self.best, rate)
        return rate


class ReadRate:
    """Bytes a second that one core reads from a working set, over and over."""

    def __init__(self, nbytes: int):
        self.best = 0.0
        kernel = _reader(nbytes)
        self._read = 4 * fixed(kernel.buffers[0].size)
        self._turns = max(1, round(BURST_SECONDS * 5e10 / self._read))
        self._run = _native(kernel)

    def measure(self, bursts: int | None = None) -> float:
        """The rate now: the best of some bursts."""
        rate = self._turns * self._read / _least(self._run, self._turns, bursts or BURSTS)
        self.best = max(self.best, rate)
        return rate


def cache_sizes() -> dict[str, int]:
    """The sizes of a core's data caches, by name."""
    sizes: dict[str, int] = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (entry / name).read_text("utf-8").strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K"):
            sizes[f"L{level}"] = int(size[:-1]) << 10
    return sizes or dict(CACHES)


def _chains(op: str) -> Kernel:
    """CHAINS · UNROLL vector operations a turn, from registers only."""
    lanes = host().lanes(DType.f32)
    b = LoopBuilder(f"{op}_rate")
    source = b.buffer("source", DType.f32, lanes, "read")
    target = b.buffer("target", DType.f32, lanes * CHAINS, "write")
    one = b.load(source, 0, lanes)
    plain = (b.add, b.mul)
    with b.loop(b.begin, b.end, carried=[one] * CHAINS) as loop:
        chains = list(loop.carried)
        for _ in range(UNROLL):
            chains = [
                b.fma(c, one, one) if op == "fma" else plain[number % 2](c, one)
                for number, c in enumerate(chains)
            ]
        loop.yield_(*chains)
    for number, chain in enumerate(loop.results):
        b.store(target, number * lanes, chain)
    return b.finish(extent=ENDLESS)


def _reader(nbytes: int) -> Kernel:
    """A turn reads all of a buffer of `nbytes`, in order, into sums."""
    lanes = host().lanes(DType.f32)
    step = lanes * READS
    size = max(1, nbytes // (4 * step)) * step
    b = LoopBuilder(f"read_{size}")
    source = b.buffer("source", DType.f32, size, "read")
    target = b.buffer("target", DType.f32, step // 2, "write")
    zero = b.const(DType.f32, 0.0, lanes)
    with b.loop(b.begin, b.end, carried=[zero] * (READS // 2)) as turn:
        with b.loop(0, size, step, carried=turn.carried) as loop:
            sums = list(loop.carried)
            for number in range(READS):
                value = b.load(source, b.index(number * lanes, loop.variable), lanes)
                sums[number % len(sums)] = b.add(sums[number % len(sums)], value)
            loop.yield_(*sums)
        turn.yield_(*loop.results)
    for number, total in enumerate(turn.results):
        b.store(target, number * lanes, total)
    return b.finish(extent=ENDLESS)


def _native(kernel: Kernel) -> Callable[[int], None]:
    """The kernel as a function of its number of turns, over buffers that start at cache lines."""
    arrays = [np.full(fixed(buffer.size) + 16, 1.0, np.float32) for buffer in kernel.buffers]
    starts = (-(-array.ctypes.data // 64) * 64 for array in arrays)
    table = (ctypes.c_void_p * len(arrays))(*starts)
    loaded = kernel_function(kernel)
    function = KERNEL_FUNCTION(loaded.address)

    def run(turns: int) -> None:
        assert arrays and loaded  # held as long as this function is, which has addresses only
        function(table, None, 0, turns, None)

    return run


def _least(run: Callable[[int], None], turns: int, bursts: int) -> float:
    """Seconds of the fastest of some bursts."""
    best = math.inf
    for _ in range(bursts):
        started = time.perf_counter()
        run(turns)
        best = min(best, time.perf_counter() - started)
    return best
