"""DistributedDataParallel in a compiled function that calls `backward()` itself: what is exchanged
becomes a place in its graph, at which that is cut into native parts.

in : parameters whose gradients a traced backward has added up
out: their averages as tensors of the trace; at each call, the exchange of `reducer`

Native code writes gradients to where they are reduced, the buckets, and reads them there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from frontend.distributed.exchange import Round, broadcast
from frontend.distributed.reducer import Bucket, Reducer
from frontend.distributed.world import current
from frontend.engine.outside.check import Same
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.source import LookupSource
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.session import Session, trace_under_way

if TYPE_CHECKING:
    from frontend.distributed.groups import ProcessGroup


def current_trace() -> Session:
    """The trace under way. Raises TraceError where there is none."""
    return trace_under_way("DistributedDataParallel in a compiled function")


def rely_on(holder: Any, name: str, label: str) -> Any:
    """An attribute that a trace depends on, guarded."""
    value = getattr(holder, name)
    source = LookupSource(attrgetter(name), holder, label)
    current_trace().guard((id(holder), name), lambda: Guard(source, Same(value)))
    return value


class TracedReduction:
    """What a trace knows of the gradients of one model. `synced`: whether the last forward stood
    outside of `no_sync`, `quiet` whether one is under way; `unused`: the ids of parameters that the
    outputs of that forward do not depend on."""

    def __init__(self, reducer: Reducer):
        self.reducer = reducer
        self.synced, self.quiet = True, False
        self.unused: set[int] | None = None
        self.waiting: set[int] | None = None  # None: no backward is under way

    @staticmethod
    def of(reducer: Reducer) -> TracedReduction:
        """That of the trace under way."""
        return current_trace().exchanges.kept(
            reducer, lambda: TracedReduction(reducer), TracedReduction.check_finished
        )

    def forward(self, synced: bool, unused: set[int] | None) -> None:
        """The model is called."""
        self.check_finished()
        self.synced, self.unused = synced and not self.quiet, unused

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """As the model's: the attribute that it sets there would be one of the trace."""
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before

    def check_finished(self) -> None:
        """Raise RuntimeError where backward left gradients out."""
        if self.waiting:
            raise self.reducer.unfinished(self.waiting)

    def ready(self, parameter: Any) -> None:
        """The gradient of a parameter is there."""
        reducer = self.reducer
        if not self.synced:
            return
        if reducer.members.size == 1:
            hook = rely_on(reducer, "comm_hook", "the communication hook of a model")
            if hook is None:
                return
        reducer.check_plain(parameter._grad)
        if self.waiting is None:
            self.waiting = {id(p) for p in reducer.parameters} - (self.unused or set())
        self.waiting.discard(id(parameter))
        if not self.waiting:
            self.waiting = None
            self._exchange()

    def _exchange(self) -> None:
        reducer, unused = self.reducer, self.unused
        places = [
            (bucket, i)
            for bucket in reducer.buckets
            for i, p in enumerate(bucket.parameters)
            if unused is None or id(p) not in unused
        ]
        parameters = [bucket.parameters[i] for bucket, i in places]
        exchange = GradientExchange(reducer, places, unused)
        results = current_trace().exchanges.add(exchange, [p._grad for p in parameters])
        for p, result in zip(parameters, results):
            hand_out(p, result)
        reducer.finished()


def hand_out(parameter: Any, value: Tensor) -> None:
    """Have `.grad` of a parameter be `value`: a tensor from outside of the trace stays there."""
    captured = current_trace().captured_state(parameter)
    assert captured is not None
    outside = captured.state_outside.get("_grad")
    if outside is None or outside is not parameter._grad:
        parameter.grad = value
    else:
        outside._assign(value)


class GradientExchange:
    """The buckets of a model, reduced. `places[i]`: in which bucket operand i lies, and where in
    it. Parameters that are `unused` here (None: not looked for) may not be used elsewhere."""

    def __init__(
        self, reducer: Reducer, places: Sequence[tuple[Bucket, int]], unused: set[int] | None
    ):
        self.reducer, self.places, self.unused = reducer, places, unused
        self.name = reducer.described(len(places))

    def begin(self, reads_grads: bool) -> list[np.ndarray]:
        self.reducer.begin_call(reads_grads, self.unused)
        return self._views()

    def run(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        reducer = self.reducer
        for bucket in reducer.buckets:
            bucket.work = reducer.reduced(bucket)
        reducer.check_used(self.unused)
        for bucket in reducer.buckets:
            reducer.settle(bucket)
        return self._views()

    def _views(self) -> list[np.ndarray]:
        return [bucket.view(i) for bucket, i in self.places]


class BufferExchange:
    """The buffers of a model, which become one rank's."""

    name = "the buffers of the model"

    def __init__(self, buffers: Sequence[Tensor], chosen: ProcessGroup):
        self.chosen = chosen
        types = [buffer.tensor_type for buffer in buffers]
        starts = np.cumsum([0, *[-(-type.nbytes // 16) * 16 for type in types]]).tolist()
        self.flat = np.zeros(starts[-1], np.uint8)
        self.views = [
            self.flat[start : start + type.nbytes].view(type.dtype.numpy).reshape(type.shape)
            for start, type in zip(starts, types)
        ]

    def begin(self, reads_grads: bool) -> list[np.ndarray]:
        return self.views

    def run(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        name = f"{self.name} ({self.flat.nbytes} bytes)"
        steps = broadcast(Round(self.chosen._members, name), self.flat, 0)
        current().start(name, steps, self.chosen._timeout).wait()
        return self.views


def broadcast_buffers(buffers: Sequence[Tensor], chosen: ProcessGroup) -> None:
    """Have the buffers of a traced model be those of rank 0 from here on."""
    if chosen.size() == 1 or not buffers:
        return
    exchange = BufferExchange(buffers, chosen)
    for buffer, value in zip(buffers, current_trace().exchanges.add(exchange, buffers)):
        buffer._assign(value)
