"""Indexing, index assignment and the scatter family against PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend
from graphc.errors import TraceError

pytestmark = [
    pytest.mark.filterwarnings("ignore:indexing with dtype"),
    pytest.mark.filterwarnings("ignore:index_reduce"),
]

# -- x[index] -------------------------------------------------------------------------------------

T = lambda system, data: system.tensor(data)  # noqa: E731

INDICES: dict[str, Callable[[Any], Any]] = {
    "int": lambda s: 1,
    "negative int": lambda s: -1,
    "ints": lambda s: (0, -2, 3),
    "slice": lambda s: slice(1, None),
    "slices with steps": lambda s: (slice(None), slice(0, 3, 2), slice(3, 0)),
    "slice beyond": lambda s: slice(-9, 9),
    "none": lambda s: (None, 0, None),
    "ellipsis": lambda s: (..., 1),
    "ellipsis in the middle": lambda s: (0, ..., None, 2),
    "two ellipses": lambda s: (..., 0, ...),
    "nothing": lambda s: (),
    "list": lambda s: [1, 0, 1],
    "negative list": lambda s: [-1, 0],
    "empty list": lambda s: [],
    "empty list behind": lambda s: (slice(None), []),
    "tuple in tuple": lambda s: ((0, 1), (1, 2)),
    "nested lists": lambda s: ([[0, 1], [1, 0]],),
    "array": lambda s: np.array([1, 0]),
    "numpy int": lambda s: np.int64(1),
    "range": lambda s: range(2),
    "tensor": lambda s: T(s, [[1, 0], [0, 0]]),
    "int32 tensor": lambda s: T(s, np.array([1, 0], np.int32)),
    "two tensors": lambda s: (T(s, [0, 1]), T(s, [2, 0])),
    "tensors that broadcast": lambda s: (T(s, [[0], [1]]), T(s, [2, 0, 1])),
    "tensors apart": lambda s: ([0, 1], slice(None), [1, 2]),
    "int and tensor apart": lambda s: (0, slice(None), [1, 2]),
    "tensor behind slice": lambda s: (slice(None), [0, 2], [1, 3]),
    "tensors around none": lambda s: ([0, 1], None, [1, 2]),
    "slice of a tensor": lambda s: (slice(0, 1), [0, 2, 2], slice(1, 4, 2)),
    "true": lambda s: True,
    "false": lambda s: False,
    "true behind int": lambda s: (0, True),
    "list and true": lambda s: ([0, 1], True),
    "0-d tensor": lambda s: T(s, 1),
    "0-d tensor between": lambda s: (T(s, 0), slice(None), [1, 2]),
    "old list as tuple": lambda s: [[0, 1], [1, 2]],
    "old list of slices": lambda s: [slice(0, 1), [1]],
}

MASKS: dict[str, Callable[[Any], Any]] = {
    "mask": lambda s: T(s, [True, False]),
    "bool list": lambda s: [False, True],
    "mask of two dimensions": lambda s: T(s, [[True, False, True], [False, False, True]]),
    "mask behind": lambda s: (slice(None), T(s, [True, False, True])),
    "mask and list": lambda s: (T(s, [True, True]), [0, 2]),
    "mask and slice": lambda s: (T(s, [[True, False, True]] * 2), slice(1, 3)),
    "mask of all": lambda s: T(s, np.arange(24).reshape(2, 3, 4) % 3 == 0),
    "mask of nothing": lambda s: T(s, np.zeros((2, 3), bool)),
    "0-d mask": lambda s: T(s, True),
    "numpy mask": lambda s: np.array([True, False]),
    "byte mask": lambda s: s.tensor([1, 0], dtype=s.uint8),
    "mask with none": lambda s: (None, T(s, [True, False])),
}


def quiet(run: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run()


@pytest.mark.parametrize("index", INDICES)
def test_reading(peer: Any, index: str) -> None:
    peer.function(lambda s, x: x[INDICES[index](s)], peer.normal(2, 3, 4))


@pytest.mark.parametrize("index", MASKS)
def test_reading_by_masks(peer: Any, index: str) -> None:
    peer.function(lambda s, x: x[MASKS[index](s)], peer.normal(2, 3, 4), modes=["eager"])


def unique(index: str) -> bool:
    """Whether an index names no element twice (PyTorch leaves open which value stays)."""
    return index not in ("list", "tensor", "nested lists", "slice of a tensor")


@pytest.mark.parametrize("index", [name for name in INDICES if unique(name)])
def test_writing(peer: Any, index: str) -> None:
    def write(s: Any, x: Any, v: Any) -> Any:
        y = x * 1
        y[INDICES[index](s)] = v
        return y

    shape = quiet(lambda: _shape(index))
    peer.function(write, peer.normal(2, 3, 4), peer.normal(*shape))
    peer.function(write, peer.normal(2, 3, 4), peer.normal(*shape[1:]))
    peer.function(write, peer.normal(2, 3, 4), peer.normal())


def _shape(index: str) -> tuple[int, ...]:
    return tuple(frontend.zeros(2, 3, 4)[INDICES[index](frontend)].shape)


@pytest.mark.parametrize("index", MASKS)
@pytest.mark.parametrize("value", ["number", "0-d", "each", "row"])
def test_writing_by_masks(peer: Any, index: str, value: str) -> None:
    def write(s: Any, x: Any, *v: Any) -> Any:
        y = x * 1
        y[MASKS[index](s)] = v[0] if v else 2.5
        return y

    if index == "byte mask" and value in ("number", "0-d"):
        pytest.skip("PyTorch takes byte masks for tensors of values only")
    shape = quiet(lambda: tuple(frontend.zeros(2, 3, 4)[MASKS[index](frontend)].shape))
    values = {
        "number": (), "0-d": (peer.normal(),), "each": (peer.normal(*shape),),
        "row": (peer.normal(*shape[-1:]),),
    }[value]  # fmt: skip
    several = index == "mask and list" or "byte" in index
    modes = ["eager"] if several else ["eager", "compiled"]
    peer.function(write, peer.normal(2, 3, 4), *values, modes=modes)


@pytest.mark.parametrize("index", ["int", "slices with steps", "two tensors", "tensors apart"])
def test_adding_in_place(peer: Any, index: str) -> None:
    def add(s: Any, x: Any, v: Any) -> Any:
        y = x * 1
        y[INDICES[index](s)] += v
        y[0] *= 2
        return y

    peer.function(add, peer.normal(2, 3, 4), peer.normal())


def test_writing_casts_as_pytorch_does(peer: Any) -> None:
    def write(s: Any, x: Any, v: Any) -> Any:
        y = s.zeros(2, 3, dtype=s.int64)
        y[0] = v
        y[1, 1:] = 2.9
        y[[0], [2]] = 7.9
        y[T(s, [[True, False, False]] * 2)] = s.tensor(3.7)
        return y

    peer.function(write, peer.normal(2, 3, 4), np.array([1.5, -2.5, 3.0], np.float32))


def _random_index(random: np.random.Generator, shape: tuple[int, ...], masks: bool) -> Any:
    """A random index of any kind, as NumPy objects; index arrays share one shape or broadcast."""
    items: list[Any] = []
    axis = 0
    common = [tuple(random.integers(1, 4, random.integers(0, 3)))] * 2 + [(1,)]
    while axis < len(shape) and random.random() < 0.85:
        size = shape[axis]
        kind = random.choice(["int", "slice", "array", "none", "mask", "slice", "array"])
        if kind == "none":
            items.append(None)
            continue
        if kind == "mask" and not masks:
            kind = "array"
        if kind == "int":
            items.append(int(random.integers(-size, size)))
        elif kind == "slice":
            ends = [None, *map(int, random.integers(-size - 1, size + 2, 2))]
            step = int(random.integers(1, 3))
            items.append(slice(random.choice(ends), random.choice(ends), step))
        elif kind == "array":
            items.append(random.integers(-size, size, common[random.integers(len(common))]))
        else:
            items.append(random.integers(0, 2, size).astype(bool))
        axis += 1
    if random.random() < 0.3:
        items.insert(int(random.integers(0, len(items) + 1)), ...)
    return tuple(items)


def _native(system: Any, index: Any) -> Any:
    return tuple(system.tensor(item) if isinstance(item, np.ndarray) else item for item in index)


def test_random_indices_read_and_write(peer: Any) -> None:
    random = np.random.default_rng(0)
    shape = (3, 4, 2, 5)
    array = np.arange(120, dtype=np.float32).reshape(shape)
    done = 0
    for _ in range(600):
        index = _random_index(random, shape, masks=True)
        theirs, ours = peer.torch.tensor(array), frontend.tensor(array)
        try:
            expected = theirs[_native(peer.torch, index)]
        except IndexError:
            words = "could not be broadcast|out of bounds for dim|The shape of the mask"
            with pytest.raises(IndexError, match=words):
                _ = ours[_native(frontend, index)]
            continue
        done += 1
        actual = ours[_native(frontend, index)]
        np.testing.assert_array_equal(actual.numpy(), expected.numpy(), err_msg=str(index))
        shares = actual.numel() and np.shares_memory(actual.numpy(), ours.numpy())
        assert shares == (expected.numel() and expected.untyped_storage().data_ptr()
                          == theirs.untyped_storage().data_ptr()), index  # fmt: skip
        # One value everywhere, so that it does not matter in which order places are written.
        value = np.full(expected.shape[int(random.integers(0, 2)) :], -1, np.float32)
        theirs[_native(peer.torch, index)] = peer.torch.tensor(value)
        ours[_native(frontend, index)] = frontend.tensor(value)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), err_msg=str(index))
        taped = frontend.tensor(array, requires_grad=True)
        y = taped * 1
        y[_native(frontend, index)] = frontend.tensor(value)
        np.testing.assert_array_equal(y.detach().numpy(), theirs.numpy(), err_msg=str(index))
    assert done > 300


# -- errors ---------------------------------------------------------------------------------------

BAD: dict[str, Callable[[Any, Any], Any]] = {
    "out of bounds": lambda s, x: x[5],
    "negative out of bounds": lambda s, x: x[0, -9],
    "list out of bounds": lambda s, x: x[[0, 7]],
    "negative list": lambda s, x: x[[0, -7]],
    "too many": lambda s, x: x[0, 0, 0, 0],
    "too many tensors": lambda s, x: x[[0], [0], [0], [0]],
    "number of a 0-d": lambda s, x: s.tensor(1.0)[0],
    "tensor of a 0-d": lambda s, x: s.tensor(1.0)[s.tensor([0])],
    "step below zero": lambda s, x: x[::-1],
    "step zero": lambda s, x: x[::0],
    "float tensor": lambda s, x: x[s.tensor([1.0])],
    "float": lambda s, x: x[1.0],
    "int16 tensor": lambda s, x: x[s.tensor([1], dtype=s.int16)],
    "mask": lambda s, x: x[s.tensor([True, False, True])],
    "mask behind": lambda s, x: x[:, s.tensor([[True, False]])],
    "shapes": lambda s, x: x[[0, 1], [0, 1, 2]],
    "value": lambda s, x: x.__setitem__(0, s.ones(5)),
    "value of list": lambda s, x: x.__setitem__([0, 1], s.ones(3, 3, 3)),
    "value of mask": lambda s, x: x.__setitem__(x > 0, s.ones(2)),
    "value's dtype": lambda s, x: x.__setitem__([0, 1], s.ones(4, dtype=s.float64)),
    "list as value": lambda s, x: x.__setitem__(0, [1, 2]),
    "array as value": lambda s, x: x.__setitem__(0, np.ones(4)),
    "text as value": lambda s, x: x.__setitem__(0, "a"),
    "leaf": lambda s, x: s.ones(3, requires_grad=True).__setitem__(0, 1),
    "leaf by list": lambda s, x: s.ones(3, requires_grad=True).__setitem__([0], 1),
    "leaf by mask": lambda s, x: s.ones(1, requires_grad=True).__setitem__(s.tensor([True]), 1),
    "gather dtype": lambda s, x: x.gather(1, s.ones(2, 3, 4)),
    "gather rank": lambda s, x: x.gather(1, s.tensor([0])),
    "gather size": lambda s, x: x.gather(1, s.zeros(3, 1, 1, dtype=s.int64)),
    "scatter src dtype": lambda s, x: x.scatter(0, L(s, 1, 1, 1), s.ones(1, 1, 1).double()),
    "scatter size": lambda s, x: x.scatter(0, L(s, 1, 9, 1), s.ones(1, 9, 1)),
    "scatter src size": lambda s, x: x.scatter(0, L(s, 1, 2, 1), s.ones(1, 1, 1)),
    "scatter reduce": lambda s, x: x.scatter(0, L(s, 1, 1, 1), 2.0, reduce="foo"),
    "scatter_reduce": lambda s, x: x.scatter_reduce(0, L(s, 1, 1, 1), x, "foo"),
    "index_select rank": lambda s, x: x.index_select(0, L(s, 1, 1)),
    "index_select dtype": lambda s, x: x.index_select(0, s.tensor([1.0])),
    "index_add shape": lambda s, x: x.index_add(0, L(s, 1), s.ones(1, 3, 5)),
    "index_add dtype": lambda s, x: x.index_add(0, L(s, 1), s.ones(1, 3, 4).double()),
    "index_fill value": lambda s, x: x.index_fill(0, L(s, 1), s.ones(1)),
    "index_fill dtype": lambda s, x: x.index_fill(0, L(s, 1).int(), 1),
    "index_reduce": lambda s, x: x.index_reduce(0, L(s, 1), x[:1], "sum"),
    "take": lambda s, x: x.take(s.tensor([24])),
    "take dtype": lambda s, x: x.take(s.tensor([1.0])),
    "take_along_dim": lambda s, x: x.take_along_dim(s.tensor([0]), 1),
    "put size": lambda s, x: x.put(s.tensor([0, 5]), s.tensor([1.0])),
    "put dtype": lambda s, x: x.put(s.tensor([0]), s.tensor([1])),
    "masked_fill": lambda s, x: x.masked_fill(s.ones(4), 0),
    "masked_fill value": lambda s, x: x.masked_fill(x > 0, s.ones(1)),
    "masked_scatter": lambda s, x: x.masked_scatter(x == x, s.ones(3)),
    "masked_select": lambda s, x: x.masked_select(s.ones(4)),
    "select": lambda s, x: x.select(1, 7),
    "select_scatter": lambda s, x: x.select_scatter(s.zeros(3), 1, 0),
    "slice_scatter": lambda s, x: x.slice_scatter(s.zeros(3), 1, 0),
    "diagonal_scatter": lambda s, x: x.diagonal_scatter(s.zeros(3)),
    "diag": lambda s, x: s.diag(x),
    "diagonal": lambda s, x: x.diagonal(0, 1, 1),
    "diagonal dim": lambda s, x: x.diagonal(0, 1, 7),
    "tril": lambda s, x: s.tril(s.ones(3)),
    "unfold": lambda s, x: x.unfold(1, 4, 1),
    "unfold step": lambda s, x: x.unfold(1, 2, 0),
    "as_strided": lambda s, x: x.as_strided((5, 5), (9, 1)),
    "index_put": lambda s, x: x.index_put((s.tensor([0]),), s.ones(4).double()),
    "argument": lambda s, x: s.gather([1], 0, s.tensor([0])),
}


def L(system: Any, *shape: int) -> Any:
    return system.zeros(*shape, dtype=system.int64)


@pytest.mark.parametrize("name", BAD)
def test_errors_have_pytorchs_types(peer: Any, name: str) -> None:
    array = peer.normal(2, 3, 4)
    with pytest.raises(Exception) as theirs:
        quiet(lambda: BAD[name](peer.torch, peer.torch.tensor(array)))
    with pytest.raises(theirs.type) as ours:
        quiet(lambda: BAD[name](frontend, frontend.tensor(array)))
    words = str(ours.value).split("\n")[0]
    assert len(words) > 15
    alike = set(words.split()) & set(str(theirs.value).split("\n")[0].split())
    assert len(alike) >= 0.6 * len(words.split()) or name in OWN_WORDS, f"{words}\n{theirs.value}"


OWN_WORDS = {
    "leaf by mask", "masked_fill", "diagonal dim", "index_add shape", "index_add dtype", "tril",
    "text as value", "argument", "index_reduce",
}  # fmt: skip


# -- scatter and its family -----------------------------------------------------------------------

ROWS = np.array([[0, 2, 1], [3, 0, 2]])  # unique in each row
REPEATED = np.array([[0, 2, 0], [1, 1, 1]])


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather_and_take_along_dim(peer: Any, dim: int) -> None:
    index = REPEATED if dim else np.ascontiguousarray(REPEATED.T[:, :2] % 2)
    peer.function(lambda s, x: x.gather(dim, T(s, index)), peer.normal(2, 4))
    peer.function(lambda s, x: s.gather(x, dim, T(s, index.astype(np.int32))), peer.normal(2, 4))
    peer.function(lambda s, x: x.take_along_dim(T(s, index[:, :1] - 1), dim), peer.normal(2, 4))
    peer.function(lambda s, x: x.take_along_dim(T(s, index)), peer.normal(2, 4))


def test_scatter_of_unique_indices(peer: Any) -> None:
    x, src, more = peer.normal(2, 4), peer.normal(2, 3), peer.normal(3, 5)
    peer.function(lambda s, x, y: x.scatter(1, T(s, ROWS), y), x, src)
    peer.function(lambda s, x, y: s.scatter(x, -1, T(s, ROWS), y), x, more, gradients=False)
    peer.function(lambda s, x: x.scatter(1, T(s, ROWS), 2.5), x)
    peer.function(lambda s, x: x.scatter(1, T(s, ROWS), value=3), x)
    peer.function(lambda s, x, y: (x * 1).scatter_(1, T(s, ROWS), y), x, src)
    peer.function(lambda s, x: x.scatter(0, T(s, [[0, 1]]), 1.0), x)
    peer.function(lambda s, x: x.scatter(1, L(s, 2, 0), x), x, gradients=False)
    peer.function(lambda s, x: x.scatter(0, T(s, 0), 5.0), peer.normal())


@pytest.mark.parametrize("reduce", ["add", "multiply"])
def test_scatter_with_a_reduction(peer: Any, reduce: str) -> None:
    def call(s: Any, x: Any, y: Any) -> Any:
        return x.scatter(1, T(s, REPEATED), y, reduce=reduce)

    peer.function(call, peer.normal(2, 4), peer.normal(2, 3), gradients=False)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(peer: Any, reduce: str, include_self: bool) -> None:
    def call(s: Any, x: Any, y: Any) -> Any:
        return x.scatter_reduce(1, T(s, REPEATED), y, reduce, include_self=include_self)

    peer.function(call, peer.normal(2, 4), peer.normal(2, 3))
    whole = np.arange(8).reshape(2, 4) - 3, np.array([[4, -3, 2], [1, -6, 5]])
    peer.function(call, *whole)
    holes = peer.normal(2, 4), np.array([[0, 2, 3], [0, 0, 2]], np.float32)
    if reduce == "prod":
        peer.function(call, *holes)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce(peer: Any, reduce: str, include_self: bool) -> None:
    def call(s: Any, x: Any, y: Any) -> Any:
        return x.index_reduce(1, T(s, [0, 3, 0]), y, reduce, include_self=include_self)

    peer.function(call, peer.normal(2, 4), peer.normal(2, 3))


def test_scatter_add(peer: Any) -> None:
    x, src = peer.normal(2, 4), peer.normal(2, 3)
    peer.function(lambda s, x, y: x.scatter_add(1, T(s, REPEATED), y), x, src)
    peer.function(lambda s, x, y: (x * 1).scatter_add_(1, T(s, REPEATED), y), x, src)


SLICES = {
    "index_select": lambda s, x, y: x.index_select(1, T(s, [2, 0, 0])),
    "index_select of a number": lambda s, x, y: x.index_select(1, T(s, 2)),
    "index_add": lambda s, x, y: x.index_add(1, T(s, [2, 0, 2]), y),
    "index_add with alpha": lambda s, x, y: s.index_add(x, 1, T(s, [2, 0, 2]), y, alpha=-2),
    "index_add_": lambda s, x, y: (x * 1).index_add_(1, T(s, [2, 0, 2]), y),
    "index_copy": lambda s, x, y: x.index_copy(1, T(s, [2, 0, 3]), y),
    "index_copy_": lambda s, x, y: (x * 1).index_copy_(1, T(s, [2, 0, 3]), y),
    "index_fill": lambda s, x, y: x.index_fill(1, T(s, [-1, 0]), 9.5),
    "index_fill by a tensor": lambda s, x, y: x.index_fill(0, T(s, [1]), y[0, 0]),
    "index_put": lambda s, x, y: x.index_put((T(s, [0, 1]), T(s, [3, -1])), y[0, :2]),
    "index_put of rows": lambda s, x, y: x.index_put([T(s, [1])], y[0, 0]),
    "index_put, adding": lambda s, x, y: x.index_put(
        (T(s, [0, 0, 1]), T(s, [3, 3, 0])), y[1], True
    ),
    "index_put_": lambda s, x, y: (x * 1).index_put_((T(s, [0, 0]), T(s, [3, 1])), y[0, :2]),
    "take": lambda s, x, y: x.take(T(s, [[0, 5], [-1, 5]])),
    "put": lambda s, x, y: x.put(T(s, [0, 5, -1]), y[0]),
    "put, adding": lambda s, x, y: x.put(T(s, [0, 5, 0]), y[0], accumulate=True),
    "put_": lambda s, x, y: (x * 1).put_(T(s, [0, 5, -1]), y[0]),
}


@pytest.mark.parametrize("name", SLICES)
def test_slices_and_positions(peer: Any, name: str) -> None:
    peer.function(SLICES[name], peer.normal(2, 4), peer.normal(2, 3))


MASKED = {
    "masked_fill": lambda s, x, y: x.masked_fill(x > 0, -1.5),
    "masked_fill by a tensor": lambda s, x, y: x.masked_fill(x > 0, y[0, 0]),
    "masked_fill, broadcast": lambda s, x, y: x[0].masked_fill(x > 0, 2),
    "masked_fill_": lambda s, x, y: (x * 1).masked_fill_(x > 0, 2),
    "masked_scatter": lambda s, x, y: x.masked_scatter(T(s, [True, False, True, False]), y),
    "masked_scatter_": lambda s, x, y: (x * 1).masked_scatter_(x > 0.5, y.repeat(2, 2)),
    "masked_scatter of nothing": lambda s, x, y: x.masked_scatter(x > 99, y),
    "masked_scatter, broadcast": lambda s, x, y: x[0].masked_scatter(x > 0, y.repeat(2, 2)),
}


@pytest.mark.parametrize("name", MASKED)
def test_masks(peer: Any, name: str) -> None:
    peer.function(MASKED[name], peer.normal(2, 4), peer.normal(2, 3))


DYNAMIC = {
    "masked_select": lambda s, x: x.masked_select(x > 0),
    "nonzero": lambda s, x: (x > 0).nonzero(),
    "nonzero as tuple": lambda s, x: s.nonzero(x > 0, as_tuple=True),
    "nonzero of a number": lambda s, x: s.nonzero(T(s, 3.0)),
    "nonzero of a number as tuple": lambda s, x: s.nonzero(T(s, 3.0), as_tuple=True),
    "argwhere": lambda s, x: s.argwhere(x > 0),
    "argwhere of a number": lambda s, x: T(s, 0.0).argwhere(),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_shapes_that_depend_on_data(peer: Any, name: str) -> None:
    peer.function(DYNAMIC[name], peer.normal(3, 4), modes=["eager"])
    with pytest.raises(TraceError, match="needs the value of a tensor"):
        frontend.compile(lambda x: DYNAMIC[name](frontend, x) if "number" not in name
                         else frontend.nonzero(x), fullgraph=True)(frontend.ones(3, 4))  # fmt: skip


def test_a_mask_that_depends_on_no_input(peer: Any) -> None:
    """Its size is known while a function is traced."""
    peer.function(lambda s, x: x.masked_select(T(s, [True, False, False, True])), peer.normal(3, 4))


# -- parts by position ----------------------------------------------------------------------------

PARTS = {
    "tril": lambda s, x, v: s.tril(x),
    "triu with diagonal": lambda s, x, v: x.triu(-1),
    "tril_": lambda s, x, v: (x * 1).tril_(1),
    "diagonal": lambda s, x, v: x.diagonal(1, 1, 2),
    "diagonal, other order": lambda s, x, v: s.diagonal(x, -1, 2, 0),
    "diagonal beyond": lambda s, x, v: x.diagonal(9),
    "diag of a matrix": lambda s, x, v: s.diag(x[0], -1),
    "diag of a vector": lambda s, x, v: s.diag(v, 2),
    "diag_embed": lambda s, x, v: s.diag_embed(x[0], 1),
    "diag_embed with dims": lambda s, x, v: x[0].diag_embed(-1, 2, 0),
    "diagflat": lambda s, x, v: s.diagflat(x[0], -2),
    "diagonal_scatter": lambda s, x, v: s.diagonal_scatter(x[0], v[:3]),
    "diagonal_scatter of several": lambda s, x, v: x.diagonal_scatter(x[:, 0, :3], 1, 1, 2),
    "select": lambda s, x, v: x.select(-1, -2),
    "select_scatter": lambda s, x, v: x.select_scatter(x[0] * 2, 0, -1),
    "slice_scatter": lambda s, x, v: x.slice_scatter(x[:, :2] * 2, 1, -2),
    "slice_scatter with step": lambda s, x, v: x.slice_scatter(x[..., :2] * 2, 2, 0, 3, 2),
    "unfold": lambda s, x, v: x.unfold(2, 2, 1),
    "unfold with step": lambda s, x, v: v.unfold(0, 3, 2),
    "unfold of nothing": lambda s, x, v: v.unfold(0, 0, 1),
    "unfold of a number": lambda s, x, v: v[0].unfold(0, 1, 1),
    "as_strided": lambda s, x, v: (x * 1).as_strided((2, 3), (1, 2), 3),
    "as_strided of a view": lambda s, x, v: (x * 1)[1].as_strided((2, 2), (4, 1)),
    "narrow": lambda s, x, v: x.narrow(1, 1, 2),
    "tril_indices": lambda s, x, v: s.tril_indices(3, 4, -1),
    "triu_indices": lambda s, x, v: s.triu_indices(2, 5, 1, dtype=s.int32),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts(peer: Any, name: str) -> None:
    peer.function(PARTS[name], peer.normal(2, 3, 4), peer.normal(7))


VIEWS = {
    "diagonal": lambda s, x, v: x.diagonal(0, 1, 2).mul_(v[:3]),
    "diagonal of a transpose": lambda s, x, v: x.transpose(0, 2).diagonal(1).fill_(3),
    "select": lambda s, x, v: x.select(1, 2).add_(v[:4]),
    "unfold, apart": lambda s, x, v: x.narrow(2, 1, 2).copy_(v[:2]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_writing_through_views(peer: Any, name: str) -> None:
    def call(s: Any, x: Any, v: Any) -> Any:
        y = x * 1
        VIEWS[name](s, y, v)
        return y * y

    peer.function(call, peer.normal(2, 3, 4), peer.normal(7))
