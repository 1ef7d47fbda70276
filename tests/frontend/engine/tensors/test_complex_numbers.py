"""Complex numbers, and dtypes that are only stored, by NumPy and numeric derivatives; what a trace
says of them. Beside PyTorch's they stand in the peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.errors import DTypeError, LinAlgError

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((2, 3, 8)).view(np.complex128)

LOSSES: list[Callable[..., Any]] = [
    lambda x, y: (x * y / (x + 2)).abs().sum(),
    lambda x, y: (x @ y.mH).real.sum() + (x**2).imag.sum(),
    lambda x, y: (x.exp() + y.log() * x.sin()).abs().pow(2).sum(),
    lambda x, y: x.angle().sum() + torch.sgn(y).real.sum(),
    lambda x, y: torch.view_as_real(x * y.conj())[..., 1].sum(),
    lambda x, y: torch.polar(x.abs(), y.real).imag.sum() + (x**y).real.sum(),
    lambda x, y: x.prod(0).abs().sum() + y.var() + x[1:, [0, 2]].norm(),
    lambda x, y: torch.fft.irfft(torch.fft.fft(x) * y).pow(2).sum(),
    lambda x, y: torch.linalg.inv(x[:, :3]).abs().sum() + torch.linalg.det(y[:, 1:]).real,
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_those_of_the_parts(loss: Callable[..., Any]) -> None:
    """dL/dRe + i · dL/dIm, by central differences."""
    leaves = [torch.tensor(a, requires_grad=True) for a in (X, Y)]
    loss(*leaves).backward()
    step = 1e-6
    for position, leaf in enumerate(leaves):
        for index in ((0, 0), (2, 1)):
            slopes = []
            for unit in (1, 1j):
                values = []
                for sign in (1, -1):
                    arrays = [X.copy(), Y.copy()]
                    arrays[position][index] += sign * step * unit
                    values.append(loss(*map(torch.tensor, arrays)).item())
                slopes.append((values[0] - values[1]) / (2 * step))
            actual = leaf.grad[index].item()
            np.testing.assert_allclose([actual.real, actual.imag], slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", LOSSES[:-1])
def test_compiled_steps_have_the_bits_of_eager_ones(loss: Callable[..., Any]) -> None:
    def step(x: Any, y: Any) -> tuple[Any, ...]:
        value = loss(x, y)
        value.backward()
        return value.detach(), x.grad, y.grad

    want, got = (
        run(*(torch.tensor(a, requires_grad=True) for a in (X, Y)))
        for run in (step, torch.compile(step, fullgraph=True))
    )
    for ours, theirs in zip(want, got, strict=True):
        assert ours.dtype is theirs.dtype
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), strict=True)


def test_compiled_functions_take_and_give_complex_numbers() -> None:
    def function(x: Any, y: Any) -> Any:
        x.mul_(y)
        x.real[0] = 2.0
        return (x @ y.mH).abs(), x.conj()

    compiled = torch.compile(function, fullgraph=True)
    for rows in (3, 3, 5, 4):  # sizes left open from the second on
        parts = np.random.default_rng(rows).standard_normal((2, rows, 8)).view(np.complex128)
        results = []
        for run in (function, compiled):
            # What is updated is a transposed array.
            x, y = torch.tensor(np.ascontiguousarray(parts[0].T)).T, torch.tensor(parts[1])
            results.append([x, *run(x, y)])
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), strict=True)


def test_backward_of_a_compiled_function() -> None:
    def function(x: Any, y: Any) -> Any:
        spectrum = torch.fft.rfft(y.real) * 2j
        return (x.exp() * y).sum(), spectrum.abs().sum()

    gradients = []
    for run in (function, torch.compile(function, fullgraph=True)):
        leaves = [torch.tensor(a, requires_grad=True) for a in (X, Y)]
        value, size = run(*leaves)
        (value.abs() + size).backward()
        gradients.append([leaf.grad.numpy() for leaf in leaves])
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_what_is_known_in_a_trace() -> None:
    constant = torch.compile(lambda x: x * torch.tensor([1j, 2.0])[0].item(), fullgraph=True)
    assert constant(torch.ones(1)).tolist() == [1j]
    spectrum = torch.compile(lambda x: torch.fft.rfft(x).abs(), fullgraph=True)
    for rows in (1, 2, 3, 5):
        x = torch.rand(rows, 10)
        np.testing.assert_allclose(spectrum(x), abs(np.fft.rfft(x.numpy())), rtol=1e-5, atol=1e-5)


def test_values_are_numpys() -> None:
    x, y = torch.tensor(X), torch.tensor(Y)
    for ours, theirs in [
        (x @ y.T, X @ Y.T), (torch.exp(x), np.exp(X)), (x.cumsum(1), X.cumsum(1)),
        (torch.vdot(x[0], y[0]), np.vdot(X[0], Y[0])), (torch.fft.fftn(x), np.fft.fftn(X)),
        (x.std(), X.std(ddof=1)), (torch.linalg.eigvals(x[:, :3]).sum(), np.trace(X)),
        (torch.logical_not(x), ~X.astype(bool)), (x.real.to(torch.complex64), X.real + 0j),
    ]:  # fmt: skip
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)


def test_parts_are_views() -> None:
    x = torch.tensor([1 + 2j, 3 + 4j])
    x.real.mul_(10)
    x.imag[0] = 0
    torch.view_as_real(x)[1, 1] = -1
    assert x.tolist() == [10, 30 - 1j] and x.real._base is x
    x.imag = 5.0
    assert torch.view_as_complex(torch.view_as_real(x)).tolist() == [10 + 5j, 30 + 5j]
    leaf = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    changed = leaf * 2
    changed.real.mul_(3)
    changed.abs().sum().backward()
    assert leaf.grad.tolist() == [6, 6]


def test_dtypes() -> None:
    assert (torch.ones(2) + 1j).dtype is torch.complex64
    assert (torch.ones(2, dtype=torch.float64) * torch.tensor(1j)).dtype is torch.complex128
    assert (torch.arange(2) + 1j).dtype is torch.complex64
    assert torch.randn(4, dtype=torch.cfloat).is_complex()
    assert not torch.ones(1, dtype=torch.cdouble).is_floating_point()
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(2).add_(1j)
    with pytest.raises(RuntimeError, match="only for real scalar outputs"):
        torch.ones(1, dtype=torch.cfloat, requires_grad=True).backward()


EYE = torch.eye(3, dtype=torch.complex128)
L: Any = torch.linalg
MATRIX_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "solve": lambda a, b: L.solve(a, b),
    "inv": lambda a, b: L.inv(a),
    "solve_triangular": lambda a, b: L.solve_triangular(a, b, upper=True),
    "det": lambda a, b: L.det(a),
    "slogdet": lambda a, b: L.slogdet(a),
    "cholesky": lambda a, b: L.cholesky(a @ a.mH + EYE),
    "lu": lambda a, b: L.lu_factor(a),
    "qr": lambda a, b: L.qr(a),
    "svd": lambda a, b: L.svd(a)[1],
    "eigh": lambda a, b: L.eigh(a @ a.mH)[0],
    "eig": lambda a, b: L.eig(a),
    "eig of reals": lambda a, b: L.eig(a.real),
    "pinv": lambda a, b: L.pinv(a),
    "lstsq": lambda a, b: L.lstsq(a, b).solution,
    "matrix_exp": lambda a, b: L.matrix_exp(a),
    "ldl": lambda a, b: L.ldl_solve(*L.ldl_factor(a.detach()), b * a[..., :2]),
    "logcumsumexp": lambda a, b: a.logcumsumexp(1),
}


def _tensors(values: Any) -> list[Any]:
    return [values] if isinstance(values, torch.Tensor) else [*values]


@pytest.mark.parametrize("name", MATRIX_FUNCTIONS)
def test_functions_of_matrices_have_the_bits_of_eager_ones_compiled(name: str) -> None:
    function = MATRIX_FUNCTIONS[name]
    numbers = np.random.default_rng(3).standard_normal((2, 2, 3, 10)).view(np.complex128)[..., :5]

    def loss(a: Any, b: Any) -> Any:
        floating = [x for x in _tensors(function(a, b)) if x.dtype is not torch.int32]
        return torch.stack([(x * x.conj()).real.sum() for x in floating]).sum()

    a = torch.tensor(numbers[0, ..., :3]) + 3 * EYE
    b = torch.tensor(numbers[1, ..., :2])
    compiled = torch.compile(function, fullgraph=True)(a, b)
    for x, y in zip(_tensors(function(a, b)), _tensors(compiled), strict=True):
        np.testing.assert_array_equal(x, y)
    gradients = []
    for call in (loss, torch.compile(loss, fullgraph=True)):
        leaf = a.clone().requires_grad_()
        call(leaf, b).backward()
        gradients.append(leaf.grad)
    assert gradients[0].abs().sum() > 0
    np.testing.assert_array_equal(*gradients)


def test_what_lapack_refuses_is_refused_compiled() -> None:
    singular = torch.ones(3, 3, dtype=torch.complex64)
    infinite = torch.full((2, 2), float("inf"), dtype=torch.complex64)
    for function, x in ((L.inv, singular), (L.cholesky, -EYE), (L.eig, infinite)):
        for call in (function, torch.compile(lambda y, f=function: f(y), fullgraph=True)):
            with pytest.raises(LinAlgError, match=f"linalg.{function.__name__}"):
                call(x)
    assert L.svd(torch.ones(3, 2, dtype=torch.complex64, device="meta"))[1].dtype is torch.float32


def test_what_there_is_not() -> None:
    x = torch.tensor([1j])
    for call in (lambda: x < x, x.floor, x.sort, lambda: torch.nn.functional.gelu(x)):
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
            call()
    body = lambda carry, row: (carry * row, carry)  # noqa: E731
    with pytest.raises(DTypeError, match="complex64 is not supported in compiled code"):
        torch.compile(lambda y: torch.scan(body, y[0], y)[0], fullgraph=True)(x)


@pytest.mark.parametrize("name", ["uint16", "uint64", "float8_e4m3fn", "float8_e5m2"])
def test_what_is_only_stored(name: str) -> None:
    kind = getattr(torch, name)
    x = torch.tensor([[1.0, 2.0], [4.0, 0.5]]).to(kind)
    assert torch.cat([x, x]).T[0].float().tolist() == x[:, 0].float().tolist() * 2
    assert (x == x).all() and torch.where(x == x, x, x).dtype is kind
    with pytest.raises(NotImplementedError, match=r"not implemented for .(UInt|Float8)"):
        x + x
    with pytest.raises(RuntimeError, match="Promotion for"):
        torch.promote_types(kind, torch.int32)
    if kind in (torch.uint16, torch.uint64):  # graphs have them
        np.testing.assert_array_equal(
            torch.compile(lambda y: y.reshape(4), fullgraph=True)(x), x.reshape(4)
        )
        return
    with pytest.raises(DTypeError, match="not supported in compiled code"):
        torch.compile(lambda y: y.reshape(4), fullgraph=True)(x)


def test_graphs_move_the_bits_of_uint64() -> None:
    x = torch.tensor([2**63 + 5, 3, 2**64 - 1, 0], dtype=torch.uint64)
    y = torch.tensor([2**63 + 5, 4, 1, 0], dtype=torch.uint64)

    def function(x: Any, y: Any) -> list[Any]:
        taken = [x[1:], torch.cat([x, y]), x.reshape(2, 2).T, x.sort().values, x.argsort()]
        bits = [x == y, torch.where(x == y, x, y), x * y, x ^ y, x & y]
        floats = x.to(torch.float32)
        return [*taken, *bits, floats, floats.to(torch.uint64), x.to(torch.int64)]

    a, b = x.numpy(), y.numpy()
    floats = a.astype(np.float32)
    want = [a[1:], np.concatenate([a, b]), a.reshape(2, 2).T, np.sort(a), np.argsort(a), a == b]
    want += [np.where(a == b, a, b), a * b, a ^ b, a & b, floats]
    back = [2**64 - 1 if f >= 2**64 else int(f) for f in floats.astype(object)]
    want += [np.array(back, np.uint64), a.astype(np.int64)]
    for each in (function, torch.compile(function)):
        for got, expected in zip(each(x, y), want, strict=True):
            np.testing.assert_array_equal(got.numpy(), expected, strict=True)
    with pytest.raises(NotImplementedError, match="not implemented for 'UInt64'"):
        torch.compile(lambda x: x < x)(x)


def _pairs_in_a_row(z: Any) -> Any:
    torch.view_as_real(z).reshape(-1).mul_(2)
    return z * 1


def _numbers_in_a_row(z: Any) -> Any:
    pairs = torch.view_as_real(z) * 1
    torch.view_as_complex(pairs).reshape(-1).mul_(2)
    return pairs


def _turned_numbers_in_a_row(z: Any) -> Any:
    turned = torch.view_as_complex(torch.view_as_real(z).transpose(0, 1))
    turned.reshape(-1).mul_(2)  # a copy
    return z * 1


def _solution(z: Any) -> Any:
    return torch.linalg.solve(z[:, :3], z[:, 3])


@pytest.mark.parametrize(
    "function, times",
    [(_pairs_in_a_row, 2), (_numbers_in_a_row, 2), (_turned_numbers_in_a_row, 1), (_solution, 0)],
)
def test_which_memory_a_view_of_parts_has_in_a_trace(function: Any, times: int) -> None:
    """What is written into another shape of it is written into the numbers, as in eager mode."""
    random = np.random.default_rng(0)
    numbers = (random.standard_normal((3, 4, 2)) @ [1, 1j]).astype(np.complex64)
    eager = function(torch.tensor(numbers))
    assert torch.equal(torch.compile(function, fullgraph=True)(torch.tensor(numbers)), eager)
    if times:
        written = numbers * times
        expected = written.view(np.float32).reshape(eager.shape) if eager.dim() == 3 else written
        np.testing.assert_array_equal(eager.numpy(), expected)
