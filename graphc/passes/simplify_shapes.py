"""Simplification of movements: reshape, transpose, broadcast, slice, pad, concat.

in : a graph
out: the graph with fewer movements, with transposes at the operands of products, where packing
     takes them for free, rather than at their results, and with one product where several have
     the same right operand

Each rule is an identity of index maps, so every bit stays.
"""

from __future__ import annotations

from graphc.ir.dims import Extent
from graphc.ir.nodes import Graph, Node, Value
from graphc.ir.types import Shape
from graphc.ops.movement import same_elements
from graphc.passes.rewrite import Rewriter, rewrite, rule


def simplify_shapes(graph: Graph) -> Graph:
    """Merge and drop movements until no rule applies.

    %1 = transpose(%x) permutation=[1, 0]  =>   %1 = reshape(%x) shape=[6] : f32[6]
    %2 = transpose(%1) permutation=[1, 0]
    %3 = reshape(%2) shape=[3, 2]
    %4 = reshape(%3) shape=[6] : f32[6]
    """
    return rewrite(graph, RULES)


# -- all of them ---------------------------------------------------------------------------------


@rule("reshape", "transpose", "broadcast", "slice", "windows")
def _unchanged(draft: Rewriter, node: Node) -> Value | None:
    """A movement that moves nothing => its operand."""
    x = node.operands[0]
    if draft.type(x) != node.types[0]:
        return None
    if node.op == "transpose" and not _keeps_order(node.attribute("permutation"), draft.shape(x)):
        return None
    if node.op == "slice" and not _is_whole(node, draft.shape(x)):
        return None
    if node.op == "windows" and any(node.attribute("padding")):
        return None
    return x


@rule("reshape", "transpose", "slice", "pad", "concat")
def _of_uniform(draft: Rewriter, node: Node) -> Value | None:
    """A movement of one number => that number, broadcast."""
    numbers = [draft.scalar(operand) for operand in node.operands]
    first = numbers[0]
    if first is None or any(number is None for number in numbers):
        return None
    # repr tells -0.0 from 0.0; NaNs may differ in their bits.
    if first != first or any(repr(number) != repr(first) for number in numbers):
        return None
    return draft.uniform(first, node.types[0])


def _is_whole(node: Node, shape: Shape) -> bool:
    axes = zip(node.attribute("step"), shape, strict=True)
    return node.attribute("size") == shape and all(step == 1 or dim <= 1 for step, dim in axes)


def _keeps_order(permutation: Shape, shape: Shape) -> bool:
    """True where a transpose moves only axes of size 1."""
    moved = [axis for axis in permutation if shape[axis] != 1]
    return moved == sorted(moved)


# -- reshape, transpose, broadcast ---------------------------------------------------------------


@rule("reshape")
def _reshape_of_reshape(draft: Rewriter, node: Node) -> Node | None:
    inner = draft.made_by(node.operands[0], "reshape")
    if inner is None:
        return None
    return draft.make("reshape", inner.operands[0], shape=node.types[0].shape)


@rule("reshape")
def _reshape_of_broadcast(draft: Rewriter, node: Node) -> Node | None:
    """reshape(broadcast(x)) that joins or cuts no axes of which one is repeated and another is not
    => broadcast(reshape(x))."""
    inner = draft.made_by(node.operands[0], "broadcast")
    if inner is None:
        return None
    spread, shape = inner.types[0].shape, node.types[0].shape
    source, moved = _aligned(draft, inner), [1] * len(shape)
    for written, read in same_elements(shape, spread):
        repeated = {source[axis] != spread[axis] for axis in read}
        if len(repeated) != 1:
            return None
        if repeated == {False}:
            for axis in written:
                moved[axis] = shape[axis]
    reshaped = draft.emit("reshape", inner.operands[0], shape=tuple(moved))
    return draft.make("broadcast", reshaped, shape=shape)


@rule("transpose")
def _transpose_of_broadcast(draft: Rewriter, node: Node) -> Node | None:
    """transpose(broadcast(x)) => broadcast(transpose(x)), which moves fewer elements."""
    inner = draft.made_by(node.operands[0], "broadcast")
    if inner is None:
        return None
    whole = draft.emit("reshape", inner.operands[0], shape=_aligned(draft, inner))
    turned = draft.emit("transpose", whole, permutation=node.attribute("permutation"))
    return draft.make("broadcast", turned, shape=node.types[0].shape)


