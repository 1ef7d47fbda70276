"""What one core of this machine can do: products and additions a second, bytes a second by level.

All is measured by small kernels that are made through graphc's own LoopBuilder and code generator,
so that a fraction of it says what is left to gain, not what another compiler would do. The figures
are kept in the cache folder, by processor and sizes of its caches; measured again, the best of both
stays, since whatever else the machine does can only make it slower.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from graphc.codegen.llvm.jit import KERNEL_FUNCTION, kernel_address
from graphc.codegen.llvm.object_cache import user_cache
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


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A cache, or memory behind all (`nbytes` None): bytes a second that one core reads from it."""

    name: str
    nbytes: int | None
    rate: float

    @property
    def room(self) -> float:
        return math.inf if self.nbytes is None else self.nbytes


@dataclass(frozen=True, slots=True)
class Machine:
    """Of one core: products of float32 that are summed a second (an FMA is one), other operations
    of float32 a second (as additions and multiplications come mixed), and the levels of its memory,
    nearest first."""

    processor: str
    products: float
    additions: float
    levels: tuple[MemoryLevel, ...]


@functools.cache
def machine() -> Machine:
    """This machine, from the cache folder where it was measured before."""
    return _read() or measured()


def measured() -> Machine:
    """This machine measured now (some tenths of a second), kept, and joined with what was known."""
    known = _read()
    levels = tuple(
        MemoryLevel(name, size, _read_rate(size // 2 if size else 4 * max(_caches().values())))
        for name, size in [*_caches().items(), ("DRAM", None)]
    )
    found = Machine(processor(), _rate(_chains("fma")), _rate(_chains("plain")), levels)
    if known is not None:
        found = _best_of(known, found)
    store = user_cache()
    if store is not None:
        facts = {"kernel": "machine", "target": host().key}
        store.put(_key(), json.dumps(asdict(found)).encode(), facts)
    return found


def processor() -> str:
    """The processor's name; its architecture where the system does not tell."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return host().cpu


def _best_of(one: Machine, other: Machine) -> Machine:
    levels = tuple(
        MemoryLevel(a.name, a.nbytes, max(a.rate, b.rate))
        for a, b in zip(one.levels, other.levels, strict=True)
    )
    return Machine(
        one.processor, max(one.products, other.products), max(one.additions, other.additions),
        levels,
    )  # fmt: skip


# -- what is kept ----------------------------------------------------------------------------------


def _key() -> str:
    facts = (host().key, processor(), sorted(_caches().items()), 2)
    return "machine_" + hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _read() -> Machine | None:
    store = user_cache()
    payload = store.get(_key()) if store is not None else None
    if payload is None:
        return None
    content = json.loads(payload)
    levels = tuple(MemoryLevel(**level) for level in content.pop("levels"))
    return Machine(**content, levels=levels)


def _caches() -> dict[str, int]:
    """The sizes of a core's data caches, by name."""
    found: dict[str, int] = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (entry / name).read_text("utf-8").strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K"):
            found[f"L{level}"] = int(size[:-1]) << 10
    return found or dict(CACHES)


# -- what is measured ------------------------------------------------------------------------------


def _chains(op: str) -> Kernel:
    """CHAINS · UNROLL vector operations a turn, from registers only: "fma", or "plain", additions
    and multiplications in turn, which some processors have units of their own for."""
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


def _rate(kernel: Kernel) -> float:
    """Element operations a second of a kernel of chains."""
    done = CHAINS * UNROLL * host().lanes(DType.f32)
    turns = int(BURST_SECONDS * 5e10 / done)
    return turns * done / _least(_native(kernel), turns)


def _read_rate(nbytes: int) -> float:
    """Bytes a second that one core reads from a working set of `nbytes`."""
    kernel = _reader(nbytes)
    read = 4 * fixed(kernel.buffers[0].size)
    turns = max(1, round(BURST_SECONDS * 5e10 / read))
    return turns * read / _least(_native(kernel), turns)


def _native(kernel: Kernel) -> Callable[[int], None]:
    """The kernel as a function of its number of turns, over buffers that start at cache lines."""
    arrays = [np.full(fixed(buffer.size) + 16, 1.0, np.float32) for buffer in kernel.buffers]
    starts = (-(-array.ctypes.data // 64) * 64 for array in arrays)
    table = (ctypes.c_void_p * len(arrays))(*starts)
    function = KERNEL_FUNCTION(kernel_address(kernel))

    def run(turns: int) -> None:
        assert arrays  # held as long as this function is: the table has addresses only
        function(table, None, 0, turns, None)

    return run


def _least(run: Callable[[int], None], turns: int) -> float:
    """Seconds of the fastest of some bursts."""
    best = math.inf
    for _ in range(BURSTS):
        started = time.perf_counter()
        run(turns)
        best = min(best, time.perf_counter() - started)
    return best
