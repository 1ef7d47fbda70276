"""`torch.profiler`: which operations and compiled kernels ran, how often and how long.

    with torch.profiler.profile() as prof:
        model(x)
    print(prof.key_averages().table(sort_by="self_cpu_time_total"))

Operations have the names of graphs (`matmul`, `add`). A compiled call is an event with the
launches of its kernels inside, by the names of its plan; `graphc profile` tells how far each is
from what the machine can do.

averages are the events and their sums.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from frontend.engine.tensors.state import STATE, swap_observer
from frontend.profiler.averages import EventList, FunctionEvent
from frontend.profiler.launches import LaunchRecorder
from graphc.ir.builder import user_location

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function",
    "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(Enum):
    """What is recorded: the CPU's operations, which are all there are."""

    CPU = 0
    XPU = 1
    CUDA = 2


class ProfilerAction(Enum):
    """What is done in one step of a schedule."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def kineto_available() -> bool:
    """False: the clocks here are the compiler's own."""
    return False


def supported_activities() -> set[ProfilerActivity]:
    """The CPU's."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """By the number of the step: `skip_first` steps nothing, then cycles of `wait` steps nothing,
    `warmup` steps of recording that is thrown away, `active` steps that are kept; `repeat` cycles,
    0 for no end."""
    if active < 1 or min(wait, warmup, repeat, skip_first) < 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat and step >= repeat * cycle:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == cycle - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


class profile:
    """Records the operations and compiled calls of this thread inside a block, or those of the
    steps that `schedule` says. `on_trace_ready(prof)` is called when an active cycle is over.
    Raises RuntimeError where another profiler is on."""

    def __init__(
        self, *, activities: Any = None, schedule: Any = None, on_trace_ready: Any = None,
        record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False,
        with_flops: bool = False, with_modules: bool = False, **others: Any,
    ):  # fmt: skip
        unknown = {"profile_memory": profile_memory, "with_flops": with_flops, **others}
        for name in [name for name, value in unknown.items() if value]:
            warnings.warn(f"torch.profiler.profile({name}=…) records nothing here", stacklevel=2)
        self._with_stack = with_stack or with_modules
        self._schedule = schedule
        self._ready = on_trace_ready
        self._record_shapes = record_shapes
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._events: list[FunctionEvent] = []
        self._metadata: dict[str, str] = {}

    # -- when it records ---------------------------------------------------------------------

    def start(self) -> None:
        """Begin with the action of step 0."""
        self._act(self._action())

    def stop(self) -> None:
        """End; what was recorded is handed to `on_trace_ready`."""
        before = self.current_action
        self._act(ProfilerAction.NONE)
        active = before in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if active and self._ready is not None:
            self._ready(self)

    def step(self) -> None:
        """The end of a step of the program."""
        before = self.current_action
        self.step_num += 1
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._act(ProfilerAction.NONE)
            if self._ready is not None:
                self._ready(self)
        self._act(self._action())

    def _action(self) -> ProfilerAction:
        if self._schedule is None:
            return ProfilerAction.RECORD
        action: ProfilerAction = self._schedule(self.step_num)
        return action

    def _act(self, action: ProfilerAction) -> None:
        records = action is not ProfilerAction.NONE
        recorded = self.current_action is not ProfilerAction.NONE
        if records and not recorded:
            if STATE.observer is not None:
                raise RuntimeError("Profiler is already enabled on this thread")
            self._events = []
            swap_observer(EventRecorder(self._events.append, self._record_shapes, self._with_stack))
        if recorded and not records:
            swap_observer(None)
        if self.current_action is ProfilerAction.WARMUP and action is not ProfilerAction.WARMUP:
            self._events.clear()
        self.current_action = action

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    # -- what it recorded --------------------------------------------------------------------

    def events(self) -> EventList:
        """All that ran, in the order of its start."""
        return EventList(sorted(self._events, key=lambda event: event.start))

    def key_averages(self, group_by_input_shape: bool = False, **others: Any) -> EventList:
        """One entry for each name (and shapes of operands), with count and times."""
        return self.events().key_averages(group_by_input_shape)

    def add_metadata(self, key: str, value: str) -> None:
        """A text for the exported trace."""
        self._metadata[key] = value

    add_metadata_json = add_metadata

    def export_chrome_trace(self, path: str) -> None:
        """Write what ran as JSON that chrome://tracing and Perfetto show; microseconds."""
        events = [
            {
                "ph": "X", "cat": event.category, "name": event.name,
                "pid": os.getpid(), "tid": event.thread,
                "ts": event.start / 1000, "dur": (event.end - event.start) / 1000,
                "args": _facts(event),
            }
            for event in self.events()
        ]  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "traceEvents": events, **self._metadata}, file)


def _facts(event: FunctionEvent) -> dict[str, Any]:
    shapes = {"Input Dims": [list(shape) for shape in event.input_shapes]}
    return {
        **(shapes if event.input_shapes else {}),
        **({"at": event.place} if event.place else {}),
    }


class EventRecorder:
    """What looks on while a profiler is on: called with an operation or a name, it gives the block
    that is timed; `run` times a compiled call. `note` is given each event."""

    def __init__(self, note: Any, shapes: bool, places: bool):
        self.note = note
        self.shapes = shapes
        self.places = places
        self.run = LaunchRecorder(note).run

    @contextmanager
    def __call__(
        self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> Iterator[None]:
        shapes = tuple(tuple(x.tensor_type.shape) for x in operands) if self.shapes else ()
        place = str(user_location()) if self.places else ""
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            end = time.perf_counter_ns()
            named = isinstance(op, str)
            name, category = (op, "user_annotation") if named else (op.name, "cpu_op")
            event = FunctionEvent(name, start, end, threading.get_ident(), shapes, category, place)
            self.note(event)


class record_function:
    """A block, or decorated function, that the profiler shows under a name."""

    def __init__(self, name: str, args: str | None = None):
        self.name = name
        self._open: list[Any] = []

    def __enter__(self) -> record_function:
        # In a trace nothing runs yet.
        observer = None if STATE.mode is not None else STATE.observer
        block = None if observer is None else observer(self.name, (), {})
        if block is not None:
            block.__enter__()
        self._open.append(block)
        return self

    def __exit__(self, *error: Any) -> None:
        block = self._open.pop()
        if block is not None:
            block.__exit__(None, None, None)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import functools

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return wrapped


def _record_function_enter(name: str, args: str | None = None) -> record_function:
    """`torch.ops.profiler._record_function_enter`: the block begun, for graphs of fx."""
    return record_function(name, args).__enter__()


def _record_function_exit(handle: record_function) -> None:
    """End the block that `_record_function_enter` began."""
    handle.__exit__()


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For `on_trace_ready`: each trace goes into a file of its own in the folder."""

    def handle(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    if use_gzip:
        raise NotImplementedError("tensorboard_trace_handler(use_gzip=True): traces are plain JSON")
    return handle
