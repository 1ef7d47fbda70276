"""Sums of products over named dimensions: `einsum`, `tensordot`, `kron`.

An expression is contracted two operands at a time, each pair as one matrix product (or one batch of
them); what stands for the same dimension has one label. np.einsum_path chooses the order of three
and more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.engine.eager.promotion import binary
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.views import own
from frontend.functions import reduce
from frontend.functions.arguments import need_tensors, stored
from frontend.functions.declarations import public
from frontend.functions.layout import permute, reshaped, sliced
from frontend.functions.matrix import product
from frontend.functions.reduce import dimension, reduced
from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ops import elementwise as e
from graphc.ops import reduce as r

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# The last dimension an ellipsis stands for is -1, the one before it -2, and so on.
Labels = list[int]
Term = tuple[Tensor, Labels]


@public()
def einsum(*arguments: Any) -> Tensor:
    """`einsum("ij,jk->ik", x, y)`, or with lists of numbers below 52 in place of letters,
    `einsum(x, [0, 1], y, [1, 2], [0, 2])`. A label that is not in the output is summed over, one
    that is repeated in a term takes the diagonal, `...` stands for the remaining dimensions, which
    broadcast. Without an output: the ellipsis, then the labels that occur once, in order. Operands
    of two dtypes promote where no products are summed, and are refused (DTypeError) where some
    are."""
    if not arguments:
        raise ValueError("einsum(): must provide at least one operand")
    parsed = _parsed_text if isinstance(arguments[0], str) else _parsed_lists
    operands, inputs, output = parsed(arguments)
    terms = [_labelled(x, items, i) for i, (x, items) in enumerate(zip(operands, inputs))]
    sizes = _sizes(terms)
    wanted = _output(inputs, output, sizes)
    terms = [_without_ones(term, sizes) for term in terms]
    return _reordered(_contracted(terms, sizes, set(wanted)), wanted)


# -- reading the expression ----------------------------------------------------------------------

# A term is read as labels, with Ellipsis for the ellipsis.


def _parsed_text(arguments: Sequence[Any]) -> tuple[list[Tensor], list[Any], Any]:
    text, *operands = arguments
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = list(operands[0])
    if not operands:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    _check_operands(operands)
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        more, less = ("more", "fewer")
        raise RuntimeError(
            f"einsum(): {more if len(operands) > len(terms) else less} operands were provided than "
            "specified in the equation"
        )
    inputs = [_read(term, f"operand {i}") for i, term in enumerate(terms)]
    return operands, inputs, _read(right, "output") if arrow else None


def _read(text: str, where: str) -> list[Any]:
    subscripts: list[Any] = []
    rest = text
    while rest:
        if rest.startswith("..."):
            if Ellipsis in subscripts:
                raise RuntimeError(
                    f"einsum(): found '.' for {where} but an ellipsis (...) was already found"
                )
            subscripts.append(Ellipsis)
            rest = rest[3:]
            continue
        letter, rest = rest[0], rest[1:]
        if letter == ".":
            raise RuntimeError(f"einsum(): found '.' for {where} that is not part of any ellipsis")
        if letter in LETTERS:
            subscripts.append(LETTERS.index(letter))
        elif letter != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript {letter!r} given in {text!r}, subscripts must be in "
                "[a-zA-Z]"
            )
    return subscripts


def _parsed_lists(arguments: Sequence[Any]) -> tuple[list[Tensor], list[Any], Any]:
    operands, inputs = list(arguments[::2]), [list(items) for items in arguments[1::2]]
    output = list(operands.pop()) if len(operands) > len(inputs) else None
    _check_operands(operands)
    for items in (*inputs, output or []):
        for item in items:
            if item is not Ellipsis and not (isinstance(item, int) and 0 <= item < len(LETTERS)):
                raise ValueError(
                    f"einsum(): subscript {item!r} is not within the valid range [0, 52)"
                )
    return operands, inputs, output


def _check_operands(operands: Sequence[Any]) -> None:
    for x in operands:
        if not isinstance(x, Tensor):
            raise TypeError(f"einsum(): operands must be Tensors, not {type(x).__name__}")


# -- labels --------------------------------------------------------------------------------------


def _labelled(x: Tensor, items: list[Any], position: int) -> Term:
    """The operand with a label for each dimension, diagonals taken."""
    rank, named = x.dim(), len(items) - items.count(Ellipsis)
    if (rank != named and Ellipsis not in items) or rank < named:
        tail = "" if Ellipsis in items else " and no ellipsis was given"
        raise ShapeError(
            f"einsum(): the number of subscripts in the equation ({named}) "
            f"{'is more than' if tail == '' else 'does not match'} the number of dimensions "
            f"({rank}) for operand {position}{tail}",
            location=user_location(),
        )
    labels: Labels = []
    for item in items:
        labels += range(named - rank, 0) if item is Ellipsis else [item]
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            x, labels = _diagonal(x, labels, label, position)
    return x, labels


def _diagonal(x: Tensor, labels: Labels, label: int, position: int) -> Term:
    """The elements at which the first two dimensions of this label have one coordinate."""
    first = labels.index(label)
    second = labels.index(label, first + 1)
    shape = x._sizes
    size = shape[first]
    if shape[second] != size:
        raise ShapeError(
            f"einsum(): subscript {_shown(label)} is repeated for operand {position} but the sizes "
            f"don't match, {shape[second]} != {size}",
            location=user_location(),
        )
    rest = [axis for axis in range(x.dim()) if axis not in (first, second)]
    moved = permute(x, [*rest, first, second])
    flat = reshaped(moved, (*(shape[axis] for axis in rest), size * size))
    return sliced(flat, len(rest), 0, size, size + 1), [*(labels[axis] for axis in rest), label]


def _shown(label: int) -> str:
    return LETTERS[label] if label >= 0 else "..."


def _sizes(terms: list[Term]) -> dict[int, int]:
    """The size of each label: that of its dimensions which are not 1."""
    sizes: dict[int, int] = {}
    for position, (x, labels) in enumerate(terms):
        for label, size in zip(labels, x._sizes):
            known = sizes.get(label, 1)
            if 1 not in (known, size) and known != size:
                raise ShapeError(
                    f"einsum(): subscript {_shown(label)} has size {size} for operand {position} "
                    f"which does not broadcast with previously seen size {known}",
                    location=user_location(),
                )
            sizes[label] = size if known == 1 else known
    return sizes


def _output(inputs: list[Any], output: Any, sizes: dict[int, int]) -> Labels:
    dots = sorted(label for label in sizes if label < 0)
    if output is None:
        count = [item for items in inputs for item in items if item is not Ellipsis]
        return dots + sorted(label for label in set(count) if count.count(label) == 1)
    labels: Labels = []
    for item in output:
        labels += dots if item is Ellipsis else [item]
    for label in labels:
        if label not in sizes:
            raise RuntimeError(
                f"einsum(): output subscript {_shown(label)} does not appear in the equation for "
                "any input operand"
            )
        if labels.count(label) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {_shown(label)} appears more than once in the output"
            )
    return labels


def _without_ones(term: Term, sizes: dict[int, int]) -> Term:
    """Without dimensions of size 1 that broadcast: other operands have the label in full."""
    x, labels = term
    kept = [i for i, n in enumerate(x._sizes) if n != 1 or sizes[labels[i]] == 1]
    shape = tuple(x._sizes[i] for i in kept)
    return (x if len(kept) == len(labels) else reshaped(x, shape)), [labels[i] for i in kept]


# -- contracting ---------------------------------------------------------------------------------


def _contracted(terms: list[Term], sizes: dict[int, int], wanted: set[int]) -> Term:
    """All terms as one, with the wanted labels."""
    for step in _path(terms, sizes, wanted):
        chosen = [terms[i] for i in step]
        terms = [term for i, term in enumerate(terms) if i not in step]
        joined = chosen.pop(0)
        while chosen:
            following = chosen.pop(0)
            later = wanted.union(*(labels for _, labels in [*terms, *chosen]))
            left, right = _summed(joined, later.union(following[1])), following
            joined = _pair(left, _summed(right, later.union(left[1])), later)
        terms.append(joined)
    return _summed(terms[0], wanted)


def _path(terms: list[Term], sizes: dict[int, int], wanted: set[int]) -> list[tuple[int, ...]]:
    """Which terms to contract, step by step; each step removes them and appends the result."""
    if len(terms) < 3 or len(sizes) > len(LETTERS):
        return [(0, 1)] * (len(terms) - 1)
    names = {label: LETTERS[i] for i, label in enumerate(sizes)}
    text = ",".join("".join(names[label] for label in labels) for _, labels in terms)
    result = "".join(names[label] for label in sizes if label in wanted)
    zero = np.zeros(())
    shown = [np.broadcast_to(zero, tuple(sizes[label] for label in labels)) for _, labels in terms]
    # All orders of a few terms are soon compared; of many they are not.
    kind = "optimal" if len(terms) <= 5 else "greedy"
    path = np.einsum_path(f"{text}->{result}", *shown, optimize=kind)[0]
    return [tuple(step) for step in path[1:]]


def _summed(term: Term, kept: set[int]) -> Term:
    """The term summed over the labels that nobody needs."""
    x, labels = term
    axes = tuple(i for i, label in enumerate(labels) if label not in kept)
    if not axes:
        return term
    return reduce.sum(x, axes), [label for label in labels if label in kept]


def _pair(left: Term, right: Term, kept: set[int]) -> Term:
    """The product of two terms, summed over the labels both have and nobody else needs."""
    (x, a), (y, b) = left, right
    batch = [label for label in a if label in b and label in kept]
    inner = [label for label in a if label in b and label not in kept]
    rows = [label for label in a if label not in b]
    columns = [label for label in b if label not in a]
    if not inner:
        return _aligned_product(left, right, [*batch, *rows, *columns])
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"expected scalar type {SCALAR_NAMES[x.dtype]} but found {SCALAR_NAMES[y.dtype]}",
            hint="convert one of them with .to(dtype)",
            location=user_location(),
        )
    if batch and not rows and not columns:
        # Many inner products: one reduction rather than a batch of tiny matrix products.
        products, _ = _aligned_product(left, right, [*batch, *inner])
        axes = tuple(range(len(batch), len(batch) + len(inner)))
        return reduced(r.sum, products, axes, False), batch
    sizes = dict(zip([*a, *b], [*x._sizes, *y._sizes]))
    count = lambda labels: math.prod(sizes[label] for label in labels)  # noqa: E731
    lead = (count(batch),) if batch else ()
    one = reshaped(_reordered(left, [*batch, *rows, *inner]), (*lead, count(rows), count(inner)))
    other = reshaped(
        _reordered(right, [*batch, *inner, *columns]), (*lead, count(inner), count(columns))
    )
    labels = [*batch, *rows, *columns]
    return own(reshaped(product(one, other), tuple(sizes[label] for label in labels))), labels


def _reordered(term: Term, labels: Labels) -> Tensor:
    """The term's tensor with its dimensions in the order of `labels`."""
    x, present = term
    order = [present.index(label) for label in labels]
    return x if order == sorted(order) else permute(x, order)


