"""What functions of tensors do to sparse ones: a table by name, which `__torch_function__` looks
up. A rule takes the function and its arguments. Functions that keep 0 act on the values; products
and sums of tensors have files of their own. What has no rule raises, with a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.eager.host_ops import eager_only
from frontend.engine.tensors.dtypes import int64, sparse_csc, sparse_csr
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import creation
from frontend.functions.pointwise import add
from frontend.functions.scatter import index_select
from frontend.functions.shape import cat, unsqueeze
from frontend.sparse import places, products, reductions
from frontend.sparse.printing import sparse_text
from frontend.sparse.tensor import (
    LAYOUT_NAMES,
    OWN,
    RULES,
    CompressedTensor,
    CooTensor,
    SparseTensor,
    not_here,
)

KEEPS_ZERO = (
    "abs absolute sqrt square sin sinh asin arcsin asinh arcsinh tan tanh atan arctan atanh "
    "arctanh relu sign sgn expm1 log1p ceil floor round trunc frac erf erfinv deg2rad rad2deg "
    "isnan isinf isposinf isneginf signbit nan_to_num threshold"
)
"""Functions of one tensor that give 0 for 0: of the values of a coalesced one."""
ON_VALUES = (
    "neg negative positive __neg__ __pos__ to double float half bfloat16 int long short char byte "
    "bool type_as cpu conj resolve_conj real imag"
)
"""Functions that act on the values, also where several stand at one place."""


def rule(names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note a rule for functions of these names."""

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names.split(), function))
        return function

    return noted


# -- one tensor ------------------------------------------------------------------------------------


@rule(KEEPS_ZERO)
def _on_coalesced(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input, SparseTensor):
        raise not_here(func.__name__, args)
    x = input.coalesce() if isinstance(input, CooTensor) else input
    return x._with(func(x._values_here, *args, **kwargs))


@rule(ON_VALUES)
def _on_values(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input, SparseTensor):  # type_as a sparse tensor
        return input.to(args[0].dtype)
    plain = [x._values_here if isinstance(x, SparseTensor) else x for x in args]
    values = func(input._values_here, *plain, **kwargs)
    return input if values is input._values_here else input._with(values)


@rule("pow __pow__")
def _power(func: Any, input: Any, exponent: Any) -> Any:
    if not isinstance(input, SparseTensor) or not _is_number(exponent) or exponent <= 0:
        raise not_here("pow", (input, exponent))
    return _on_coalesced(func, input, exponent)


@rule("t transpose swapaxes swapdims")
def _transposed(func: Any, input: Any, dim0: int = 0, dim1: int = 1) -> Any:
    rank = input.dim()
    if rank < 2 or (func.__name__ == "t" and rank > 2):
        if rank > 2:
            raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
        return input
    first, second = (reductions.axis_of(dim, rank) for dim in (dim0, dim1))
    size = list(input._size_here)
    size[first], size[second] = size[second], size[first]
    if first == second:
        return input
    if isinstance(input, CompressedTensor):
        values = input._values_here
        return CompressedTensor.of_parts(input._where, values, size, not input._about)
    if max(first, second) >= input.sparse_dim():
        raise RuntimeError("a sparse and a dense dimension cannot be exchanged")
    order = list(range(input.sparse_dim()))
    order[first], order[second] = order[second], order[first]
    indices = places.stacked(*[input._indices_here[axis] for axis in order])
    return CooTensor.of_parts((indices,), input._values_here, size, False)


@rule("zeros_like empty_like")
def _zeros(func: Any, input: Any, *, dtype: Any = None, **_: Any) -> Any:
    kind = input.dtype if dtype is None else dtype
    if isinstance(input, CompressedTensor):
        extent = input._ends_here.shape[0]
        ends = creation.zeros(extent, dtype=input._ends_here.dtype)
        where = (ends, input._others_here[:0])
        return CompressedTensor.of_parts(
            where, creation.zeros(0, dtype=kind), input._size_here, input._about
        )
    rest = input._size_here[input.sparse_dim() :]
    values = creation.zeros(0, *rest, dtype=kind)
    return CooTensor.of_parts((input._indices_here[:, :0],), values, input._size_here, True)


