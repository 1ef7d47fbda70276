"""The reverse sweep over the tape.

in : tensors with a `grad_fn`, and gradients for them
out: gradients of leaves (accumulated into `.grad`) or of chosen tensors

Nodes are numbered as they are made, so going backwards is going down the numbers. Hooks of tensors,
nodes and leaves run here, in PyTorch's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import QUIET
from frontend.engine.eager.gradients.gradient_programs import LINEAR, passed_on
from frontend.engine.eager.gradients.piecewise import connected
from frontend.engine.eager.kernels.native_ops import SMALL
from frontend.engine.eager.tape import Edge, TapeNode, edge_of
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.mode import Sweep
from frontend.engine.tensors.state import STATE, recording
from frontend.engine.tensors.tensor import Tensor, make
from graphc.autodiff.parts import Gradients, OutputPart
from graphc.autodiff.sweep import Record, added, sweep
from graphc.errors import ShapeError
from graphc.ir.graph_queries import reachable
from graphc.ir.types import DType
from graphc.ops.movement import transpose
from graphc.ops.nn.products import addmm
from graphc.references import is_sole_view

_SEQUENCE = attrgetter("sequence")
LEAST_PLACED = 1 << 20
"""Bytes of gradients that are not small from which on ops write them where hooks say. To ask for
each takes as long as to copy half as many."""
Places = Callable[[Sequence[Tensor]], Sequence[np.ndarray | None]]
"""Where the gradient of each of these leaves may be written; None: anywhere."""


class GroupHook:
    """The hook of each leaf of a group, such as the parameters of DistributedDataParallel. A
    backward calls `ready(leaves)` once, behind the hooks of single leaves, and may ask `places`
    before."""

    __slots__ = ("places", "ready")

    def __init__(self, ready: Callable[[Sequence[Tensor]], None], places: Places):
        self.ready, self.places = ready, places

    def __call__(self, leaf: Tensor) -> None:
        self.ready([leaf])


def run_backward(
    roots: Sequence[tuple[Tensor, Tensor]],
    inputs: Sequence[Tensor] | None,
    *,
    retain_graph: bool,
    create_graph: bool,
    places: Places | None = None,
) -> list[Tensor | None]:
    """Sweep back from `roots` (tensor, its gradient). With `inputs`: their gradients, None where
    there is no path. Without: gradients are added to the leaves' `.grad`. `places`: where the
    gradients of inputs may lie; where several ops give to one, it does not."""
    mode = STATE.mode
    retain_graph |= STATE.keeps_graph
    if mode is None:
        with recording(create_graph):
            return _swept(
                roots, inputs, None, retain_graph=retain_graph, create_graph=create_graph,
                places=places,
            )  # fmt: skip
    with mode.backward(accumulates=inputs is None) as run, recording(create_graph):
        return _swept(roots, inputs, run, retain_graph=retain_graph, create_graph=create_graph)


def _swept(
    roots: Sequence[tuple[Tensor, Tensor]],
    inputs: Sequence[Tensor] | None,
    run: Sweep | None,
    *,
    retain_graph: bool,
    create_graph: bool,
    places: Places | None = None,
) -> list[Tensor | None]:
    """`run_backward` in the grad mode of its ops."""
    cotangents = Gradients(_added)
    for tensor, gradient in roots:
        cotangents.give(edge_of(tensor), gradient)
    targets = None if inputs is None else [edge_of(tensor) for tensor in inputs]
    on_the_way = any([isinstance(node, TapeNode) for node, _ in targets or ()])
    nodes, leaves, posted, merged = _reachable(cotangents)
    placed: dict[Any, np.ndarray] = {}
    if run is None and not create_graph:
        if places is not None:
            placed = _placed(_leaf_edges(nodes), merged, places)
        elif inputs is None and _are_worth_placing(posted):
            placed = _placed(posted, merged, _places_by_hooks)
    needed = None if targets is None else _leading_to(nodes, set(targets))
    at_inputs: dict[Edge, Any] = dict.fromkeys(targets or ())
    if targets is not None:
        leaves = {edge: last for edge, last in leaves.items() if edge in at_inputs}
    if run is not None:
        run.reach(_ends(nodes, cotangents), inputs or (), create_graph)
    records = _unpacked(
        nodes, cotangents, at_inputs if on_the_way else {}, needed, retain_graph, leaves, placed
    )
    sweep(records, cotangents, _around(run), _after)
    for edge in at_inputs:
        if isinstance(edge[0], Tensor) and edge in cotangents:
            at_inputs[edge] = _leaf_gradient(edge, cotangents, leaves)
    if targets is not None:
        return [writable(at_inputs[edge]) for edge in targets]
    taken = {id(gradient._value) for _, gradient in roots}
    passed: list[tuple[Tensor, Tensor]] = []
    groups: dict[GroupHook, list[Tensor]] = {}
    for edge in cotangents:
        leaf = edge[0]
        if isinstance(leaf, Tensor) and leaf._requires_grad:  # it may have been frozen since
            gradient = _leaf_gradient(edge, cotangents, leaves)
            if STATE.mode is not None and STATE.mode.history(leaf) is not None:
                passed.append((leaf, gradient))
                continue
            accumulate(leaf, gradient, create_graph, taken, placed.get(edge))
            if not leaf._post_hooks:
                continue
            for hook in _running(leaf._post_hooks):
                if isinstance(hook, GroupHook):
                    groups.setdefault(hook, []).append(leaf)
                else:
                    hook(leaf)
    for group, ready in groups.items():
        group.ready(ready)
    if run is not None:
        run.pass_on(passed, retain_graph)
    return []


def _added(left: Any, right: Any) -> Any:
    """The sum of two gradients of one tensor."""
    if left.is_sparse or right.is_sparse:
        return (left if left.is_sparse else right).added(left, right)
    return added(left, right)


def _ends(nodes: list[TapeNode], cotangents: dict[Any, Any]) -> list[Tensor]:
    """The tensors where the tape ends."""
    edges = (*cotangents, *(edge for node in nodes for edge in node.edges if edge is not None))
    return [edge[0] for edge in edges if isinstance(edge[0], Tensor)]


def _leaf_gradient(edge: Edge, cotangents: dict[Any, Any], leaves: dict[Edge, int]) -> Tensor:
    """A leaf's gradient after its hooks: those that were not called on the way are called now."""
    if not edge[0]._hooks or edge in leaves:
        gradient: Tensor = cotangents[edge]
        return gradient
    return _hooked(edge[0]._hooks, cotangents[edge])


