"""Sparse tensors against dense ones of NumPy in float64: products, sums, elementwise functions and
their gradients, eager and compiled; what is refused, and that nothing is changed by it."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.errors import TraceError

LAYOUTS = ("coo", "csr", "csc")
SIZE = (5, 7)


def drawn(layout: str = "coo", seed: int = 0, repeated: bool = True) -> tuple[Any, np.ndarray]:
    """A sparse f64 matrix and its elements in a dense array; COO with places that stand twice."""
    random = np.random.default_rng(seed)
    count = 12
    flat = random.permutation(np.prod(SIZE))[:count]
    if repeated and layout == "coo":
        flat[3], flat[7] = flat[9], flat[0]
    indices = np.stack(np.unravel_index(flat, SIZE))
    values = random.standard_normal(count)
    dense = np.zeros(SIZE)
    np.add.at(dense, tuple(indices), values)
    x = torch.sparse_coo_tensor(torch.tensor(indices), torch.tensor(values), SIZE)
    return {"coo": lambda: x, "csr": x.to_sparse_csr, "csc": x.to_sparse_csc}[layout](), dense


def normal(*shape: int) -> Any:
    return torch.tensor(np.random.default_rng(1).standard_normal(shape))


def close(found: Any, expected: np.ndarray) -> None:
    found = found.to_dense() if found.layout is not torch.strided else found
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_conversions(layout: str) -> None:
    x, dense = drawn(layout)
    for found in (x, x.to_sparse(), x.to_sparse_csr(), x.to_sparse_csc(), x.clone(), x.detach()):
        close(found, dense)
    assert x.shape == torch.Size(SIZE) and x.dtype is torch.float64 and x.dim() == 2
    assert str(x.layout) == f"torch.sparse_{layout}" and x.is_sparse == (layout == "coo")
    close(torch.tensor(dense).to_sparse(), dense)
    close(torch.tensor(dense).to_sparse_csr().t(), dense.T)
    close(x.t(), dense.T)
    close(x.T if layout == "coo" else x.transpose(-1, 0), dense.T)
    assert isinstance(x.float(), torch.Tensor) and x.to(torch.float32).dtype is torch.float32


def test_coalesce_adds_up_and_orders() -> None:
    x, dense = drawn()
    assert not x.is_coalesced() and x._nnz() == 12
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        x.indices()
    y = x.coalesce()
    assert y.is_coalesced() and y._nnz() == 10
    flat = np.ravel_multi_index(tuple(y.indices().numpy()), SIZE)
    assert (np.diff(flat) > 0).all()
    np.testing.assert_allclose(y.values().numpy(), dense.reshape(-1)[flat], rtol=1e-14)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_and_their_gradients(layout: str, compiled: bool) -> None:
    x, dense = drawn(layout)
    right, left, start = normal(7, 3), normal(4, 5), normal(5, 3)

    def function(x: Any, right: Any, left: Any, start: Any) -> Any:
        return (
            x @ right, left @ x, torch.sparse.mm(x, right), torch.mv(x, right[:, 0]),
            x.t() @ start, torch.sparse.addmm(start, x, right, beta=2, alpha=3),
        )  # fmt: skip

    run = torch.compile(function, fullgraph=True) if compiled else function
    for tensor in (x, right, left):
        tensor.requires_grad_()
    results = run(x, right, left, start)
    r, lefts, s = (t.detach().numpy() for t in (right, left, start))
    expected = (dense @ r, lefts @ dense, dense @ r, dense @ r[:, 0], dense.T @ s,
                2 * s + 3 * dense @ r)  # fmt: skip
    for found, wanted in zip(results, expected):
        close(found, wanted)
    weights = [normal(*found.shape) for found in results]
    sum((found * w).sum() for found, w in zip(results, weights)).backward()
    w = [each.numpy() for each in weights]
    by_x = w[0] @ r.T + lefts.T @ w[1] + w[2] @ r.T + s @ w[4].T + 3 * w[5] @ r.T
    by_x += np.outer(w[3], r[:, 0])
    assert type(x.grad) is type(x)
    coo = x.grad.detach().to_sparse() if layout != "coo" else x.grad
    np.testing.assert_allclose(coo._values().numpy(), by_x[tuple(coo._indices().numpy())])
    by_right = dense.T @ (w[0] + w[2] + 3 * w[5])
    by_right[:, 0] += dense.T @ w[3]
    close(right.grad, by_right)
    close(left.grad, w[1] @ dense.T)


def test_sizes_and_number_of_elements_stay_open() -> None:
    function = torch.compile(lambda x, y: x @ y, fullgraph=True)
    for count in (3, 5, 8, 11):
        indices = torch.tensor(np.random.default_rng(count).integers(0, 4, (2, count)))
        x = torch.sparse_coo_tensor(indices, torch.ones(count), (4, 4))
        np.testing.assert_array_equal(function(x, torch.eye(4)).numpy(), x.to_dense().numpy())
    assert len({id(each.program) for each in function.specializations}) == 2


def test_what_depends_on_values_runs_eagerly() -> None:
    x, _ = drawn()
    for function in (lambda x: x.coalesce().values().sum(), lambda x: (x * x.coalesce()).sum()):
        with pytest.raises(TraceError, match="runs eagerly only"):
            torch.compile(function, fullgraph=True)(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = torch.compile(function)
            assert float(compiled(x)) == float(function(x))


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_elementwise(layout: str) -> None:
    x, dense = drawn(layout)
    other = normal(*SIZE)
    o = other.numpy()
    close(x * 3, 3 * dense)
    close(x * other, dense * o)
    close(other * x, dense * o)
    close(x / 4, dense / 4)
    close(-x, -dense)
    close(abs(x), abs(dense))
    close(x.square(), dense**2)
    close(x.tanh(), np.tanh(dense))
    close(other + x, o + dense)
    close(torch.sub(other, x, alpha=2), o - 2 * dense)
    y, second = drawn(layout, seed=3)
    close(x + y, dense + second)
    close(x - y, dense - second)
    close(x * y, dense * second)
    close(x @ y.t(), dense @ second.T)
    total = other.clone().add_(x, alpha=0.5)
    close(total, o + dense / 2)
    x.mul_(2)
    close(x, 2 * dense)


def test_sums_and_slices() -> None:
    x, dense = drawn()
    close(torch.sparse.sum(x), dense.sum())
    close(torch.sparse.sum(x, 0), dense.sum(0))
    close(torch.sparse.sum(x, [1]), dense.sum(1))
    close(x.sum((0, 1)), dense.sum())
    close(x.norm(), np.linalg.norm(dense))
    close(x[2], dense[2])
    close(x[:, 1:4], dense[:, 1:4])
    close(x.index_select(1, torch.tensor([6, 0, 6])), dense[:, [6, 0, 6]])
    close(torch.cat([x, x], 1), np.concatenate([dense, dense], 1))
    close(torch.stack([x, x]), np.stack([dense, dense]))
    assert sum(float(row.to_dense().sum()) for row in x) == pytest.approx(dense.sum())


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_over_what_is_stored(dim: int) -> None:
    x, dense = drawn(repeated=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.where(dense != 0, np.exp(dense), 0)
        expected = powers / powers.sum(dim, keepdims=True)
    close(torch.sparse.softmax(x, dim), np.nan_to_num(expected))
    found = torch.sparse.log_softmax(x, dim)
    logs = np.log(expected[tuple(found.indices().numpy())])
    np.testing.assert_allclose(found.values().numpy(), logs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients_of_softmax(name: str) -> None:
    x, _ = drawn(repeated=False)
    at = x._indices()
    weights = normal(12)

    def loss(values: Any) -> Any:
        y = torch.sparse_coo_tensor(at, values, SIZE)
        return (getattr(torch.sparse, name)(y, 1).values() * weights).sum()

    assert torch.autograd.gradcheck(loss, x._values().clone().requires_grad_())


def test_gradients_go_to_values_and_dense_tensors() -> None:
    values = normal(3).requires_grad_()
    x = torch.sparse_coo_tensor([[0, 1, 0], [2, 0, 2]], values, (2, 3))
    assert x.requires_grad and not x.is_leaf
    torch.sparse.sum(x.coalesce() * 2).backward()
    np.testing.assert_array_equal(values.grad.numpy(), [2, 2, 2])
    dense = torch.eye(3).requires_grad_()
    dense.to_sparse().values().square().sum().backward()
    np.testing.assert_array_equal(dense.grad.numpy(), 2 * np.eye(3))
    leaf = x.detach().requires_grad_()
    assert leaf.is_leaf
    (grad,) = torch.autograd.grad(leaf.to_dense().square().sum(), leaf)
    coo = grad._values().numpy()
    held = leaf._values().numpy()
    np.testing.assert_allclose(coo, 2 * np.array([held[0] + held[2], held[1], held[0] + held[2]]))
    assert leaf.grad is None
    leaf.grad = grad
    np.testing.assert_array_equal(leaf.grad._values().numpy(), coo)
    with pytest.raises(RuntimeError, match="has elements where it has"):
        leaf.grad = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [1.0, 2, 3], (2, 3)).double()
    np.testing.assert_array_equal(leaf.grad._values().numpy(), coo)


def test_dense_dimensions() -> None:
    values = normal(3, 2)
    x = torch.sparse_coo_tensor([[0, 3, 0]], values, (4, 2))
    assert (x.sparse_dim(), x.dense_dim()) == (1, 1)
    expected = np.zeros((4, 2))
    np.add.at(expected, [0, 3, 0], values.numpy())
    close(x, expected)
    close(x.coalesce(), expected)
    close(torch.sparse.sum(x, 1), expected.sum(1))
    close(torch.sparse.sum(x, 0), expected.sum(0))
    close(torch.tensor(expected).to_sparse(1), expected)


BAD = {
    "found negative index -1 for dim 0": ([[0, -1]], [1.0, 2.0], (3,)),
    "for dim 0, size is 3 but found index 5": ([[0, 5]], [1.0, 2.0], (3,)),
    "must have same nnz": ([[0, 1]], [1.0], (3,)),
    "'len\\(size\\) == sparse_dim": ([[0, 1]], [1.0, 2.0], (3, 3)),
    "values has incorrect size": ([[0, 1]], [[1.0], [2.0]], (3, 3)),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_places_are_refused(message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.sparse_coo_tensor(*BAD[message])


BAD_ROWS = {
    "must begin with 0": ([1, 1, 3], [2, 0, 2]),
    "not fall": ([0, 4, 3], [2, 0, 2]),
    "dimensions plus one": ([0, 1, 2, 3], [2, 0, 2]),
    "`0 <= col_indices < 3`": ([0, 1, 3], [2, 0, 3]),
    "sorted and distinct": ([0, 1, 3], [2, 2, 0]),
}


@pytest.mark.parametrize("message", BAD_ROWS)
def test_bad_rows_are_refused(message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.sparse_csr_tensor(*BAD_ROWS[message], [1.0, 2.0, 3.0], (2, 3))


def test_what_is_not_there_says_so_and_changes_nothing() -> None:
    x, dense = drawn()
    with pytest.raises(NotImplementedError, match="cos\\(\\) of tensors of layout Sparse"):
        x.cos()
    with pytest.raises(NotImplementedError, match="would change where a sparse tensor has"):
        x.clone().requires_grad_().add_(drawn(seed=4)[0])
    with pytest.raises(RuntimeError, match="Expected dim 0 size 7, got 5"):
        x @ normal(5, 2)
    with pytest.raises(RuntimeError, match="expected scalar type Double but found Float"):
        x @ torch.ones(7, 2)
    with pytest.raises(RuntimeError, match="add\\(sparse, dense\\) is not supported"):
        x + normal(*SIZE)
    with pytest.raises(TypeError, match="can't convert Sparse layout tensor to numpy"):
        x.numpy()
    with pytest.raises(RuntimeError, match="coalesce expected sparse coordinate"):
        torch.ones(2).coalesce()
    close(x, dense)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_sampled_addmm(mode: str) -> None:
    x, dense = drawn("csr")
    left, right = normal(5, 4).requires_grad_(), normal(4, 7).requires_grad_()
    x = x.requires_grad_()

    def run(x: Any, left: Any, right: Any) -> Any:
        return torch.sparse.sampled_addmm(x, left, right, beta=0.5, alpha=2).to_dense()

    found = (torch.compile(run, fullgraph=True) if mode == "compiled" else run)(x, left, right)
    a, b, mask = left.detach().numpy(), right.detach().numpy(), dense != 0
    close(found, 0.5 * dense + 2 * (a @ b) * mask)
    weight = np.random.default_rng(3).standard_normal(SIZE)
    (found * torch.tensor(weight)).sum().backward()
    close(left.grad, 2 * (weight * mask) @ b.T)
    close(right.grad, 2 * a.T @ (weight * mask))
    close(x.grad, 0.5 * weight * mask)


def test_sampled_addmm_refuses_what_does_not_fit() -> None:
    x, _ = drawn("csr")
    for words, error, operands in (
        ("shapes cannot be multiplied", RuntimeError, (x, normal(5, 3), normal(4, 7))),
        ("Expected mat2 to have strided layout", RuntimeError, (x, normal(5, 5), x)),
        ("the same dtype, but got Double and Float", RuntimeError,
         (x, normal(5, 3), normal(3, 7).float())),
        ("the product", RuntimeError, (x, normal(4, 3), normal(3, 7))),
        ("Expected self to have sparse csr", RuntimeError,
         (x.to_sparse(), normal(5, 3), normal(3, 7))),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            torch.sparse.sampled_addmm(*operands)


def test_spdiags() -> None:
    lines, offsets = normal(3, 4), torch.tensor([0, -1, 2])
    expected = np.zeros((3, 5))
    for line, offset in zip(lines.numpy(), (0, -1, 2)):
        for column, value in enumerate(line):
            if 0 <= column - offset < 3:
                expected[column - offset, column] = value
    for layout in (None, torch.sparse_csr, torch.sparse_csc):
        found = torch.sparse.spdiags(lines, offsets, (3, 5), layout)
        close(found, expected)
        assert found.layout is (layout or torch.sparse_coo)
    with pytest.raises(RuntimeError, match="Offset tensor contains duplicate values"):
        torch.sparse.spdiags(lines, torch.tensor([0, 0, 1]), (3, 5))
    with pytest.raises(RuntimeError, match="does not match the number of offsets"):
        torch.sparse.spdiags(lines, torch.tensor([0, 1]), (3, 5))


def test_a_tensor_off_the_tape_may_come_to_have_elements_elsewhere() -> None:
    x, dense = drawn()
    other, more = drawn(seed=4)
    same = x.add_(other, alpha=2)
    assert same is x
    close(x, dense + 2 * more)
    assert x.zero_() is x and x._nnz() == 0
    close(x, np.zeros(SIZE))


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_copies_and_files(layout: str) -> None:
    x, dense = drawn(layout)
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        close(other, dense)
        assert other.layout is x.layout
    file = io.BytesIO()
    torch.save({"x": x, "n": 3}, file)
    file.seek(0)
    loaded = torch.load(file)
    close(loaded["x"], dense)
    assert loaded["x"].layout is x.layout and loaded["n"] == 3


def test_texts() -> None:
    x = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    text = (
        "tensor(indices=tensor([[0, 1],\n                       [2, 0]]),\n"
        "       values=tensor([3., 4.]),\n"
        "       size=(2, 3), nnz=2, layout=torch.sparse_coo)"
    )
    assert repr(x) == text
    assert repr(x.to_sparse_csr()) == (
        "tensor(crow_indices=tensor([0, 1, 2]),\n       col_indices=tensor([2, 0]),\n"
        "       values=tensor([3., 4.]), size=(2, 3), nnz=2, layout=torch.sparse_csr)"
    )


def test_former_types() -> None:
    at, values = torch.tensor([[0, 1], [1, 2]]), torch.tensor([1.0, 2.0])
    x = torch.sparse.FloatTensor(at, values, torch.Size([2, 3]))
    assert isinstance(x, torch.sparse.FloatTensor) and not isinstance(x, torch.sparse.LongTensor)
    assert torch.sparse.FloatTensor(2, 3).shape == (2, 3)
    close(x, np.array([[0, 1.0, 0], [0, 0, 2]]))


def test_a_module_holds_one() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("adjacency", torch.eye(3).to_sparse())
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return torch.spmm(self.adjacency, self.linear(x))

    layer, x = Layer(), torch.ones(3, 3)
    compiled = torch.compile(layer, fullgraph=True)
    np.testing.assert_allclose(compiled(x).detach().numpy(), layer(x).detach().numpy(), rtol=1e-6)
    assert layer.double().adjacency.dtype is torch.float64
    assert "adjacency" in layer.state_dict()
