"""Elementwise ops on operands of any rank: one kernel for as few axes as the layouts need.

in : an op that works element by element, types and layouts of its operands
out: what runs it, an `Executable`

Axes of size 1 are left out, and neighbours that lie behind each other in every operand, or are
broadcast in it, are one axis. So operands that are contiguous are vectors, whatever their shape:
one kernel serves every shape, the empty one and a single element too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from frontend.engine.eager.kernels.gradient_rule import applied
from frontend.engine.eager.kernels.kernel_families import Variant
from frontend.engine.eager.kernels.layouts import Layout, Layouts
from frontend.engine.tensors.bounded import Bounded
from graphc.errors import GraphError
from graphc.ir.builder import GraphBuilder
from graphc.ir.dims import dim
from graphc.ir.nodes import CONSTANT, INPUT, Graph, exact
from graphc.ir.registry import lookup
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.op import Op, Types
from graphc.ops.movement import broadcast

if TYPE_CHECKING:
    from graphc.runtime.executable import Executable

Form = tuple[int, ...]
"""Of an operand, the merged axes it has elements along, from the outermost in memory."""

_VARIANTS: Bounded[Any, Variant] = Bounded(4096)
_UNKNOWN: Any = object()
_POINTWISE: Bounded[Any, tuple[DType, ...] | None] = Bounded(4096)


def is_pointwise(op: Op, types: Types, attributes: dict[str, Any]) -> bool:
    """Whether the op makes of operands of one shape a result of that shape, element by element."""
    if not types or any([type.shape != types[0].shape for type in types]):
        return False
    if not isinstance(op, Composite):
        return isinstance(op, Elementwise)
    return _results(op, types, attributes) is not None


def known_pointwise(op: Op, types: Types, attributes: dict[str, Any]) -> Types | None:
    """The result types of a composite that is known to be pointwise; None elsewhere."""
    if not types or any([type.shape != types[0].shape for type in types]):
        return None
    dtypes = _POINTWISE.get(_key(op, types, attributes))
    if dtypes is None:
        return None
    return tuple([types[0].with_dtype(dtype) for dtype in dtypes])


def _results(op: Composite, types: Types, attributes: dict[str, Any]) -> tuple[DType, ...] | None:
    """The dtypes of the results of a pointwise composite; None for another one."""
    key = _key(op, types, attributes)
    known = _POINTWISE.get(key, _UNKNOWN)
    if known is _UNKNOWN:
        graph = op.definition(types, attributes)
        is_one = _is_pointwise(graph) and _works_on_vectors(op, types, attributes)
        known = tuple([type.dtype for type in graph.output_types]) if is_one else None
        _POINTWISE[key] = known
    return known


def _works_on_vectors(op: Composite, types: Types, attributes: dict[str, Any]) -> bool:
    """Whether it is pointwise on axes that were merged too: attributes may name one that is
    nothing here (softmax along an axis of no elements)."""
    vectors = tuple([type.with_shape((5,)) for type in types])
    try:
        return _is_pointwise(op.definition(vectors, attributes))
    except GraphError:
        return False


def _key(op: Op, types: Types, attributes: dict[str, Any]) -> Any:
    """All but sizes; 0 and 1 are told apart from others, as definitions may."""
    shape = types[0].shape
    small = tuple([extent if extent < 2 else None for extent in shape])
    return (op, small, *[type.dtype for type in types], *map(exact, attributes.items()))


def _is_pointwise(graph: Graph) -> bool:
    """Whether all nodes are elementwise, but for single numbers that are spread."""
    ops = {node.op for node in graph.nodes} - {INPUT, CONSTANT, broadcast.name}
    numbers = [t for n in graph.nodes if n.op == CONSTANT for t in n.types]
    spread = [graph.nodes[n.operands[0].node] for n in graph.nodes if n.op == broadcast.name]
    return (
        all([isinstance(lookup(op), Elementwise) for op in ops])
        and all([not type.shape for type in numbers])
        and all([node.op == CONSTANT for node in spread])
    )


def pointwise(op: Op, types: Types, attributes: dict[str, Any], layouts: Layouts) -> Executable:
    """What runs a pointwise op. Raises GraphError for what cannot be compiled."""
    shape = types[0].shape
    forms, extents = _merged(shape, layouts)
    dtypes = [type.dtype for type in types]
    key = (op, forms, len(extents), *dtypes, *map(exact, attributes.items()))
    variant = _VARIANTS.get(key)
    if variant is None:
        variant = _VARIANTS[key] = Variant(_graph(op, types, attributes, forms, len(extents)))
    arguments = [t if x is None else x.dense(t) for t, x in zip(types, layouts)]
    sizes = {f"n{number}": extent for number, extent in enumerate(extents)}

    def results(types: Types) -> Types:
        return tuple([type.with_shape(shape) for type in types])

    return variant.at(sizes, (tuple(arguments), results))


def _merged(shape: Shape, layouts: Layouts) -> tuple[tuple[Form, ...], list[int]]:
    """The form of each operand, and the extents of the merged axes."""
    axes = [axis for axis, extent in enumerate(shape) if extent != 1]
    groups = [axes[:1]]
    orders = [axes if x is None else [axis for axis in x.order if axis in axes] for x in layouts]
    for axis in axes[1:]:
        if all([_follows(order, groups[-1][-1], axis) for order in orders]):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    firsts = {group[0]: number for number, group in enumerate(groups) if group}
    forms = [tuple([firsts[axis] for axis in order if axis in firsts]) for order in orders]
    if not axes:
        forms = [(0,)] * len(forms)
    return tuple(forms), [math.prod([shape[axis] for axis in group]) for group in groups]


def _follows(order: list[int], axis: int, following: int) -> bool:
    if axis not in order or following not in order:
        return axis not in order and following not in order
    return order.index(following) == order.index(axis) + 1


def _graph(
    op: Op, types: Types, attributes: dict[str, Any], forms: tuple[Form, ...], count: int
) -> Graph:
    least = 0 if count == 1 else 2  # several axes are left only of those of 2 and more
    sizes: Any = tuple([dim(f"n{number}", least) for number in range(count)])
    whole = tuple(range(count))
    builder = GraphBuilder(op.name)
    with builder.at(None):
        operands = []
        for position, (form, type) in enumerate(zip(forms, types)):
            spread = tuple([number for number in whole if number not in form])
            layout, full = Layout(form, spread), type.with_shape(sizes)
            dense = builder.input(f"x{position}", layout.dense(full))
            operands.append(dense if form == whole else layout.shown(dense, sizes))
        return builder.finish(*applied(builder, op, tuple(operands), attributes))