LeafEdge = tuple[TapeNode, Edge]
"""A node, and an edge of it that ends at a leaf."""


def _reachable(
    cotangents: dict[Any, Any],
) -> tuple[list[TapeNode], dict[Edge, int], list[LeafEdge], set[TapeNode]]:
    """Every op node behind the roots, latest first; of the leaves with hooks among them, the number
    of the last node that gives to each; the edges to leaves that have hooks which follow the sum;
    and the nodes that several edges lead to."""
    reached: set[TapeNode] = set()
    merged: set[TapeNode] = set()
    posted: list[LeafEdge] = []
    work = [node for node, _ in cotangents if isinstance(node, TapeNode)]
    hooked = False
    while work:
        node = work.pop()
        if node in reached:
            merged.add(node)
            continue
        reached.add(node)
        for edge in node.edges:
            if edge is not None:
                before = edge[0]
                if isinstance(before, TapeNode):
                    work.append(before)
                elif before._hooks:
                    hooked = True
                elif before._post_hooks:
                    posted.append((node, edge))
    nodes = sorted(reached, key=_SEQUENCE, reverse=True)
    leaves = {}
    if hooked:
        leaves = {e: node.sequence for node, e in _leaf_edges(nodes) if e[0]._hooks}
    return nodes, leaves, posted, merged


def _leaf_edges(nodes: Sequence[TapeNode]) -> list[LeafEdge]:
    return [
        (node, edge)
        for node in nodes
        for edge in node.edges
        if edge is not None and isinstance(edge[0], Tensor)
    ]


def _are_worth_placing(edges: Sequence[LeafEdge]) -> bool:
    large = 0
    for node, (leaf, _) in edges:
        if hasattr(node.op, "places"):
            return True
        large += leaf.tensor_type.nbytes if leaf.tensor_type.nbytes > SMALL else 0
    return large >= LEAST_PLACED


