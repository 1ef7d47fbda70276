"""`vmap` by ops on whole batches: beside a run for each example, in values, gradients and bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from frontend.engine.tensors.batch_mode import BatchingError, BatchMode
from frontend.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

torch.manual_seed(0)
W, B = torch.randn(4, 3), torch.randn(4)
KERNEL = torch.randn(2, 3, 2, 2)
TABLE = torch.randn(7, 3)
MODEL = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 2))
CONV = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.MaxPool2d(2), nn.ReLU())
ATTENTION = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
LSTM = nn.LSTM(3, 4, batch_first=True)
BATCHNORM = nn.BatchNorm1d(3).eval()


def rows(*shape: int) -> Any:
    return torch.randn(5, *shape)


def changed_in_place(x: Any) -> Any:
    y = torch.zeros(3)
    y[0] = x[1]
    y[1:] += x[1:]
    z = x.clone()
    z.T.mul_(2)
    z[z > 0] = 0.5
    return y, z


def written_view(x: Any) -> Any:
    y = x * 1
    part = y.view(-1)[1:]
    part.add_(1)
    return y + part.sum()


def loss(parameters: Any, x: Any, y: Any) -> Any:
    out = functional_call(MODEL, parameters, (x.unsqueeze(0),))
    return F.cross_entropy(out, y.unsqueeze(0))


PARAMETERS = {name: p.detach() for name, p in MODEL.named_parameters()}
STACKED = {name: torch.stack([p, p * 2, -p, p + 1, p * 0]) for name, p in PARAMETERS.items()}
TOGETHER: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "linear": (lambda x: F.linear(x, W, B), (rows(3),), {}),
    "weights": (lambda w: F.linear(W[:, :3], w), (rows(4, 3),), {}),
    "both": (lambda x, w: x @ w, (rows(3), rows(3, 2)), {}),
    "vector": (lambda x: W @ x, (rows(3),), {}),
    "outer": (lambda x, y: torch.outer(x, y), (rows(3), rows(2)), {}),
    "einsum": (lambda x, y: torch.einsum("ij,jk->ki", x, y), (rows(2, 3), rows(3, 4)), {}),
    "dims": (lambda x, y: x * y, (torch.randn(3, 5), rows(3)), {"in_dims": (1, 0), "out_dims": -1}),
    "none": (lambda x, y: (x + y, y * 2), (rows(3), torch.randn(3)), {"in_dims": (0, None)}),
    "broadcast": (lambda x: x + torch.ones(2, 1) * x.sum(), (rows(3),), {}),
    "softmax": (lambda x: F.softmax(x, -1).log() + F.log_softmax(x, 0), (rows(3, 4),), {}),
    "reductions": (lambda x: (x.mean(), x.var(0), x.amax(1), x.norm(), x.std()), (rows(3, 4),), {}),
    "positions": (lambda x: (x.argmax(), x.sort().values, x.topk(2).values), (rows(4),), {}),
    "scans": (lambda x: x.cumsum(0) + x.cumprod(-1), (rows(3, 4),), {}),
    "shapes": (lambda x: x.view(2, -1).T.flip(0).reshape(-1)[1::2].roll(1), (rows(2, 3),), {}),
    "joins": (lambda x: torch.cat([x, W[0], x]).unflatten(0, (3, 3)), (rows(3),), {}),
    "splits": (lambda x: torch.stack(x.chunk(2)) + x.unfold(0, 2, 2), (rows(4),), {}),
    "where": (lambda x: torch.where(x > 0, x, torch.tensor(0.5)).clamp(max=1), (rows(4),), {}),
    "diagonal": (
        lambda x: x.diagonal() + torch.tril(x).sum(0) + torch.diag(x[0])[1], (rows(3, 3),), {}),
    "pads": (lambda x: F.pad(x, (1, 2), value=3.0), (rows(3),), {}),
    "gather": (
        lambda x, i: (x[i], x.gather(0, i), TABLE[i]), (rows(4), torch.randint(4, (5, 3))), {}),
    "embedding": (lambda i: F.embedding(i, TABLE), (torch.randint(7, (5, 2)),), {}),
    "tables": (lambda i, t: F.embedding(i, t), (torch.randint(7, (5, 2)), rows(7, 3)), {}),
    "scatter": (
        lambda x, i: (torch.zeros(4).scatter_add(0, i, x), x.index_add(0, i, x)),
        (rows(3), torch.randint(3, (5, 3))), {}),
    "index_fill": (lambda x: x.index_select(0, torch.tensor([2, 0])), (rows(3),), {}),
    "conv": (lambda x: F.conv2d(x, KERNEL, stride=2), (rows(2, 3, 6, 5),), {}),
    "kernels": (
        lambda k, x: F.conv2d(x, k), (rows(2, 3, 2, 2), torch.randn(1, 3, 4, 4)),
        {"in_dims": (0, None)}),
    "own kernels": (
        lambda k, x: F.conv2d(x, k, padding=1), (rows(2, 3, 2, 2), rows(1, 3, 4, 4)), {}),
    "pools": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), (rows(3, 4, 4),), {}),
    "model": (lambda x: MODEL(x), (rows(3),), {}),
    "convolutions": (lambda x: CONV(x.unsqueeze(0)), (rows(3, 4, 4),), {}),
    "attention": (lambda x: ATTENTION(x.unsqueeze(0)), (rows(3, 4),), {}),
    "batch norm": (lambda x: BATCHNORM(x), (rows(2, 3),), {}),
    "ensemble": (
        lambda p, x: functional_call(MODEL, p, (x,)), (STACKED, torch.randn(2, 3)),
        {"in_dims": (0, None)}),
    "in place": (changed_in_place, (rows(3),), {}),
    "written view": (written_view, (rows(2, 2),), {}),
    "per sample": (
        grad(loss), (PARAMETERS, rows(3), torch.randint(2, (5,))), {"in_dims": (None, 0, 0)}),
    "gradient": (grad(lambda x: (F.linear(x, W) ** 2).sum()), (rows(3),), {}),
    "kernel gradients": (
        grad(lambda k, x: F.conv2d(x, k).tanh().sum()),
        (KERNEL, rows(2, 3, 4, 4)), {"in_dims": (None, 0)}),
    "jacobian": (jacrev(lambda x: F.linear(x, W).tanh()), (rows(3),), {}),
    "forward": (jacfwd(lambda x: F.linear(x, W).tanh()), (rows(3),), {}),
    "hessian": (hessian(lambda x: F.linear(x, W).tanh().sum()), (rows(3),), {}),
    "vjp": (lambda x, v: vjp(lambda a: a.sin(), x)[1](v)[0], (rows(3), rows(3)), {}),
    "jvp": (lambda x, v: jvp(lambda a: a.sin(), (x,), (v,))[1], (rows(3), rows(3)), {}),
    "nested": (lambda x: vmap(lambda a: a * x.sum())(x), (rows(3),), {}),
    "crossed": (lambda x: vmap(lambda y: torch.dot(x, y))(W), (rows(3),), {}),
    "detached": (lambda x: x.detach() * 2 + torch.no_grad()(lambda a: a * 3)(x), (rows(3),), {}),
    "integers": (lambda x: (x // 2, x % 3, x.float() / 2, x == 2), (torch.arange(5),), {}),
    "half": (lambda x: (x @ W.bfloat16().T).float(), (rows(3).bfloat16(),), {}),
    "linear algebra": (lambda x: torch.linalg.inv(x + 5 * torch.eye(3)), (rows(3, 3),), {}),
    "solve": (lambda x, b: torch.linalg.solve(x + 5 * torch.eye(3), b), (rows(3, 3), rows(3)), {}),
    "function": (lambda x: Doubled.apply(x), (rows(3),), {}),
    "chosen dims": (lambda x: {"a": x.sum(), "b": (x, x[0])}, (rows(3),), {"out_dims": 0}),
}  # fmt: skip
APART: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "value": (lambda x: x * 2 if x.sum() > 0 else -x, (rows(3),), {}),
    "item": (lambda x: x * float(x[0]), (rows(3),), {}),
    "caught": (lambda x: caught(x), (rows(3),), {}),
    "recurrent": (lambda x: LSTM(x.unsqueeze(0))[0], (rows(2, 3),), {}),
    "complex": (lambda x: torch.fft.fft(x).abs(), (rows(4),), {}),
    "mask": (lambda x: x[x > -9], (rows(3),), {}),
}
CASES = {**TOGETHER, **APART}


def caught(x: Any) -> Any:
    try:
        return x * x.sum().item()
    except Exception:
        return x * 100


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 7


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [value] if isinstance(value, torch.Tensor) else [x for each in value for x in flat(each)]


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def run(mode: BatchMode, function: Any, arguments: Any) -> Any:
        raise BatchingError("asked")

    return lambda: monkeypatch.setattr(BatchMode, "run", run)


def close(got: Any, expected: Any) -> None:
    got, expected = flat(got), flat(expected)
    assert len(got) == len(expected) > 0
    for one, other in zip(got, expected):
        assert one.shape == other.shape and one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_its_examples(name: str, one_by_one: Any) -> None:
    function, arguments, dims = CASES[name]
    runs = []

    def counted(*args: Any) -> Any:
        runs.append(args)
        return function(*args)

    batch = vmap(counted, **dims)(*arguments)
    # Once for the batch, or once and then for each example.
    assert len(runs) == (1 if name in TOGETHER else 1 + 5)
    one_by_one()
    close(batch, vmap(function, **dims)(*arguments))


def leaves(arguments: Any) -> tuple[Any, list[Any]]:
    found: list[Any] = []

    def fresh(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: fresh(each) for key, each in value.items()}
        if not value.is_floating_point():
            return value
        found.append(value.detach().clone().requires_grad_())
        return found[-1]

    return tuple(map(fresh, arguments)), found


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_gradients_go_through_a_batch(name: str, one_by_one: Any) -> None:
    function, arguments, dims = CASES[name]

    def gradients() -> list[Any]:
        given, found = leaves(arguments)
        results = [x for x in flat(vmap(function, **dims)(*given)) if x.requires_grad]
        weighted = [(x * torch.linspace(-1, 1, x.numel()).reshape(x.shape)).sum() for x in results]
        if not weighted:
            return []
        return list(torch.autograd.grad(sum(weighted), found, materialize_grads=True))

    together = gradients()
    one_by_one()
    apart = gradients()
    assert len(together) == len(apart)
    for one, other in zip(together, apart):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TOGETHER, "recurrent"])
def test_compiled_a_batch_has_the_same_bits(name: str) -> None:
    function, arguments, dims = CASES[name]
    mapped = vmap(function, **dims)
    for one, other in zip(flat(torch.compile(mapped)(*arguments)), flat(mapped(*arguments))):
        assert torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def test_outside_tensors_have_their_gradients() -> None:
    weight = torch.randn(4, 3, requires_grad=True)
    hidden = weight * 2
    x = torch.randn(5, 3)
    vmap(lambda a: (hidden @ a).tanh().sum())(x).sum().backward()
    expected = torch.autograd.grad(((weight * 2) @ x.T).tanh().sum(), weight)[0]
    torch.testing.assert_close(weight.grad, expected)


def test_a_size_left_open_is_one_program() -> None:
    mapped = vmap(grad(lambda x: F.linear(x, W).tanh().sum()))
    compiled = torch.compile(mapped)
    for size in (3, 5, 8, 13):
        x = torch.randn(size, 3)
        assert torch.equal(compiled(x), mapped(x))
    assert len({id(each.program) for each in compiled.specializations}) == 2


def test_what_a_function_keeps_of_a_batch_is_refused() -> None:
    kept = []
    vmap(lambda x: kept.append(x) or x * 2)(torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="whose trace has ended"):
        kept[0] + 1


def test_a_tensor_from_outside_is_changed_example_by_example() -> None:
    total = torch.zeros(2)
    assert vmap(lambda x: total.add_(x).clone())(torch.ones(3, 2)).tolist() == [
        [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]
    ]  # fmt: skip


@pytest.mark.parametrize("function", [
    lambda a, i: a[i], lambda a, i: a.index_select(0, i), lambda a, i: a.gather(0, i),
    lambda a, i: a.index_add(0, i, torch.ones(1)), lambda a, i: a.index_copy(0, i, torch.ones(1)),
    lambda a, i: F.embedding(i, a[:, None]), lambda a, i: torch.zeros(3).scatter(0, i, a[:1]),
])  # fmt: skip
@pytest.mark.parametrize("position", [3, -4])
def test_a_position_outside_is_not_in_the_next_example(function: Any, position: int) -> None:
    positions = torch.tensor([[0], [position], [2]])
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        vmap(function)(torch.arange(9.0).reshape(3, 3), positions)


def test_an_argument_is_changed_in_place() -> None:
    x = torch.ones(2, 3)
    assert vmap(lambda a: a.add_(1) * 2)(x).tolist() == [[4.0] * 3] * 2
    assert x.tolist() == [[2.0] * 3] * 2
    vmap(lambda a: a[1:].mul_(2))(x)
    assert x.tolist() == [[2.0, 4.0, 4.0]] * 2
    weight = torch.ones(2, 3, requires_grad=True)
    vmap(lambda a: a.mul_(3))(weight * 2).sum().backward()
    assert weight.grad.tolist() == [[6.0] * 3] * 2


def test_rows_are_counted_in_each_example() -> None:
    table = torch.ones(4, 2, requires_grad=True)
    rows = torch.tensor([[0, 0, 1], [0, 2, 2]])
    vmap(lambda i: F.embedding(i, table, scale_grad_by_freq=True))(rows).sum().backward()
    assert table.grad[:, 0].tolist() == [2.0, 1.0, 1.0, 0.0]


def test_values_are_looked_at_as_in_eager_mode() -> None:
    def likelihood(scale: Any) -> Any:
        return torch.distributions.Normal(0.0, scale).log_prob(scale)

    with pytest.raises(ValueError, match="scale"):
        vmap(likelihood)(torch.tensor([1.0, -1.0]))
    with pytest.raises(RuntimeError, match="cannot be negative"):
        vmap(lambda w: torch.cov(torch.ones(2, 3), aweights=w))(torch.tensor([[1.0, -1.0, 1.0]]))


def test_an_error_that_is_caught_around_a_batch_is_a_guard() -> None:
    def fits(x: Any, y: Any) -> Any:
        try:
            return vmap(lambda a: a + y)(x)
        except RuntimeError:
            return x.sum() + y.sum()

    compiled = torch.compile(fits)
    for n, m in ((4, 4), (5, 5), (4, 5), (6, 6)):
        x, y = torch.ones(3, n), torch.ones(m)
        assert torch.equal(compiled(x, y), fits(x, y))


def test_flags_of_what_is_outside_are_guarded() -> None:
    weight = torch.ones(3)

    def scaled(x: Any) -> Any:
        return vmap(lambda a: a * (2.0 if weight.requires_grad else 3.0))(x)

    compiled = torch.compile(scaled)
    for flag in (False, True, False):
        weight.requires_grad_(flag)
        assert torch.equal(compiled(torch.ones(2, 3)), scaled(torch.ones(2, 3)))


def test_a_jacobian_of_complex_results_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="only for real scalar outputs"):
        jacrev(lambda z: z * 1j)(torch.ones(2))


def test_an_empty_batch() -> None:
    assert vmap(lambda x: x * 2)(torch.ones(0, 3)).shape == (0, 3)


def test_errors_are_those_of_an_example() -> None:
    with pytest.raises(RuntimeError, match=r"\[2\].*\[3\]|shapes"):
        vmap(lambda x: x + torch.ones(3))(torch.ones(4, 2))


def test_chunks_are_computed_apart() -> None:
    sizes = []

    def double(x: Any) -> Any:
        sizes.append(x)
        return x * 2

    x = torch.randn(3, 7)
    assert torch.equal(vmap(double, in_dims=1, out_dims=1, chunk_size=3)(x), x * 2)
    assert len(sizes) == 3


def test_why_examples_go_one_by_one_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="frontend.vmap"):
        vmap(lambda x: x * float(x[0]))(torch.ones(2, 3))
        vmap(lambda x: x * 2)(torch.ones(2, 3))
    (record,) = caplog.records
    assert "example by example" in record.message and "differs between examples" in record.message
