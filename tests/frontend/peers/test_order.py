"""Sorting, order statistics, cumulative functions and bits against PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend

NAN = float("nan")
T = lambda system, data: system.tensor(data)  # noqa: E731


def ties(*shape: int) -> np.ndarray:
    """Whole numbers with many ties, as floats."""
    return np.random.default_rng(1).integers(-2, 3, shape).astype(np.float32)


WITH_NAN = np.array([[2.0, NAN, 1.0, NAN, 0.0], [1, 2, 3, 4, 5], [NAN] * 5], np.float32)

# Functions of one float tensor [3, 5], with gradients.
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda s, x: s.sort(x),
    "sort, descending": lambda s, x: x.sort(0, descending=True),
    "sort, stable": lambda s, x: x.sort(dim=-2, stable=True),
    "argsort": lambda s, x: x.argsort(dim=1, descending=True, stable=True),
    "msort": lambda s, x: s.msort(x),
    "topk": lambda s, x: s.topk(x, 3),
    "topk, smallest": lambda s, x: x.topk(2, 0, largest=False),
    "topk of none": lambda s, x: x.topk(0, 0),
    "kthvalue": lambda s, x: x.kthvalue(2),
    "kthvalue, keepdim": lambda s, x: s.kthvalue(x, 3, 0, True),
    "median": lambda s, x: x.median(),
    "median along dim": lambda s, x: x.median(1),
    "median, keepdim": lambda s, x: s.median(x, 0, keepdim=True),
    "nanmedian": lambda s, x: x.nanmedian(),
    "nanmedian along dim": lambda s, x: s.nanmedian(x, dim=1),
    "quantile": lambda s, x: x.quantile(0.4),
    "quantile along dim": lambda s, x: x.quantile(0.3, dim=1, keepdim=True),
    "quantiles": lambda s, x: s.quantile(x, T(s, [0.0, 0.33, 1.0]), dim=0),
    "quantiles, keepdim": lambda s, x: x.quantile(T(s, [0.1, 0.9]), keepdim=True),
    "quantiles of a number of lines": lambda s, x: x.quantile(T(s, [0.1, 0.9]), 1, True),
    "nanquantile": lambda s, x: x.nanquantile(0.4, dim=1),
    "nanquantiles": lambda s, x: x.nanquantile(T(s, [0.25, 0.5])),
    **{
        f"quantile, {how}": lambda s, x, how=how: x.quantile(T(s, [0.1, 0.5, 0.83]), 1,
                                                             interpolation=how)
        for how in ("linear", "lower", "higher", "nearest", "midpoint")
    },
    "cumsum": lambda s, x: x.cumsum(0),
    "cumsum of the last": lambda s, x: s.cumsum(x, -1),
    "cumsum in f64": lambda s, x: x.cumsum(1, dtype=s.float64),
    "cumsum_": lambda s, x: (x * 1).cumsum_(1),
    "cumprod": lambda s, x: x.cumprod(1),
    "cumprod_": lambda s, x: (x * 1).cumprod_(0),
    "cummax": lambda s, x: s.cummax(x, 1),
    "cummin": lambda s, x: x.cummin(0),
    "logcumsumexp": lambda s, x: s.logcumsumexp(x, 1),
    "logcumsumexp of columns": lambda s, x: (x * 30).logcumsumexp(0),
    "searchsorted": lambda s, x: s.searchsorted(x.detach().sort(1).values, x * 1.5),
    "searchsorted of a vector": lambda s, x: s.searchsorted(x.detach()[0].msort(), x, right=True),
    "searchsorted, int32": lambda s, x: s.searchsorted(x.detach()[0].msort(), x, out_int32=True,
                                                       side="right"),
    "searchsorted with a sorter": lambda s, x: s.searchsorted(x, x * 0.7, sorter=x.argsort()),
    "searchsorted of a number": lambda s, x: s.searchsorted(x.detach()[0].msort(), 0.25),
    "bucketize": lambda s, x: s.bucketize(x, T(s, [-1.0, 0.0, 0.5])),
    "bucketize, right": lambda s, x: s.bucketize(x, T(s, [-1.0, 0.0, 1.0]), right=True),
    "isin": lambda s, x: s.isin(x, T(s, [1.0, -2.0, 0.0])),
    "isin, inverted": lambda s, x: s.isin(x, x[0], invert=True),
    "isin a number": lambda s, x: s.isin(x, 1),
    "isin nothing": lambda s, x: s.isin(x, s.ones(0)),
}  # fmt: skip

# Which of several equal elements PyTorch takes is up to its algorithm.
OPEN = {"topk", "topk, smallest", "kthvalue", "kthvalue, keepdim"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_distinct_elements(peer: Any, name: str) -> None:
    peer.function(FUNCTIONS[name], peer.normal(3, 5))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in OPEN])
def test_ties_and_zeros(peer: Any, name: str) -> None:
    modes = ["compiled"] if "quantile" in name else ["eager", "compiled"]
    peer.function(FUNCTIONS[name], ties(3, 5), modes=modes)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan(peer: Any, name: str) -> None:
    if name in OPEN or "searchsorted" in name or "cum" in name:
        pytest.skip("NaN in a gradient, or open in PyTorch")
    rows = WITH_NAN if "median" not in name and "quantile" not in name else WITH_NAN[:2]
    gradients = name not in ("nanquantiles", "quantile", "quantiles") and "quantile" not in name
    peer.function(FUNCTIONS[name], rows, modes=["eager"], gradients=gradients)
    peer.function(FUNCTIONS[name], rows, modes=["compiled"], gradients=False)


@pytest.mark.parametrize("name", ["cummax", "cummin", "cumsum", "cumprod"])
def test_running_nan(peer: Any, name: str) -> None:
    peer.function(lambda s, x: getattr(x, name)(1), WITH_NAN, gradients=False)


def test_mode(peer: Any) -> None:
    rows = np.array([[1.0, 2, 2, 1, 3], [3, 3, 1, 1, 2], [5, 5, 5, 4, 4]], np.float32)
    peer.function(lambda s, x: x.mode(), rows)
    peer.function(lambda s, x: s.mode(x, 0, True), rows)
    peer.function(lambda s, x: x[:, 0].mode(0), rows)
    peer.function(lambda s, x: x.bool().mode(1), rows)
    peer.function(lambda s, x: x[0, 0].mode(), rows)
    peer.function(lambda s, x: x[:, :1].mode(1), rows)


WHOLE = {
    "sort": lambda s, i: i.sort(1, True),
    "median": lambda s, i: i.median(),
    "median along dim": lambda s, i: i.median(0),
    "cumsum": lambda s, i: i.cumsum(0),
    "cumsum of int32": lambda s, i: i.int().cumsum(1),
    "cumsum_ of int32": lambda s, i: i.int().cumsum_(1),
    "cumsum of bools": lambda s, i: (i > 0).cumsum(1),
    "cumprod of bools": lambda s, i: (i > 0).cumprod(1),
    "cumsum in f32": lambda s, i: i.cumsum(1, dtype=s.float32),
    "cummax": lambda s, i: i.cummax(1),
    "cummax of bools": lambda s, i: (i > 0).cummax(1),
    "sort of bools": lambda s, i: (i > 0).sort(1),
    "searchsorted in floats": lambda s, i: s.searchsorted(s.tensor([-1.0, 0.5, 2.0]), i),
    "isin floats": lambda s, i: s.isin(i, s.tensor([1.0, 2.5])),
    "number isin": lambda s, i: s.isin(1, i),
    "axis": lambda s, i: i.cumsum(axis=0),
    "0-d": lambda s, i: (i[0, 0].sort(), i[0, 0].cumsum(0), i[0, 0].cummax(0), i[0, 0].topk(1),
                         i[0, 0].kthvalue(1), i[0, 0].median(0)),
    "empty": lambda s, i: (i[:, :0].sort(), i[:0].cumsum(0), i[:, :0].cummax(1), i[:0].argsort(0),
                           i[:, :0].float().median(), i[:0].median(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_integers_and_edges(peer: Any, name: str) -> None:
    peer.function(WHOLE[name], ties(3, 5).astype(np.int64))


def test_second_derivatives(peer: Any) -> None:
    """Gradients of gradients of the running functions."""
    torch = peer.torch
    for call in (
        lambda x: x.cumprod(1), lambda x: x.cumsum(1), lambda x: x.logcumsumexp(1),
        lambda x: x.sort(1).values.pow(2), lambda x: x.median(1).values.exp(),
    ):  # fmt: skip
        array = np.random.default_rng(0).standard_normal((2, 4))
        results = []
        for system in (torch, frontend):
            x = system.tensor(array, requires_grad=True)
            (first,) = system.autograd.grad((call(x) * call(x)).sum(), x, create_graph=True)
            (second,) = system.autograd.grad(first.pow(2).sum(), x)
            results.append(second.detach().numpy())
        np.testing.assert_allclose(results[1], results[0], rtol=1e-9)


DYNAMIC = {
    "unique": lambda s, i: s.unique(i),
    "unique with all": lambda s, i: i.unique(return_inverse=True, return_counts=True),
    "unique with counts": lambda s, i: s.unique(i, sorted=True, return_counts=True),
    "unique rows": lambda s, i: s.unique(i % 2, dim=0, return_inverse=True, return_counts=True),
    "unique columns": lambda s, i: (i % 2).unique(dim=1, return_inverse=True),
    "unique of floats": lambda s, i: s.tensor([2.0, NAN, 0.0, -1.0, NAN]).unique(),
    "unique of bools": lambda s, i: (i > 0).unique(),
    "unique of nothing": lambda s, i: i[:0].unique(return_counts=True),
    "unique of a number": lambda s, i: i[0, 0].unique(return_inverse=True),
    "unique_consecutive": lambda s, i: s.unique_consecutive(i),
    "unique_consecutive with all": lambda s, i: i.unique_consecutive(True, True),
    "unique_consecutive rows": lambda s, i: s.unique_consecutive(i[:, :1].abs(), True, True, dim=0),
    "bincount": lambda s, i: i.abs().reshape(-1).bincount(),
    "bincount, longer": lambda s, i: s.bincount(i[0].abs(), minlength=7),
    "bincount of weights": lambda s, i: s.bincount(i[0].abs(), s.arange(5) * 0.5),
    "bincount of whole weights": lambda s, i: s.bincount(i[0].abs(), i[1]),
    "bincount of nothing": lambda s, i: i[0, :0].bincount(minlength=2),
    "histc": lambda s, i: s.histc(i.float(), 4, -1, 2),
    "histc of its range": lambda s, i: i.float().histc(3),
    "histc of one value": lambda s, i: s.ones(3).histc(4),
    "histc with NaN": lambda s, i: s.tensor([2.0, NAN, 0.0]).histc(3, 0, 2),
    "histc of f64": lambda s, i: i.double().histc(5, 0, 1),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_shapes_that_depend_on_data(peer: Any, name: str) -> None:
    peer.function(DYNAMIC[name], ties(3, 5).astype(np.int64), modes=["eager"])


@pytest.mark.parametrize("name", ["sort", "topk", "kthvalue", "median", "mode", "cummax", "cummin"])
def test_results_print_as_pytorchs(peer: Any, name: str) -> None:
    more = {"topk": (2,), "kthvalue": (1,)}.get(name, (1,) if name != "sort" else ())
    texts = []
    for system in (peer.torch, frontend):
        result = getattr(system, name)(system.tensor([[3.0, 1.0, 2.0], [0.5, -1.0, 7.0]]), *more)
        assert result.values is result[0] and result.indices is result[1]
        texts.append(repr(result))
    assert texts[0] == texts[1]


# -- bits and logic -------------------------------------------------------------------------------

BITS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "and": lambda s, i, j: (i & j, i & 6, 6 & i, s.bitwise_and(i, j), i & True),
    "or": lambda s, i, j: (i | j, i | -8, 3 | i, i.bitwise_or(j)),
    "xor": lambda s, i, j: (i ^ j, i ^ 5, 5 ^ i, i.bitwise_xor(7)),
    "not": lambda s, i, j: (~i, s.bitwise_not(j), ~(i > 0)),
    "left shift": lambda s, i, j: (i << j, i << 3, i << -1, i << 64, 1 << j.abs(), i.int() << 31),
    "right shift": lambda s, i, j: (i >> j, i >> 1, i >> -1, i >> 70, 99 >> j.abs(),
                                    i.int() >> 40, s.bitwise_right_shift(i, 2)),
    "bools": lambda s, i, j: ((i > 0) & (j > 0), (i > 0) | True, (i > 0) ^ (j > 0), i & (j > 0)),
    "dtypes": lambda s, i, j: (i.int() & j, i.int() << 2, i.int() | (j > 0)),
    "broadcast": lambda s, i, j: i[:, :1] & j[0],
    "in place": lambda s, i, j: (
        i.clone().bitwise_and_(j), i.clone().bitwise_left_shift_(2), i.int().bitwise_not_(),
        i.clone().__ior__(j), i.clone().__irshift__(1),
    ),
    "comparisons in place": lambda s, i, j: (
        i.float().eq_(j), i.float().lt_(0.5), i.clone().logical_not_(), i.clone().logical_and_(j),
    ),
    "comparisons": lambda s, i, j: (s.greater(i, j), i.less_equal(0), s.not_equal(i, j), i.ne(j)),
    "isclose": lambda s, i, j: (i.isclose(j), (i / 1.0).isclose(j / 1.0, rtol=0.5),
                                (i > 0).isclose(j > 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", BITS)
def test_bits(peer: Any, name: str) -> None:
    whole = ties(3, 5).astype(np.int64)
    peer.function(BITS[name], whole * 5, whole[::-1] * 1)


# -- errors ---------------------------------------------------------------------------------------

BAD: dict[str, Callable[[Any, Any], Any]] = {
    "dim": lambda s, x: x.sort(3),
    "no dim": lambda s, x: x.cumsum(),
    "no tensor": lambda s, x: s.sort([1, 2]),
    "topk": lambda s, x: x.topk(9),
    "topk of bools": lambda s, x: (x > 0).topk(1),
    "kthvalue": lambda s, x: x.kthvalue(0),
    "kthvalue of nothing": lambda s, x: x[:0].kthvalue(1, 0),
    "kthvalue of bools": lambda s, x: (x > 0).kthvalue(1),
    "median of nothing": lambda s, x: x[:0].median(0),
    "median of bools": lambda s, x: (x > 0).median(),
    "mode of nothing": lambda s, x: x[:0].mode(0),
    "quantile": lambda s, x: x.quantile(1.5),
    "quantile of integers": lambda s, x: x.long().quantile(0.5),
    "quantile's dtype": lambda s, x: x.quantile(s.tensor(0.5, dtype=s.float64)),
    "quantile's rank": lambda s, x: x.quantile(s.ones(1, 1)),
    "quantiles": lambda s, x: x.quantile(s.tensor([1.5])),
    "quantile of nothing": lambda s, x: x[:0].quantile(0.5),
    "interpolation": lambda s, x: x.quantile(0.5, interpolation="foo"),
    "bincount": lambda s, x: s.tensor([-1]).bincount(),
    "bincount of floats": lambda s, x: x[0].bincount(),
    "bincount of rows": lambda s, x: s.tensor([[1]]).bincount(),
    "bincount's weights": lambda s, x: s.tensor([0, 1]).bincount(s.tensor([1.0])),
    "minlength": lambda s, x: s.tensor([0]).bincount(minlength=-1),
    "histc": lambda s, x: x.histc(0),
    "histc's range": lambda s, x: x.histc(2, 3, 1),
    "histc of integers": lambda s, x: x.long().histc(2),
    "histc of NaN": lambda s, x: s.tensor([NAN, 1.0]).histc(2),
    "searchsorted": lambda s, x: s.searchsorted(x, s.ones(1)),
    "side": lambda s, x: s.searchsorted(x[0], x, side="foo"),
    "sides": lambda s, x: s.searchsorted(x[0], x, side="left", right=True),
    "sorter": lambda s, x: s.searchsorted(x[0], x, sorter=s.tensor([0])),
    "sorter's dtype": lambda s, x: s.searchsorted(x[0], x, sorter=x[0].argsort().int()),
    "sorter's range": lambda s, x: s.searchsorted(x[0], x, sorter=s.full((5,), 9)),
    "searchsorted of a number": lambda s, x: s.searchsorted(x, 1.0),
    "bucketize": lambda s, x: s.bucketize(x, x),
    "isin": lambda s, x: s.isin(x > 0, x > 0),
    "logcumsumexp": lambda s, x: x.long().logcumsumexp(0),
    "and of floats": lambda s, x: x & 1,
    "shift of floats": lambda s, x: x << 1,
    "shift of bools": lambda s, x: s.bitwise_left_shift(x > 0, x > 0),
    "not of floats": lambda s, x: ~x,
    "and in place": lambda s, x: (x > 0).__iand__(s.ones(3, 5, dtype=s.int64)),
    "logical_and": lambda s, x: s.logical_and(x, 1),
    "isclose's dtype": lambda s, x: s.isclose(x, x.double()),
    "rtol": lambda s, x: s.isclose(x, x, rtol=-1),
    "equal": lambda s, x: s.equal(x, 1),
}
OWN_WORDS = {"no dim", "no tensor", "and in place"}


@pytest.mark.parametrize("name", BAD)
def test_errors_have_pytorchs_types(peer: Any, name: str) -> None:
    array = peer.normal(3, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            BAD[name](peer.torch, peer.torch.tensor(array))
    with pytest.raises(theirs.type) as ours:
        BAD[name](frontend, frontend.tensor(array))
    words = str(ours.value).split("\n")[0]
    alike = set(words.split()) & set(str(theirs.value).split("\n")[0].split())
    assert len(alike) >= 0.6 * len(words.split()) or name in OWN_WORDS, f"{words}\n{theirs.value}"


def test_out(peer: Any) -> None:
    def call(s: Any, x: Any) -> Any:
        x = x.detach()
        values, indices = s.empty(0), s.empty(0, dtype=s.int64)
        s.sort(x, 1, out=(values, indices))
        total = s.zeros(3, 5, dtype=s.float64)
        s.cumsum(x, 1, out=total)
        bits = s.empty(0, dtype=s.int64)
        s.bitwise_and(x.long(), 3, out=bits)
        return values, indices, total, bits

    peer.function(call, peer.normal(3, 5), modes=["eager"])
