"""What linking a plan gives: the native program."""

from __future__ import annotations

from graphc.codegen.llvm.loading import LoadedFunction
from graphc.codegen.program.barrier import PADDING
from graphc.codegen.program.size_table import SizeProgram
from graphc.records import field, record, replace
from graphc.schedule.open_schedule import OpenSchedule
from graphc.schedule.plan import KernelSpec
from graphc.schedule.threads import Schedule


@record
class NativeProgram:
    """A linked plan: the driver, the bytes of the block it works in (its arena, then a
    verdict, then the scratch of each thread), how it runs. `kernels` are the symbols it calls;
    `drivers` the names of the functions generated for it, and these, in the order they are
    loaded; `hosts` the kernels that Python computes. Where sizes are known only at run time,
    `sizes` makes the table it reads, and these bytes are those of the example. Where one launch is
    all, `sizes` has the table too, and `kernel` is what it gets (see single_launch)."""

    driver: LoadedFunction | None = field(repr=False)
    arena_bytes: int
    scratch_stride: int
    timings: dict[str, float]
    schedule: Schedule
    target: str
    kernels: tuple[str, ...]
    drivers: tuple[tuple[str, LoadedFunction], ...] = field(repr=False)
    sizes: SizeProgram | None = None
    records: int = 0
    """Bytes behind all that, for what a driver notes of a call."""
    hosts: tuple[KernelSpec, ...] = ()
    by_size: OpenSchedule | None = None
    work: SizeProgram | None = None
    """Where sizes are known only at run time: what decides on threads, and what makes the numbers
    it decides by."""
    is_single: bool = False
    kernel: LoadedFunction | None = field(default=None, repr=False)

    @property
    def address(self) -> int:
        """That of the driver."""
        assert self.driver is not None, "loaded"
        return self.driver.address

    def unloaded(self) -> NativeProgram:
        """Without what is of this process."""
        return replace(self, driver=None, drivers=(), timings={}, kernel=None)

    @property
    def block_bytes(self) -> int:
        """Bytes of the block (of the example)."""
        scratch = self.schedule.threads * self.scratch_stride
        return verdict_start(self.arena_bytes) + PADDING + scratch + self.records


def verdict_start(arena_bytes: int) -> int:
    """Where in the block a failed check leaves what it saw."""
    return -(-arena_bytes // PADDING) * PADDING
