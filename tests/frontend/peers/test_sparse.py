"""Sparse tensors beside PyTorch's: results with their layout, whether they are coalesced, texts,
gradients, and the same kinds of errors."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import frontend

LAYOUTS = ("coo", "csr")

# Of x, a sparse matrix [2, 3] of a layout, with y of the same places, d [2, 3], e [3, 4], v [3].
BOTH = """
x + x; x * d; d * x; x * 2; 2 * x; d + x; -x; abs(x); x.sqrt(); x.relu(); x.sin(); x.tanh()
x.sign(); x.log1p(); x @ e; x.mm(e); x @ v; x.mv(v); x.t() @ d; d.t() @ x; e.t() @ x.t()
t.spmm(x, e); t.sparse.mm(x, e); x.to_sparse() @ y.t()
t.addmm(t.ones(2, 4), x, e, beta=2, alpha=3); t.sparse.addmm(t.ones(2, 4), x, e)
t.nn.functional.linear(d, x); x.sum(); x.t(); x.transpose(0, 1); x.clone(); x.detach(); x.double()
x.to(t.float64); x.long(); x.size(); x.numel(); x.dim(); x.is_sparse; x.is_sparse_csr; x.layout
x._nnz(); x.sparse_dim(); x.dense_dim(); x.to_sparse(); x.to_sparse_csr(); x.to_dense()
x.to_sparse_csc(); x[0]; x[0, 2]; x[:, 1]; t.zeros_like(x); d.to_sparse(); d.to_sparse(1)
d.to_sparse_csr(); d.sparse_dim(); d.clone().add_(x, alpha=0.5); x.is_floating_point(); len(x)
list(x); x.unbind(); x.isnan(); x.requires_grad_(); repr(x.double()); x.numpy(); x.softmax(1)
x + 1; x @ e.t(); x @ e.double(); x.exp(); x.view(6); d.values(); x.mean(); x.nonzero(); x == 1
"""
ONLY_COO = """
x / 2; x - x; x ** 2; x.pow(2); x.square(); t.sparse.sum(x); t.sparse.sum(x, 0)
t.sparse.sum(x, 1); t.sparse.sum(x, (0, 1)); t.sparse.softmax(x, 0); t.sparse.softmax(x, 1)
t.sparse.log_softmax(x, 1); t.cat([x, x]); t.cat([x, x], 1); t.stack([x, x]); x.unsqueeze(0)
x.index_select(0, t.tensor([1])); x.norm(); x.T; x.permute(1, 0); x.coalesce(); x.is_coalesced()
x._indices(); x._values(); x.indices(); x.crow_indices(); x.coalesce().indices()
x.coalesce().values(); d.sub(x); x.type(); x + d; x / d; x.any(); t.sparse.sum(x, 2)
t.sparse.softmax(x, 2); x * t.ones(3); t.ones(3, 3) + x; x + t.eye(2).to_sparse()
t.sparse_coo_tensor(t.tensor([[0, 1]]), t.tensor([1.0]), (3,))
t.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0]); t.sparse_coo_tensor((2, 3))
t.sparse.FloatTensor(2, 3); t.sparse_coo_tensor(t.tensor([[0, 1]]), t.ones(2, 2), (3, 2))
t.sparse_coo_tensor(t.tensor([[0, 1]]), t.tensor([1, 2]), (3,)).requires_grad_(); d.coalesce()
d.indices()
"""


def expressions(text: str) -> list[str]:
    return [each.strip() for line in text.splitlines() for each in line.split(";") if each.strip()]


def names(torch: Any, layout: str) -> dict[str, Any]:
    indices = torch.tensor([[0, 1, 1], [2, 0, 2]])
    x = torch.sparse_coo_tensor(indices, torch.tensor([3.0, 4.0, 5.0]), (2, 3))
    y = torch.sparse_coo_tensor(indices, torch.tensor([1.0, -2.0, 0.5]), (2, 3))
    return {
        "t": torch, "x": x if layout == "coo" else x.to_sparse_csr(), "y": y, "abs": abs,
        "d": torch.arange(6.0).reshape(2, 3), "e": torch.arange(12.0).reshape(3, 4),
        "v": torch.arange(3.0), "len": len, "list": list, "repr": repr,
    }  # fmt: skip


def shown(torch: Any, result: Any) -> Any:
    """What a result is, in plain Python."""
    if isinstance(result, list | tuple) and not isinstance(result, torch.Size):
        return [shown(torch, each) for each in result]
    if not isinstance(result, torch.Tensor):
        return str(result)
    sparse = result.layout is torch.sparse_coo
    about = str(result.layout), str(result.dtype), tuple(result.shape), result.requires_grad
    values = np.round(result.detach().to_dense().double().numpy(), 5).tolist()
    return about, values, result._nnz() if sparse else None


def outcome(torch: Any, text: str, layout: str) -> Any:
    try:
        return shown(torch, eval(text, names(torch, layout)))
    except Exception as error:
        # What PyTorch refuses in words of its dispatcher is refused here by its name.
        return "raises", isinstance(error, IndexError | TypeError)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("layout", LAYOUTS)
def test_expressions(peer: Any, layout: str) -> None:
    texts = expressions(BOTH) + (expressions(ONLY_COO) if layout == "coo" else [])
    different = [
        (text, theirs, ours)
        for text in texts
        if (theirs := outcome(peer.torch, text, layout))
        != (ours := outcome(frontend, text, layout))
    ]
    assert not different, "\n".join(map(str, different))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_texts(peer: Any, layout: str, dtype: str) -> None:
    for torch_size in ((2, 3), (40, 50)):
        texts = []
        for torch in (peer.torch, frontend):
            x = torch.ones(torch_size, dtype=getattr(torch, dtype)).tril().to_sparse()
            texts.append(repr(x if layout == "coo" else x.to_sparse_csr()))
        assert texts[0] == texts[1]


GRADIENTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mm": lambda t, x, d: t.sparse.mm(x, d).square().sum(),
    "matmul": lambda t, x, d: ((x @ d) * (x @ d)).sum(),
    "dense first": lambda t, x, d: (d.t() @ x.t()).square().sum(),
    "addmm": lambda t, x, d: t.sparse.addmm(t.ones(2, 4), x, d, alpha=2).square().sum(),
    "to_dense": lambda t, x, d: x.to_dense().square().sum(),
}
DENSE_THERE = ("matmul", "dense first")
"""Where PyTorch has a dense gradient of the sparse operand; here it is sparse."""
COO_GRADIENTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda t, x, d: t.sparse.sum(x) * d.sum(),
    "sum of rows": lambda t, x, d: t.sparse.sum(x, 1).to_dense().square().sum(),
    "scaled": lambda t, x, d: (x * 2 + x).to_dense().square().sum(),
    "values": lambda t, x, d: x.coalesce().values().square().sum(),
    "softmax": lambda t, x, d: (
        t.sparse.softmax(x, 1).to_dense()[0, 2] * 0
        + t.sparse.log_softmax(x, 1).to_dense().square().sum()
    ),
}


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(peer: Any, layout: str, mode: str) -> None:
    for name, loss in {**GRADIENTS, **(COO_GRADIENTS if layout == "coo" else {})}.items():
        found = []
        for torch in (peer.torch, frontend):
            space = names(torch, layout)
            x, d = space["x"].detach().requires_grad_(), space["e"].requires_grad_()
            run = loss
            if mode == "compiled" and torch is frontend:
                run = torch.compile(loss)
            run(torch, x, d).backward()
            gradients = (x.grad, d.grad)
            if torch is frontend or name not in DENSE_THERE:
                assert x.grad.layout is x.layout, name
            arrays = [g if g is None else g.to_dense().numpy() for g in gradients]
            arrays[0] = arrays[0] * (x.detach().to_dense().numpy() != 0)
            found.append(arrays)
        for theirs, ours in zip(*found):
            if theirs is None:
                assert ours is None, name
            else:
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, err_msg=name)


def test_values_are_differentiated(peer: Any) -> None:
    found = []
    for torch in (peer.torch, frontend):
        values = torch.tensor([3.0, 4.0, 5.0], requires_grad=True)
        x = torch.sparse_coo_tensor(torch.tensor([[0, 1, 0], [2, 0, 2]]), values, (2, 3))
        assert not x.is_leaf and x.requires_grad
        (x @ torch.arange(12.0).reshape(3, 4)).square().sum().backward()
        found.append(values.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_go_both_ways(peer: Any, layout: str) -> None:
    for writer, reader in ((peer.torch, frontend), (frontend, peer.torch)):
        file = io.BytesIO()
        x = names(writer, layout)["x"]
        writer.save({"x": x}, file)
        file.seek(0)
        y = reader.load(file)["x"]
        assert str(y.layout) == str(x.layout) and y.dtype == reader.float32
        np.testing.assert_array_equal(y.to_dense().numpy(), x.to_dense().numpy())