@rule("index_select")
def _selected(func: Any, input: Any, dim: int, index: Tensor) -> Any:
    eager_only("index_select of a sparse tensor")
    x = places.as_coo(input)
    axis = reductions.axis_of(dim, x.dim())
    if axis >= x.sparse_dim():
        values = x._values_here.index_select(axis - x.sparse_dim() + 1, index)
        size = list(x._size_here)
        size[axis] = len(index)
        return CooTensor.of_parts(x._where, values, size, x._coalesced)
    wanted = index._array("index_select()")
    if len(wanted) and (wanted.min() < 0 or wanted.max() >= x._size_here[axis]):
        raise IndexError("index_select(): index out of range in self")
    held = x._indices_here._array("index_select()")
    order = np.argsort(held[axis], kind="stable")
    begin, end = (np.searchsorted(held[axis][order], wanted, side) for side in ("left", "right"))
    taken = [order[a:b] for a, b in zip(begin, end)]
    at = np.concatenate(taken) if taken else np.zeros(0, np.int64)
    indices = held[:, at].copy()
    indices[axis] = np.repeat(np.arange(len(wanted)), end - begin)
    size = list(x._size_here)
    size[axis] = len(wanted)
    values = x._values_here.index_select(0, creation.from_numpy(at))
    return CooTensor.of_parts((creation.from_numpy(indices),), values, size, False)


@rule("unsqueeze")
def _unsqueezed(func: Any, input: Any, dim: int) -> Any:
    x = places.as_coo(input)
    axis = reductions.axis_of(dim, x.dim() + 1)
    size = [*x._size_here[:axis], 1, *x._size_here[axis:]]
    if axis > x.sparse_dim():
        values = x._values_here.unsqueeze(axis - x.sparse_dim() + 1)
        return CooTensor.of_parts(x._where, values, size, x._coalesced)
    rows = [x._indices_here[each] for each in range(x.sparse_dim())]
    rows.insert(axis, creation.zeros_like(x._indices_here[0]))
    return CooTensor.of_parts((places.stacked(*rows),), x._values_here, size, x._coalesced)


@rule("permute")
def _permuted(func: Any, input: Any, *dims: Any) -> Any:
    order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    axes = [reductions.axis_of(dim, input.dim()) for dim in order]
    x = places.as_coo(input)
    split = x.sparse_dim()
    if sorted(axes[:split]) != list(range(split)) or sorted(axes) != list(range(x.dim())):
        raise RuntimeError(f"permute({axes}): sparse dimensions are exchanged among themselves")
    indices = places.stacked(*[x._indices_here[axis] for axis in axes[:split]])
    values = x._values_here.permute(0, *[axis - split + 1 for axis in axes[split:]])
    size = [x._size_here[axis] for axis in axes]
    return CooTensor.of_parts((indices,), values, size, False)


@rule("getitem __getitem__")
def _item(func: Any, input: Any, index: Any) -> Any:
    """Integers and slices of step 1, dimension by dimension."""
    x: Any = places.as_coo(input)
    axis = 0
    for each in index if isinstance(index, tuple) else (index,):
        if type(each) is int and isinstance(x, SparseTensor):
            x = _one(x, axis, each)
        elif isinstance(each, slice) and each.step in (None, 1):
            begin, end, _ = each.indices(x.shape[axis])
            if (begin, end) != (0, x.shape[axis]):
                x = index_select(x, axis, creation.from_numpy(np.arange(begin, max(begin, end))))
            axis += 1
        else:
            raise not_here(f"indexing by {type(each).__name__}", (input,))
    return x


def _one(x: Any, axis: int, index: int) -> Any:
    """The slice at an index, without its dimension."""
    extent = x._size_here[axis]
    if not -extent <= index < extent:
        raise IndexError(f"index {index} is out of bounds for dimension {axis} with size {extent}")
    chosen = index_select(x, axis, creation.from_numpy(np.array([index % extent])))
    return reductions.total(chosen, axis, x.dtype)


