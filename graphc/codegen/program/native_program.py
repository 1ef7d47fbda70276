"""What linking a plan gives: the native program."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.codegen.program.barrier import PADDING
from graphc.codegen.program.size_table import SizeProgram
from graphc.schedule.plan import KernelSpec
from graphc.schedule.threads import Schedule


@dataclass(frozen=True, slots=True)
class NativeProgram:
    """A linked plan: the driver's address, the bytes of the block it works in (its arena, then a
    verdict, then the scratch of each thread), how it runs. `kernels` are the symbols it calls;
    `drivers` the names and addresses of the functions generated for it, in the order they are
    loaded; `hosts` the kernels that Python computes. Where sizes are known only at run time,
    `sizes` makes the table it reads, and these bytes are those of the example. Where one launch is
    all, `sizes` has the table too, and `kernel` is the address it gets (see single_launch)."""

    address: int
    arena_bytes: int
    scratch_stride: int
    timings: dict[str, float]
    schedule: Schedule
    target: str
    kernels: tuple[str, ...]
    drivers: tuple[tuple[str, int], ...]
    sizes: SizeProgram | None = None
    records: int = 0
    """Bytes behind all that, for what a driver notes of a call."""
    hosts: tuple[KernelSpec, ...] = ()
    kernel: int = 0

    @property
    def block_bytes(self) -> int:
        """Bytes of the block (of the example)."""
        scratch = self.schedule.threads * self.scratch_stride
        return verdict_start(self.arena_bytes) + PADDING + scratch + self.records


def verdict_start(arena_bytes: int) -> int:
    """Where in the block a failed check leaves what it saw."""
    return -(-arena_bytes // PADDING) * PADDING
