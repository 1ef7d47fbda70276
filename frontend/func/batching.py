"""`vmap`: a function of examples becomes one of batches.

in : a function of tensors, and along which dimension each argument is a batch
out: a function that runs it for all examples, and stacks what it gives

The function runs once, on tensors that stand for whole batches: each op becomes one on those
(`engine.tensors.batch_mode`), eagerly and as it is traced. Where examples cannot go together
(branches by value, random numbers, changes of tensors from outside, LSTMs, complex numbers) it runs
again for each example, so every function can be mapped, with the results PyTorch has; what it does
beside its result before that is known, it has then done once more. The logger `frontend.vmap` says
why at level INFO.

A function that asks for gradients of what was computed outside sweeps one tape once for all
examples, or once for each, and frees it, where it is to be freed, for the last.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from frontend.engine.tensors import tree
from frontend.engine.tensors.batch_mode import BatchingError, BatchMode
from frontend.engine.tensors.generator import default_generator
from frontend.engine.tensors.state import keeping_graphs, no_grad
from frontend.engine.tensors.symbolic_numbers import extents_in
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.layout import movedim
from frontend.functions.select import select
from frontend.functions.shape import cat, stack

_LOGGER = logging.getLogger("frontend.vmap")
_RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """`func` for every example. `in_dims` says, for each positional argument (or nested as they
    are), along which dimension it is a batch; None: it is the same for all. `out_dims` says where
    the batch stands in each result. Keyword arguments are the same for all.

    `randomness`: what draws of random numbers do: "error", "different" for each example, or "same".
    `chunk_size`: the most examples that are computed at once, None for all.

    Raises ValueError where the dimensions do not fit the arguments or batches differ in size,
    RuntimeError for a draw under "error".
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = getattr(func, "__name__", type(func).__name__)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise ValueError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
                "are trying to vmap over a function with no inputs. The latter is unsupported."
            )
        dims = in_dims if isinstance(in_dims, int) or in_dims is None else tuple(in_dims)
        size = _size(list(_batches(args, dims, name)))
        sizes = [size]
        if chunk_size is not None and int(size) > chunk_size:
            sizes = [min(chunk_size, size - start) for start in range(0, int(size), chunk_size)]
        try:
            return _together(lambda *each: func(*each, **kwargs), args, dims, out_dims, name, sizes)
        except BatchingError as reason:
            _LOGGER.info("vmap(%s) runs example by example: %s", name, reason)
            indices = _drawing(int(size), randomness)
            results = [func(*_example(args, dims, index), **kwargs) for index in indices]
            return _stacked(results, out_dims, name)

    return wrapped


# -- arguments -----------------------------------------------------------------------------------


def _children(value: Any) -> list[Any] | None:
    """The items of a tuple, list or dict; None for anything else."""
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, tuple | list) else None


def _spread(dims: Any, value: Any, what: str) -> list[Any]:
    """`dims` for each item of a container."""
    items = _children(value) or []
    if dims is None or isinstance(dims, int):
        return [dims] * len(items)
    inner = _children(dims)
    keys_differ = isinstance(dims, dict) and dims.keys() != value.keys()
    if inner is None or len(inner) != len(items) or keys_differ:
        raise ValueError(
            f"{what} is not compatible with the structure of what it stands for: {dims} for "
            f"{type(value).__name__} of {len(items)}"
        )
    return [dims[key] for key in value] if isinstance(dims, dict) else inner


def _batches(value: Any, dims: Any, name: str) -> Iterator[tuple[Tensor, int]]:
    """Each tensor that is a batch, and along which dimension."""
    if _children(value) is not None:
        for item, inner in zip(_children(value) or [], _spread(dims, value, "in_dims")):
            yield from _batches(item, inner, name)
        return
    if dims is None:
        return
    if not isinstance(dims, int):
        raise ValueError(
            f"vmap({name}, in_dims={dims}, ...)(<inputs>): Got in_dim={dims} for an input but "
            "in_dim must be either an integer dimension or None."
        )
    if not isinstance(value, Tensor):
        raise ValueError(
            f"vmap({name}, in_dims={dims}, ...)(<inputs>): Got in_dim={dims} for an input but the "
            f"input is of type {type(value)}. We cannot vmap over non-Tensor arguments, please use "
            "None as the respective in_dim"
        )
    if not -value.dim() <= dims < value.dim():
        raise ValueError(
            f"vmap({name}, in_dims={dims}, ...)(<inputs>): Got in_dim={dims} for some input, but "
            f"that input is a Tensor of dimensionality {value.dim()} so expected in_dim to satisfy "
            f"-{value.dim()} <= in_dim < {value.dim()}."
        )
    yield value, dims