def _places_by_hooks(leaves: Sequence[Tensor]) -> Sequence[np.ndarray | None]:
    """By what hooks of groups say."""
    asked: dict[Places, list[int]] = {}
    for i, leaf in enumerate(leaves):
        for hook in leaf._post_hooks.values() if leaf._grad is None else ():
            if isinstance(hook, GroupHook):
                asked.setdefault(hook.places, []).append(i)
    result: list[np.ndarray | None] = [None] * len(leaves)
    for places, positions in asked.items():
        for i, place in zip(positions, places([leaves[i] for i in positions])):
            result[i] = place
    return result


def _placed(
    edges: Sequence[LeafEdge], merged: set[TapeNode], places: Places
) -> dict[Any, np.ndarray]:
    """Where gradients are to lie: of leaves that one node alone gives to, but for small ones, which
    are copied sooner than placed, unless the node computes all at once. `merged` are the nodes that
    several edges lead to."""
    givers: dict[Edge, TapeNode | None] = {}
    for node, edge in edges:
        small = edge[0].tensor_type.nbytes <= SMALL and not hasattr(node.op, "places")
        givers[edge] = None if small or edge in givers or edge[0]._hooks else node
    alone = [(edge, giver) for edge, giver in givers.items() if giver is not None]
    placed: dict[Any, np.ndarray] = {}
    for (edge, giver), place in zip(alone, places([edge[0] for edge, _ in alone]), strict=True):
        if place is None:
            continue
        placed[edge] = place
        if giver.op is transpose and giver not in merged:
            # A linear layer's weight stands in its product transposed.
            if not (giver.hooks or giver.prehooks or giver.posthooks or giver.retained):
                placed[giver, 0] = place.transpose(giver.attributes["permutation"])
    return placed


def is_at(value: Any, place: np.ndarray) -> bool:
    """Whether an array of the type of `place` is the same memory."""
    if value is place:
        return True
    if value.__class__ is not np.ndarray or value.base is not place.base:
        return False
    same: bool = value.__array_interface__["data"] == place.__array_interface__["data"]
    return same and value.flags.c_contiguous


def behind(node: Any) -> set[Any]:
    """Every tape node and leaf that a tape node (or leaf) depends on, itself included."""
    return reachable(
        [node], lambda x: [edge[0] for edge in getattr(x, "edges", ()) if edge is not None]
    )


def leaves_behind(tensor: Tensor) -> set[int]:
    """The ids of the leaves that a tensor depends on."""
    return {id(x) for x in behind(edge_of(tensor)[0]) if isinstance(x, Tensor)}


def passes_region(node: TapeNode) -> bool:
    """Whether a tape node depends on a branch or loop that was traced, or is one."""
    nodes = (x for x in behind(node) if isinstance(x, TapeNode))
    return any(getattr(x.op, "kind", "") == "region" for x in nodes)


def _leading_to(nodes: list[TapeNode], targets: set[Edge]) -> dict[TapeNode, tuple[bool, ...]]:
    """For each node on a path to a target: which of its operands lie on one."""
    result: dict[TapeNode, tuple[bool, ...]] = {}
    for node in reversed(nodes):
        wanted = tuple(
            [
                e is not None and (e in targets or (isinstance(e[0], TapeNode) and e[0] in result))
                for e in node.edges
            ]
        )
        if any(wanted):
            result[node] = wanted
    return result


def _unpacked(
    nodes: list[TapeNode],
    cotangents: Gradients,
    at_inputs: dict[Edge, Any],
    needed: dict[TapeNode, tuple[bool, ...]] | None,
    retain_graph: bool,
    leaves: dict[Edge, int],
    places: dict[Any, np.ndarray],
) -> Iterator[Record]:
    """Records for the sweep. When one is drawn, the gradients of its results are complete: hooks
    see them here, and requested ones are kept. Hooks of a leaf are called as soon as the last node
    that gives to it has run, of several leaves in the order of its operands."""
    on_arrays = _run_on_arrays()
    for node in nodes:
        if at_inputs or node.hooks is not None or node.retained is not None:
            _complete(node, cotangents, at_inputs)
        if needed is not None and node not in needed:
            continue
        if node.prehooks is not None:
            _run_prehooks(node, cotangents)
        wanted = None if needed is None else needed[node]
        on_arrays_here = on_arrays and node.posthooks is None
        if not (on_arrays_here and passed_on(node, wanted, cotangents, places)):
            record = node.unpack((True,) * len(node.edges) if wanted is None else wanted)
            if on_arrays and record.op is addmm:
                record.op = LINEAR
            if hasattr(node.op, "places"):
                node.op.places = [places.get(edge) for edge in node.edges] if places else None
            if hasattr(node.op, "sweep"):
                node.op.sweep = wanted, retain_graph
            yield record
        if not retain_graph:
            node.free()
        if leaves:
            for end in dict.fromkeys(node.edges):
                if end is not None and end in cotangents and leaves.get(end) == node.sequence:
                    cotangents[end] = _hooked(end[0]._hooks, cotangents[end])