def _aligned(draft: Rewriter, broadcast: Node) -> Shape:
    """The shape of what is broadcast, with as many axes as the result."""
    source = draft.shape(broadcast.operands[0])
    return (1,) * (broadcast.types[0].rank - len(source)) + source


@rule("transpose")
def _transpose_of_transpose(draft: Rewriter, node: Node) -> Node | None:
    inner = draft.made_by(node.operands[0], "transpose")
    if inner is None:
        return None
    first, second = inner.attribute("permutation"), node.attribute("permutation")
    both = tuple(first[axis] for axis in second)
    return draft.make("transpose", inner.operands[0], permutation=both)


@rule("transpose")
def _transpose_of_unit_axes(draft: Rewriter, node: Node) -> Node | None:
    """A transpose that moves only axes of size 1 => reshape."""
    if not _keeps_order(node.attribute("permutation"), draft.shape(node.operands[0])):
        return None
    return draft.make("reshape", node.operands[0], shape=node.types[0].shape)


@rule("broadcast")
def _broadcast_of_broadcast(draft: Rewriter, node: Node) -> Node | None:
    inner = draft.made_by(node.operands[0], "broadcast")
    if inner is None:
        return None
    return draft.make("broadcast", inner.operands[0], shape=node.types[0].shape)


@rule("broadcast")
def _broadcast_of_leading_axes(draft: Rewriter, node: Node) -> Node | None:
    """broadcast(reshape(x)) where the reshape only adds leading axes of size 1 => broadcast(x)."""
    inner = draft.made_by(node.operands[0], "reshape")
    if inner is None:
        return None
    source = draft.shape(inner.operands[0])
    lead = inner.types[0].rank - len(source)
    if lead < 0 or inner.types[0].shape != (1,) * lead + source:
        return None
    return draft.make("broadcast", inner.operands[0], shape=node.types[0].shape)


# -- slice ---------------------------------------------------------------------------------------
# A slice reads start, start + step, … along each axis. Those of no elements are left alone.


@rule("slice")
def _slice_of_slice(draft: Rewriter, node: Node) -> Node | None:
    inner = draft.made_by(node.operands[0], "slice")
    if inner is None:
        return None
    size = node.types[0].shape
    strides = inner.attribute("step")
    first = zip(inner.attribute("start"), node.attribute("start"), strides, strict=True)
    start = tuple(outer + index * stride for outer, index, stride in first)
    steps = zip(node.attribute("step"), strides, size, strict=True)
    # Along an axis read once, the step means nothing.
    step = tuple(1 if count <= 1 else step * stride for step, stride, count in steps)
    return draft.make("slice", inner.operands[0], start=start, size=size, step=step)


def _ends(node: Node) -> list[tuple[int, int]]:
    """The first and last position a slice reads along each axis, in order of size."""
    names = ("start", "size", "step")
    return [
        (min(start, start + (size - 1) * step), max(start, start + (size - 1) * step))
        for start, size, step in zip(*(node.attribute(name) for name in names), strict=True)
    ]