@rule("unbind")
def _unbound(func: Any, input: Any, dim: int = 0) -> Any:
    axis = reductions.axis_of(dim, input.dim())
    return tuple(_one(places.as_coo(input), axis, i) for i in range(input._size_here[axis]))


@rule("stack")
def _stacked(func: Any, tensors: Any, dim: int = 0) -> Any:
    return _joined(cat, [_unsqueezed(unsqueeze, x, dim) for x in tensors], dim)


@rule("any")
def _any(func: Any, input: Any) -> Tensor:
    values: Tensor = func(input._values_here)
    return values


@rule("ones_like")
def _ones(func: Any, input: Any, *, dtype: Any = None, **_: Any) -> Any:
    if isinstance(input, CooTensor):
        raise not_here("ones_like", (input,))
    return input._with(func(input._values_here, dtype=dtype))


@rule("type")
def _type(func: Any, input: Any, dtype: Any = None) -> Any:
    if dtype is not None:
        return input._with(input._values_here.type(dtype))
    return func(input._values_here).replace("torch.", "torch.sparse.")


@rule("new_zeros")
def _new_zeros(func: Any, input: Any, *size: Any, dtype: Any = None, **_: Any) -> Any:
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    where = (creation.zeros(len(shape), 0, dtype=int64),)
    values = creation.zeros(0, dtype=input.dtype if dtype is None else dtype)
    return CooTensor.of_parts(where, values, shape, True)


@rule("is_pinned is_shared is_inference is_conj is_neg")
def _no(func: Any, input: Any) -> bool:
    return False


@rule("coalesce is_coalesced indices crow_indices col_indices ccol_indices row_indices")
def _other_layout(func: Any, input: Any) -> Any:
    name = func.__name__
    kinds = {"crow": "row compressed", "col_": "row compressed", "ccol": "column compressed",
             "row_": "column compressed"}  # fmt: skip
    kind = kinds.get(name[:4], "coordinate")
    raise RuntimeError(
        f"{name} expected sparse {kind} tensor layout but got {LAYOUT_NAMES[input.layout]}"
    )


@rule("cat concat concatenate")
def _joined(func: Any, tensors: Any, dim: int = 0) -> Any:
    if not all(isinstance(x, CooTensor) for x in tensors):
        raise RuntimeError("torch.cat() of sparse tensors takes tensors of layout torch.sparse_coo")
    first = tensors[0]
    axis, split = reductions.axis_of(dim, first.dim()), first.sparse_dim()
    for x in tensors:
        same = x.sparse_dim() == split and x.dim() == first.dim()
        if not same or any(
            a != b for i, (a, b) in enumerate(zip(x._size_here, first._size_here)) if i != axis
        ):
            raise RuntimeError(
                f"torch.cat() of sparse tensors of sizes {list(first._size_here)} and "
                f"{list(x._size_here)} along dimension {axis}"
            )
    if axis >= split:
        raise not_here("cat along a dense dimension", tensors)
    indices, start = [], 0
    for x in tensors:
        rows = [x._indices_here[i] + start * (i == axis) for i in range(split)]
        indices.append(places.stacked(*rows))
        start = start + x._size_here[axis]
    size = [*first._size_here[:axis], start, *first._size_here[axis + 1 :]]
    where = func(indices, 1)
    return CooTensor.of_parts((where,), func([x._values_here for x in tensors], 0), size, False)


# -- two tensors -----------------------------------------------------------------------------------


def _is_number(x: Any) -> bool:
    """Whether something is a number, or a strided tensor of one element without dimensions."""
    return not isinstance(x, Tensor) or (not isinstance(x, SparseTensor) and x.dim() == 0)