def _run_on_arrays() -> bool:
    """Whether rules need no tensors: they are neither recorded, traced nor watched."""
    watched = STATE.mode is not None or STATE.observer is not None or STATE.detect_anomaly
    return STATE.backend == "native" and not STATE.grad_enabled and not watched


def _complete(node: TapeNode, cotangents: dict[Any, Any], at_inputs: dict[Edge, Any]) -> None:
    """Show the gradients of a node's results to the hooks, and keep those that are asked for."""
    for index in range(len(node.saves.result_types)):
        edge = (node, index)
        if edge not in cotangents:
            continue
        if node.hooks is not None:
            cotangents[edge] = _hooked(node.hooks.get(index), cotangents[edge])
        if node.retained is not None and index in node.retained:
            retaining = node.retained[index]()
            if retaining is not None and retaining._edge == edge:
                accumulate(retaining, cotangents[edge], True)  # what was read of .grad stays
        if edge in at_inputs:
            at_inputs[edge] = cotangents[edge]


def _run_prehooks(node: TapeNode, cotangents: dict[Any, Any]) -> None:
    edges = [(node, index) for index in range(len(node.saves.result_types))]
    for hook in _running(node.prehooks):
        seen = tuple(cotangents.get(edge) for edge in edges)
        replaced = hook(seen)
        pairs = zip(edges, seen if replaced is None else replaced)
        cotangents.update({edge: of_others(g) for edge, g in pairs if g is not None})


def _running(hooks: Any) -> tuple[Any, ...]:
    """The hooks there are, now that they run; a trace relies on what their code reads by name."""
    running = tuple(hooks.values()) if hooks else ()
    if STATE.mode is not None:
        for hook in running:
            STATE.mode.follow(hook)
    return running


def _hooked(hooks: Any, gradient: Tensor) -> Tensor:
    for hook in _running(hooks):
        # In a backward that is called outside of what is compiled, what a hook keeps has no value.
        mode = STATE.mode
        ahead = mode is not None and getattr(mode, "ended", False)
        replaced = mode.run_hook(hook, (gradient,)) if mode and ahead else hook(gradient)
        if replaced is not None:
            _check_replaced(hook, gradient, replaced)
            gradient = replaced
    return of_others(gradient) if hooks else gradient


def of_others(gradient: Tensor) -> Tensor:
    """The same gradient where code of the user's has seen or made it, and may keep it: over a view
    of the array, which no leaf takes for its own (`_owned`)."""
    if gradient._requires_grad or gradient.is_sparse:
        return gradient
    value = gradient._value
    if not isinstance(value, np.ndarray):
        return gradient
    return make(value.view(), gradient.tensor_type)


def _check_replaced(hook: Any, gradient: Tensor, replaced: Any) -> None:
    name = getattr(hook, "__name__", type(hook).__name__)
    if not isinstance(replaced, Tensor):
        raise TypeError(
            f"expected Tensor, but hook returned '{type(replaced).__name__}' (hook {name!r})"
        )
    if replaced.tensor_type != gradient.tensor_type:
        raise ShapeError(
            f"hook {name!r} has changed the type of a gradient: {gradient.tensor_type} became "
            f"{replaced.tensor_type}"
        )


def _around(run: Sweep | None) -> Any:
    """What the sweep runs each rule in: nodes of a trace stem from the forward's line; with
    anomaly detection an error names that line."""
    if run is None:
        return _Blamed if STATE.detect_anomaly else None

    def place(record: Record) -> AbstractContextManager[None]:
        if record.location is None:
            return nullcontext()
        return run.gradient_of(record.location)

    return place


class _Blamed:
    """Adds the line of the forward op to an error of its gradient rule."""

    def __init__(self, record: Record):
        self.record = record

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, Exception):
            node = self.record.output_keys[0][0]  # type: ignore[index]
            error.add_note(f"{node.name()}: the forward op ran at {self.record.location}")


