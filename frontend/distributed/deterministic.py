"""Gradients with the same bits for any number of ranks: `set_deterministic(True, shares=S)`.

A batch is S contiguous shares in the order of the ranks, and each of k ranks has S / k of them.
Each share goes through the model alone, forward and backward, in one process too; gradients add as
a binary tree over the shares (of which each rank holds a whole branch), then comes one
multiplication by 1 / S. What a share computes does not know how many ranks there are:

- BatchNorm takes the statistics of a share; running statistics take those of all in their order.
- Random numbers inside the model are drawn from a stream of (seed, share, counter).
- The loss is computed on the outputs of all shares of a rank, one behind another: one that is a
  mean (or a sum) of terms of single rows. It reaches each share scaled by a power of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from frontend.autograd.function import Function
from frontend.distributed.exchange import Round, all_gather, tree
from frontend.distributed.reducer import Reducer, add
from frontend.distributed.share_state import RandomStates, put, put_count, statistics
from frontend.distributed.world import HERE, current
from frontend.engine.eager.gradients.backward import Places, is_at, run_backward
from frontend.engine.tensors.epoch import EPOCH
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.state import STATE, enable_grad
from frontend.engine.tensors.tensor import Tensor, make
from frontend.functions.creation import tensor, zeros_like
from frontend.functions.shape import cat
from frontend.nn.modules.batchnorm import SyncBatchNorm, _NormBase
from frontend.utils._pytree import tree_flatten, tree_unflatten
from graphc.ir.types import DType, TensorType

DEFAULT_SHARES = 8


class _Setting:
    """Into how many shares batches are divided (None: not at all), and whether those of a rank may
    be one program."""

    shares: int | None = None
    one_program: bool = True


SETTING = _Setting()


def set_deterministic(
    mode: bool = True, *, shares: int = DEFAULT_SHARES, one_program: bool = True
) -> None:
    """Have DistributedDataParallel give the same bits on 1, 2, 4, … ranks, up to `shares`; before
    or after a model is made. The shares of a rank run as one compiled program where they can, to
    the bits of one after another; with `one_program=False` the model is called for each. Raises
    ValueError where `shares` is no power of two, or the number of ranks does not divide it."""
    if not isinstance(shares, int) or shares < 1 or shares & (shares - 1):
        raise ValueError(f"shares must be a power of two, not {shares!r}")
    if mode and HERE.world is not None:
        check_divides(shares, HERE.world.transport.size)
    SETTING.shares, SETTING.one_program = shares if mode else None, one_program


def get_deterministic() -> int | None:
    """Into how many shares batches are divided; None where they are not."""
    return SETTING.shares


def check_divides(shares: int, ranks: int) -> None:
    if shares % ranks:
        raise ValueError(
            f"{ranks} ranks do not divide {shares} shares: use {shares} or fewer ranks, a power of "
            "two, or set_deterministic(True, shares=…) with more"
        )


class _Store:
    """The gradients of one share, in arrays laid out as the buckets; of several backward passes
    they add up. Later those of a branch of the tree. `here`: the ids of the parameters that have
    one."""

    def __init__(self, reducer: Reducer):
        self.reducer = reducer
        self.flats: list[np.ndarray] = []
        self.here: set[int] = set()
        self.views: dict[int, list[np.ndarray]] = {}  # by bucket

    def places(self, parameters: Sequence[Any]) -> Sequence[np.ndarray | None]:
        """Where backward may write the gradients of these, which it then adds to nothing."""
        here, known = self.here, self.reducer.bucket_of
        keys = map(id, parameters)
        return [self._view(key) if key in known and key not in here else None for key in keys]

    def _view(self, key: int) -> np.ndarray:
        bucket, position = self.reducer.bucket_of[key]
        views = self.views.get(bucket.index)
        if views is None:
            views = self.views[bucket.index] = bucket.views_of(self.flats[bucket.index])
        return views[position]

    def take(self, parameters: Sequence[Any], gradients: Sequence[Any]) -> None:
        for p, gradient in zip(parameters, gradients):
            if gradient is None:
                continue
            key, array = id(p), gradient._array("a gradient")
            view = self._view(key)
            if key in self.here:
                add(view, array, view)
            elif not is_at(array, view):
                view[...] = array
            self.here.add(key)

    def fill(self, keys: Iterable[int]) -> None:
        """Have zeros for parameters that have no gradient."""
        for key in [key for key in keys if key not in self.here]:
            self._view(key)[...] = 0
            self.here.add(key)

    def join(self, later: _Store) -> list[np.ndarray]:
        """Add the branch behind this one, which is used up; its arrays."""
        self.fill(later.here)
        later.fill(self.here)
        for flat, other in zip(self.flats, later.flats):
            add(flat, other, flat)
        flats, later.flats, later.views, later.here = later.flats, [], {}, set()
        return flats


class Shares:
    """The shares of one model on this rank. `anchor` is a leaf that every output depends on: when
    backward has added up its gradient, it has come to its end."""

    def __init__(self, reducer: Reducer, module: Any, call: Any, count: int):
        self.reducer, self.module, self.call, self.count = reducer, module, call, count
        self.size = reducer.members.size
        self.mine = count // self.size
        self.first = reducer.members.me * self.mine
        self.stores = [_Store(reducer) for _ in range(self.mine)]
        self.spare: list[list[np.ndarray]] = []  # arrays for stores: new memory costs page faults
        self.calls = 0  # of the model since the last backward
        self.random = RandomStates()
        self.drawn = ""
        self.norms: tuple[object, list[Any]] = (None, [])  # in which epoch they were looked for
        self.anchor = tensor(0.0, dtype=DType.f32, requires_grad=True)
        self.anchor.register_post_accumulate_grad_hook(self._backward_ended)

    # -- forward ---------------------------------------------------------------------------------

    def forward(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the model gives for the whole input: rows one behind another, means of numbers."""
        self.check_callable()
        leaves, spec = tree_flatten((inputs, kwargs))
        rows = self._rows(leaves)
        kept = self._kept_statistics()
        self.random.open()
        parts, taken, changes, out_spec = self._by_share(leaves, spec, rows, kept)
        self.drawn = self.random.told()
        self._settle_statistics(kept, changes)
        return self._joined(self, leaves, parts, taken, out_spec)

    def _by_share(self, leaves: list[Any], spec: Any, rows: int, kept: list[Any]) -> Any:
        """Each share goes through the model. Flat outputs and inputs by share, what each adds to
        the statistics, and how outputs are put together. The statistics stay as they are."""
        changes: list[list[np.ndarray]] = []
        parts: list[list[Any]] = []
        taken: list[list[Any]] = []
        random = self.random
        try:
            for j in range(self.mine):
                random.begin(self.first + j)
                for norm, means, variances, count in kept:
                    put(norm, np.zeros_like(means), np.zeros_like(variances))
                    put_count(norm, count + self.first + j)
                share = [cut(leaf, j, rows) for leaf in leaves]
                args, keywords = tree_unflatten(share, spec)
                with enable_grad():
                    out, out_spec = tree_flatten(self.call(*args, **keywords))
                parts.append(out)
                taken.append(share)
                changes.append(
                    [array.copy() for norm, *_ in kept for array in statistics(norm)[:2]]
                )
                random.end()
        finally:
            random.leave()
            for norm, means, variances, count in kept:
                put(norm, means, variances)
                put_count(norm, count)
        return parts, taken, changes, out_spec

    def _kept_statistics(self) -> list[Any]:
        return [(norm, *statistics(norm)) for norm in self._norms()]

    def _joined(
        self, differentiates: Any, leaves: list[Any], parts: Any, taken: Any, out_spec: Any
    ) -> Any:
        """The outputs as those of one call; `differentiates.backward` gives their gradients."""
        self.calls += 1
        wanting = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
        leaves_behind = (self.anchor, *wanting, *self.reducer.parameters)
        results = JoinedShares.apply(differentiates, parts, taken, len(wanting), *leaves_behind)
        return tree_unflatten(list(results), out_spec)

    def check_callable(self) -> None:
        """Raise RuntimeError where the model has a communication hook."""
        if self.reducer.comm_hook is not None:
            raise RuntimeError("set_deterministic(True) goes without communication hooks")

    def _rows(self, leaves: list[Any]) -> int:
        """How many rows a share has. Raises ValueError where tensors have different ones, or what
        there are is no whole number of shares."""
        types = [leaf.tensor_type for leaf in leaves if isinstance(leaf, Tensor)]
        sizes = {type.shape[0] for type in types if type.shape}
        if len(sizes) != 1:
            raise ValueError(
                "set_deterministic(True) divides all tensors that the model is called with along "
                f"dimension 0, where these have {sorted(sizes) or 'no'} rows; keep what is no part "
                "of the batch in the model"
            )
        (rows,) = sizes
        if rows % self.mine or not rows:
            raise ValueError(
                f"a batch of {rows} rows on each of {self.size} ranks is no {self.count} equal "
                f"shares: its size has to be divisible by {self.mine} (DataLoader(drop_last=True) "
                "leaves out a rest)"
            )
        return int(rows) // self.mine

    def _norms(self) -> list[Any]:
        """The BatchNorms that take statistics. Raises NotImplementedError for a SyncBatchNorm."""
        epoch = EPOCH.current  # another one where an attribute of a Module was written
        if self.norms[0] is not epoch:
            self.norms = (epoch, self._found_norms())
        return self.norms[1]

    def _found_norms(self) -> list[Any]:
        norms = []
        for name, module in self.module.named_modules():
            if isinstance(module, SyncBatchNorm) and module.training and self.count > 1:
                raise NotImplementedError(
                    f"{name or 'the model'}: SyncBatchNorm needs all shares at once, where "
                    "set_deterministic(True) computes one behind another; BatchNorm takes the "
                    "statistics of a share, whatever the number of ranks"
                )
            if isinstance(module, _NormBase) and module.training and module.track_running_stats:
                norms.append(module)
        return norms

    def _settle_statistics(self, kept: list[Any], changes: list[list[np.ndarray]]) -> None:
        """Have the running statistics take what each share, of all ranks, adds to them, in the
        order of the shares."""
        if not kept:
            return
        own = np.concatenate([array.reshape(-1) for share in changes for array in share])
        whole = np.empty((self.size, own.size), own.dtype)
        if self.size > 1:
            name = "the statistics of BatchNorm"
            steps = all_gather(Round(self.reducer.members, name), list(whole), own)
            current().start(name, steps, self.reducer.timeout).wait()
        else:
            whole[0] = own
        by_share = whole.reshape(self.count, -1)
        at = 0
        for norm, means, variances, count in kept:
            width = means.size
            for array in (means, variances):
                for j in range(self.count):
                    factor = norm.momentum if norm.momentum is not None else 1 / (count + j + 1)
                    array *= array.dtype.type(1 - factor)
                    array += by_share[j, at : at + width].reshape(array.shape)
                at += width
            put(norm, means, variances)
            put_count(norm, count + self.count)

    # -- backward --------------------------------------------------------------------------------

    def backward(
        self, parts: Any, taken: Any, cotangents: Sequence[Any], *, accumulates: bool,
        retain_graph: bool,
    ) -> list[Any]:  # fmt: skip
        """Differentiate each share alone; the gradients of what the model was given. Those of
        parameters are added up where `.grad` is to have them, not for `autograd.grad`."""
        parameters = self.reducer.parameters if accumulates else []
        joins = accumulates and self._joins_early()
        of_inputs = []
        for j, (out, share) in enumerate(zip(parts, taken)):
            places = self._begin(j) if accumulates else None
            roots = [
                (x, share_of(cotangent, x, j, self.mine))
                for x, cotangent in zip(out, cotangents)
                if isinstance(x, Tensor) and x.requires_grad and cotangent is not None
            ]
            wanting = [x for x in share if isinstance(x, Tensor) and x.requires_grad]
            gradients = run_backward(
                roots, [*parameters, *wanting], retain_graph=retain_graph, create_graph=False,
                places=places,
            )  # fmt: skip
            if accumulates:
                self.take(j, parameters, gradients)
            of_inputs.append(gradients[len(parameters) :])
            del gradients
            if joins:
                self._join(j)
        return [self.gathered(column) for column in zip(*of_inputs)]

    def gathered(self, column: Sequence[Any]) -> Any:
        """The gradient of an input, of those of its shares."""
        if all(gradient is None for gradient in column):
            return None
        first = next(g for g in column if g is not None)
        parts = [zeros_like(first) if g is None else g for g in column]
        return (cat(parts) if first.dim() else tree_of(parts)) * (1 / self.mine)

    def _begin(self, j: int) -> Places | None:
        """Have the store of a share its arrays, the first the buckets', where the sum is to be.
        What says where gradients may be written."""
        store, buckets = self.stores[j], self.reducer.buckets
        if store.flats:
            return store.places
        if j:
            store.flats = (
                self.spare.pop() if self.spare else [np.empty_like(b.flat) for b in buckets]
            )
            return store.places
        for bucket in buckets:
            bucket.begin_apart()
        store.flats = [bucket.flat for bucket in buckets]
        return store.places

    def _joins_early(self) -> bool:
        """Whether gradients of shares may be added while others are to come: not where another
        backward adds to them."""
        return self.calls == 1 and not self.hold_gradients() and self.reducer.syncs()

    def hold_gradients(self) -> bool:
        """Whether a backward has left gradients that are not averaged yet."""
        return any(store.here for store in self.stores)

    def _join(self, j: int) -> None:
        """Join the branches that share j completes: then as few as possible are held, and what is
        added was just written."""
        width = 1
        while (j + 1) % (2 * width) == 0:
            earlier, later = self.stores[j + 1 - 2 * width], self.stores[j + 1 - width]
            self.spare.append(earlier.join(later))
            width *= 2

    def take(self, j: int, parameters: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Add up the gradients of share j."""
        self.stores[j].take(parameters, gradients)

    def _backward_ended(self, anchor: Any) -> None:
        anchor.grad = None
        self.calls = 0
        if not self.reducer.syncs():
            return
        reducer, stores = self.reducer, self.stores
        self.stores = [_Store(reducer) for _ in range(self.mine)]
        unused = {*reducer.names}.difference(*[store.here for store in stores])
        if unused and reducer.unused is None:
            reducer.under_way = True
            for bucket in reducer.buckets:
                bucket.waiting = {id(p) for p in bucket.parameters} & unused
            reducer.check_finished()
        anywhere = None
        if reducer.unused is not None:
            reducer.unused = unused
            anywhere = reducer._used_anywhere()
        flats = self._summed(stores)
        self.reduce_buckets(self.drawn)
        for bucket, flat in zip(reducer.buckets, flats):
            for p, value in zip(bucket.parameters, bucket.views_of(flat)):
                if anywhere is None or anywhere[id(p)]:
                    self._hand_out(p, value)
        reducer.finished()

    def reduce_buckets(self, drawn: str) -> None:
        """Add up what lies in the buckets over the ranks. `drawn`: from which random numbers."""
        works = []
        for bucket in self.reducer.buckets:
            kind = f"{bucket.kind}{drawn}"
            name = f"the gradients of bucket {bucket.index} ({kind}) in {self.count} shares"
            steps = bucket.reduction(self.reducer.members, name, self._scaled)
            works.append(current().start(name, steps, self.reducer.timeout))
        for work in works:
            work.wait()

    def _scaled(self, part: Any) -> None:
        np.multiply(part, np.asarray(1 / self.count, part.dtype), part)

    def _summed(self, stores: list[_Store]) -> list[np.ndarray]:
        """The tree over the shares of this rank, in the arrays of the buckets."""
        held = [store for store in stores if store.flats]
        for store in held:
            store.fill(self.reducer.names)
        for bucket, *rows in zip(self.reducer.buckets, *[store.flats for store in held]):
            bucket.flat = tree(rows, add)
        self.spare += [store.flats for store in held[1:]]
        return [bucket.flat for bucket in self.reducer.buckets]

    @staticmethod
    def _hand_out(p: Any, value: np.ndarray) -> None:
        present = p._grad
        if present is None:
            p.grad = make(value, p.tensor_type)
            return
        array = present._array("a gradient")
        add(array, value, array)
        count_write(present._counter)


class JoinedShares(Function):
    """The outputs of all shares as those of one call. Parameters are operands so that a sweep that
    asks for their gradients comes here; what they get is put into `.grad` from the anchor's end."""

    @staticmethod
    def forward(ctx: Any, shares: Shares, parts: Any, taken: Any, inputs: int, *leaves: Any) -> Any:
        ctx.shares, ctx.parts, ctx.taken = shares, parts, taken
        ctx.inputs, ctx.rest = inputs, [None] * (len(leaves) - 1 - inputs)
        results = [_together(column) for column in zip(*parts)]
        ctx.mark_non_differentiable(
            *[
                x for x, first in zip(results, parts[0])
                if isinstance(x, Tensor) and not first.requires_grad
            ]
        )  # fmt: skip
        ctx.set_materialize_grads(False)
        ctx.tensors = [i for i, x in enumerate(results) if isinstance(x, Tensor)]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        shares = ctx.shares
        if ctx.parts is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time; specify retain_graph=True "
                "when calling .backward() or autograd.grad() the first time"
            )
        wanted, retain_graph = ctx._sweep
        check_sweep((wanted or ())[1 + ctx.inputs :])
        cotangents: list[Any] = [None] * len(ctx.parts[0])
        for i, gradient in zip(ctx.tensors, gradients):
            cotangents[i] = gradient
        columns = shares.backward(
            ctx.parts, ctx.taken, cotangents,
            accumulates=wanted is None, retain_graph=retain_graph,
        )  # fmt: skip
        if not retain_graph:
            ctx.parts = ctx.taken = None
        return (None, None, None, None, zero_of_anchor(), *columns, *ctx.rest)


