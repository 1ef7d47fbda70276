"""What linking a plan gives: the native program."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.schedule.threads import Schedule


@dataclass(frozen=True, slots=True)
class NativeProgram:
    """A linked plan: the driver's address, the bytes its block must have and where in it a failed
    check leaves its verdict, how it runs. `kernels` are the symbols it calls; `drivers` the names
    and addresses of the functions generated for it, in the order they are loaded."""

    address: int
    block_bytes: int
    verdict: int
    timings: dict[str, float]
    schedule: Schedule
    target: str
    kernels: tuple[str, ...]
    drivers: tuple[tuple[str, int], ...]