@rule("slice")
def _slice_of_pad(draft: Rewriter, node: Node) -> Node | Value | None:
    """slice(pad(x, fill)) => slice(x) if it reads x alone, the fill if it reads that alone."""
    inner = draft.made_by(node.operands[0], "pad")
    if inner is None or node.types[0].numel == 0:
        return None
    x, fill = inner.operands
    start, step = [], []
    geometry = zip(_ends(node), *(inner.attribute(n) for n in ("low", "interior")), strict=True)
    for axis, ((first, last), low, gap) in enumerate(geometry):
        dim = draft.shape(x)[axis]
        end = low + dim + max(dim - 1, 0) * gap
        if last < low or first >= end:
            return draft.make("broadcast", fill, shape=node.types[0].shape)
        offset, stride = node.attribute("start")[axis] - low, node.attribute("step")[axis]
        if node.attribute("size")[axis] == 1:
            stride = gap + 1
        if first < low or last >= end or offset % (gap + 1) or stride % (gap + 1):
            return None
        start.append(offset // (gap + 1))
        step.append(stride // (gap + 1))
    return draft.make("slice", x, start=tuple(start), size=node.types[0].shape, step=tuple(step))


@rule("slice")
def _slice_of_concat(draft: Rewriter, node: Node) -> Node | None:
    """A slice that reads one operand of a concat => a slice of that operand."""
    inner = draft.made_by(node.operands[0], "concat")
    if inner is None or node.types[0].numel == 0:
        return None
    axis = inner.attribute("axis")
    first, last = _ends(node)[axis]
    begin = 0
    for operand in inner.operands:
        end = begin + draft.shape(operand)[axis]
        if begin <= first and last < end:
            start = list(node.attribute("start"))
            start[axis] -= begin
            kept = {name: node.attribute(name) for name in ("size", "step")}
            return draft.make("slice", operand, start=tuple(start), **kept)
        begin = end
    return None


# -- pad, concat ---------------------------------------------------------------------------------


@rule("pad")
def _pad_of_nothing(draft: Rewriter, node: Node) -> Value | None:
    return node.operands[0] if draft.type(node.operands[0]) == node.types[0] else None


@rule("pad")
def _pad_of_pad(draft: Rewriter, node: Node) -> Node | None:
    """pad(pad(x, fill), fill) without gaps => one pad."""
    inner = draft.made_by(node.operands[0], "pad")
    if inner is None or inner.operands[1] != node.operands[1] or any(node.attribute("interior")):
        return None
    low, high = (
        tuple(map(sum, zip(inner.attribute(name), node.attribute(name), strict=True)))
        for name in ("low", "high")
    )
    gaps = inner.attribute("interior")
    return draft.make("pad", *inner.operands, low=low, high=high, interior=gaps)


@rule("concat")
def _concat_of_one(draft: Rewriter, node: Node) -> Node | Value | None:
    """Operands without elements go; a concat of one is that one."""
    axis = node.attribute("axis")
    kept = [operand for operand in node.operands if draft.shape(operand)[axis] != 0]
    kept = kept or [node.operands[0]]
    if len(kept) == 1:
        return kept[0]
    return None if len(kept) == len(node.operands) else draft.make("concat", *kept, axis=axis)


@rule("concat")
def _concat_of_parts(draft: Rewriter, node: Node) -> Node | None:
    """concat(slice(x, 0:a), slice(x, a:b)) => slice(x, 0:b)."""
    axis = node.attribute("axis")
    parts = [part for x in node.operands if (part := draft.made_by(x, "slice")) is not None]
    if len(parts) != len(node.operands):
        return None
    first = parts[0]
    start, step = first.attribute("start"), first.attribute("step")
    position = start[axis]
    for part in parts:
        expected = (*start[:axis], position, *start[axis + 1 :])
        if part.operands != first.operands or part.attribute("start") != expected:
            return None
        if part.attribute("step") != step or step[axis] != 1:
            return None
        position += part.types[0].shape[axis]
    size = node.types[0].shape
    return draft.make("slice", first.operands[0], start=start, size=size, step=step)


@rule("concat")
def _concat_of_reshaped_parts(draft: Rewriter, node: Node) -> Node | None:
    """concat(reshape(slice(x, 0:a)), reshape(slice(x, a:b))) along the first axis of both =>
    reshape(slice(x, 0:b)): what lies behind each other stays so."""
    parts = [part for x in node.operands if (part := draft.made_by(x, "reshape")) is not None]
    if len(parts) != len(node.operands) or node.attribute("axis") != 0:
        return None
    slices = [draft.made_by(part.operands[0], "slice") for part in parts]
    sources = {None if each is None else each.operands for each in slices}
    shapes = [draft.shape(part.operands[0]) for part in parts]
    if len(sources) != 1 or None in sources or len({shape[1:] for shape in shapes}) != 1:
        return None
    if any(not shape for shape in shapes):
        return None
    whole = draft.emit("concat", *[part.operands[0] for part in parts], axis=0)
    if draft.node(whole).op == "concat":
        return None
    return draft.make("reshape", whole, shape=node.types[0].shape)


# -- products ------------------------------------------------------------------------------------


def _swaps(node: Node) -> bool:
    """True for a transpose of the last two axes."""
    rank = node.types[0].rank
    return node.op == "transpose" and node.attribute("permutation") == _swap(rank)


def _swap(rank: int) -> Shape:
    return (*range(rank - 2), rank - 1, rank - 2)


@rule("transpose")
def _transpose_of_product(draft: Rewriter, node: Node) -> Node | None:
    """(a b)ᵀ => bᵀ aᵀ where a or b is a transpose itself, also behind casts: products commute, and
    the order in which they are added up stays. A product that is also read elsewhere is not made
    twice."""
    (value,), casts = node.operands, []
    while (cast := draft.made_by(value, "cast")) is not None and draft.used_once(value):
        casts.append(cast)
        (value,) = cast.operands
    product = _product(draft, value)
    if product is None or not _swaps(node) or not draft.used_once(value):
        return None
    if not any(_swaps(draft.node(operand)) for operand in product.operands):
        return None
    # Not down a chain of products, which would move a transpose and remove none.
    if any(_product(draft, x) and draft.used_once(x) for x in product.operands):
        return None
    a, b = (
        draft.emit("transpose", operand, permutation=_swap(node.types[0].rank))
        for operand in product.operands
    )
    turned = draft.make(product.op, b, a)
    for cast in reversed(casts):
        turned = draft.make("cast", draft.value(turned), dtype=cast.attribute("dtype"))
    return turned


@rule("matmul", "paired_matmul")
def _product_with_repeated(draft: Rewriter, node: Node) -> Node | None:
    """A product whose right operand repeats each matrix for several elements of the batch that lie
    side by side (keys and values that heads of a query share) => one product of all their rows with
    that matrix, which is then read once. Sums keep their order."""
    left, right = node.operands
    turned = draft.made_by(right, "transpose")
    if turned is not None:
        if not _swaps(turned):
            return None
        (right,) = turned.operands
    repeated = _repeated(draft, right)
    if repeated is None:
        return None
    matrices, count = repeated
    *batch, rows, depth = draft.shape(left)
    *groups, _, _ = draft.shape(matrices)
    if len(groups) != len(batch):
        return None
    if turned is not None:
        matrices = draft.emit("transpose", matrices, permutation=_swap(len(batch) + 2))
    together = draft.emit("reshape", left, shape=(*groups, count * rows, depth))
    product = draft.emit(node.op, together, matrices)
    return draft.make("reshape", product, shape=node.types[0].shape)


def _repeated(draft: Rewriter, value: Value) -> tuple[Value, Extent] | None:
    """Of matrices [.., b * count, r, c], of which `count` neighbours along the last axis of the
    batch are the same, those [.., b, r, c] that differ, and count."""
    merged = draft.made_by(value, "reshape")
    spread = draft.made_by(value if merged is None else merged.operands[0], "broadcast")
    if spread is None or spread.types[0].rank < 3 + (merged is not None):
        return None
    (source,) = spread.operands
    *batch, count, rows, columns = spread.types[0].shape
    if _aligned(draft, spread) != (*batch, 1, rows, columns):
        return None
    if merged is not None:
        *batch, groups = batch
        if merged.types[0].shape != (*batch, groups * count, rows, columns):
            return None
    else:
        groups = 1
    return draft.emit("reshape", source, shape=(*batch, groups, rows, columns)), count


def _product(draft: Rewriter, value: Value) -> Node | None:
    """The product that a value is, if it is one of floats."""
    return draft.made_by(value, "matmul") or draft.made_by(value, "paired_matmul")


RULES = (
    _unchanged + _of_uniform
    + _reshape_of_reshape + _reshape_of_broadcast + _transpose_of_broadcast
    + _transpose_of_transpose + _transpose_of_unit_axes + _transpose_of_product
    + _product_with_repeated
    + _broadcast_of_broadcast + _broadcast_of_leading_axes
    + _slice_of_slice + _slice_of_pad + _slice_of_concat
    + _pad_of_nothing + _pad_of_pad + _concat_of_one + _concat_of_parts
    + _concat_of_reshaped_parts
)  # fmt: skip
