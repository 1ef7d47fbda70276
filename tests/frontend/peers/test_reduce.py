"""Reductions against PyTorch: dimensions, dtypes, ties, empty tensors, gradients, errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

F32 = np.float32
INF, NAN = np.inf, np.nan


def words(text: str) -> list[str]:
    return text.split()


DIMS: dict[str, dict[str, Any]] = {
    "all": {},
    "one": {"dim": 1},
    "last-kept": {"dim": -1, "keepdim": True},
    "two": {"dim": (0, 2)},
    "list-kept": {"dim": [1], "keepdim": True},
    "numpy-names": {"axis": 0, "keepdims": True},
    "none": {"dim": None},
    "no-dims": {"dim": ()},
}
MANY = words("sum nansum mean nanmean var std amax amin any all logsumexp count_nonzero norm")
ONE = words("prod argmax argmin max min softmax log_softmax")


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("name", MANY)
def test_over_several_dimensions(peer: Any, name: str, dims: str) -> None:
    options = dict(DIMS[dims])
    if name == "count_nonzero":
        options = {k: v for k, v in options.items() if not k.startswith("keep")}
    if name == "logsumexp" and options.get("dim", 0 if "axis" in options else None) in (None, ()):
        options = {"dim": (0, 1, 2)}
    if name in ("any", "all") and dims == "two":
        options["keepdim"] = True
    if name == "norm" and dims == "numpy-names":
        options = {"dim": 0, "keepdim": True}
    call = lambda t, x: (getattr(t, name)(x, **options), getattr(x, name)(**options))  # noqa: E731
    # PyTorch's gradient of the spread over no dimension is infinite.
    slopes = not (name in ("var", "std") and dims == "no-dims")
    peer.function(call, peer.normal(2, 3, 4), gradients=slopes)


@pytest.mark.parametrize("options", [{"dim": 1}, {"dim": -1, "keepdim": True},
                                     {"axis": 0, "keepdims": True}], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", ONE)
def test_over_one_dimension(peer: Any, name: str, options: dict[str, Any]) -> None:
    if "softmax" in name:
        options = {k: v for k, v in options.items() if not k.startswith("keep")}
    call = lambda t, x: (getattr(t, name)(x, **options), getattr(x, name)(**options))  # noqa: E731
    peer.function(call, peer.normal(2, 3, 4))


@pytest.mark.parametrize("name", [*MANY, *ONE])
def test_a_number_as_a_tensor(peer: Any, name: str) -> None:
    dims = {"dim": 0} if name in ("softmax", "log_softmax", "logsumexp") else {}
    peer.function(lambda t, x: (getattr(t, name)(x, **dims), getattr(t, name)(x, dim=-1)),
                  np.array(1.5, F32))  # fmt: skip


@pytest.mark.parametrize("name", [*MANY, *ONE, "aminmax", "trace"])
def test_integers_and_bools(peer: Any, name: str) -> None:
    """The same dtypes, or the same refusal."""
    dims = {"dim": 1} if name in ("softmax", "log_softmax", "logsumexp") else {}
    for array in (np.array([[3, 1, 2], [2, 3, 3]]), np.array([[3, 1, 2]], np.int32),
                  np.array([[True, False, True]]), np.array([[3, 0, 200]], np.uint8)):  # fmt: skip
        try:
            getattr(peer.torch, name)(peer.torch.tensor(array), **dims)
        except (RuntimeError, NotImplementedError):
            peer.refusal(lambda t, array=array: getattr(t, name)(t.tensor(array), **dims))
        else:
            peer.function(lambda t, x: getattr(t, name)(x, **dims), array)


@pytest.mark.parametrize("name", [*MANY, *ONE, "aminmax"])
@pytest.mark.parametrize("dims", [{}, {"dim": 0}, {"dim": 1}], ids=str)
def test_no_elements(peer: Any, name: str, dims: dict[str, int]) -> None:
    array = np.zeros((0, 3), F32)
    if not dims and name in ("softmax", "log_softmax", "logsumexp"):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(peer.torch, name)(peer.torch.tensor(array), **dims)
    except (RuntimeError, IndexError):
        peer.refusal(lambda t: getattr(t, name)(t.tensor(array), **dims))
    else:
        peer.function(lambda t, x: getattr(t, name)(x, **dims), array)


TIES = np.array([[1, 3, 3, 0], [2, 2, 2, 2], [-1, NAN, 5, NAN], [0, 0, -0.0, -7]], F32)


@pytest.mark.parametrize("name", words("amax amin max min argmax argmin aminmax"))
def test_ties_and_nan(peer: Any, name: str) -> None:
    # Where the result is NaN, PyTorch's amax gives a whole row of NaN; ours goes to what is NaN, as
    # PyTorch's max does.
    slopes = name in ("max", "min")
    peer.function(lambda t, x: getattr(t, name)(x, dim=1), TIES, gradients=slopes)
    peer.function(lambda t, x: getattr(t, name)(x, dim=1), TIES[[0, 1, 3]])
    if name in ("max", "min"):
        peer.function(lambda t, x: getattr(t, name)(x), TIES)
    if name == "aminmax":
        peer.function(lambda t, x: t.aminmax(x, dim=1, keepdim=True), TIES[:2])
    peer.function(lambda t, x: getattr(t, name)(x), TIES[:2])


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: t.sum(x, dtype=t.float64),
        lambda t, x: x.sum(1, True, dtype=t.float64),
        lambda t, x: t.prod(x, dtype=t.float64),
        lambda t, x: x.mean(0, dtype=t.float64),
        lambda t, x: t.nansum(x, dtype=t.float64),
        lambda t, x: t.softmax(x, 1, dtype=t.float64),
        lambda t, x: x.log_softmax(-1, t.float64),
        lambda t, x: x.norm(dtype=t.float64),
        lambda t, x: t.var(x, unbiased=False),
        lambda t, x: t.var(x, False),
        lambda t, x: t.std(x, 1, False, True),
        lambda t, x: t.var(x, dim=0, correction=0),
        lambda t, x: t.std(x, (0, 1), correction=2.5),
        lambda t, x: x.var(0, keepdim=True, correction=2),
        lambda t, x: t.std_mean(x),
        lambda t, x: t.var_mean(x, 0, True, True),
        lambda t, x: t.var_mean(x, dim=1, correction=0),
        lambda t, x: t.aminmax(x),
        lambda t, x: t.argmax(x, keepdim=True),
        lambda t, x: t.max(x, 0, True)[0],
        lambda t, x: t.max(x, x.flip(0)),
        lambda t, x: x.min(x.flip(0)),
        lambda t, x: t.trace(x),
        lambda t, x: x.t().trace(),
        lambda t, x: t.logsumexp(x, (0, 1), keepdim=True),
        lambda t, x: t.softmax(x * 100, 0),
        lambda t, x: t.max(x, dim=1).values + t.min(x, dim=1).indices,
        lambda t, x: (x > 0).any(1),
        lambda t, x: t.count_nonzero(x > 0, (0, 1)),
    ],
)
def test_forms(peer: Any, call: Any) -> None:
    peer.function(call, peer.normal(4, 3))


def test_nan_is_left_out(peer: Any) -> None:
    x = peer.normal(3, 4)
    x[0, 1] = x[2, 2:] = NAN
    peer.function(lambda t, x: (t.nansum(x, 1), t.nanmean(x, 1, True), t.nansum(x)), x)
    x[2] = NAN
    peer.function(lambda t, x: (t.nansum(x, 1), t.nanmean(x, 1)), x, gradients=False)


def test_gradients_at_special_points(peer: Any) -> None:
    """A product with zeros, a deviation and a norm of 0, infinities in log-sum-exp."""
    zeros = np.array([[2, 0, 3], [0, 0, 1], [1, 2, 3]], F32)
    peer.function(lambda t, x: (x.prod(1), x.prod()), zeros)
    peer.function(lambda t, x: x.std(1), np.array([[1, 1], [1, 2]], F32))
    infinite = np.array([[-INF, 1, 2], [INF, 1, 2], [-INF, -INF, -INF], [1000, 1000, 0]], F32)
    peer.function(lambda t, x: t.logsumexp(x, 1), infinite)
    peer.function(lambda t, x: t.std_mean(x, 1), np.array([[3.0], [1]], F32))


P = (0, 0.5, 1, 1.5, 2, 3, INF, -INF)


@pytest.mark.parametrize("p", P)
def test_norm(peer: Any, p: float) -> None:
    x = peer.normal(3, 4)
    x[1] = 0
    peer.function(
        lambda t, x: (t.norm(x, p, dim=1), x.norm(p), t.norm(x, p, dim=(0, 1), keepdim=True)), x,
        gradients=p != 0,
    )  # fmt: skip
    peer.function(lambda t, x: (t.norm(x), x.norm("fro", 0), x.norm(dim=[0, 1])), x)


@pytest.mark.parametrize("p", [0, 1, 1.5, 2, 3, INF])
def test_distances(peer: Any, p: float) -> None:
    x, y = peer.normal(2, 3, 4), peer.normal(5, 4)
    y[1] = x[1, 2]
    peer.function(lambda t, x, y: t.cdist(x, y, p=p), x, y)
    peer.function(lambda t, x, y: (t.dist(x, y[:3], p), x.dist(y[0], p)), x, y, gradients=p != 0)


@pytest.mark.parametrize("shapes", [((0, 3), (2, 3)), ((2, 0), (3, 0)), ((1, 1), (1, 1)),
                                    ((2, 1, 3, 4), (5, 2, 4))], ids=str)  # fmt: skip
def test_distances_of_odd_shapes(peer: Any, shapes: Any) -> None:
    peer.function(lambda t, x, y: t.cdist(x, y), *(peer.normal(*shape) for shape in shapes))


@pytest.mark.parametrize("name", words("sum mean prod amax argmax std logsumexp softmax norm any"))
def test_out(peer: Any, name: str) -> None:
    def call(t: Any, x: Any) -> Any:
        with t.no_grad():
            kind = {"argmax": t.int64, "any": t.bool}.get(name, t.float32)
            shape = (3, 4) if name == "softmax" else (3,)
            out = t.zeros(shape, dtype=kind)
            result = getattr(t, name)(x, dim=1, out=out)
            return result, out

    peer.function(call, peer.normal(3, 4))


REFUSED = """
x.sum(5) | x.sum((0, 0)) | x.sum('a') | t.sum(3) | i.mean() | i.mean(dtype=t.int64) | i.var()
i.std() | i.nanmean() | x.prod((0, 1)) | t.argmax(b) | t.softmax(i, 0) | t.softmax(x, 2)
t.max(x, 2.0) | t.norm(i) | t.dist(i, i) | t.cdist(x, i) | t.cdist(x[0], x) | t.cdist(x, x[:, :2])
t.cdist(x, x, p=-1) | t.cdist(x, x, compute_mode='a') | t.trace(s) | t.trace(x[0]) | x.max(5)
t.norm(t.zeros(0, 3), float('inf')) | x.amax((0, 0)) | t.std_mean(i) | x.argmax(2) | x.logsumexp(3)
x.sum(0, axis=0) | x.sum(0, out=t.zeros(3).long())
"""


@pytest.mark.parametrize("text", [part.strip() for line in REFUSED.strip().splitlines()
                                  for part in line.split("|")])  # fmt: skip
def test_what_pytorch_refuses(peer: Any, text: str) -> None:
    def call(t: Any) -> Any:
        names = {"t": t, "x": t.tensor([[1.0, 2, 3], [4, 5, 6]]), "i": t.tensor([[1, 2, 3]]),
                 "b": t.tensor([True, False]), "s": t.tensor(1.0)}  # fmt: skip
        return eval(text, names)

    peer.refusal(call)
