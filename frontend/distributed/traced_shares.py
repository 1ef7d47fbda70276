"""`set_deterministic` in a compiled function that calls `backward()` itself: the shares of a rank
stand in its graph one behind another.

in : a model, called in a trace, and the shares that this rank has of a batch
out: its outputs; behind backward, gradients summed as a tree over the shares of all ranks

What is computed is what `deterministic` computes op by op, so bits are the same. The graph is cut
where ranks exchange: the sums of their own shares, and what BatchNorm's shares add to its
statistics. One process alone exchanges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from frontend.distributed.deterministic import Shares, tree_of
from frontend.distributed.exchange import Round, all_gather, as_bytes
from frontend.distributed.reducer import Bucket
from frontend.distributed.traced import TracedReduction, current_trace
from frontend.distributed.world import current
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.generator import default_generator
from frontend.engine.tensors.state import enable_grad, no_grad
from frontend.engine.tensors.tensor import Tensor, make
from frontend.functions.creation import tensor, zeros_like
from frontend.functions.pointwise import maximum
from frontend.functions.shape import stack
from frontend.utils._pytree import tree_flatten, tree_unflatten
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.types import DType, TensorType

if TYPE_CHECKING:
    from frontend.distributed.reducer import Reducer


class TracedShares(Shares):
    """The shares of one model in a trace. `stores[j]`: the gradients of share j, by parameter."""

    def __init__(self, reduction: TracedReduction, module: Any, count: int):
        super().__init__(reduction.reducer, module, module, count)
        self.reduction = reduction
        exchanges = current_trace().exchanges
        exchanges.exact = "set_deterministic(True)"
        exchanges.whole = "set_deterministic(True) calls the model once for each share of a batch"
        self.sums: list[dict[int, Tensor]] = [{} for _ in range(self.mine)]
        self.drawn_from: Tensor | None = None

    def check_reduced(self) -> None:
        """Raise RuntimeError where `no_sync` left gradients behind."""
        if any(self.sums):
            raise RuntimeError(
                "set_deterministic(True) keeps what no_sync() adds up by share: in a compiled "
                "function the step that averages it has to follow inside"
            )

    # -- forward ---------------------------------------------------------------------------------

    def forward(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.check_callable()
        leaves, spec = tree_flatten((inputs, kwargs))
        ran = RanShares(self, self.call, leaves, spec)
        with no_grad():
            self.drawn_from = ran.drawn_from
            self._settle(ran.kept, ran.changes)
        return self._joined(self, leaves, ran.parts, ran.taken, ran.out_spec)

    def _settle(self, kept: list[Any], changes: list[list[Tensor]]) -> None:
        """As `_settle_statistics`, in the graph."""
        if not kept:
            return
        own = [stack(column) for column in zip(*changes)]
        if self.size > 1:
            exchange = StatisticsExchange(self.reducer, [x.tensor_type for x in own])
            gathered = current_trace().exchanges.add(exchange, own, self.size)
            own = [x.reshape(self.count, *x.shape[2:]) for x in gathered]
        by_share = iter(own)
        for norm, (means, variances, *count) in kept:
            for target, value in ((norm.running_mean, means), (norm.running_var, variances)):
                added = next(by_share)
                for j in range(self.count):
                    value = value * _rest(norm, count, j, value.dtype) + added[j]
                target._assign(value)
            for tracked in count:
                norm.num_batches_tracked._assign(tracked + self.count)

    # -- backward --------------------------------------------------------------------------------

    def _begin(self, j: int) -> None:
        """Native code writes the sums to the buckets: a trace has no array."""

    def _joins_early(self) -> bool:
        return False

    def take(self, j: int, parameters: Sequence[Any], gradients: Sequence[Any]) -> None:
        store = self.sums[j]
        for p, gradient in zip(parameters, gradients):
            if gradient is not None:
                present = store.get(id(p))
                store[id(p)] = gradient if present is None else present + gradient

    def _backward_ended(self, anchor: Any) -> None:
        anchor.grad = None
        if not self.reduction.synced:
            return
        stores, self.sums = self.sums, [{} for _ in range(self.mine)]
        used = {key for store in stores for key in store}
        unused = {id(p) for p in self.reducer.parameters} - used
        if unused and self.reduction.unused is None:
            raise self.reducer.unfinished(unused)
        with no_grad():
            self._reduce(stores, unused)

    def _reduce(self, stores: list[dict[int, Tensor]], unused: set[int]) -> None:
        places = [
            (bucket, i)
            for bucket in self.reducer.buckets
            for i, p in enumerate(bucket.parameters)
            if id(p) not in unused
        ]
        parameters = [bucket.parameters[i] for bucket, i in places]
        values = []
        for p in parameters:
            rows = [store.get(id(p)) for store in stores]
            values.append(tree_of([zeros_like(p) if row is None else row for row in rows]))
        if self.size == 1:
            values = [value * (1 / self.count) for value in values]
        else:
            looked_for = None if self.reduction.unused is None else unused
            drawn = [] if self.drawn_from is None else [self.drawn_from]
            exchange = SharesExchange(self, places, looked_for, len(drawn))
            values = [*current_trace().exchanges.add(exchange, [*values, *drawn])]
        for p, value in zip(parameters, values):
            present = current_trace().read_grad(p)
            if present is None:
                p.grad = value
            else:
                present._assign(present + value)


class RanShares:
    """What became of the shares of a rank that went through a model in the trace under way: flat
    outputs and inputs by share, and how outputs are put together; `kept`, the running statistics
    before, and `changes`, what each share adds to them; what random numbers are `drawn_from`."""

    def __init__(self, shares: Shares, call: Any, leaves: list[Any], spec: Any):
        rows = shares._rows(leaves)
        self.kept = [(norm, [_now(x) for x in _buffers(norm)]) for norm in shares._norms()]
        self.parts: list[list[Any]] = []
        self.taken: list[list[Any]] = []
        self.changes: list[list[Tensor]] = []
        stream = _Stream()
        for j in range(shares.mine):
            with no_grad():
                stream.begin(shares.first + j)
                for norm, (means, variances, *count) in self.kept:
                    norm.running_mean._assign(zeros_like(means))
                    norm.running_var._assign(zeros_like(variances))
                    for tracked in count:
                        norm.num_batches_tracked._assign(tracked + (shares.first + j))
            share = [_cut(leaf, j, rows) for leaf in leaves]
            args, keywords = tree_unflatten(share, spec)
            with enable_grad():
                out, self.out_spec = tree_flatten(call(*args, **keywords))
            self.parts.append(out)
            self.taken.append(share)
            self.changes.append([_now(x) for norm, _ in self.kept for x in _buffers(norm)[:2]])
            stream.end()
        with no_grad():
            self.drawn_from = stream.close()

    def put_back(self) -> None:
        """Have the running statistics be those from before."""
        for norm, before in self.kept:
            for target, value in zip(_buffers(norm), before):
                target._assign(value)


def traced_shares(reduction: TracedReduction, module: Any, count: int) -> TracedShares:
    """The shares of a model in the trace under way."""
    return current_trace().exchanges.kept(
        (reduction.reducer, "shares"),
        lambda: TracedShares(reduction, module, count), TracedShares.check_reduced,
    )  # fmt: skip


class _Stream:
    """The random numbers of shares: each has a stream of its own."""

    def __init__(self) -> None:
        self.state = default_generator.inside
        self.before = _now(self.state)
        self.drawn: list[Tensor] = []
        self.at: Any = None

    def begin(self, share: int) -> None:
        """The numbers of a share come next."""
        self.state._assign(stack([mixed_in_trace(self.before[0], share), self.before[1]]))
        self.at, self.words = current_trace().value(self.state), _words()

    def end(self) -> None:
        """Those of a share are drawn. Raises TraceError where code drew them, not a network."""
        if _words() is not self.words:
            raise TraceError(
                "with set_deterministic(True) a model that is compiled with its step draws random "
                "numbers by rand() or its like",
                hint="draw them outside and pass them, or compile the model alone",
                location=user_location(),
            )
        if current_trace().value(self.state) is not self.at:
            self.drawn.append(_now(self.state)[1])

    def close(self) -> Tensor | None:
        """Go on behind the share that drew most; what was drawn from, None where nothing was."""
        if not self.drawn:
            self.state._assign(self.before)
            return None
        furthest = self.drawn[0]
        for counter in self.drawn[1:]:
            furthest = maximum(furthest, counter)
        self.state._assign(stack([self.before[0], furthest]))
        return self.before


def _words() -> Any:
    """Where in the trace the words are that code draws from; None where it did not ask for any."""
    twister = default_generator.twister
    return current_trace().value(twister) if id(twister) in current_trace().captured else None


def mixed_in_trace(seed: Tensor, share: int) -> Tensor:
    """`share_state.mixed` of a tensor."""

    def signed(word: int) -> int:
        return word - 2**64 if word >= 2**63 else word

    def shifted(word: Any, by: int) -> Any:
        return (word >> by) & ((1 << (64 - by)) - 1)

    x = seed + signed((share + 1) * 0x9E3779B97F4A7C15 % 2**64)
    x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shifted(x, 31)


def _now(x: Tensor) -> Tensor:
    """What a tensor holds here, whatever becomes of it; without history."""
    return make(current_trace().value(x), x.tensor_type)


def _buffers(norm: Any) -> list[Tensor]:
    tracked = [] if norm.num_batches_tracked is None else [norm.num_batches_tracked]
    return [norm.running_mean, norm.running_var, *tracked]


def _rest(norm: Any, count: list[Tensor], j: int, dtype: Any) -> Any:
    """How much of a statistic share j leaves."""
    if norm.momentum is not None or not count:
        factor = 1 / (j + 1) if norm.momentum is None else norm.momentum
        return tensor(1 - factor, dtype=dtype)
    return casted(1 - 1 / casted(count[0] + (j + 1), DType.f64), dtype)


def _cut(leaf: Any, j: int, rows: int) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    part = leaf.detach()
    share = _now(part[j * rows : (j + 1) * rows] if part.dim() else part)
    if leaf.requires_grad:
        share.requires_grad = True
    return share


class SharesExchange:
    """The sums over the shares of each rank, added up. The last of the operands, where numbers are
    `drawn`, is the state of the generator: the same on all ranks."""

    def __init__(
        self, shares: Shares, places: Sequence[tuple[Bucket, int]], unused: set[int] | None,
        drawn: int,
    ):  # fmt: skip
        self.shares, self.places, self.unused = shares, places, unused
        self.states = [np.zeros(2, np.int64) for _ in range(drawn)]
        self.name = f"{shares.reducer.described(len(places))} in {shares.count} shares"

    def begin(self, reads_grads: bool) -> list[np.ndarray]:
        self.shares.reducer.begin_call(reads_grads, self.unused)
        return self._views()

    def run(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        reducer = self.shares.reducer
        drawn = ", drawn from seed {} at {}".format(*self.states[0]) if self.states else ""
        reducer.check_used(self.unused)
        self.shares.reduce_buckets(drawn)
        return self._views()

    def _views(self) -> list[np.ndarray]:
        return [*[bucket.view(i) for bucket, i in self.places], *self.states]


class StatisticsExchange:
    """What the shares of each rank add to running statistics, for all ranks."""

    name = "the statistics of BatchNorm"

    def __init__(self, reducer: Reducer, types: Sequence[TensorType]):
        self.reducer = reducer
        self.own = [np.empty(type.shape, type.dtype.numpy) for type in types]

    def begin(self, reads_grads: bool) -> list[np.ndarray]:
        return self.own

    def run(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        flat = np.concatenate([as_bytes(array) for array in self.own])
        whole = np.empty((self.reducer.members.size, flat.size), np.uint8)
        steps = all_gather(Round(self.reducer.members, self.name), list(whole), flat)
        current().start(self.name, steps, self.reducer.timeout).wait()
        results, at = [], 0
        for array in self.own:
            rows = np.ascontiguousarray(whole[:, at : at + array.nbytes])
            results.append(rows.view(array.dtype).reshape(len(whole), *array.shape))
            at += array.nbytes
        return results