_OF_ANCHOR = TensorType(DType.f32, ())


def zero_of_anchor() -> Tensor:
    """The gradient of an anchor."""
    return make(np.zeros((), np.float32), _OF_ANCHOR)


def check_sweep(parameters: Sequence[bool]) -> None:
    """Raise RuntimeError for a backward through a call that is to be differentiated again, or that
    asks for gradients of `parameters`."""
    if STATE.grad_enabled:
        raise RuntimeError(
            "set_deterministic(True) differentiates each share once: create_graph=True goes "
            "without it"
        )
    if any(parameters):
        raise RuntimeError(
            "gradients of parameters of DistributedDataParallel come by backward() alone: with "
            "set_deterministic(True) neither autograd.grad nor backward(inputs=…) gives them"
        )


def _together(column: Sequence[Any]) -> Any:
    """The shares' values of one output: rows one behind another, the mean of numbers."""
    first = column[0]
    if not isinstance(first, Tensor):
        return first
    if first.dim():
        return cat(column)
    if first.is_floating_point():
        return tree_of(column) * (1 / len(column))
    return first.clone()


def tree_of(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of tensors as `exchange.tree` adds them."""
    rows = [*tensors]
    step = 1
    while step < len(rows):
        for i in range(0, len(rows) - step, 2 * step):
            rows[i] = rows[i] + rows[i + step]
        step *= 2
    return rows[0]


def share_of(cotangent: Tensor, output: Tensor, j: int, count: int) -> Tensor:
    """The cotangent of one share's output, as if its rows were the whole batch: of the loss of the
    rank it is the count-th part, and powers of two change no bit."""
    if not output.dim():
        return cotangent
    rows = output.shape[0]
    return cotangent[j * rows : (j + 1) * rows] * count


def cut(leaf: Any, j: int, rows: int) -> Any:
    if not isinstance(leaf, Tensor) or not leaf.dim():
        return (
            leaf.detach().requires_grad_()
            if isinstance(leaf, Tensor) and leaf.requires_grad
            else leaf
        )
    array = leaf._array("set_deterministic")[j * rows : (j + 1) * rows]
    share = make(array, TensorType.of(array))
    share._counter = leaf._counter
    if leaf.requires_grad:
        share.requires_grad = True
    return share
