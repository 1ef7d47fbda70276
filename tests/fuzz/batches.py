"""Drawn functions under `vmap`: on whole batches they give what they give example by example, and
so do gradients that go through them from outside; compiled they have eager mode's bits.

The functions are text: steps from two tensors [3, 4] to one, by ops, views, changes in place,
derivatives and further `vmap`s. Arguments are batches along any dimension, or the same for all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

import frontend as torch
from frontend import func
from frontend.engine.tensors.batch_mode import BatchingError, BatchMode
from frontend.func import vmap
from tests.fuzz.frame import Broken, Fuzzer

STEPS = (
    "a + b", "a * w - b", "torch.where(a > b, a, w)", "a.sin() + b.exp().clamp(max=3)",
    "a @ b.t() @ w", "torch.einsum('ij,kj->ki', a, b) @ a", "(a[:, :, None] * b[:, None]).sum(1)",
    "F.linear(a, v, b[0])", "F.linear(w, a.t() @ b)", "torch.outer(a[:, 0], b[1])",
    "a.sum(0) + b.mean(1, keepdim=True)", "a - a.amax(1, keepdim=True) * b.var()",
    "F.softmax(a, 0) + F.log_softmax(b, -1)", "torch.logsumexp(a, 0) * b", "F.gelu(a) * F.silu(b)",
    "F.layer_norm(a, (4,), b[0], w[1])", "F.normalize(a, dim=0) + b.norm()",
    "a.cumsum(0) - b.cumsum(1)", "a.t().reshape(3, 4) + b", "a.flip(0).roll(1, 1) * b",
    "torch.cat([a, b])[1:4]", "torch.stack([a, b]).sum(0)",
    "a.unfold(1, 2, 2).flatten(1) + b[:, ::2].repeat(1, 2)",
    "F.pad(a[1:, :3], (1, 0, 0, 1), value=0.5) + b", "torch.tril(a) + torch.triu(b, 1)",
    "a.diagonal()[:, None] * b", "a.index_select(0, i[:3]) + b", "a[i[:3]] * b",
    "b.gather(0, j) - a", "torch.zeros_like(a).scatter_add(0, j, b)", "a.index_add(0, i[:3], b)",
    "a.index_copy(0, i[:2], b[:2])", "w[i[:3]] + a", "F.embedding(i[:3], v) * b",
    "F.one_hot(i[:3], 4) * a", "a.sort(0).values + b", "a.topk(2, 1).values.repeat(1, 2) - b",
    "F.conv1d(a[None], k)[0] + b",
    "F.conv1d(a[None], b[:, None, :3].repeat(1, 3, 1), padding=1)[0]",
    "F.max_pool1d(a[None], 2)[0].repeat(1, 2) + b", "F.avg_pool1d(a[None], 2)[0].repeat(1, 2) * b",
    "F.cross_entropy(a, i[:3]) + b", "F.mse_loss(a, b) * a",
    "F.smooth_l1_loss(a, b, reduction='none')", "changed(a, b)", "written(a, b)", "filled(a, b)",
    "a.clone().mul_(2).add_(b)", "a.detach() * b", "unseen(a) + b",
    "torch.linalg.inv(a[:, :3] + 4 * torch.eye(3, dtype=a.dtype)) @ b",
    "grad(lambda t: (t * b).tanh().sum())(a)",
    "grad(lambda t: F.linear(a, t).square().sum())(v)[:3]",
    "vjp(lambda t: t.sin() * b, a)[1](b)[0]", "jvp(lambda t: t.sin() * b, (a,), (b,))[1]",
    "jacrev(lambda t: t.sin() * a[0])(b[0])[:3]", "jacfwd(lambda t: (t * a[0]).tanh())(b[0])[:3]",
    "hessian(lambda t: (t * a[0]).sin().sum())(b[0])[:3]", "vmap(lambda t: t * b[0])(a)",
    "vmap(lambda t, u: t.sum() + u, in_dims=(1, None), out_dims=1)(a, b[:, 0])",
    "vmap(grad(lambda t, u: (t * u).sin().sum()), in_dims=(0, None))(a, b[2])",
    "Doubled.apply(a) + b", "a * float(b.sum() > 0)", "(a if a.sum() > 0 else b) * 1",
    "torch.fft.fft(a).real + b", "a.index_select(0, i[:3] + 1)", "a.index_add(0, i[:3] * 2, b)",
    "a.index_copy(0, i[:2] + 2, b[:2])", "a[i[:3] - 4] * b", "a.add_(b)",
    "a.t()[0].copy_(b[0, :3]).sum() + a", "F.embedding(i[:3] * 0, v, scale_grad_by_freq=True) * b",
    "F.embedding(i[:3], v, padding_idx=1) + b", "fitting(a, b)",
    "torch.distributions.Normal(a, b.exp()).log_prob(b)",
    "torch.distributions.Normal(a, b + 1.5).log_prob(b)",
    "torch.linalg.cholesky(b[:, :3] @ b[:, :3].t() - 0.5 * torch.eye(3, dtype=a.dtype)) @ a",
)  # fmt: skip


def changed(a: Any, b: Any) -> Any:
    y = torch.zeros(3, 4, dtype=a.dtype)
    y[0] = a[1]
    y[1:, ::2] += b[1:, ::2]
    return y


def written(a: Any, b: Any) -> Any:
    y = a * 1
    part = y.view(-1)[2:6]
    part.mul_(2).add_(b[0])
    return y + part.sum()


def filled(a: Any, b: Any) -> Any:
    y = a.clone()
    y.t()[1].copy_(b[:, 0])
    return y.masked_fill_(b > 0.5, 0.25)


def fitting(a: Any, b: Any) -> Any:
    try:
        return a @ b[: int(a.shape[0]), :3]
    except RuntimeError:
        return a - b


def unseen(a: Any) -> Any:
    with torch.no_grad():
        return a * 2


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a)
        return a * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


@dataclass(frozen=True, slots=True)
class Case:
    """Steps (expression, names of a and b), where the examples stand in x and y (None: the same for
    all) and in the result, how many there are, the most at once, and the seed of the numbers."""

    steps: tuple[tuple[str, str, str], ...]
    dims: tuple[int | None, int | None]
    out: int
    size: int
    chunk: int | None
    seed: int


def draw(random: np.random.Generator, size: int) -> Case:
    names = ["x", "y"]
    steps = []
    for number in range(min(size, 5)):
        steps.append((str(random.choice(STEPS)), names[-1], str(random.choice(names[-3:]))))
        names.append(f"t{number}")
    dims = [(0, 0), (0, None), (None, 0), (1, 0), (-1, 2)][random.integers(5)]
    chunk = int(random.integers(1, 4)) if random.random() < 0.2 else None
    return Case(
        tuple(steps), dims, int(random.choice([0, 0, -1])), int(random.integers(1, 6)), chunk,
        int(random.integers(1 << 30)),
    )  # fmt: skip


def text(case: Case) -> str:
    lines = [
        f"    t{number} = (lambda a, b: {step})({a}, {b})"
        for number, (step, a, b) in enumerate(case.steps)
    ]
    last = f"t{len(case.steps) - 1}" if case.steps else "x"
    return "\n".join(["def f(x, y, i, j, w, v, k):", *lines, f"    return {last} + x * y"])


def program(case: Case) -> str:
    return f"{text(case)}\nfrom tests.fuzz import batches\nbatches.check(batches.{case!r})"


def smaller(case: Case) -> Iterator[Case]:
    for length in range(len(case.steps)):
        yield replace(case, steps=case.steps[:length])
    for changes in ({"dims": (0, 0)}, {"out": 0}, {"chunk": None}, {"size": 2}):
        if any(getattr(case, name) != value for name, value in changes.items()):
            yield replace(case, **changes)


def operands(case: Case) -> tuple[list[Any], list[int | None]]:
    random = np.random.default_rng(case.seed)

    def numbers(dim: int | None, *shape: int) -> Any:
        array = random.standard_normal((case.size, *shape) if dim is not None else shape)
        tensor = torch.tensor(array, dtype=torch.float64)
        return tensor if dim is None else tensor.movedim(0, dim)

    i = torch.tensor(np.stack([random.permutation(3) for _ in range(case.size)]))
    j = torch.tensor(random.integers(0, 3, (case.size, 3, 4)))
    x, y = (numbers(dim, 3, 4) for dim in case.dims)
    others = [numbers(None, *shape) for shape in ((3, 4), (4, 4), (3, 3, 1))]
    return [x, y, i, j, *others], [*case.dims, 0, 0, None, None, None]


def outcome(function: Any, given: list[Any], seen: bool) -> list[Any]:
    """The result, what is given as it is then, and with `seen` the gradients of all that; the class
    of an error in place of the result and gradients."""
    leaves = [x.detach().clone() for x in given]
    leaves = [x.requires_grad_() if seen and x.is_floating_point() else x for x in leaves]
    passed = [x * 1 if x.requires_grad else x for x in leaves]  # what is no leaf may be changed
    try:
        result = function(*passed)
        if not seen or not result.requires_grad:
            return [result.detach(), *[x.detach() for x in passed]]
        wanted = [x for x in leaves if x.requires_grad]
        weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).reshape(result.shape)
        found = torch.autograd.grad((result * weights).sum(), wanted, materialize_grads=True)
    except Exception as error:
        return [type(error).__name__, *[x.detach() for x in passed]]
    return [result.detach(), *[x.detach() for x in passed], *found]


def differ(one: Any, other: Any, exact: bool) -> bool:
    if isinstance(one, str) or isinstance(other, str):  # which example fails first may differ
        return not (isinstance(one, str) and isinstance(other, str))
    if one.shape != other.shape or one.dtype != other.dtype:
        return True
    if exact:
        return not np.array_equal(one.numpy(), other.numpy(), equal_nan=one.is_floating_point())
    # Large numbers leave that much where they cancel.
    size = np.abs(np.nan_to_num(other.numpy(), posinf=0, neginf=0)).max(initial=1)
    return not np.allclose(one.numpy(), other.numpy(), 1e-7, 1e-9 * size, equal_nan=True)


def compare(what: str, got: list[Any], expected: list[Any], exact: bool) -> None:
    for i, pair in enumerate(zip(got, expected)):
        if differ(*pair, exact):
            raise Broken(f"{what}: number {i} is {pair[0]}, expected {pair[1]}")
    if len(got) != len(expected):
        raise Broken(f"{what}: {len(got)} things, expected {len(expected)}")


def apart(mode: BatchMode, function: Any, arguments: Any) -> Any:
    raise BatchingError("asked")


def check(case: Case) -> str:
    names = ("grad", "hessian", "jacfwd", "jacrev", "jvp", "vjp")
    space: dict[str, Any] = {**globals(), "F": torch.nn.functional}
    space |= {name: getattr(func, name) for name in names}
    exec(text(case), space)
    given, dims = operands(case)
    counts = []

    def counted(*args: Any) -> Any:
        counts.append(args)
        return space["f"](*args)

    options: dict[str, Any] = {"in_dims": tuple(dims), "out_dims": case.out}
    mapped = vmap(counted, chunk_size=case.chunk, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seen in (False, True):
            together = outcome(mapped, given, seen)
            with patch.object(BatchMode, "run", apart):
                expected = outcome(vmap(space["f"], **options), given, seen)
            compare(f"together, with gradients {seen}", together, expected, False)
        eager = vmap(space["f"], **options)
        compiled = torch.compile(eager)
        for size in (case.size, case.size + 1, case.size):
            given, _ = operands(replace(case, size=size))
            got, expected = outcome(compiled, given, False), outcome(eager, given, False)
            if isinstance(expected[0], str):
                continue  # compiled code may not look at contents, and changes nothing then
            compare(f"compiled, {size} examples", got, expected, True)
    return "together" if len(counts) <= 2 * case.size else "one by one"


FUZZER = Fuzzer("batches", draw, check, program, smaller)