def _size(batches: list[tuple[Tensor, int]]) -> Any:
    """How many examples there are, which may be left open."""
    sizes = [tensor.size(dim) for tensor, dim in batches]
    if not sizes:
        raise ValueError("vmap: at least one input has to be mapped, but in_dims is None for all")
    if any(size != sizes[0] for size in sizes[1:]):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]


def _each(value: Any, dims: Any, of: Callable[[Tensor, int], Any]) -> Any:
    """The arguments with `of(tensor, dim)` in place of each batch."""
    items = _children(value)
    if items is None:
        return value if dims is None else of(value, dims)
    parts = [_each(x, d, of) for x, d in zip(items, _spread(dims, value, "in_dims"))]
    if isinstance(value, dict):
        return type(value)(zip(value, parts))
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def _example(args: Any, dims: Any, index: int) -> Any:
    """The arguments for one example."""
    return _each(args, dims, lambda x, dim: select(x, dim, index))


# -- all examples at once ------------------------------------------------------------------------


def _together(
    func: Callable[..., Any], args: Any, dims: Any, out_dims: Any, name: str, sizes: Sequence[Any]
) -> Any:
    """The results for all examples by ops on whole batches of these sizes. Raises BatchingError
    where they have to go one by one."""
    parts: list[list[Tensor]] = []
    start = 0
    for size in sizes:
        mode = BatchMode(extents_in(size))

        def batch(x: Tensor, dim: int, mode: BatchMode = mode, start: int = start) -> Tensor:
            whole = movedim(x, dim, 0)
            return mode.batch(whole if len(sizes) == 1 else whole[start : start + mode.size])

        result = mode.run(func, _each(args, dims, batch))
        leaves: list[Tensor] = []
        structure = _tensors_of(result, leaves, name)
        places = _checked_dims(result, leaves, out_dims, name)
        parts.append([mode.whole(leaf) for leaf in leaves])
        start += size
    joined = []
    for column, dim in zip(zip(*parts), places):
        batches = column[0] if len(column) == 1 else cat(list(column))
        joined.append(select(batches, 0, 0) if dim is None else movedim(batches, 0, dim))
    return tree.build(structure, iter(joined))


# -- random numbers ------------------------------------------------------------------------------


def _drawing(size: int, randomness: str) -> Iterator[int]:
    """The number of each example; between them, what `randomness` says. Raises RuntimeError where
    random numbers were drawn under "error"."""
    states = default_generator.tensors
    start = [state.clone() for state in states] if randomness == "same" else None
    for index in range(size):
        if start is not None and index:
            with no_grad():
                for state, first in zip(states, start):
                    state._assign(first)
        before = [(state._value, state._counter[0]) for state in states]
        with keeping_graphs(index < size - 1):
            yield index
        now = [(state._value, state._counter[0]) for state in states]
        drawn = any(a is not x or b != y for (a, b), (x, y) in zip(now, before))
        if drawn and randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use "
                "the 'same' or 'different' randomness flags on vmap or perform the randomness "
                "operation out of vmap"
            )


# -- results -------------------------------------------------------------------------------------


def _stacked(results: list[Any], out_dims: Any, name: str) -> Any:
    """The results of all examples as one, nested as each is."""
    if not results:
        raise RuntimeError(f"vmap({name}): a batch of no examples has no results to stack")
    leaves: list[list[Tensor]] = []
    for result in results:
        leaves.append([])
        structure = _tensors_of(result, leaves[-1], name)
    dims = _checked_dims(results[-1], leaves[-1], out_dims, name)
    joined = [
        column[0] if dim is None else movedim(stack(list(column)), 0, dim)
        for column, dim in zip(zip(*leaves), dims)
    ]
    return tree.build(structure, iter(joined))


def _tensors_of(result: Any, leaves: list[Tensor], name: str) -> Any:
    """The structure of a result, whose tensors go to `leaves`."""
    structure = tree.flatten(result, leaves)
    for item in tree.statics(structure):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(item)}. Did you "
            "mean to set out_dims= to None for output?"
        )
    return structure


def _checked_dims(result: Any, leaves: list[Tensor], out_dims: Any, name: str) -> list[int | None]:
    """Where the batch stands in each tensor of a result."""
    dims = _dims_of(result, out_dims)
    if len(dims) != len(leaves):
        raise ValueError(f"vmap({name}, ..., out_dims={out_dims}): out_dims is not compatible")
    return dims


def _dims_of(value: Any, dims: Any) -> list[Any]:
    """The dimension for each tensor of a result."""
    items = _children(value)
    if items is None:
        if isinstance(dims, tuple) and len(dims) == 1:
            (dims,) = dims
        if not isinstance(dims, int) and dims is not None:
            raise ValueError(
                f"out_dims {dims} is not compatible with a result that is one Tensor: it must be "
                "an integer or None"
            )
        return [dims]
    pairs = zip(items, _spread(dims, value, "out_dims"))
    return [dim for item, inner in pairs for dim in _dims_of(item, inner)]
