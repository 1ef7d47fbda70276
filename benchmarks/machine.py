"""What one core of this machine can do: float32 FMA peak, and read bandwidth by working set.

Both are measured by kernels made through graphc's own LoopBuilder and code generator, so that a
fraction of them says what is left to gain, not what another compiler would do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from graphc.codegen.builder import LoopBuilder
from graphc.codegen.jit import call_kernel
from graphc.codegen.loops import Kernel
from graphc.codegen.target import host
from graphc.ir.types import DType

CHAINS = 12  # covers latency 4 on 2 units, and leaves operands in registers where there are 16
UNROLL = 4
READS = 16  # vectors a turn of the reading loop
ENDLESS = 1 << 40


def fma_kernel() -> Kernel:
    """CHAINS · UNROLL vector FMAs a turn, from registers only."""
    lanes = host().lanes(DType.f32)
    b = LoopBuilder("fma_peak")
    source = b.buffer("source", DType.f32, lanes, "read")
    target = b.buffer("target", DType.f32, lanes * CHAINS, "write")
    half = b.load(source, 0, lanes)
    with b.loop(b.begin, b.end, carried=[half] * CHAINS) as loop:
        chains = list(loop.carried)
        for _ in range(UNROLL):
            chains = [b.fma(chain, half, half) for chain in chains]
        loop.yield_(*chains)
    for number, chain in enumerate(loop.results):
        b.store(target, number * lanes, chain)
    return b.finish(extent=ENDLESS)


def read_kernel(nbytes: int) -> Kernel:
    """A turn reads all of a buffer of `nbytes`, in order, into READS sums."""
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


class Peak:
    """The best float32 FMA rate seen so far, in flop/s of one core."""

    def __init__(self) -> None:
        self.best = 0.0
        self._kernel = fma_kernel()
        self._flops = 2.0 * CHAINS * UNROLL * host().lanes(DType.f32)
        self._arrays = [np.full(host().lanes(DType.f32), 0.5, np.float32),
                        np.empty(self._kernel.buffers[1].size, np.float32)]  # fmt: skip

    def measure(self, milliseconds: float = 2.0) -> float:
        """The rate now, in flop/s."""
        turns = int(milliseconds * 1e-3 * 1e11 / self._flops)
        seconds = _least(lambda: call_kernel(self._kernel, self._arrays, 0, turns), 3)
        found = turns * self._flops / seconds
        self.best = max(self.best, found)
        return found


class Reader:
    """The best rate seen so far at which one core reads a working set over and over, in bytes a
    second."""

    def __init__(self, nbytes: int) -> None:
        self.best = 0.0
        self._kernel = read_kernel(nbytes)
        self._arrays = [np.ones(self._kernel.buffers[0].size, np.float32),
                        np.empty(self._kernel.buffers[1].size, np.float32)]  # fmt: skip

    def measure(self, milliseconds: float = 6.0) -> float:
        """The rate now, in bytes a second."""
        nbytes = self._arrays[0].nbytes
        turns = max(1, round(milliseconds / 3 * 5e7 / nbytes))
        seconds = _least(lambda: call_kernel(self._kernel, self._arrays, 0, turns), 3)
        self.best = max(self.best, turns * nbytes / seconds)
        return turns * nbytes / seconds


def bandwidth(nbytes: int) -> float:
    """Bytes a second that one core reads from a working set of `nbytes`."""
    reader = Reader(nbytes)
    return max(reader.measure() for _ in range(8))


def cache_levels() -> dict[str, int]:
    """A working set for each level of the memory: half of a cache, and four times the last."""
    found: dict[str, int] = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (entry / name).read_text("utf-8").strip() for name in ("level", "type", "size")
        )
        if kind != "Instruction" and size.endswith("K"):
            found[f"L{level}"] = int(size[:-1]) << 10
    found = found or {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
    halves = {level: size // 2 for level, size in found.items()}
    return {**halves, "DRAM": 4 * max(found.values())}


def _least(step: Callable[[], None], runs: int) -> float:
    """Seconds of the fastest of some runs."""
    best = float("inf")
    for _ in range(runs):
        started = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - started)
    return best
