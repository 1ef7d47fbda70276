"""What averages the gradients of DistributedDataParallel over the ranks.

in : parameters whose gradients backward has added up
out: their gradients averaged, as views of one array for each bucket

A bucket is an array of one dtype that the gradients of neighbouring parameters lie in, in reverse
order of their declaration, as backward comes to them. Backward tells of all its gradients at once;
where a later one gives the others, buckets that are full are begun to be reduced meanwhile. All
ranks begin them in the same order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from frontend.distributed.exchange import Members, Round, all_reduce
from frontend.distributed.world import Steps, Work, WorkFuture, current
from frontend.engine.eager.gradients.backward import GroupHook, is_at
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.state import tracing
from frontend.engine.tensors.tensor import Tensor, make
from graphc.ir.types import DType, TensorType
from graphc.references import other_references

FIRST_BUCKET = 1 << 20
"""Bytes of the first bucket: it is small, so that it is begun soon."""


def divided(by: int) -> Callable[[Any], None] | None:
    """What divides a reduced part by a number of ranks. By a power of two it multiplies, which is
    faster and has the same bits."""
    if by == 1:
        return None
    exact = by & (by - 1) == 0

    def divide(part: Any) -> None:
        if exact:
            np.multiply(part, np.asarray(1 / by, part.dtype), part)
        else:
            np.divide(part, np.asarray(by, part.dtype), part)

    return divide


def add(a: Any, b: Any, out: Any) -> None:
    with np.errstate(all="ignore"):
        np.add(a, b, out=out)


class Bucket:
    """Parameters whose gradients lie in one array. `slots[i]` is where that of parameter i does."""

    def __init__(self, index: int, parameters: Sequence[Any]):
        self.index = index
        self.parameters = list(parameters)
        sizes = np.cumsum([0, *[p.tensor_type.numel for p in parameters]])
        self.slots = [slice(int(a), int(b)) for a, b in itertools.pairwise(sizes)]
        self.ids = [*map(id, parameters)]
        self.shapes = [p.tensor_type.shape for p in parameters]
        self.dtype: DType = parameters[0].tensor_type.dtype
        self.flat = np.zeros(int(sizes[-1]), self.dtype.numpy)
        self.kind = str(TensorType.of(self.flat))
        self.everywhere: list[np.ndarray] = []
        self.me, self.memory = 0, ""
        self.waiting: set[int] = set()
        self.forget()
        self.work: Work | WorkFuture | None = None

    def lie_in(self, arrays: Sequence[np.ndarray], me: int, memory: str) -> None:
        """Use memory that all ranks share: their arrays in the order of the group, of which `me` is
        this one's. `memory` is what all call it."""
        self.everywhere, self.me, self.memory = list(arrays), me, memory
        self.flat = self.everywhere[me]

    def is_shared(self) -> bool:
        """Whether the array lies there now."""
        return bool(self.everywhere) and self.flat is self.everywhere[self.me]

    def reduction(self, members: Members, name: str, finish: Callable[[Any], None] | None) -> Steps:
        """The steps in which the arrays of all ranks become their sum; `finish(part)` is done to
        each part of it."""
        shared = self.is_shared()
        round = Round(members, name, self.memory if shared else "")
        return all_reduce(round, self.flat, add, finish, self.everywhere if shared else None)

    def forget(self) -> None:
        """Hold no gradients: of a step under way `places` are where they lie that backward was told
        where to write, `here` are those that lie in the array."""
        self.places: list[np.ndarray | None] = [None] * len(self.parameters)
        self.here: list[Tensor | None] = [None] * len(self.parameters)
        self._views: list[np.ndarray] = []

    def begin(self) -> None:
        """Take an array that nobody else reads: gradients of an earlier step may be kept."""
        self.forget()
        held = [p._grad for p in self.parameters if p._grad is not None]
        self._begin_in(sum([getattr(x._value, "base", None) is self.flat for x in held]))

    def begin_apart(self) -> None:
        """The same, and none that gradients there now lie in: they are added to."""
        self.forget()
        self._begin_in(0)

    def begin_call(self, reads_grads: bool) -> None:
        """The same before a step that gives `.grad` other tensors: those there now may be kept
        too, or, with `reads_grads`, be read while new ones are written."""
        self.forget()
        lying = 0
        for p in self.parameters if not reads_grads else ():
            held = p._instance_state
            if held.get("_grad") is None or other_references(held, "_grad"):
                continue
            inner = getattr(held["_grad"], "_instance_state", {})  # nothing where it was elided
            if getattr(inner.get("_value"), "base", None) is self.flat:
                lying += not other_references(inner, "_value")
        self._begin_in(lying)

    def _begin_in(self, lying: int) -> None:
        """`lying`: how many references to the array are those of gradients that go."""
        if other_references(self.__dict__, "flat") > lying + self.is_shared():
            self.flat = np.empty_like(self.flat)
        if self.everywhere and not other_references(self.everywhere, self.me):
            self.flat = self.everywhere[self.me]
        self.waiting = set(self.ids)
        self.work = None

    def view(self, position: int) -> np.ndarray:
        """Where the gradient of a parameter lies."""
        if not self._views:
            self._views = self.views_of(self.flat)
        return self._views[position]

    def views_of(self, flat: np.ndarray) -> list[np.ndarray]:
        """The same of all of them, in an array with this layout."""
        return [flat[slot].reshape(shape) for slot, shape in zip(self.slots, self.shapes)]

    def place(self, position: int) -> np.ndarray | None:
        """Where the gradient of a parameter is to be written; None where it was said before."""
        if self.places[position] is not None:
            return None
        self.places[position] = place = self.view(position)
        return place

    def take(self, position: int) -> None:
        """Have the gradient of a parameter lie in the array; zeros where there is none."""
        gradient = self.parameters[position]._grad
        if gradient is None:
            self.view(position)[...] = 0
        elif gradient._value is not self.places[position]:
            view = self.view(position)
            if not is_at(gradient._value, view):
                view[...] = gradient._array("a gradient")
                gradient = None
        self.here[position] = gradient
        self.waiting.discard(id(self.parameters[position]))

    def hand_out(self, position: int) -> None:
        """Have `.grad` of a parameter be a view of the array, which was written."""
        parameter = self.parameters[position]
        here = self.here[position]
        if here is not None and parameter._grad is here:
            count_write(here._counter)
        else:
            parameter.grad = make(self.view(position), parameter.tensor_type)


