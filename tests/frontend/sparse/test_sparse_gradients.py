"""Gradients of tables of which rows were read, `sparse=True`: against those in float64 of NumPy,
added up with sparse and dense ones; the steps of optimizers that take them, and those that
refuse."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from graphc.errors import TraceError

ROWS = [[0, 1, 3], [1, 1, 5]]
SIZE = (7, 4)


def table(sparse: bool = True, seed: int = 0, **options: Any) -> Any:
    weight = torch.tensor(np.random.default_rng(seed).standard_normal(SIZE))
    return nn.Embedding.from_pretrained(weight, freeze=False, sparse=sparse, **options)


def read(layer: Any, rows: Any = ROWS) -> np.ndarray:
    """Backward through rows that are weighted; the gradient, dense, as NumPy adds it up."""
    factor = np.random.default_rng(1).standard_normal((*np.shape(rows), SIZE[1]))
    (layer(torch.tensor(rows)) * torch.tensor(factor)).sum().backward()
    gradient = np.zeros(SIZE)
    np.add.at(gradient, np.array(rows), factor)
    return gradient


def close(found: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.to_dense().detach().numpy(), expected, rtol=1e-12, atol=1e-13)


def test_the_gradient_has_the_rows_that_were_read() -> None:
    layer = table()
    expected = read(layer)
    gradient = layer.weight.grad
    assert gradient.is_sparse and not gradient.is_coalesced() and gradient.shape == torch.Size(SIZE)
    assert gradient._indices().tolist() == [[0, 1, 3, 1, 1, 5]]
    assert gradient.coalesce().indices().tolist() == [[0, 1, 3, 5]]
    close(gradient, expected)


def test_the_padding_row_is_left_out_and_bags_are_rows_too() -> None:
    layer = table(padding_idx=1)
    read(layer)
    assert layer.weight.grad._indices().tolist() == [[0, 3, 5]]
    bag = nn.EmbeddingBag(*SIZE, mode="mean", sparse=True, dtype=torch.float64)
    bag(torch.tensor([0, 1, 1, 4]), torch.tensor([0, 3])).sum().backward()
    assert bag.weight.grad._indices().tolist() == [[0, 1, 1, 4]]
    expected = np.zeros(SIZE)
    expected[[0, 1, 4]] = np.array([[1 / 3], [2 / 3], [1]])
    close(bag.weight.grad, expected)


def test_gradients_add_up_in_either_layout() -> None:
    layer = table()
    expected = read(layer)
    kept = layer.weight.grad
    expected = expected + read(layer, [2, 2])
    assert layer.weight.grad is kept and kept._nnz() == 8
    close(kept, expected)
    layer.weight.sum().backward()  # dense
    assert not layer.weight.grad.is_sparse
    close(layer.weight.grad, expected + 1)
    kept = layer.weight.grad
    expected = expected + 1 + read(layer)
    assert layer.weight.grad is kept
    close(kept, expected)
    layer.weight.grad = None  # both in one sweep
    (layer(torch.tensor([4])).sum() + layer.weight.sum()).backward()
    close(layer.weight.grad, np.ones(SIZE) + (np.arange(7) == 4)[:, None])


def test_zero_grad_empties_it_and_second_derivatives_go_through() -> None:
    layer = table()
    read(layer)
    kept = layer.weight.grad
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad is kept and kept._nnz() == 0
    squares = layer(torch.tensor([2, 2])).pow(3).sum()
    (gradient,) = torch.autograd.grad(squares, layer.weight, create_graph=True)
    assert gradient.is_sparse and gradient.requires_grad
    (second,) = torch.autograd.grad(gradient.to_dense().sum(), layer.weight)
    expected = np.zeros(SIZE)
    expected[2] = 12 * layer.weight.detach().numpy()[2]
    close(second, expected)


def test_a_computed_table_has_a_dense_gradient() -> None:
    weight = torch.ones(*SIZE, dtype=torch.float64, requires_grad=True)
    nn.functional.embedding(torch.tensor([1, 1]), weight * 3, sparse=True).sum().backward()
    close(weight.grad, 6.0 * (np.arange(7) == 1)[:, None] * np.ones(SIZE))
    assert not weight.grad.is_sparse
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse"):
        table(scale_grad_by_freq=True)(torch.tensor([1]))


def test_what_is_changed_after_forward_is_an_error_and_indices_are_kept() -> None:
    layer, rows = table(), torch.tensor([1, 2])
    result = layer(rows)
    rows[0] = 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    rows = torch.tensor([1, 2])
    layer(rows).sum().backward()
    rows[0] = 0
    assert layer.weight.grad._indices().tolist() == [[1, 2]]


# -- optimizers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "maximize": True}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
        ("Adagrad", {"lr": 0.1, "maximize": True, "initial_accumulator_value": 0.5}),
        ("LBFGS", {}),
    ],
)
def test_steps_have_the_bits_of_dense_ones(name: str, options: dict[str, Any]) -> None:
    weights = [_after_steps(sparse, name, options) for sparse in (True, False)]
    np.testing.assert_array_equal(*weights)


def _after_steps(sparse: bool, name: str, options: dict[str, Any]) -> np.ndarray:
    layer, turns = table(sparse), [ROWS, [6, 6], ROWS]
    optimizer = getattr(torch.optim, name)(layer.parameters(), **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = layer(torch.tensor(turns[0])).square().sum()
        loss.backward()
        assert layer.weight.grad.is_sparse == sparse
        return loss

    while turns:
        optimizer.step(closure)
        turns.pop(0)
    weights: np.ndarray = layer.weight.detach().numpy()
    return weights


def test_sparse_adam_is_adam_of_the_rows_of_a_gradient() -> None:
    layer = table()
    optimizer = torch.optim.SparseAdam(layer.parameters(), lr=0.1, betas=(0.8, 0.9))
    p = layer.weight.detach().numpy().copy()
    m, v = np.zeros(SIZE), np.zeros(SIZE)
    for step, rows in enumerate((ROWS, [[6, 6]], ROWS), 1):
        optimizer.zero_grad()
        g = read(layer, rows)
        optimizer.step()
        at = np.unique(rows)
        m[at] += 0.2 * (g - m)[at]
        v[at] += 0.1 * (g * g - v)[at]
        size = 0.1 * np.sqrt(1 - 0.9**step) / (1 - 0.8**step)
        p[at] -= size * m[at] / (np.sqrt(v[at]) + 1e-8)
        close(layer.weight, p)
    saved = optimizer.state_dict()
    assert saved["state"][0]["step"] == 3 and type(saved["state"][0]["step"]) is int
    close(saved["state"][0]["exp_avg_sq"], v)
    optimizer.load_state_dict(saved)
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["step"] == 4


def test_options_of_sparse_adam() -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    for options, words in (
        ({"lr": 0.0}, "Invalid learning rate: 0.0"),
        ({"eps": 0.0}, "Invalid epsilon value: 0.0"),
        ({"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
    ):
        with pytest.raises(ValueError, match=words):
            torch.optim.SparseAdam([weight], **options)
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[0, 0\]\]"):
        torch.optim.SparseAdam([torch.eye(2).to_sparse().requires_grad_()])
    weight.sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        torch.optim.SparseAdam([weight]).step()


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        *[
            (name, {}, f"{name} does not support sparse gradients")
            for name in (
                "RMSprop",
                "Adadelta",
                "Adamax",
                "NAdam",
                "RAdam",
                "ASGD",
                "Rprop",
                "Muon",
                "Adafactor",
            )
        ],
        ("Adam", {}, "Adam does not support sparse gradients, please consider SparseAdam instead"),
        ("AdamW", {}, "Adam does not support sparse gradients"),
        ("SGD", {"lr": 0.1, "weight_decay": 0.1}, r"add\(sparse, dense\) is not supported"),
        ("Adagrad", {"weight_decay": 0.1}, "weight_decay option is not compatible with sparse"),
    ],
)
def test_refusals_change_nothing(name: str, options: dict[str, Any], words: str) -> None:
    """A dense gradient of a parameter before it is not used, either."""
    layer, other = table(), torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    optimizer = getattr(torch.optim, name)([{"params": [other]}, {"params": [layer.weight]}],
                                           **options)  # fmt: skip
    read(layer)
    other.sum().backward()
    before = layer.weight.detach().clone()
    with pytest.raises(RuntimeError, match=words):
        optimizer.step()
    assert torch.equal(other, torch.ones(2, 2, dtype=torch.float64))
    assert torch.equal(layer.weight, before)


def test_gradients_are_clipped_and_unscaled() -> None:
    layer = table()
    dense = read(layer)
    norm = nn.utils.clip_grad_norm_(layer.parameters(), 0.5)
    assert float(norm) == pytest.approx(np.linalg.norm(dense))
    close(layer.weight.grad, dense * 0.5 / (np.linalg.norm(dense) + 1e-6))
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    layer.weight.grad = None
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    before = layer.weight.detach().numpy().copy()
    scaler.scale(layer(torch.tensor([1, 1])).sum()).backward()
    scaler.step(optimizer)
    close(layer.weight, before - 2.0 * (np.arange(7) == 1)[:, None])


# -- compiled --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["model", "step", "optimizer"])
def test_compiled_code_with_a_sparse_gradient_runs_eagerly_and_says_so(what: str) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        expected = _trained("nothing")
        assert not found
        np.testing.assert_array_equal(_trained(what), expected)
    assert any("sparse" in str(each.message) for each in found)


def _trained(compiled: str) -> np.ndarray:
    """The table after two steps, of which a part is compiled."""
    torch.manual_seed(0)
    layer = table()
    model: Any = nn.Sequential(layer, nn.Linear(4, 2, dtype=torch.float64))
    optimizer: Any = torch.optim.SparseAdam(layer.parameters(), lr=0.1)
    forward = torch.compile(model) if compiled == "model" else model
    advance = torch.compile(optimizer.step) if compiled == "optimizer" else optimizer.step

    def step(rows: Any) -> None:
        optimizer.zero_grad()
        forward(rows).square().sum().backward()
        advance()

    run = torch.compile(step) if compiled == "step" else step
    for rows in ([0, 1, 1], [5, 5, 2]):
        run(torch.tensor(rows))
    assert layer.weight.grad.is_sparse
    weights: np.ndarray = layer.weight.detach().numpy()
    return weights


def test_forward_alone_is_compiled() -> None:
    layer = table()
    compiled = torch.compile(layer, fullgraph=True)
    with torch.no_grad():
        assert torch.equal(compiled(torch.tensor([2])), layer.weight[2:3])
    with pytest.raises(TraceError, match="is a sparse tensor: compiled code makes dense ones"):
        compiled(torch.tensor([2]))


def test_data_parallel_training_refuses_them() -> None:
    from frontend.distributed.reducer import Reducer

    layer = table()
    read(layer)
    with pytest.raises(RuntimeError, match="does not average sparse gradients"):
        Reducer.check_plain(layer.weight.grad)