@rule("mul multiply __rmul__")
def _product(func: Any, input: Any, other: Any) -> Any:
    x, y = (input, other) if isinstance(input, SparseTensor) else (other, input)
    if _is_number(y):
        return x._with(x._values_here * y)
    if not isinstance(y, SparseTensor):
        return _times_dense(x, y)
    _check_sizes("mul", x, y)
    if _same_places(x, y):
        return x._with(x._values_here * y._values_here)
    eager_only("a product of sparse tensors of different places")
    left, right = places.as_coo(x).coalesce(), places.as_coo(y).coalesce()
    keys, others = (places.flat(each)._array("mul()") for each in (left, right))
    _, mine, its = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
    at, other_at = creation.from_numpy(mine), creation.from_numpy(its)
    values = left._values_here.index_select(0, at) * right._values_here.index_select(0, other_at)
    result = CooTensor.of_parts((left._indices_here[:, at],), values, x._size_here, True)
    return _like(x, result)


def _times_dense(x: Any, dense: Tensor) -> Any:
    if dense.dim() > x.dim():
        raise not_here("mul with a dense tensor of more dimensions", (x,))
    dense = dense.expand(*x._size_here)
    return x._with(x._values_here * places.at_places(places.as_coo(x), dense))


def _same_places(x: Any, y: Any) -> bool:
    """Whether two tensors have the same coalesced places, as far as can be told without data."""
    return (
        type(x) is type(y)
        and x._about == y._about
        and (not isinstance(x, CooTensor) or x._coalesced)
        and all(a is b for a, b in zip(x._where, y._where))
    )


def _like(x: SparseTensor, result: CooTensor) -> SparseTensor:
    """A result in the layout of an operand."""
    return places.compressed(result, x._about) if isinstance(x, CompressedTensor) else result


def _check_sizes(name: str, x: Any, y: Any) -> None:
    if tuple(x._sizes) != tuple(y._sizes):
        raise RuntimeError(
            f"{name}: expected sizes of 'self' and 'other' to match, but {list(x._sizes)} != "
            f"{list(y._sizes)}"
        )


@rule("div divide true_divide")
def _quotient(func: Any, input: Any, other: Any, **options: Any) -> Any:
    if isinstance(other, SparseTensor) or not _is_number(other):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(other.shape)} for divisor)"
        )
    if options:
        input = input.coalesce() if isinstance(input, CooTensor) else input
    return input._with(func(input._values_here, other, **options))


@rule("add __radd__")
def _sum(func: Any, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if func.__name__ == "__radd__" and not isinstance(other, Tensor):
        input, other = other, input
    if not isinstance(other, SparseTensor):
        if isinstance(input, CompressedTensor) and isinstance(other, Tensor):
            return _dense_sum(other if alpha == 1 else other * alpha, input, 1)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not isinstance(input, SparseTensor):
        return _dense_sum(input, other, alpha)
    _check_sizes("add", input, other)
    scaled = other._values_here if type(alpha) is int and alpha == 1 else other._values_here * alpha
    if type(input) is type(other) and input._about == other._about:
        if all(a is b for a, b in zip(input._where, other._where)):
            return input._with(input._values_here + scaled)
    left, right = places.as_coo(input), places.as_coo(other)
    if left.sparse_dim() != right.sparse_dim():
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same number of sparse dimensions, but "
            f"{left.sparse_dim()} != {right.sparse_dim()}"
        )
    both = _pieces(left._indices_here, right._indices_here, 1)
    values = _pieces(left._values_here, scaled, 0)
    result = CooTensor.of_parts((both,), values, input._size_here, False)
    if isinstance(input, CompressedTensor):
        return places.compressed(result, input._about)
    return places.coalesced(result) if left._coalesced and right._coalesced else result


def _pieces(left: Tensor, right: Tensor, dim: int) -> Tensor:
    result: Tensor = cat([left, right], dim)
    return result


def _dense_sum(dense: Any, x: SparseTensor, alpha: Any) -> Tensor:
    if not isinstance(dense, Tensor) or tuple(dense._sizes) != tuple(x._sizes):
        size = list(dense.shape) if isinstance(dense, Tensor) else []
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {size} while "
            f"other has size {list(x._sizes)} (FYI: dense-sparse addition does not currently "
            "support broadcasting)"
        )
    coo = places.as_coo(x)
    count, rest = places.flat_sizes(coo)
    whole = dense.reshape(count, *rest).index_add(
        0, places.flat(coo), coo._values_here.to(dense.dtype), alpha=alpha
    )
    return whole.reshape(*x._size_here)