class GradBucket:
    """A bucket, as a communication hook sees it."""

    def __init__(self, bucket: Bucket, last: bool):
        self._bucket, self._last = bucket, last

    def buffer(self) -> Tensor:
        """All gradients, flat."""
        return _flat_tensor(self._bucket.flat)

    def set_buffer(self, buffer: Tensor) -> None:
        self._bucket.flat[:] = buffer._array("set_buffer()").reshape(-1)

    def gradients(self) -> list[Tensor]:
        bucket = self._bucket
        return [
            make(bucket.view(i), p.tensor_type) for i, p in enumerate(bucket.parameters)
        ]  # fmt: skip

    def parameters(self) -> list[Any]:
        return list(self._bucket.parameters)

    def index(self) -> int:
        return self._bucket.index

    def is_last(self) -> bool:
        return self._last


def _flat_tensor(flat: np.ndarray) -> Tensor:
    return make(flat, TensorType.of(flat))


def buckets_of(parameters: Sequence[Any], capacity: int) -> list[Bucket]:
    """Buckets of at most so many bytes, unless one parameter has more."""
    buckets: list[list[Any]] = []
    filled, limit = 0, min(FIRST_BUCKET, capacity)
    for p in reversed(parameters):
        same = buckets and buckets[-1][0].tensor_type.dtype is p.tensor_type.dtype
        if not same or filled + p.tensor_type.nbytes > limit:
            limit = capacity if buckets else limit
            buckets.append([])
            filled = 0
        buckets[-1].append(p)
        filled += p.tensor_type.nbytes
    return [Bucket(i, members) for i, members in enumerate(buckets)]


