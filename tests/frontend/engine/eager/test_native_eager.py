"""Eager mode on the compiler's kernels: the bits of compiled code, the errors of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn, optim
from frontend.engine.tensors.bounded import Bounded
from frontend.nn import functional as F
from frontend.nn.utils import clip_grad_norm_

STEPS = 50


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    before = torch.get_eager_backend()
    torch.set_eager_backend("native")
    yield
    torch.set_eager_backend(before)


# -- training ------------------------------------------------------------------------------------


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 6, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 8, 3, stride=2, bias=False)
        self.norm2 = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(8 * 2 * 2, 5)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.relu(self.norm2(self.conv2(x)))
        return self.head(self.drop(x.flatten(1)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        parts = self.qkv(self.norm1(x)).reshape(b, t, 3, self.heads, c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, tokens: int = 11, width: int = 12, length: int = 6) -> None:
        super().__init__()
        self.token = nn.Embedding(tokens, width)
        self.place = nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, 2) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).reshape(-1, self.head.weight.shape[0])


class Recurrent(nn.Module):
    """[batch, time, 4] to [batch, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.gru(self.lstm(x)[0])[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(7, 13), nn.Tanh(), nn.Linear(13, 9), nn.ReLU(), nn.Linear(9, 4))


def floats(*shape: int) -> Any:
    return lambda random: random.standard_normal(shape).astype(np.float32)


def ids(high: int, *shape: int) -> Any:
    return lambda random: random.integers(0, high, shape)


JOBS: dict[str, tuple[Callable[[], nn.Module], Any, Any, Callable[..., Any]]] = {
    "mlp": (mlp, floats(10, 7), ids(4, 10), lambda p: optim.Adam(p, lr=0.01)),
    "cnn": (
        Cnn, floats(5, 2, 10, 10), ids(5, 5),
        lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    ),
    "recurrent": (Recurrent, floats(3, 9, 4), ids(3, 3), lambda p: optim.RMSprop(p, lr=0.01)),
    "transformer": (
        Transformer, ids(11, 4, 6), ids(11, 24),
        lambda p: optim.AdamW(p, lr=0.003, weight_decay=0.1),
    ),
}  # fmt: skip


def trained(job: str, wrap: Callable[[Any], Any]) -> dict[str, np.ndarray]:
    """All that a training run leaves, and the loss and gradients of every step."""
    torch.manual_seed(5)
    build, draw_x, draw_y, optimizer_of = JOBS[job]
    model = build()
    optimizer = optimizer_of(model.parameters())

    def step(x: Any, y: Any) -> tuple[Any, Any, Any]:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return out, loss, norm

    run = wrap(step)
    random = np.random.default_rng(3)
    by_backend = {}
    for number in range(STEPS):
        results = run(torch.from_numpy(draw_x(random)), torch.from_numpy(draw_y(random)))
        for name, value in zip(("out", "loss", "norm"), results):
            by_backend[f"{name} {number}"] = value.detach().numpy().copy()
        for name, p in model.named_parameters():
            by_backend[f"{name}.grad {number}"] = p.grad.numpy().copy()
    for name, value in model.state_dict().items():
        by_backend[name] = value.numpy().copy()
    for position, state in optimizer.state_dict()["state"].items():
        by_backend |= {
            f"{name} {position}": value.numpy().copy()
            for name, value in state.items()
            if value is not None
        }
    return by_backend


@pytest.mark.sampled(6)
@pytest.mark.parametrize("job", JOBS)
def test_training_gives_the_same_bits_eager_and_compiled(job: str) -> None:
    eager = trained(job, lambda step: step)
    compiled = trained(job, lambda step: torch.compile(step, threads=1))
    different = [name for name in eager if eager[name].tobytes() != compiled[name].tobytes()]
    assert eager.keys() == compiled.keys() and not different


def test_numpy_gives_other_bits() -> None:
    """The comparison above is one of two arithmetics, not of NumPy with itself."""
    x, w = rows(20, 300), rows(300, 40)
    native = (x @ w).tanh()
    torch.set_eager_backend("numpy")
    other = (x @ w).tanh()
    assert not torch.equal(native, other) and torch.allclose(native, other, atol=1e-5)


# -- single operations ---------------------------------------------------------------------------


def rows(*shape: int, dtype: Any = None) -> Any:
    numbers = np.random.default_rng(7).standard_normal(shape)
    return torch.tensor(numbers, dtype=dtype or torch.float32)


OPERATIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "bfloat16": (lambda x, y: (x @ y).exp(), (rows(3, 4, dtype=torch.bfloat16),
                                              rows(4, 2, dtype=torch.bfloat16))),
    "half": (lambda x: x.softmax(-1) * 3, (rows(3, 4, dtype=torch.float16),)),
    "double": (lambda x: x.sin().std(0), (rows(3, 4, dtype=torch.float64),)),
    "small integers": (lambda x: x * 7 + 200, (torch.arange(9, dtype=torch.uint8),)),
    "bools": (lambda x, y: (x ^ y) & ~x, (rows(5) > 0, rows(5) < 0.5)),
    "no elements": (lambda x, y: (x @ y, x.sum(0), x.exp()), (rows(0, 3), rows(3, 2))),
    "no dimensions": (lambda x, y: x * y - 2, (rows(), torch.tensor(3))),
    "several results": (lambda x: torch.sort(x, dim=1), (rows(3, 5),)),
    "rows of a table": (lambda x, i: (F.embedding(i, x), x[i]), (rows(4, 3), torch.tensor([3, 0]))),
    "random numbers": (lambda: torch.randn(5), ()),
    "without gradient rule of its own": (lambda x: F.layer_norm(x, (6,)), (rows(4, 6),)),
    "transposed": (lambda x, y: x.t() @ y.t(), (rows(4, 3), rows(5, 4))),
    "broadcast": (lambda x, y: x.expand(4, 3) * y.t(), (rows(3), rows(3, 4))),
    "permuted and broadcast": (
        lambda x, y: x.permute(2, 0, 1)[:, None] + y, (rows(2, 3, 4), rows(4, 5, 2, 3)),
    ),
    "every second": (lambda x: x[:, ::2] * x[:, 1::2].flip(0), (rows(3, 8),)),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_the_bits_of_compiled_code(
    name: str, same_bits: Callable[..., None]
) -> None:
    function, arguments = OPERATIONS[name]

    def values(results: Any) -> list[Any]:
        listed = results if isinstance(results, tuple) else (results,)
        return [x.numpy().copy() for x in listed]

    torch.manual_seed(2)
    eager = values(function(*arguments))
    torch.manual_seed(2)
    same_bits(eager, values(torch.compile(function, threads=1)(*arguments)))


def test_the_layout_of_operands_does_not_change_a_bit(same_bits: Callable[..., None]) -> None:
    x, y = rows(4, 5, 6), rows(4, 6, 3)
    expected = (x @ y).numpy()
    for axes in ((0, 2, 1), (2, 1, 0), (1, 2, 0)):
        back = [axes.index(axis) for axis in range(3)]
        turned = x.permute(axes).contiguous().permute(back)
        assert not turned.is_contiguous()
        same_bits([(turned @ y).numpy()], [expected])


def test_views_share_memory_and_writes_through_them_are_seen() -> None:
    x = torch.zeros(3, 4)
    x.t()[1].add_(2)
    x[:, 2:].mul_(5).sub_(1)
    assert x.tolist() == [[0, 2, -1, -1]] * 3
    assert x.view(12)._version == x._version > 0


def test_a_loop_is_one_native_call() -> None:
    """Region ops take this way only where they are applied as ops."""
    from frontend.engine.eager.dispatch import CONTEXT
    from graphc import GraphBuilder
    from graphc.ops import control

    body = GraphBuilder("body")
    carry, step = body.input("carry", "f32[3]"), body.input("step", "f32[3]")
    attributes = {"carry": 1, "sequences": 0, "length": 4, "body": body.finish(carry * step)}
    (last,) = CONTEXT.apply(control.scan, (torch.ones(3), torch.full((3,), 2.0)), attributes)
    assert last.tolist() == [16, 16, 16]


# -- errors --------------------------------------------------------------------------------------

BROKEN: dict[str, Callable[[], Any]] = {
    "index": lambda: F.embedding(torch.tensor([1, 7, -3]), torch.ones(5, 2)),
    "label": lambda: F.cross_entropy(torch.ones(3, 4), torch.tensor([0, 9, 1])),
    "division": lambda: torch.tensor([3, 4]) // torch.tensor([1, 0]),
    "strided": lambda: torch.ones(5, 2).t().gather(1, torch.tensor([[1, 2], [9, 6]]).t()),
}


@pytest.mark.parametrize("name", BROKEN)
def test_content_checks_raise_what_numpy_raises(name: str) -> None:
    messages = []
    for backend in ("native", "numpy"):
        torch.set_eager_backend(backend)
        with pytest.raises(Exception) as caught:
            BROKEN[name]()
        messages.append((type(caught.value), str(caught.value)))
    assert messages[0] == messages[1]
    assert "test_native_eager.py" in messages[0][1]


# -- what is kept --------------------------------------------------------------------------------


def test_a_kernel_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from frontend.engine.eager.kernels import kernel_families, native_ops, pointwise
    from graphc.runtime import compile as compiling

    for module, name in (
        (kernel_families, "_FAMILIES"), (pointwise, "_VARIANTS"), (native_ops, "_MEMO"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, {})
    monkeypatch.setitem(torch.engine.tensors.state.PREPARED, "native", {})
    torch.set_eager_backend("native")
    compiled = []
    compile = compiling.program_for
    monkeypatch.setattr(
        compiling, "program_for", lambda *a, **k: compiled.append(a[0].name) or compile(*a, **k)
    )
    x, w = rows(3, 19), rows(19, 2)
    for _ in range(3):
        (x @ w).tanh()
        F.linear(x, w.t())  # reads w as it lies
        x.t() * x.t()  # all operands lie alike
        x.t() * 2.0
    assert compiled == ["matmul", "tanh", "mul", "mul"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from frontend.engine.eager.kernels import native_ops
    from graphc.ir.types import TensorType
    from graphc.ops.elementwise import neg

    memo: Bounded[Any, Any] = Bounded(4)
    monkeypatch.setattr(native_ops, "_MEMO", memo)
    for size in range(11):
        op = native_ops.native_op(neg, (TensorType.parse(f"f32[{size}]"),), {})
        assert op is native_ops.native_op(neg, (TensorType.parse(f"f32[{size}]"),), {})
        assert 0 < len(memo) <= 4


def test_the_backend_belongs_to_a_thread() -> None:
    default = type(torch.engine.tensors.state.STATE).backend
    other = "numpy" if default == "native" else "native"
    torch.set_eager_backend(other)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_eager_backend).result() == default
    assert torch.get_eager_backend() == other


def test_it_is_native_unless_said() -> None:
    assert type(torch.engine.tensors.state.STATE).backend == "native"


def test_there_are_two_backends() -> None:
    with pytest.raises(ValueError, match="'numpy' or 'native', not 'cuda'"):
        torch.set_eager_backend("cuda")
    assert torch.get_eager_backend() == "native"
