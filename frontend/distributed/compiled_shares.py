"""`set_deterministic` with the shares of a rank as one program, and their gradients as another, in
which they add up as a tree.

in : a model, compiled or not, and the shares that this rank has of a batch
out: its outputs; backward gives the sums over the rank's shares, to the bits of shares one by one

The programs are those of a function in which the shares stand one behind another. Only sums come
out of it: where what each share gives is asked for (another backward adds to it, a hook looks at
it), or an output is left out of the loss, the shares are computed again, one by one, and so are all
later ones of this model. So they are where the function cannot be traced.

Of a model that is not compiled nobody said that Python in it may be run once for many calls. What
it does in forward each call of the program repeats, or the trace is refused (`engine.tracing`); so
this refuses besides what the trace does not see: code of the user's in backward, and that of
installed packages.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from frontend.distributed.deterministic import (
    SETTING,
    JoinedShares,
    Shares,
    check_sweep,
    cut,
    share_of,
    tree_of,
    zero_of_anchor,
)
from frontend.distributed.share_state import drawn_inside
from frontend.distributed.traced_shares import RanShares
from frontend.engine.compiled.compiler import CompiledFunction
from frontend.engine.compiled.differentiable import NOTHING, ForwardCall, written_by
from frontend.engine.compiled.options import Options
from frontend.engine.compiled.stance import STANCE
from frontend.engine.eager.gradients.backward import behind, run_backward
from frontend.engine.eager.tape import Saves, TapeNode, edge_of
from frontend.engine.outside.kinds import OURS, is_installed, module_of, package_of
from frontend.engine.tensors.generator import default_generator
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros_like
from frontend.functions.shape import stack
from frontend.nn.modules.backward_hooks import HooksIdentity
from frontend.utils._pytree import tree_flatten, tree_leaves, tree_structure, tree_unflatten
from graphc.errors import TraceError
from graphc.records import replace

MOST_TRACES = 6
"""Traces of a model that was not compiled. Behind them its shares go one by one: each takes what
many steps do."""


def no_program_because(call: Any) -> str:
    """Why the shares of what is called so are no program, whatever is asked of them; "" where they
    may be one."""
    compiled = call if isinstance(call, CompiledFunction) else call._compiled_call_impl
    if compiled is not None:
        return 'compile(level="relaxed")' if compiled.options.level == "relaxed" else ""
    for kind in dict.fromkeys(map(type, call.modules())):
        if any([is_installed(module_of(each)) for each in kind.__mro__]):
            return (
                f"{kind.__name__} is of an installed package, and what Python does there besides "
                "computing is not seen: compile the model"
            )
    return ""


class CompiledShares(Shares):
    """The shares of one model on this rank, which is compiled or not. `program` gives them; None
    where none does, `given_up` is why."""

    def __init__(self, reducer: Any, module: Any, call: Any, count: int):
        super().__init__(reducer, module, call, count)
        self.told: Counter[str] = Counter()  # of calls whose shares went one by one, why
        self.given_up = no_program_because(call)
        self.is_compiled = isinstance(call, CompiledFunction)
        options = Options()
        if self.is_compiled:
            dynamic = call.options.dynamic if isinstance(call.options.dynamic, bool) else None
            options = replace(call.options, fullgraph=False, dynamic=dynamic)
        self._saves: tuple[Saves | None, Saves | None] = (None, None)
        self.program: CompiledFunction | None = None
        if not self.given_up:
            # What it cannot trace is told here, not by a warning: it runs as it would without.
            self.program = CompiledFunction(self.all_shares, replace(options, apart=True))

    def all_shares(self, *inputs: Any, **kwargs: Any) -> Any:
        """The traced function: outputs, and what shares add to the running statistics. None outside
        of a trace: it could not be traced."""
        if STATE.mode is None:
            return None
        leaves, spec = tree_flatten((inputs, kwargs))
        call = self.call.function if self.is_compiled else self.call
        ran = RanShares(self, call, leaves, spec)
        if not self.is_compiled:
            _check_backward(ran.parts)
        with no_grad():
            changes = [stack(column) for column in zip(*ran.changes)]
            ran.put_back()
        wanting = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
        results = SummedShares.apply(
            self, ran.parts, ran.taken, len(wanting), *wanting, *self.reducer.parameters
        )
        return tree_unflatten(list(results), ran.out_spec), changes

    def forward(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        because = self._seen_because() or self._apart_because()
        if because:
            self.told[because] += 1
            return super().forward(inputs, kwargs)
        self.check_callable()
        plain = not kwargs and all([isinstance(x, Tensor) for x in inputs])
        leaves = [*inputs] if plain else tree_leaves((inputs, kwargs))
        rows = self._rows(leaves)
        kept = self._kept_statistics()
        cuts, args, keywords = leaves, inputs, kwargs
        if any([_is_active(leaf) for leaf in leaves]):  # their history is no part of it
            cuts = [cut(leaf, 0, rows * self.mine) for leaf in leaves]
            args, keywords = tree_unflatten(cuts, tree_structure((inputs, kwargs)))
        before = default_generator.state_arrays()
        results = self._run(args, keywords, inputs, kwargs)
        if results is None:
            self.told["it could not be traced"] += 1
            return super().forward(inputs, kwargs)
        outputs, changes = results
        self.drawn = drawn_inside(before, default_generator.inside)
        self._settle_statistics(
            kept, [[x._array("BatchNorm")[j] for x in changes] for j in range(self.mine)]
        )
        self.calls += 1
        out = [outputs] if isinstance(outputs, Tensor) else tree_leaves(outputs)
        active = [x for x in out if _is_active(x)]
        if active:
            node = edge_of(active[0])[0]
            _SummedCall(self, node, out, leaves, cuts, (inputs, kwargs, before))
        return outputs

    def saves_of(self, saves: Saves) -> Saves:
        """Those of the program's node once it leads to the anchor, too."""
        known, ours = self._saves
        if saves is not known or ours is None:
            types = (*saves.types, self.anchor.tensor_type)
            ours = Saves(types, saves.result_types, NOTHING)
            ours.rules = None
            self._saves = (saves, ours)
        return ours

    def _run(self, args: Any, keywords: Any, inputs: Any, kwargs: Any) -> Any:
        """What the program gives for the rows of this rank; None where it cannot be traced."""
        program = self.program
        assert program is not None
        try:
            return program(*args, **keywords)
        except Exception as error:
            if self.is_compiled or written_by(error):
                raise
            failed = error
        finally:
            if not self.is_compiled and len(program.trace_reasons) == MOST_TRACES:
                self.given_up = f"traced {MOST_TRACES} times, {program.trace_reasons[-1]}"
                self.program = None
        # It has done nothing: op by op the same comes, and leaves behind what eager code does.
        super().forward(inputs, kwargs)
        raise failed

    def _seen_because(self) -> str:
        """Why the shares of a call go one by one, so that somebody sees them; "" for no reason."""
        if not SETTING.one_program:
            return "set_deterministic(one_program=False)"
        if STANCE.now != "default":
            return f"compiler.set_stance({STANCE.now!r})"
        if STATE.mode is not None or STATE.detect_anomaly or STATE.saved_hooks is not None:
            return "a mode, detect_anomaly() or saved_tensors_hooks() is on"
        if not self.is_compiled and sys.gettrace() is not None:
            return "a debugger or its like looks on (sys.settrace)"
        return "the model is called twice before one backward" if self.calls else ""

    def _apart_because(self) -> str:
        """Why the gradients of each share are asked for, not sums alone; "" for no reason."""
        if self.program is None:
            return self.given_up
        if not self.reducer.syncs() or self.hold_gradients():
            return "no_sync() adds up share by share"
        hooked = any([p._hooks for p in self.reducer.parameters])
        return "hooks of parameters look at gradients of shares" if hooked else ""

    def explain(self) -> str:
        """Which calls were one program and which not, why not, and what the program is."""
        lines = [f"{self.count} shares, {self.mine} on this rank"]
        lines += [f"one by one, {n} calls: {because}" for because, n in self.told.items()]
        return "\n".join([*lines, *([] if self.program is None else [self.program.explain()])])

    def again(self, inputs: Any, kwargs: Any, start: Any, because: str) -> tuple[Any, Any]:
        """Forward one by one, from a state of the generator: outputs and inputs by share. Later
        calls go so too."""
        self.program, self.given_up = None, because
        leaves, spec = tree_flatten((inputs, kwargs))
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