class Reducer:
    """The buckets of a model, and what becomes of a gradient that is there. `divisor` is by how
    much sums are divided; `finished` is called when gradients were averaged, `ready_in_trace` in
    place of `ready` in a trace."""

    def __init__(
        self, parameters: Sequence[tuple[str, Any]], members: Members, timeout: float,
        capacity: int, finished: Callable[[], None], ready_in_trace: Callable[[Any], None],
    ):  # fmt: skip
        self.names = {id(p): name for name, p in parameters}
        self.parameters = [p for _, p in parameters]
        self.members, self.timeout, self.finished = members, timeout, finished
        self.ready_in_trace = ready_in_trace
        self.buckets = buckets_of(self.parameters, capacity)
        self.bucket_of = {
            id(p): (bucket, i)
            for bucket in self.buckets
            for i, p in enumerate(bucket.parameters)
        }  # fmt: skip
        self.divisor = members.size
        self.comm_hook: tuple[Any, Callable[[Any, GradBucket], Any]] | None = None
        self.unused: set[int] | None = None  # None: unused ones are not looked for
        self.next = 0  # the bucket to be begun
        self.under_way = False
        self.syncs: Callable[[], bool] = lambda: True
        self.begins: Callable[[], None] = lambda: None  # of a step that is compiled as a whole
        self.begun = False  # whether the buckets have their arrays
        self.in_shares = False  # whether the last forward was one of `set_deterministic`
        hook = GroupHook(self.ready, self.places)
        for p in self.parameters:
            p.register_post_accumulate_grad_hook(hook)

    def check_finished(self) -> None:
        """Raise RuntimeError where backward left gradients out."""
        self.begun = False
        if not self.under_way:
            return
        self.under_way = False
        raise self.unfinished(set().union(*[bucket.waiting for bucket in self.buckets]))

    def unfinished(self, waiting: set[int]) -> RuntimeError:
        """The error for parameters that backward did not come to."""
        missing = [
            self.names[id(p)] for b in self.buckets for p in b.parameters if id(p) in waiting
        ]
        shown = ", ".join(missing[:8]) + ("" if len(missing) <= 8 else f" and {len(missing) - 8}")
        return RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. "
            "This error indicates that your module has parameters that were not used in producing "
            f"loss: {shown}. Pass find_unused_parameters=True to DistributedDataParallel, and have "
            "all outputs of forward take part in the loss."
        )

    def ready(self, parameters: Sequence[Any]) -> None:
        """The gradients of these parameters are there: called by backward."""
        if tracing():
            for parameter in parameters:
                self.ready_in_trace(parameter)
            return
        if not self._averages():
            return
        for parameter in parameters:
            if parameter._grad is not None:  # another hook may have taken it
                self.check_plain(parameter._grad)
        if not self.under_way:
            self._begin()
        for parameter in parameters:
            bucket, position = self.bucket_of[id(parameter)]
            bucket.take(position)
        self._launch()

    def places(self, parameters: Sequence[Any]) -> Sequence[np.ndarray | None]:
        """Where backward may write the gradients of these, which it then adds to nothing; None
        where one is not averaged next."""
        if not self.begun:
            if self.in_shares or not self._averages():
                return [None] * len(parameters)
            self._begin_buckets()
        places = []
        for parameter in parameters:
            bucket, position = self.bucket_of[id(parameter)]
            places.append(bucket.place(position))
        return places

    def _averages(self) -> bool:
        return self.syncs() and (self.members.size > 1 or self.comm_hook is not None)

    @staticmethod
    def check_plain(gradient: Any) -> None:
        """Raise RuntimeError for a gradient with a history, or a sparse one."""
        if gradient.is_sparse:
            raise RuntimeError(
                "DistributedDataParallel does not average sparse gradients: Embedding and "
                "EmbeddingBag with sparse=False have dense ones"
            )
        if gradient._requires_grad:
            raise RuntimeError(
                "DistributedDataParallel does not average gradients that are to be differentiated "
                "(create_graph=True)"
            )

    def _begin(self) -> None:
        self.under_way, self.next = True, 0
        self._begin_buckets()
        for p in self.parameters if self.unused else ():
            if id(p) in (self.unused or ()):
                bucket, position = self.bucket_of[id(p)]
                bucket.take(position)

    def _begin_buckets(self) -> None:
        if not self.begun:
            self.begun = True
            for bucket in self.buckets:
                bucket.begin()

    def _launch(self) -> None:
        """Begin the buckets that are full, in order; after the last one wait for all."""
        while self.next < len(self.buckets) and not self.buckets[self.next].waiting:
            bucket = self.buckets[self.next]
            self.next += 1
            bucket.work = self.reduced(bucket)
        if self.next == len(self.buckets):
            self._finish()
        elif self.next:
            current().advance()

    def reduced(self, bucket: Bucket) -> Any:
        """Begin to reduce a bucket."""
        if self.comm_hook is not None:
            state, hook = self.comm_hook
            return hook(state, GradBucket(bucket, bucket is self.buckets[-1]))
        name = f"the gradients of bucket {bucket.index} ({bucket.kind})"
        steps = bucket.reduction(self.members, name, divided(self.divisor))
        return current().start(name, steps, self.timeout)

    def _finish(self) -> None:
        self.under_way = self.begun = False
        anywhere = None if self.unused is None else self._used_anywhere()
        for bucket in self.buckets:
            self.settle(bucket)
            for i, p in enumerate(bucket.parameters):
                if anywhere is None or p._grad is not None or anywhere[id(p)]:
                    bucket.hand_out(i)
            bucket.forget()
        self.finished()

    def settle(self, bucket: Bucket) -> None:
        """Wait for a bucket, and take what a hook made of it."""
        assert bucket.work is not None
        value = bucket.work.wait()
        if self.comm_hook is None:
            return
        value = value[0] if isinstance(value, list | tuple) else value
        if not isinstance(value, Tensor) or value.tensor_type.numel != bucket.flat.size:
            raise RuntimeError(
                f"a communication hook gives a future of a tensor of {bucket.flat.size} elements, "
                f"not {getattr(value, 'tensor_type', type(value).__name__)}"
            )
        array = value._array("a communication hook").reshape(-1)
        if array is not bucket.flat and not np.shares_memory(array, bucket.flat):
            bucket.flat[:] = array

    def _used_anywhere(self) -> dict[int, bool]:
        """Of each parameter whether any rank has used it."""
        counts = self.count_used(self.unused or set())
        return {id(p): bool(count) for p, count in zip(self.parameters, counts)}

    def count_used(self, unused: set[int]) -> np.ndarray:
        """Of each parameter how many ranks have used it."""
        counts = np.array([id(p) not in unused for p in self.parameters], np.int32)
        name = "which parameters were used"
        steps = all_reduce(Round(self.members, name), counts, add)
        current().start(name, steps, self.timeout).wait()
        return counts

    # -- steps that are compiled as a whole ------------------------------------------------------

    def described(self, count: int) -> str:
        """What is exchanged, for `explain()`."""
        nbytes = sum(bucket.flat.nbytes for bucket in self.buckets)
        return f"the gradients of {count} parameters, {nbytes:,} bytes, {self.members.size} ranks"

    def begin_call(self, reads_grads: bool, unused: set[int] | None) -> None:
        """Have the buckets take the gradients of such a step, without those of `unused`."""
        self.begins()
        self.check_finished()
        for bucket in self.buckets:
            bucket.begin_call(reads_grads)
            for i, p in enumerate(bucket.parameters if unused else ()):
                if id(p) in (unused or ()):
                    bucket.view(i)[...] = 0

    def check_used(self, unused: set[int] | None) -> None:
        """Raise RuntimeError, on all ranks, where some use a parameter and others do not: whether
        it has a gradient was decided when the step was compiled. None: it is not looked for."""
        if unused is None:
            return
        counts = self.count_used(unused)
        apart = [
            self.names[id(p)]
            for p, count in zip(self.parameters, counts)
            if 0 < count < self.members.size
        ]
        if apart:
            raise RuntimeError(
                "a step that is compiled as a whole uses the same parameters on all ranks, or on "
                f"none; some ranks do not use {', '.join(apart[:8])}: call backward() outside of "
                "the compiled function"
            )

    def shadow(self) -> None:
        """Take part in what the others reduce, with nothing to add: for a rank without input."""
        self.begun = False
        for bucket in self.buckets:
            bucket.begin()
            bucket.flat[:] = 0
            bucket.waiting.clear()
        unused, self.unused = self.unused, None if self.unused is None else {*self.names}
        works = [self.reduced(bucket) for bucket in self.buckets]
        if self.unused is not None:
            self._used_anywhere()
        for work in works:
            work.wait()
        self.unused = unused
