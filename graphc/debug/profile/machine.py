"""What one core of this machine can do: products and additions a second, bytes a second by level.

What is measured, and how, stands in `rates`. The figures are kept in the cache folder, by processor
and sizes of its caches; measured again, the best of both stays, since whatever else the machine
does can only make it slower.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from pathlib import Path

from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.target import host
from graphc.debug.profile.rates import OperationRate, ReadRate, cache_sizes
from graphc.records import as_dict, record


@record
class MemoryLevel:
    """A cache, or memory behind all (`nbytes` None): bytes a second that one core reads from it."""

    name: str
    nbytes: int | None
    rate: float

    @property
    def room(self) -> float:
        return math.inf if self.nbytes is None else self.nbytes


@record
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
    known, caches = _read(), cache_sizes()
    beyond = 4 * max(caches.values())
    levels = tuple(
        MemoryLevel(name, size, ReadRate(size // 2 if size else beyond).measure())
        for name, size in [*caches.items(), ("DRAM", None)]
    )
    products, additions = (OperationRate(op).measure() for op in ("fma", "plain"))
    measurement = Machine(processor(), products, additions, levels)
    if known is not None:
        measurement = _best_of(known, measurement)
    store = user_cache()
    if store is not None:
        facts = {"kernel": "machine", "target": host().key}
        store.put(_key(), json.dumps(as_dict(measurement)).encode(), facts)
    return measurement


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
    facts = (host().key, processor(), sorted(cache_sizes().items()), 2)
    return "machine_" + hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _read() -> Machine | None:
    store = user_cache()
    payload = store.get(_key()) if store is not None else None
    if payload is None:
        return None
    content = json.loads(payload)
    levels = tuple(MemoryLevel(**level) for level in content.pop("levels"))
    return Machine(**content, levels=levels)
