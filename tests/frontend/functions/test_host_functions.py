"""Functions that NumPy computes, in compiled code too: histograms, neighbours of floats; bounds and
ends that are tensors; refusals and rare arguments that PyTorch's samples have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F

X = np.random.default_rng(0).standard_normal(50).astype(np.float32)


def same(function: Any, *arguments: Any) -> Any:
    """What a function gives, eagerly and compiled the same."""
    eager, compiled = function(*arguments), torch.compile(function)(*arguments)
    for x, y in zip(*((z if isinstance(z, tuple) else (z,)) for z in (eager, compiled))):
        np.testing.assert_array_equal(x.numpy(), y.numpy())
        assert x.dtype is y.dtype
    return eager


def test_histograms() -> None:
    x, weight = torch.tensor(X), torch.arange(50.0)
    counts, edges = same(lambda x: tuple(torch.histogram(x, 7)), x)
    np.testing.assert_array_equal(counts.numpy(), np.histogram(X, 7)[0])
    np.testing.assert_allclose(edges.numpy(), np.histogram(X, 7)[1], rtol=1e-6)
    call = lambda x, w: torch.histogram(x, 4, range=(-1, 1), weight=w, density=True).hist  # noqa: E731
    expected = np.histogram(X, 4, (-1, 1), weights=np.arange(50), density=True)[0]
    np.testing.assert_allclose(same(call, x, weight).numpy(), expected, rtol=1e-5)
    both = same(lambda x: torch.histogramdd(x.reshape(25, 2), [3, 2]).hist, x)
    expected = np.histogramdd(X.reshape(25, 2), [3, 2])[0]
    np.testing.assert_array_equal(both.numpy(), expected)
    np.testing.assert_array_equal(
        same(lambda x: torch.histc(x, 5), x).numpy(), np.histogram(X, 5)[0]
    )
    same(lambda x: torch.histc(x, 3), torch.ones(4))
    for call in (lambda x: torch.histc(x, 3), lambda x: torch.histogram(x, 3).hist):
        for each in (call, torch.compile(call)):
            with pytest.raises(RuntimeError, match="not finite"):
                each(torch.tensor([1.0, np.inf]))


def test_parts_of_floats() -> None:
    x = torch.tensor([0.0, -3.5, 1e-42, np.inf])
    mantissa, exponent = same(lambda x: tuple(torch.frexp(x)), x)
    np.testing.assert_array_equal(torch.ldexp(mantissa, exponent)[:2].numpy(), [0, -3.5])
    after = same(torch.nextafter, torch.ones(3), torch.tensor([2.0, 1.0, 0.0]))
    assert (after > 1).tolist() == [True, False, False] and (after < 1).tolist()[2]
    grown = torch.tensor([1.5], requires_grad=True)
    torch.compile(lambda x: torch.frexp(x).mantissa.sum())(grown).backward()
    assert grown.grad.tolist() == [0.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parts_and_exponentials_of_halves(dtype: Any) -> None:
    x = torch.tensor([[0.0, -3.5], [1.25, 0.75]]).to(dtype)
    after, one = same(torch.nextafter, x, torch.ones_like(x)), 1 / 2**7
    if dtype is torch.float16:
        one /= 2**3
    expected = [[after[0, 0].item(), -3.5 + 2 * one], [1.25 - one, 0.75 + one / 2]]
    assert after.dtype is dtype and 0 < after[0, 0].item() < 1e-7 and after.tolist() == expected
    for part in (torch.igamma, torch.igammac):
        y = x.abs() + 1
        assert torch.equal(same(part, y, y), part(y.float(), y.float()).to(dtype))
    mantissa, exponent = torch.compile(lambda x: tuple(torch.frexp(x)))(x)
    want, whole = np.frexp(x.float().numpy())
    np.testing.assert_array_equal(mantissa.float().numpy(), want)
    np.testing.assert_array_equal(exponent.numpy(), whole)
    assert mantissa.dtype is dtype and exponent.dtype is torch.int32
    grown = torch.linalg.matrix_exp(x)
    wide = torch.linalg.matrix_exp(x.float())
    assert grown.dtype is dtype
    np.testing.assert_array_equal(grown.float().numpy(), wide.to(dtype).float().numpy())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_rows_of_numbers_between_tensors(dtype: Any) -> None:
    for start, end in ((2.0, -3.75), (0.0, 5.0), (1.0, 1.0)):
        first, last = torch.tensor(start), torch.tensor(end)
        row = same(lambda a, b: torch.linspace(a, b, 9, dtype=dtype), first, last)
        assert torch.equal(row, torch.linspace(start, end, 9, dtype=dtype))
        mixed = same(lambda b, a=start: torch.linspace(a, b, 4, dtype=dtype), last)
        assert torch.equal(mixed, torch.linspace(start, end, 4, dtype=dtype))
    powers = torch.compile(lambda b: torch.logspace(0.0, b, 4, dtype=dtype))(torch.tensor(3.0))
    np.testing.assert_allclose(powers.numpy(), [1, 10, 100, 1000], rtol=1e-6)
    assert torch.compile(lambda b: torch.linspace(0, b, 0))(torch.tensor(3.0)).shape == (0,)
    with pytest.raises(RuntimeError, match="0-dimensional start and end"):
        torch.compile(lambda b: torch.linspace(0, b, 3))(torch.ones(1))


def test_the_hash_of_a_tensor() -> None:
    x = torch.tensor([[1.5, 2.5], [-3.0, 0.0]])
    bits = x.double().numpy().view(np.uint64)
    assert torch.hash_tensor(x).item() == np.bitwise_xor.reduce(bits.ravel())
    rows = torch.hash_tensor(x, 1, keepdim=True)
    assert rows.dtype is torch.uint64 and rows.shape == (2, 1)
    np.testing.assert_array_equal(rows.numpy()[:, 0], bits[:, 0] ^ bits[:, 1])
    assert torch.hash_tensor(torch.tensor([True, False, True, True])).item() == 1
    with pytest.raises(IndexError, match="non-zero size"):
        torch.hash_tensor(torch.ones(2, 0), 1)
    with pytest.raises(RuntimeError, match="Unknown hash_tensor mode"):
        torch.hash_tensor(x, mode=1)


def test_the_hash_of_a_tensor_in_a_graph() -> None:
    def function(x: Any) -> tuple[Any, ...]:
        rows = torch.hash_tensor(x, 1)
        return rows, torch.hash_tensor(x * 2, keepdim=True), rows == rows.flip(0), rows.to(x.dtype)

    x = torch.arange(6.0).reshape(2, 3) - 2.5
    for got, want in zip(torch.compile(function)(x), function(x)):
        np.testing.assert_array_equal(got.numpy(), want.numpy(), strict=True)


def test_out_may_not_be_what_is_read() -> None:
    x = torch.arange(6.0)
    index, mask = torch.tensor([0, 1, 2]), torch.ones(6, dtype=torch.bool)
    for call in (
        lambda: torch.gather(x, 0, index, out=x[:3]), lambda: torch.take(x, index, out=x[1:4]),
        lambda: torch.masked_select(x, mask, out=x), lambda: torch.cat([x[:3], x[3:]], out=x),
        lambda: torch.kthvalue(x, 2, out=(x[1], torch.tensor(0))),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            call()
    assert torch.add(x, 1, out=x) is x and x[0] == 1


def test_refusals_of_what_fits_nothing() -> None:
    for call, error, text in (
        (lambda: torch.bitwise_and(2, 3), TypeError, "must be a Tensor"),
        (lambda: torch.special.xlog1py(2, 3), TypeError, "must be a Tensor"),
        (
            lambda: torch.masked_fill(
                torch.ones(2).long(), torch.tensor(True), torch.tensor(1 + 1j)
            ),
            RuntimeError, "without overflow",
        ),
        (
            lambda: torch.multinomial(torch.ones(2), 1, out=torch.ones(1)),
            RuntimeError, "expects Long tensor out",
        ),
        (
            lambda: torch.complex(
                torch.ones(1).double(), torch.ones(1).double(), out=torch.ones(1) * 1j
            ),
            RuntimeError, "Expected out tensor to have dtype",
        ),
        (
            lambda: torch.gradient(
                torch.ones(3, 3), spacing=(torch.arange(3), torch.arange(3, device="meta"))
            ),
            RuntimeError, "on the same device",
        ),
        (
            lambda: F.conv1d(torch.ones(1, 1, 4), torch.ones(1, 1, 2), torch.ones(1) * 1j),
            RuntimeError, "bias type .* should be the same",
        ),
        (lambda: torch.ormqr(*[torch.tensor(1.0)] * 3), RuntimeError, "at least 2 dimensions"),
        (
            lambda: torch.signal.windows.hann(3, layout=torch.sparse_coo),
            ValueError, "strided tensors only",
        ),
        (lambda: torch.zeros(3, layout=torch.sparse_csr), NotImplementedError, "torch.strided"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()


def test_strides_over_memory_from_numpy() -> None:
    memory = np.arange(20.0)
    x = torch.from_numpy(memory[5:15])
    assert x.as_strided((2, 2), (1, 2)).tolist() == [[5, 7], [6, 8]]
    y = x.as_strided((2, 2), (1, 2), 0)
    assert y.tolist() == [[0, 2], [1, 3]]
    y[0, 0] = -1
    assert memory[0] == -1
    columns = torch.from_numpy(memory.reshape(4, 5)[:, 1])
    assert columns.as_strided((2,), (5,)).tolist() == [1, 6]


def test_norms_of_an_empty_vector_of_channels() -> None:
    none = torch.zeros(0)
    for training in (True, False):
        assert F.batch_norm(none, none, none, training=training).shape == (0,)


def test_moments_of_complex_numbers_under_a_mask() -> None:
    x = torch.tensor([1 + 2j, -1j, 3.0 + 0j, 5 + 5j])
    mask = torch.tensor([True, True, True, False])
    expected = np.var(x.numpy()[:3], ddof=1)
    np.testing.assert_allclose(torch.masked.var(x, mask=mask).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(torch.masked.std(x).numpy(), np.std(x.numpy(), ddof=1), rtol=1e-6)
    between = torch.lerp(x, x * 2, 0.2 + 0.1j)
    np.testing.assert_allclose(between.numpy(), x.numpy() * (1.2 + 0.1j), rtol=1e-6)
