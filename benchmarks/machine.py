"""What one core of this machine can do: float32 FMA peak, and read bandwidth by working set.

Both are measured by kernels made through graphc's own LoopBuilder and code generator, so that a
fraction of them says what is left to gain, not what another compiler would do.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from graphc.codegen.llvm.jit import KERNEL_FUNCTION, kernel_address
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
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
        self._run = native(fma_kernel(), 0.5)
        self._flops = 2.0 * CHAINS * UNROLL * host().lanes(DType.f32)

    def measure(self, bursts: int = 12) -> float:
        """The rate now, in flop/s: the best of some bursts of about 0.4 ms, short enough for one to
        fall between what else the machine does."""
        turns = int(4e-4 * 1e11 / self._flops)
        seconds = _least(lambda: self._run(turns), bursts)
        found = turns * self._flops / seconds
        self.best = max(self.best, found)
        return found


class Reader:
    """The best rate seen so far at which one core reads a working set over and over, in bytes a
    second."""

    def __init__(self, nbytes: int) -> None:
        self.best = 0.0
        kernel = read_kernel(nbytes)
        self._nbytes = 4 * kernel.buffers[0].size
        self._run = native(kernel, 1.0)

    def measure(self, bursts: int = 6) -> float:
        """The rate now, in bytes a second: the best of some bursts of 1 ms or one turn."""
        turns = max(1, round(5e7 / self._nbytes))
        found = turns * self._nbytes / _least(lambda: self._run(turns), bursts)
        self.best = max(self.best, found)
        return found


def bandwidth(nbytes: int) -> float:
    """Bytes a second that one core reads from a working set of `nbytes`."""
    reader = Reader(nbytes)
    return max(reader.measure() for _ in range(8))


def native(kernel: Kernel, content: float) -> Callable[[int], None]:
    """The kernel as a function of its number of turns, over buffers filled with `content`."""
    # Vectors that cross cache lines would halve the rate: each buffer starts at one.
    arrays = [np.full(buffer.size + 16, content, np.float32) for buffer in kernel.buffers]
    starts = (-(-array.ctypes.data // 64) * 64 for array in arrays)
    table = (ctypes.c_void_p * len(arrays))(*starts)
    function = KERNEL_FUNCTION(kernel_address(kernel))

    def run(turns: int) -> None:
        assert arrays  # held as long as this function is: the table has addresses only
        function(table, None, 0, turns, None)

    return run


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