def _after(record: Record, gradients: list[Any], computed: list[Any]) -> list[Any]:
    """The gradients of a record's operands after post-hooks, and, with anomaly detection, a check
    that none has NaN."""
    node: TapeNode = record.output_keys[0][0]  # type: ignore[index]
    if STATE.grad_enabled:
        computed = connected(node, computed)
    if node.posthooks or STATE.detect_anomaly:
        computed = [part.whole() if type(part) is OutputPart else part for part in computed]
    for hook in _running(node.posthooks):
        replaced = hook(tuple(computed), tuple(gradients))
        if replaced is not None:
            computed = list(replaced)
    if node.posthooks:
        computed = [None if gradient is None else of_others(gradient) for gradient in computed]
    if STATE.detect_anomaly and STATE.check_nan:
        for index, gradient in enumerate(computed):
            value = None if gradient is None else _elements(gradient)._value
            if isinstance(value, np.ndarray) and np.isnan(value).any():
                raise RuntimeError(
                    f"Function '{node.name()}' returned nan values in its {index}th output; the "
                    f"forward op ran at {record.location}"
                )
    return computed


def _elements(gradient: Tensor) -> Any:
    """What has the elements of a gradient: of a sparse one its values."""
    return getattr(gradient, "_differentiated", gradient)


def accumulate(
    variable: Tensor, gradient: Tensor, create_graph: bool, taken: set[int] | None = None,
    place: np.ndarray | None = None,
) -> None:  # fmt: skip
    """Add `gradient` to `variable.grad`: in place, unless the sum itself is to be differentiated.
    `taken` holds the ids of arrays that belong to others: those are copied. `place`: where the
    first one may have been written."""
    present = variable._grad if STATE.mode is None else STATE.mode.read_grad(variable)
    if present is None:
        if place is not None and is_at(gradient._value, place) and not create_graph:
            variable.grad = make(place, gradient.tensor_type)
            return
        variable.grad = gradient.clone() if create_graph else _owned(variable, gradient, taken)
    elif create_graph or present._requires_grad:
        variable.grad = _added(present, gradient)
    elif present.is_sparse or gradient.is_sparse:
        sparse: Any = present if present.is_sparse else gradient
        variable.grad = sparse.added_in_place(present, gradient)
    elif not _added_in_place(present, gradient):
        present._assign(present + gradient)


def _added_in_place(present: Tensor, gradient: Tensor) -> bool:
    """Add to what is in `.grad`, where memory and types are plain; whether that was done. The sum
    has the bits of every other one."""
    array, new = present._value, gradient._value
    if array.__class__ is not np.ndarray or new.__class__ is not np.ndarray or STATE.watched:
        return False
    type = present.tensor_type
    if gradient.tensor_type is not type or type.dtype not in (DType.f32, DType.f64):
        return False
    if present._frozen is not None or STATE.grad_enabled or not array.flags.writeable:
        return False
    try:
        QUIET.run(np.add, array, new, array)
    finally:  # an interrupt that comes behind the sum finds it counted
        count_write(present._counter)
    return True


def writable(gradient: Tensor | None) -> Tensor | None:
    """`gradient`, over an array that may be changed in place: rules repeat one element by a stride
    of 0."""
    if gradient is None or gradient.is_sparse:
        return gradient
    value = gradient._value
    if not isinstance(value, np.ndarray) or (value.flags.writeable and 0 not in value.strides):
        return gradient
    if gradient._requires_grad:
        return gradient.clone()
    return make(value.copy(order="C"), gradient.tensor_type)


def _owned(variable: Tensor, gradient: Tensor, taken: set[int] | None) -> Tensor:
    """`gradient` off the tape, over an array nobody else holds."""
    if gradient.is_sparse:
        sparse: Any = gradient
        return sparse._with(_owned(variable, sparse._values_here, taken))
    value = gradient._value
    if isinstance(value, np.ndarray):
        shared = taken is None or id(value) in taken or variable._hooks
        owns = value.base is None or is_sole_view(value)
        if shared or not owns or not value.flags.c_contiguous:
            value = value.copy(order="C")
        if taken is not None:
            taken.add(id(value))
    return make(value, gradient.tensor_type)