class _SummedCall:
    """The op of the tape node of one call of the program, in place of the program's own, `inner`:
    gradients of parameters are sums over the rank's shares, and lie where the buckets are. The node
    leads to the inputs of the model in place of their `cuts`, and to the anchor. `call` is what
    `CompiledShares.again` takes."""

    name = "JoinedShares"

    def __init__(
        self, shares: CompiledShares, node: TapeNode, outputs: list[Any], inputs: list[Any],
        cuts: list[Any], call: tuple[Any, Any, Any],
    ):  # fmt: skip
        self.shares, self.call = shares, call
        self.inner: ForwardCall = node.op
        self.sweep: tuple[tuple[bool, ...] | None, bool] = (None, False)
        self.results = [(i, x._edge[1]) for i, x in enumerate(outputs) if _is_active(x)]
        self.outputs = len(outputs)
        self.versions = [(x, x._counter[0]) for x in inputs if isinstance(x, Tensor)]
        edges = [*node.edges, (shares.anchor, 0)]
        self.parameters = [None if edge is None else edge[0] for edge in node.edges]
        self.inputs: list[int | None] = []
        """Which operand of the node each input is that requires gradients, if it is one."""
        for x, part in zip(inputs, cuts):
            if _is_active(x):
                at = next((i for i, end in enumerate(self.parameters) if end is part), None)
                self.inputs.append(at)
                if at is not None:
                    edges[at], self.parameters[at] = edge_of(x), None
        node.op, node.edges, node.saves = self, tuple(edges), shares.saves_of(node.saves)

    def release(self) -> bool:
        return self.inner.release()

    def vjp(self, gradients: Any, outputs: Any, *operands: Any) -> tuple[Any, ...]:
        shares, (wanted, retain_graph) = self.shares, self.sweep
        accumulates = wanted is None
        check_sweep([want for p, want in zip(self.parameters, wanted or ()) if p is not None])
        incoming = gradients if isinstance(gradients, tuple) else (gradients,)
        because = shares._apart_because() if accumulates else ""
        if accumulates and shares.calls > 1:
            because = "the model was called twice before one backward"
        elif any([cotangent is None for cotangent in incoming]):
            because = "a loss left out an output"
        result: list[Any] = [None] * len(self.parameters)
        if because:
            columns = self._apart(incoming, because, accumulates, retain_graph)
            for at, column in zip(self.inputs, columns, strict=True):
                if at is not None:
                    result[at] = column
        else:
            computed = self._at_once(incoming, accumulates)
            for at in self.inputs:
                if at is not None:
                    result[at] = computed[at]
        return (*result, zero_of_anchor())

    def _at_once(self, incoming: tuple[Any, ...], accumulates: bool) -> Sequence[Any]:
        """The gradients of all operands. Those of parameters are taken where they are to add up."""
        shares, inner, parameters = self.shares, self.inner, self.parameters
        inner.places = None
        if accumulates:
            shares._begin(0)
            inner.places = shares.stores[0].places(parameters)
        computed = inner.vjp(incoming, None)
        if accumulates:
            own = [g if p is not None else None for p, g in zip(parameters, computed)]
            shares.take(0, parameters, own)
        return computed

    def _apart(
        self, incoming: tuple[Any, ...], because: str, accumulates: bool, retain_graph: bool
    ) -> list[Any]:
        """The gradients of inputs, where shares are computed again, one by one."""
        inner = self.inner
        used: list[Any] = [x for x in zip(inner.tensors, inner.versions) if _is_active(x[0])]
        if any([x._counter[0] != version for x, version in [*used, *self.versions]]):
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                "inplace operation: a parameter or input of a model that is called with "
                "set_deterministic(True)"
            )
        cotangents: list[Any] = [None] * self.outputs
        for i, at in self.results:
            cotangents[i] = incoming[at]
        parts, taken = self.shares.again(*self.call, because)
        return self.shares.backward(
            parts, taken, cotangents, accumulates=accumulates, retain_graph=retain_graph
        )


def _is_active(x: Any) -> bool:
    return isinstance(x, Tensor) and x._requires_grad


def _check_backward(parts: Sequence[Sequence[Any]]) -> None:
    """Raise TraceError where backward comes to code of the user's, or keeps gradients for it: what
    Python does there, no call would repeat."""
    roots = [x for out in parts for x in out if isinstance(x, Tensor) and x.requires_grad]
    for node in {*chain.from_iterable(behind(edge_of(root)[0]) for root in roots)}:
        if not isinstance(node, TapeNode):
            continue
        hooked = node.hooks or node.prehooks or node.posthooks or node.retained
        if hooked or isinstance(node.op, HooksIdentity):
            raise TraceError("hooks look at gradients inside of the model, or they are retained")
        function = getattr(node.op, "function", None)
        if isinstance(function, type) and package_of(function) not in OURS:
            raise TraceError(f"{function.__name__} is an autograd.Function of its own backward")


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