def _aligned_product(left: Term, right: Term, labels: Labels) -> Term:
    """The elementwise product; each operand has size 1 along the labels it lacks."""
    spread = []
    for x, present in (left, right):
        mine = [label for label in labels if label in present]
        sizes = dict(zip(present, x._sizes))
        shape = tuple(sizes.get(label, 1) for label in labels)
        spread.append(reshaped(_reordered((x, present), mine), shape))
    return binary(e.mul, *spread), labels


# -- relatives -----------------------------------------------------------------------------------


@public()
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Any = None) -> Tensor:
    """The sum of products over the last `dims` dimensions of `a` and the first of `b`, or over the
    two listed groups of dimensions: ([of a], [of b])."""
    need_tensors("tensordot", a=a, b=b)
    if isinstance(dims, Tensor):
        dims = dims._array("tensordot with a tensor of dims").tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims <= ndim_a or ndim_b, but got dims={dims}")
        pairs = [list(range(-dims, 0)), list(range(dims))]
    else:
        pairs = [[d] if isinstance(d, int) else [int(i) for i in d] for d in dims]
    if len(pairs) != 2 or len(pairs[0]) != len(pairs[1]):
        raise RuntimeError("both dimension lists should have same length")
    if a.dtype is not b.dtype:
        raise DTypeError("both inputs should have same dtype", location=user_location())
    left, right = ([dimension(d, x.dim()) for d in ds] for x, ds in zip((a, b), pairs))
    for i, j, first, second in zip(left, right, *pairs):
        if a.shape[i] != b.shape[j] and 1 in (a.shape[i], b.shape[j]):
            # A side of size 1 broadcasts: the other one is summed first.
            a, b = (reduce.sum(x, axis, keepdim=True, dtype=x.dtype) if x.shape[axis] != 1 else x
                    for x, axis in ((a, i), (b, j)))  # fmt: skip
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim "
                f"{first} and second has size {b.shape[j]} in dim {second}",
                location=user_location(),
            )
    rows = [i for i in range(a.dim()) if i not in left]
    columns = [j for j in range(b.dim()) if j not in right]
    inner = math.prod(a.shape[i] for i in left)
    shapes = tuple(a.shape[i] for i in rows), tuple(b.shape[j] for j in columns)
    one = reshaped(permute(a, [*rows, *left]), (math.prod(shapes[0]), inner))
    other = reshaped(permute(b, [*right, *columns]), (inner, math.prod(shapes[1])))
    return stored(own(reshaped(product(one, other), (*shapes[0], *shapes[1]))), out)


@public(method=True)
def kron(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The Kronecker product: each element of `input` times all of `other`, as blocks."""
    need_tensors("kron", input=input, other=other)
    rank = max(input.dim(), other.dim())
    shapes = [(1,) * (rank - x.dim()) + x._sizes for x in (input, other)]
    outer = reshaped(input, tuple(n for size in shapes[0] for n in (size, 1)))
    inner = reshaped(other, tuple(n for size in shapes[1] for n in (1, size)))
    result = own(reshaped(outer * inner, tuple(n * k for n, k in zip(*shapes))))
    return stored(result, out)
