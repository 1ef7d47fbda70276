"""`torch.autograd.profiler`: the profiler under its older name."""

from __future__ import annotations

from typing import Any

from frontend.namespace.stubs import stubs
from frontend.profiler import profile as _Profile
from frontend.profiler import record_function
from frontend.profiler.averages import EventList, FunctionEvent, FunctionEventAvg

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function",
]  # fmt: skip

globals().update(stubs("autograd.profiler"))


class BlockProfile(_Profile):
    """`torch.profiler.profile` without a schedule; with `enabled=False` nothing is recorded. What
    is asked for of other devices is nothing."""

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: Any = None,
        record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_modules: bool = False, use_kineto: bool = False,
        use_cpu: bool = True, **others: Any,
    ):  # fmt: skip
        super().__init__(
            record_shapes=record_shapes, with_flops=with_flops, profile_memory=profile_memory,
            with_stack=with_stack, with_modules=with_modules,
        )  # fmt: skip
        self.enabled = enabled and use_cpu

    def start(self) -> None:
        if self.enabled:
            super().start()

    def stop(self) -> None:
        if self.enabled:
            super().stop()

    @property
    def function_events(self) -> EventList:
        """All that ran."""
        return self.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all."""
        return self.events().self_cpu_time_total

    def total_average(self) -> FunctionEventAvg:
        """Count and times of all together."""
        total = FunctionEventAvg("Total", ())
        for entry in self.key_averages():
            total.count += entry.count
            total.cpu_time_total += entry.cpu_time_total
            total.self_cpu_time_total += entry.self_cpu_time_total
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **others: Any) -> str:
        """The averages as a table."""
        return self.key_averages().table(sort_by, row_limit, **others)

    def __str__(self) -> str:
        return self.table()


profile = BlockProfile
