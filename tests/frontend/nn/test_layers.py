"""Each layer against its formula in NumPy and float64, and gradients through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn

Array = np.ndarray
Check = Callable[..., None]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


# -- linear, embedding, normalisation -------------------------------------------------------------


@pytest.mark.parametrize("lead", [(), (4,), (2, 3), (0,), (2, 0, 3)])
def test_linear(lead: tuple[int, ...], check: Check, check_gradient: Check) -> None:
    x, w, b = normal(*lead, 5), normal(3, 5), normal(3)
    check(F.linear(torch.tensor(x), torch.tensor(w), torch.tensor(b)), x @ w.T + b)
    check_gradient(F.linear, x, w, b)


def test_linear_with_a_vector_as_weight(check: Check) -> None:
    x, w = normal(4, 5), normal(5)
    check(F.linear(torch.tensor(x), torch.tensor(w)), x @ w)


def test_linear_layer(check: Check) -> None:
    layer = nn.Linear(5, 3).double()
    x = normal(4, 5)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    check(layer(torch.tensor(x)), x @ weight.T + bias)
    assert nn.Linear(5, 3, bias=False).bias is None
    assert nn.Identity(3, unused=True)(layer) is layer


def test_linear_errors() -> None:
    def zeros(*shape: int) -> Any:
        return torch.zeros(*shape)

    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(4x3 and 5x4\)[^$]*test_layers"):
        F.linear(zeros(2, 2, 3), zeros(4, 5))
    with pytest.raises(RuntimeError, match="same dtype, but got Double and Float"):
        F.linear(zeros(2, 3).double(), zeros(4, 3))
    with pytest.raises(RuntimeError, match="existing size \\(5\\) at non-singleton dimension 1"):
        F.linear(zeros(2, 3), zeros(4, 3), zeros(5))
    with pytest.raises(
        TypeError, match=r"argument 'input' \(position 1\) must be Tensor, not list"
    ):
        nn.Linear(3, 4)([1.0, 2.0, 3.0])
    with pytest.raises(
        TypeError, match=r"argument 'weight' \(position 2\) must be Tensor, not int"
    ):
        F.linear(zeros(2, 3), 3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="need to be at least 1D, but they are 0D and 2D"):
        F.linear(torch.tensor(1.0), zeros(4, 3))


def test_embedding(check: Check) -> None:
    layer = nn.Embedding(6, 4).double()
    index = np.array([[0, 5, 2], [2, 2, 1]])
    check(layer(torch.tensor(index)), layer.weight.detach().numpy()[index])
    layer(torch.tensor(index)).sum().backward()
    check(layer.weight.grad, np.bincount(index.ravel(), minlength=6)[:, None] * np.ones(4))


def test_embedding_padding() -> None:
    layer = nn.Embedding(6, 4, padding_idx=-4)
    assert layer.padding_idx == 2 and (layer.weight[2] == 0).all()
    layer(torch.tensor([2, 3])).sum().backward()
    assert (layer.weight.grad[2] == 0).all() and (layer.weight.grad[3] == 1).all()


def test_embedding_errors() -> None:
    with pytest.raises(IndexError, match="index out of range in self: 6 is not in"):
        nn.Embedding(6, 4)(torch.tensor([6]))
    with pytest.raises(IndexError, match="index out of range in self: -1 is not in"):
        nn.Embedding(6, 4)(torch.tensor([-1]))
    with pytest.raises(RuntimeError, match=r"Long, Int; but got torch.FloatTensor instead"):
        nn.Embedding(6, 4)(torch.tensor([1.0]))
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(6, 4, padding_idx=6)


@pytest.mark.parametrize("shape", [(5,), (3, 4)])
def test_layer_norm(shape: tuple[int, ...], check: Check, check_gradient: Check) -> None:
    x, w, b = normal(2, *shape), normal(*shape, seed=1), normal(*shape, seed=2)
    axes = tuple(range(1, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
    args = [torch.tensor(a) for a in (x, w, b)]
    check(F.layer_norm(args[0], shape, *args[1:]), scaled * w + b)
    check(F.layer_norm(args[0], shape), scaled)
    check(nn.LayerNorm(shape, elementwise_affine=False)(args[0]), scaled)
    check_gradient(lambda x, w, b: F.layer_norm(x, shape, w, b), x, w, b)


def test_layer_norm_errors() -> None:
    x = torch.zeros(2, 3)
    with pytest.raises(RuntimeError, match=r"Given normalized_shape=\[4\], expected input with"):
        F.layer_norm(x, (4,))
    with pytest.raises(RuntimeError, match="Expected weight to be of same shape"):
        F.layer_norm(x, (3,), torch.zeros(4))
    with pytest.raises(RuntimeError, match="all inputs must share same datatype"):
        F.layer_norm(x.double(), (3,), torch.zeros(3))


# -- softmax, flatten ------------------------------------------------------------------------------


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize(
    ("layer", "formula"),
    [
        (nn.Softmax(1), lambda x: softmax(x, 1)),
        (nn.Softmax(-1), lambda x: softmax(x, 2)),
        (nn.LogSoftmax(0), lambda x: np.log(softmax(x, 0))),
        (nn.Flatten(), lambda x: x.reshape(x.shape[0], -1)),
        (nn.Flatten(0, 1), lambda x: x.reshape(-1, x.shape[2])),
    ],
    ids=lambda value: repr(value) if isinstance(value, nn.Module) else "formula",
)
def test_softmax_and_flatten(
    layer: nn.Module, formula: Callable[[Array], Array], check: Check, check_gradient: Check
) -> None:
    x = normal(3, 4, 5)
    check(layer(torch.tensor(x)), formula(x), 1e-10)
    check_gradient(layer, x)


def test_softmax_forms(check: Check) -> None:
    assert F.softmax(torch.tensor(3.0), dim=0).item() == 1
    assert F.log_softmax(torch.zeros(2), 0, dtype=torch.float64).dtype == torch.float64
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        result = F.softmax(torch.tensor(normal(2, 3)))
    check(result, softmax(normal(2, 3), 1))
    with pytest.raises(IndexError, match=r"expected to be in range of \[-1, 0\], but got 3"):
        F.softmax(torch.zeros(2), dim=3)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        F.softmax(torch.zeros(2, dtype=torch.int64), dim=0)


def test_relu_in_place() -> None:
    x = torch.tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x and x.tolist() == [0, 2]


# -- dropout --------------------------------------------------------------------------------------


def test_dropout_in_training() -> None:
    torch.manual_seed(3)
    x = torch.ones(100, 200, requires_grad=True)
    result = nn.Dropout(0.25)(x)
    values, counts = np.unique(result.detach().numpy(), return_counts=True)
    np.testing.assert_allclose(values, [0, 1 / 0.75], rtol=1e-6)
    assert counts[0] / x.numel() == pytest.approx(0.25, abs=0.02)
    result.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), result.detach().numpy())


def test_dropout_repeats_with_the_seed() -> None:
    torch.manual_seed(3)
    x = torch.ones(50)
    first, second = F.dropout(x), F.dropout(x)
    torch.manual_seed(3)
    assert (F.dropout(x) == first).all() and (F.dropout(x) == second).all()
    assert (first != second).any()


def test_dropout_at_its_ends() -> None:
    x = torch.ones(5)
    assert nn.Dropout(0.5).eval()(x) is x
    assert nn.Dropout(0.0)(x) is x
    assert (nn.Dropout(1.0)(x) == 0).all()
    for p in (-0.1, 1.5):
        with pytest.raises(ValueError, match=f"has to be between 0 and 1, but got {p}"):
            nn.Dropout(p)
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
            F.dropout(x, p)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        F.dropout(torch.ones(2, dtype=torch.int64))


# -- one_hot, pad ----------------------------------------------------------------------------------


def test_one_hot() -> None:
    index = torch.tensor([[0, 2], [1, 1]])
    rows = F.one_hot(index)
    assert rows.shape == (2, 2, 3) and rows.dtype == torch.int64
    np.testing.assert_array_equal(rows.numpy(), np.eye(3, dtype=np.int64)[index.numpy()])
    assert F.one_hot(index, 5).shape == (2, 2, 5)
    assert F.one_hot(torch.zeros(0, dtype=torch.int64), 5).shape == (0, 5)
    with pytest.raises(RuntimeError, match="Can not infer total number of classes"):
        F.one_hot(torch.zeros(0, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="non-negative"):
        F.one_hot(torch.tensor([-1]))
    with pytest.raises(RuntimeError, match="below classes"):
        F.one_hot(torch.tensor([3]), 2)
    with pytest.raises(RuntimeError, match="only applicable to index tensor of type LongTensor"):
        F.one_hot(torch.tensor([1.0]))


def test_pad(check: Check, check_gradient: Check) -> None:
    x = normal(2, 3, 4)
    check(F.pad(torch.tensor(x), (1, 2)), np.pad(x, [(0, 0), (0, 0), (1, 2)]))
    result = F.pad(torch.tensor(x), (1, 0, 0, 2), value=3.0)
    check(result, np.pad(x, [(0, 0), (0, 2), (1, 0)], constant_values=3.0))
    check(F.pad(torch.tensor(x), (-1, 1)), np.pad(x, [(0, 0), (0, 0), (0, 1)])[:, :, 1:])
    check_gradient(lambda x: F.pad(x, (1, -1, 2, 0)), x)
    assert F.pad(torch.zeros(2, dtype=torch.int64), (1, 1), value=1.5).tolist() == [1, 0, 0, 1]
    with pytest.raises(RuntimeError, match="Padding length must be divisible by 2"):
        F.pad(torch.tensor(x), (1,))
    with pytest.raises(RuntimeError, match="padding length 8 and input of dimension 3"):
        F.pad(torch.tensor(x), (1,) * 8)
    with pytest.raises(NotImplementedError, match="Unrecognised padding mode foo"):
        F.pad(torch.tensor(x), (1, 1), "foo")
