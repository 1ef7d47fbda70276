"""Differences, integrals, covariances, histograms, windows, lists of tensors, sequence losses and
other functions against PyTorch."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import frontend

INF, NAN = math.inf, math.nan

# Calls on a [3, 4], v [5], w [5] positive, i [2, 3] integers; those in DIFFERENTIABLE are compiled
# too, and their gradients compared.
DIFFERENTIABLE = """
t.diff(v) | a.diff(dim=0) | t.diff(a, n=2) | t.diff(a, n=9) | t.diff(v, n=0) | t.diff(i, n=2)
t.diff(v, prepend=v[:1], append=w[:2]) | t.diff(i > 2)
t.gradient(v) | t.gradient(v, edge_order=2) | t.gradient(a, spacing=[1.0, 3.0])
t.gradient(v, spacing=(w.detach().cumsum(0),), edge_order=2) | t.gradient(a, dim=1) | t.gradient(i)
t.gradient(v, spacing=(w.detach().cumsum(0),)) | t.gradient(a, dim=(0, 1), edge_order=2)
t.gradient(v[:2]) | t.gradient(v, spacing=2.0)
t.trapezoid(v) | t.trapz(v, dx=2) | t.trapezoid(v, w) | t.trapezoid(a, dim=0) | t.trapezoid(i)
t.trapezoid(a, a.cumsum(1)) | t.cumulative_trapezoid(v, w) | t.cumulative_trapezoid(a, dim=0)
t.cov(a) | t.cov(v) | a.cov(correction=0) | t.cov(a, aweights=w[:4]) | t.corrcoef(a) | v.corrcoef()
t.cov(a, fweights=t.tensor([1, 2, 3, 1])) | t.cov(i) | t.cov(v[0])
t.cov(a, fweights=t.tensor([1, 2, 3, 1]), aweights=w[:4])
t.constant_pad_nd(a, (1, 0, 0, 2), 3.0) | t.constant_pad_nd(a, (-1, 1))
t.renorm(a, 2, 0, 0.5) | a.renorm(1, 1, 2.0) | a.sum_to_size(1, 4) | a.sum_to_size((4,))
t.gcd(i * 6, i.flip(0) * 4) | t.lcm(i, i.flip(1)) | i.gcd(i * 0)
t.gcd_(i * 6, i) | t.lcm_(i * 6, i) | t.unravel_index(i, (3, 4))
t.block_diag(a, v) | t.cartesian_prod(v, w) | t.combinations(v, 2) | a.flatten(1)
t.norm(a, 2) | t.norm(v, 3)
t.nn.functional.interpolate(a[None, None], (2, 3), mode='bilinear', antialias=True)
t.nn.functional.interpolate(a[None, None], (2, 9), mode='bicubic', antialias=True)
t.nn.functional.interpolate(a[None, None], (5, 3), None, 'bicubic', True, antialias=True)
t.nn.functional.interpolate(a[None, None], None, 0.6, 'bilinear', antialias=True)
t.einsum('i,j->ij', v, v.long()) | t.einsum('ij->i', i.int()) | t.einsum('ij,->ij', a, t.tensor(2))
t.histc(v.detach(), 4, -1, 1) | t.histc(t.arange(100) / 99, 99, 0, 1)
"""
EAGER = """
tuple(t.histogram(v, bins=4, range=(0.0, 3.0))) | tuple(t.histogram(v, 3, density=True))
tuple(t.histogram(v, t.tensor([-1.0, 0.0, 0.5]), weight=w)) | v.histogram(2)[0]
t.histogramdd(a, bins=[2, 2, 2, 2])[0] | t.histogramdd(a[:, :2], 3, weight=v[:3])[0]
t.histogramdd(a[:, :2], [2, 2], range=[0.0, 1.0, 0.0, 1.0], density=True)[0]
t.histc(t.arange(101) / 100, 10) | t.histc(v.detach(), 3) | t.histc(t.tensor([1.0, 1]), 4)
t.nextafter(v, w) | t.nextafter(v, v.detach()) | tuple(t.frexp(v)) | tuple(a.frexp())
t.hann_window(0) | t.hann_window(1) | t.hann_window(6) | t.hann_window(6, periodic=False)
t.hamming_window(6, True, 0.5, 0.4) | t.blackman_window(7) | t.bartlett_window(7)
t.bartlett_window(6, False) | t.kaiser_window(7, True, 5.0) | t.kaiser_window(1)
t.hann_window(3, dtype=t.float64) | t.signal.windows.bartlett(6) | t.signal.windows.hann(6)
t.signal.windows.blackman(6, sym=False) | t.signal.windows.cosine(5) | t.signal.windows.hann(0)
t.signal.windows.cosine(1, sym=False) | t.signal.windows.exponential(5, tau=2.0)
t.signal.windows.exponential(5, center=0, sym=False) | t.signal.windows.gaussian(5, std=1.5)
t.signal.windows.general_cosine(6, a=[0.5, 0.3, 0.2]) | t.signal.windows.kaiser(6, beta=3.0)
t.signal.windows.general_hamming(6, alpha=0.6, sym=False) | t.signal.windows.nuttall(6)
t.signal.windows.hamming(6) | t.fft.fftfreq(5, 0.5) | t.fft.rfftfreq(6) | t.fft.fftshift(i)
t.fft.rfftfreq(5, dtype=t.float64) | t.fft.ifftshift(a) | t.fft.fftshift(a, dim=1)
t.zeros(7, 3).fill_diagonal_(2.0, wrap=True) | t.zeros(2, 2, 2).fill_diagonal_(2.0)
t.is_nonzero(v[:1]) | t.is_same_size(v, w) | t.is_signed(i) | t.get_device(v) | t.is_inference(v)
t.is_inference_mode_enabled() | t.linspace(t.tensor(0.0), t.tensor(1.0), 5)
t.nn.functional.one_hot(t.tensor([]).long(), 3) | t.nn.functional.one_hot(t.tensor(3), 5)
"""


def parts(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(" | ")]


def operands(peer: Any) -> dict[str, np.ndarray]:
    return {
        "a": peer.normal(3, 4), "v": peer.normal(5), "w": np.abs(peer.normal(5)) + np.float32(0.1),
        "i": np.array([[1, 2, 3], [4, 5, 6]]),
    }  # fmt: skip


def call(text: str, names: Any) -> Any:
    return lambda t, *tensors: eval(text, {"t": t, **dict(zip(names, tensors, strict=True))})


@pytest.mark.parametrize("text", parts(DIFFERENTIABLE))
def test_functions(peer: Any, text: str) -> None:
    arrays = operands(peer)
    peer.function(call(text, arrays), *arrays.values(), bound=2e-5)


@pytest.mark.parametrize("text", parts(EAGER))
def test_what_runs_eagerly(peer: Any, text: str) -> None:
    arrays = operands(peer)
    peer.function(
        call(text, arrays),
        *arrays.values(),
        modes=["eager"],
        gradients="frexp" in text or "next" in text,
    )


REFUSED = """
t.diff(v[0]) | t.diff(v, n=-1) | t.gradient(v[:1]) | t.gradient(v, edge_order=3)
t.gradient(v, spacing=[1.0, 2.0]) | t.trapezoid(v, w[:2]) | t.cov(t.ones(2, 2, 2))
t.cov(a, fweights=w[:4]) | t.histogram(i, 3) | t.histogram(v, 0) | t.gcd(v, v)
t.nextafter(i, i) | t.frexp(i) | t.unravel_index(v, (2,)) | t.renorm(v, 1, 0, 2)
a.sum_to_size(2) | t.is_nonzero(v) | t.hann_window(-1) | t.hann_window(3, dtype=t.int64)
t.signal.windows.exponential(5, center=0) | t.signal.windows.gaussian(5, std=0)
t.signal.windows.general_cosine(6, a=[]) | t.signal.windows.kaiser(6, beta=-3.0)
t.signal.windows.hann(-1) | t.nn.functional.one_hot(t.tensor([0, 2]), 2)
t.nn.functional.one_hot(t.tensor([0, 2]), -2) | t.nn.functional.one_hot(t.tensor([0, -1]))
t.nn.functional.one_hot(t.tensor([]).long(), 0) | t.einsum('ij,ij->i', a, a.long())
t.nn.functional.interpolate(a[None], 3, mode='linear', antialias=True) | t._foreach_add([], 1.0)
t.linspace(t.tensor([0.0]), 1, 5) | t._foreach_mul([v], [1, 2])
t.ones(2, 3).scatter(0, t.zeros(2).long(), t.ones(2, 3)) | t.histc(v, 4, 3, 0)
"""


@pytest.mark.parametrize("text", parts(REFUSED))
def test_what_pytorch_refuses(peer: Any, text: str) -> None:
    arrays = operands(peer)

    def run(t: Any) -> Any:
        tensors = {n: t.tensor(x) for n, x in arrays.items()}
        for name in "avw":
            tensors[name].requires_grad_()
        return eval(text, {"t": t, **tensors})

    peer.refusal(run)


# -- lists of tensors ----------------------------------------------------------------------------

LISTS = """
add(xs, 2.0) | add(xs, [1.0, 2.0]) | add(xs, ys, alpha=3) | sub(xs, ys) | mul(xs, ys) | div(xs, ys)
addcdiv(xs, ys, ys, 2.0) | addcmul(xs, ys, xs, [2.0, 3.0]) | lerp(xs, ys, 0.25) | lerp(xs, ys, ys)
abs(xs) | neg(xs) | exp(xs) | sigmoid(xs) | sqrt(ys) | reciprocal(ys) | norm(xs) | norm(xs, 1)
maximum(xs, 0.5) | minimum(xs, ys) | clamp_max(xs, 0.2) | clamp_min(xs, ys) | pow(ys, 2.0)
pow(ys, ys) | add_(xs, 2.0) | mul_(xs, ys) | zero_(xs) | copy_(xs, ys) | sqrt_(ys) | max(xs)
lerp_(xs, ys, 0.5) | addcdiv_(xs, ys, ys, 0.5) | round(xs) | tanh(xs) | log1p(ys) | sign(xs)
"""


@pytest.mark.parametrize("text", parts(LISTS))
def test_lists(peer: Any, text: str) -> None:
    name, arguments = text.split("(", 1)
    xs = [peer.normal(3), peer.normal(2, 2)]
    ys = [np.abs(peer.normal(3)) + np.float32(0.5), np.abs(peer.normal(2, 2)) + np.float32(0.5)]

    def run(t: Any, *tensors: Any) -> Any:
        lists = {"xs": [x.detach() for x in tensors[:2]], "ys": [y.detach() for y in tensors[2:]]}
        result = eval(f"t._foreach_{name}({arguments}", {"t": t, **lists})
        return list(result), lists

    peer.function(run, *xs, *ys, modes=["eager"], gradients=False)


# -- CTC -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("flat", [False, True])
def test_ctc_loss(peer: Any, reduction: str, flat: bool) -> None:
    targets = np.array([[1, 2, 2, 3], [4, 4, 0, 0], [2, 0, 0, 0]])
    sizes, taken = (4, 2, 0), (9, 7, 9)
    labels = np.concatenate([row[:n] for row, n in zip(targets, sizes)]) if flat else targets

    def run(t: Any, x: Any) -> Any:
        scores = t.nn.functional.log_softmax(x, 2)
        return t.nn.functional.ctc_loss(scores, t.tensor(labels), taken, sizes, reduction=reduction)

    peer.function(run, peer.normal(9, 3, 6), bound=2e-5)


def test_ctc_of_tensors_of_lengths_and_impossible_ones(peer: Any) -> None:
    def run(t: Any, x: Any, y: Any, taken: Any, sizes: Any) -> Any:
        loss = t.nn.CTCLoss(blank=5, reduction="sum", zero_infinity=True)
        scores = t.nn.functional.log_softmax(x, 2)
        short = t.nn.functional.log_softmax(x[:3], 2).detach()
        infinite = t.nn.functional.ctc_loss(short, y, (3, 3), (3, 2), 5, "none")
        one = t.nn.functional.ctc_loss(scores[:, 0], y[0], taken[:1], sizes[:1], 5)
        return loss(scores, y, taken, sizes), infinite, one, t.ctc_loss(scores, y, taken, sizes, 5)

    y = np.array([[1, 1, 1], [2, 3, 0]])
    peer.function(run, peer.normal(6, 2, 6), y, np.array([6, 3]), np.array([3, 2]), bound=2e-5)


def test_ctc_is_the_sum_over_all_alignments() -> None:
    scores = frontend.log_softmax(frontend.randn(4, 1, 3).double(), 2).requires_grad_()
    labels = [1, 2]
    total = 0.0
    for path in itertools.product(range(3), repeat=4):
        folded = [k for k, _ in itertools.groupby(path) if k]
        if folded == labels:
            total += math.exp(sum(float(scores[i, 0, k]) for i, k in enumerate(path)))
    run = lambda x: frontend.nn.functional.ctc_loss(x, frontend.tensor([labels]), [4], [2])  # noqa: E731
    assert math.isclose(float(run(scores)), -math.log(total) / 2, rel_tol=1e-12)
    assert frontend.autograd.gradcheck(run, (scores,))


# -- groups --------------------------------------------------------------------------------------


def test_grouped_products(peer: Any) -> None:
    def run(t: Any, *arrays: Any) -> Any:
        a, b, c, d = (x.to(t.bfloat16) for x in arrays)
        ends = t.tensor([3, 8], dtype=t.int32)
        product = t.nn.functional.grouped_mm
        products = [product(a, b, offs=ends), product(c, b), product(a, d, offs=ends)]
        return [x.float() for x in (*products, product(c, d, offs=ends))]

    arrays = peer.normal(8, 8), peer.normal(2, 8, 8), peer.normal(2, 4, 8), peer.normal(8, 8)
    peer.function(run, *arrays, modes=["eager"], bound=2e-2, gradients=False)


# -- what a trace says ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["histogram", "frexp", "matrix_exp"])
def test_what_the_host_computes_is_compiled_too(name: str) -> None:
    arguments = (frontend.eye(3), 3) if name == "histogram" else (frontend.eye(3),)
    actual = frontend.compile(lambda x: getattr(frontend, name)(x, *arguments[1:]))(arguments[0])
    expected = getattr(frontend, name)(*arguments)
    for one, other in zip(*[x if isinstance(x, tuple) else (x,) for x in (actual, expected)]):
        assert np.array_equal(one.numpy(), other.numpy())


def test_one_dimension_is_flat_already() -> None:
    x = frontend.ones(3)
    assert x.flatten() is x and frontend.flatten(x) is x


def test_draws_with_replacement_do_not_take_memory_for_all() -> None:
    count = 10**10
    sampler = frontend.utils.data.RandomSampler(range(10), replacement=True, num_samples=count)
    assert len(sampler) == count
    assert set(itertools.islice(sampler, 500)) == set(range(10))