@rule("sub subtract")
def _difference(func: Any, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _sum(add, input, other, alpha=-alpha)


@rule(
    "add_ sub_ mul_ div_ multiply_ divide_ subtract_ neg_ __iadd__ __isub__ __imul__ __itruediv__"
)
def _in_place(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """A strided tensor takes the result; a sparse one where its places stay, or where nothing holds
    on to them: a COO tensor off the tape, in eager mode."""
    name = func.__name__.strip("_")
    plain = IN_PLACE.get(name, name)
    result = RULES[plain](func, input, *args, **kwargs)
    if not isinstance(input, SparseTensor):
        if isinstance(result, SparseTensor):
            result = result.to_dense()
        return input.copy_(result)
    if not isinstance(result, type(input)) or any(
        a is not b for a, b in zip(input._where, result._where)
    ):
        if _is_free(input) and isinstance(result, CooTensor) and not result.requires_grad:
            return input.become(result)
        raise NotImplementedError(
            f"{func.__name__}() would change where a sparse tensor has elements: assign the result "
            f"of {plain}()"
        )
    input._values_here.copy_(result._values_here)
    return input


IN_PLACE = {"iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "div"}


@rule("detach_")
def _off_the_tape(func: Any, input: Any) -> Any:
    func(input._values_here)
    return input


@rule("zero_")
def _zero(func: Any, input: Any) -> Any:
    if _is_free(input):
        return input.become(_zeros(func, input))
    func(input._values_here)
    return input


def _is_free(x: Any) -> bool:
    """Whether a tensor may come to have elements at other places."""
    return STATE.mode is None and isinstance(x, CooTensor) and not x.requires_grad


# -- conversions -----------------------------------------------------------------------------------


@rule("to_sparse to_sparse_coo")
def _to_coo(func: Any, input: Any, sparse_dim: Any = None, *, layout: Any = None) -> Any:
    if layout in (sparse_csr, sparse_csc):
        return places.compressed(input, layout is sparse_csc)
    return places.as_coo(input)


@rule("to_sparse_csr")
def _to_csr(func: Any, input: Any, dense_dim: Any = None) -> Any:
    return places.compressed(input, False)


@rule("to_sparse_csc")
def _to_csc(func: Any, input: Any, dense_dim: Any = None) -> Any:
    return places.compressed(input, True)


@rule("sparse_mask")
def _masked(func: Any, input: Any, mask: Any) -> Any:
    """Elements of `input` where `mask` has some."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask: expected a sparse mask")
    _check_sizes("sparse_mask", input, mask)
    dense = input.to_dense() if isinstance(input, SparseTensor) else input
    return mask._with(places.at_places(places.as_coo(mask), dense))


@rule("numpy tolist __array__")
def _no_array(func: Any, input: Any, *_: Any, **__: Any) -> Any:
    name = LAYOUT_NAMES[input.layout]
    raise TypeError(f"can't convert {name} layout tensor to numpy. Use Tensor.to_dense() first.")


# -- products and reductions -----------------------------------------------------------------------

RULES["mm"] = RULES["spmm"] = RULES["dsmm"] = lambda f, a, b, **o: products.mm(a, b, **o)
RULES["matmul"] = RULES["__rmatmul__"] = products.by_matmul
RULES["mv"] = lambda f, a, b: products.mv(a, b)
RULES["addmm"] = lambda f, *a, **o: products.addmm(*a, **o)
RULES["linear"] = products.linear
RULES["sum"] = reductions.by_sum
RULES["norm"] = reductions.norm


# -- what methods of sparse tensors need -----------------------------------------------------------


def unpickled(cls: Any, parts: tuple[Tensor, ...], size: Any, about: Any) -> Any:
    """A sparse tensor of its parts again."""
    return cls.of_parts(parts[:-1], parts[-1], size, about)


OWN.update({
    "dense": places.dense_of, "coalesced": places.coalesced, "row_of_each": places.row_of_each,
    "text": sparse_text, "unpickled": unpickled,
})  # fmt: skip
