"""`set_deterministic` with a compiled model: the shares of a rank are one program, and their
gradients another, in which they add up as a tree.

in : a compiled model, and the shares that this rank has of a batch
out: its outputs; backward gives the sums over the rank's shares, to the bits of shares one by one

The programs are those of a function in which the shares stand one behind another. Only sums come
out of it: where what each share gives is asked for (another backward adds to it, a hook looks at
it), or an output is left out of the loss, the shares are computed again, one by one, and so are all
later ones of this model. So they are where the function cannot be traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.distributed.deterministic import JoinedShares, Shares, cut, share_of, tree_of
from frontend.distributed.share_state import drawn_inside
from frontend.distributed.traced_shares import RanShares
from frontend.engine.compiled.compiler import CompiledFunction
from frontend.engine.compiled.differentiable import written_by
from frontend.engine.compiled.stance import STANCE
from frontend.engine.eager.gradients.backward import run_backward
from frontend.engine.tensors.generator import default_generator
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros_like
from frontend.functions.shape import stack
from frontend.utils._pytree import tree_flatten, tree_unflatten
from graphc.errors import GraphError
from graphc.records import replace


def has_program(call: Any) -> bool:
    """Whether the shares of what is called so may be one program: it rounds as each alone does."""
    return isinstance(call, CompiledFunction) and call.options.level != "relaxed"


class CompiledShares(Shares):
    """The shares of one compiled model on this rank."""

    def __init__(self, reducer: Any, module: Any, call: Any, count: int):
        super().__init__(reducer, module, call, count)
        dynamic = call.options.dynamic if isinstance(call.options.dynamic, bool) else None
        options = replace(call.options, fullgraph=True, dynamic=dynamic)
        self.program: CompiledFunction | None = CompiledFunction(self._on_shares, options)

    def _on_shares(self, *inputs: Any, **kwargs: Any) -> Any:
        """The traced function: outputs, and what shares add to the running statistics."""
        leaves, spec = tree_flatten((inputs, kwargs))
        ran = RanShares(self, self.call.function, leaves, spec)
        with no_grad():
            changes = [stack(column) for column in zip(*ran.changes)]
            ran.put_back()
        wanting = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
        results = SummedShares.apply(
            self, ran.parts, ran.taken, len(wanting), *wanting, *self.reducer.parameters
        )
        return tree_unflatten(list(results), ran.out_spec), changes

    def forward(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._takes_sums() or self.calls or STATE.mode is not None:
            return super().forward(inputs, kwargs)
        self.check_callable()
        leaves, spec = tree_flatten((inputs, kwargs))
        rows = self._rows(leaves)
        kept = self._kept_statistics()
        cuts = [cut(leaf, 0, rows * self.mine) for leaf in leaves]
        args, keywords = tree_unflatten(cuts, spec)
        before = default_generator.state_arrays()
        try:
            assert self.program is not None
            outputs, changes = self.program(*args, **keywords)
        except GraphError as error:
            if not error.is_refusal or written_by(error):
                raise
            self.program = None
            return super().forward(inputs, kwargs)
        self.drawn = drawn_inside(before, default_generator.inside)
        self._settle_statistics(
            kept, [[x._array("BatchNorm")[j] for x in changes] for j in range(self.mine)]
        )
        out, out_spec = tree_flatten(outputs)
        shares = _SharesOfOneCall(self, leaves, spec, before)
        return self._joined(shares, leaves, [out], [cuts], out_spec)

    def _takes_sums(self) -> bool:
        """Whether sums over the shares are all that is asked for."""
        return (
            self.program is not None
            and STANCE.now == "default"
            and self.reducer.syncs()
            and not self.hold_gradients()
            and not any([p._hooks for p in self.reducer.parameters])
        )

    def again(self, leaves: list[Any], spec: Any, start: Any) -> tuple[Any, Any]:
        """Forward one by one, from a state of the generator: outputs and inputs by share."""
        self.program = None
        now = default_generator.state_arrays()
        default_generator.put_arrays(start)
        try:
            self.random.open()
            parts, taken, _, _ = self._by_share(
                leaves, spec, self._rows(leaves), self._kept_statistics()
            )
        finally:
            default_generator.put_arrays(now)
        return parts, taken


class _SharesOfOneCall:
    """What differentiates the shares of one call of the program: it was called with `leaves`, and
    `start` is the state of the generator before it."""

    def __init__(self, shares: CompiledShares, leaves: list[Any], spec: Any, start: Any):
        self.shares, self.leaves, self.spec, self.start = shares, leaves, spec, start
        self.read = [*shares.reducer.parameters, *[x for x in leaves if isinstance(x, Tensor)]]
        self.versions = [x._counter[0] for x in self.read]

    def backward(
        self, parts: Any, taken: Any, cotangents: Sequence[Any], *, accumulates: bool,
        retain_graph: bool,
    ) -> list[Any]:  # fmt: skip
        shares, parameters = self.shares, self.shares.reducer.parameters if accumulates else []
        (out,), (cuts,) = parts, taken
        roots = [
            (x, cotangent)
            for x, cotangent in zip(out, cotangents)
            if isinstance(x, Tensor) and x.requires_grad
        ]
        sums = not accumulates or (shares._joins_early() and shares._takes_sums())
        if not sums or any([cotangent is None for _, cotangent in roots]):
            if [x._counter[0] for x in self.read] != self.versions:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    "inplace operation: a parameter or input of a model that is called with "
                    "set_deterministic(True)"
                )
            parts, taken = shares.again(self.leaves, self.spec, self.start)
            return shares.backward(
                parts, taken, cotangents, accumulates=accumulates, retain_graph=retain_graph
            )
        place = shares._begin(0) if accumulates else None
        wanting = [x for x in cuts if isinstance(x, Tensor) and x.requires_grad]
        gradients = run_backward(
            roots, [*parameters, *wanting], retain_graph=retain_graph, create_graph=False,
            place=place,
        )  # fmt: skip
        shares.take(0, gradients[: len(parameters)])
        return gradients[len(parameters) :]


class SummedShares(JoinedShares):
    """The outputs of all shares as those of one call, in a trace: backward gives the sums of the
    shares' gradients."""

    @staticmethod
    def backward(ctx: Any, *incoming: Any) -> Any:
        shares: CompiledShares = ctx.shares
        cotangents = dict(zip(ctx.tensors, incoming))
        parameters = shares.reducer.parameters
        rows: list[list[Any]] = []
        of_inputs: list[list[Any]] = []
        for j, (out, share) in enumerate(zip(ctx.parts, ctx.taken)):
            roots = [
                (x, share_of(cotangents[i], x, j, shares.mine))
                for i, x in enumerate(out)
                if isinstance(x, Tensor) and x.requires_grad and cotangents[i] is not None
            ]
            wanting = [x for x in share if isinstance(x, Tensor) and x.requires_grad]
            gradients = run_backward(
                roots, [*parameters, *wanting], retain_graph=True, create_graph=False
            )
            rows.append(gradients[: len(parameters)])
            of_inputs.append(gradients[len(parameters) :])
        sums = [_summed(column) for column in zip(*rows)]
        columns = [shares.gathered(column) for column in zip(*of_inputs)]
        return (None, None, None, None, *columns, *sums)


def _summed(column: Sequence[Any]) -> Any:
    """The sum of the shares' gradients, of which some may be zeros; None where all are."""
    first = next((gradient for gradient in column if gradient is not None), None)
    if first is None:
        return None
    return tree_of([zeros_like(first) if x is None else x for x in column])
