"""The contractions that are measured: shapes, useful work, figures to reach, exact results.

Out: `CASES`, one `Case` a row of the benchmark's table; `operands(case)`, its float32 operands;
`reference(case, operands)`, its results in float64, by NumPy loops over taps that share no code
with what is measured.

Products are named M x N x K. Useful work: a multiply and an add for each product of the definition
(taps that fall on padding count, as is usual); attention counts unmasked pairs only, 4·d flops a
pair forward and 8·d backward. Rows bound by memory count the bytes of operands and results, once.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One row. `target`: the fraction of FMA peak (of read bandwidth where `nbytes` is set) that
    graphc is to reach; `lead`: how many times the best peer's speed; `gain`: how many times that of
    its own direct kernel, for a case at level relaxed. None: no figure is set."""

    name: str
    kind: str
    shapes: tuple[Shape, ...]
    flops: float
    target: float | None = None
    lead: float | None = None
    gain: float | None = None
    nbytes: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def frozen(self) -> int | None:
        """The operand that the user has frozen, which may be packed ahead of the call."""
        return self.options.get("frozen")

    @property
    def bare(self) -> Case:
        """The product that a fused case is made of."""
        (m, k), (_, n), *_ = self.shapes
        return _product("NN", m, n, k)


def operands(case: Case) -> list[Array]:
    """The same in every process. They begin at cache lines, as PyTorch's own tensors do and NumPy's
    arrays do not, so that peers which take them as they are lose nothing."""
    random = np.random.default_rng(zlib.crc32(case.name.encode()))
    return [_aligned(random.standard_normal(shape, np.float32)) for shape in case.shapes]


def _aligned(array: Array) -> Array:
    block = np.empty(array.nbytes + 64, np.uint8)
    start = -block.ctypes.data % 64
    result = block[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


# -- the table ------------------------------------------------------------------------------------


def _product(form: str, m: int, n: int, k: int, **figures: Any) -> Case:
    shapes = (m, k) if form[0] == "N" else (k, m), (k, n) if form[1] == "N" else (n, k)
    name = f"product {form} {m}x{n}x{k}"
    return Case(name, "product", shapes, 2.0 * m * n * k, options={"form": form}, **figures)


def _products() -> Iterator[Case]:
    forms = ("NN", "NT", "TN")
    cubes = [(size, size, size) for size in (192, 384, 512, 768, 1024, 2048)]
    for sizes in (*cubes, (2048, 768, 768), (2048, 3072, 768)):
        for form in forms:
            yield _product(form, *sizes, target=0.90, lead=0.98)
    for size, target in ((256, 0.88), (128, 0.82), (64, 0.75)):
        for form in forms:
            yield _product(form, size, size, size, target=target)
    for m, k, n, target in ((64, 784, 512, 0.88), (64, 512, 512, 0.88), (64, 512, 10, 0.45)):
        for form in ("NN", "NT"):
            yield _product(form, m, n, k, target=target)
    for size in (4096, 512):
        for form in ("NN", "NT"):
            yield _product(form, 1, size, size, target=0.90, nbytes=4 * size * (size + 2))
    for form in ("NN", "NT"):
        shapes = (32, 128, 64), (32, 64, 128) if form == "NN" else (32, 128, 64)
        yield Case(
            f"batched {form} 32x128x128x64", "product", shapes, 2.0 * 32 * 128 * 128 * 64, 0.80,
            options={"form": form},
        )  # fmt: skip


def _attention() -> Iterator[Case]:
    pairs, width = 32 * 128 * 129 // 2, 64
    shapes = ((32, 128, width),) * 3
    forward = 4.0 * width * pairs
    yield Case("attention causal forward 32x128x64", "attention", shapes, forward, 0.55)
    yield Case(
        "attention causal forward+backward 32x128x64", "attention", (*shapes, (32, 128, width)),
        3 * forward, 0.50, options={"backward": True},
    )  # fmt: skip


DIRECTIONS = ("forward", "backward-data", "backward-weights")


def _conv(
    n: int, channels: int, outputs: int, size: int, kernel: int, stride: int, padding: int,
    groups: int = 1, targets: tuple[float | None, ...] = (None,) * 3, note: str = "",
    frozen: int | None = None, traffic: bool = False, **figures: Any,
) -> Iterator[Case]:  # fmt: skip
    """One case for each direction that has a place in `targets`."""
    place = (size + 2 * padding - kernel) // stride + 1
    x = (n, channels, size, size)
    w = (outputs, channels // groups, kernel, kernel)
    y = (n, outputs, place, place)
    options = {"stride": (stride,) * 2, "padding": (padding,) * 2, "groups": groups,
               "size": (size,) * 2, "kernel": (kernel,) * 2, "frozen": frozen}  # fmt: skip
    flops = 2.0 * math.prod(y) * math.prod(w[1:])
    nbytes = 4 * (math.prod(x) + math.prod(y) + math.prod(w)) if traffic else 0
    taken = {"forward": (x, w), "backward-data": (y, w), "backward-weights": (x, y)}
    label = f"batch {n} {channels}->{outputs} {size}² {kernel}/{stride}{note}"
    for direction, target in zip(DIRECTIONS, targets):
        yield Case(
            f"{'depthwise' if groups > 1 else 'conv'} {direction} {label}", "conv",
            taken[direction], flops, target, nbytes=nbytes,
            options={**options, "direction": direction}, **figures,
        )  # fmt: skip


def _convolutions() -> Iterator[Case]:
    squares = ((64, 32), (128, 16), (256, 8), (512, 4))
    for channels, size in squares:
        figures = {"targets": (0.90, 0.88, 0.85), "lead": 0.95}
        yield from _conv(16, channels, channels, size, 3, 1, 1, **figures)
    for channels, size in squares:
        yield from _conv(1, channels, channels, size, 3, 1, 1, targets=(0.85,), lead=1.0,
                         note=" packed", frozen=1)  # fmt: skip
    for geometry in (
        (16, 64, 128, 32, 3, 2, 1), (16, 64, 128, 32, 1, 2, 0), (16, 3, 64, 32, 3, 1, 1),
        (32, 3, 6, 32, 5, 1, 0), (32, 6, 16, 14, 5, 1, 0),
    ):  # fmt: skip
        yield from _conv(*geometry, lead=1.2)
    for channels, size in ((32, 64), (128, 32), (512, 16)):
        yield from _conv(16, channels, channels, size, 3, 1, 1, channels, targets=(0.70,) * 3,
                         traffic=True, lead=2.0)  # fmt: skip


def _winograd() -> Iterator[Case]:
    """3x3 convolutions that level relaxed sums otherwise; useful work is that of the definition."""
    for batch, channels, size in ((16, 64, 32), (16, 128, 16), (16, 256, 8), (1, 64, 32),
                                  (1, 128, 16)):  # fmt: skip
        for case in _conv(batch, channels, channels, size, 3, 1, 1, targets=(None, None)):
            yield _relaxed(case)
    for channels, size in ((64, 32), (128, 16), (256, 8)):
        packed = _conv(1, channels, channels, size, 3, 1, 1, targets=(None,), note=" packed",
                       frozen=1)  # fmt: skip
        yield from map(_relaxed, packed)


def _relaxed(case: Case) -> Case:
    options = {**case.options, "level": "relaxed"}
    return replace(case, name=case.name.replace("conv", "winograd", 1), options=options, gain=1.3)


def _fused() -> Iterator[Case]:
    """bias, GELU (by erf) and a residual; the figure is the bare product's less 6 %."""
    m, n, k = 2048, 768, 768
    yield Case(
        f"fused bias+gelu+residual {m}x{n}x{k}", "fused", ((m, k), (k, n), (n,), (m, n)),
        2.0 * m * n * k, round(0.90 / 1.06, 3),
    )  # fmt: skip


CASES = (*_products(), *_fused(), *_attention(), *_convolutions(), *_winograd())


# -- exact results --------------------------------------------------------------------------------


def reference(case: Case, arrays: list[Array]) -> list[Array]:
    """The case's results in float64."""
    wide = [array.astype(np.float64) for array in arrays]
    if case.kind == "product":
        x, y = wide
        form = case.options["form"]
        return [np.matmul(x if form[0] == "N" else x.T, y if form[1] == "N" else y.mT)]
    if case.kind == "fused":
        x, w, bias, residual = wide
        z = x @ w + bias
        return [z * 0.5 * (1 + _erf(z / math.sqrt(2))) + residual]
    if case.kind == "attention":
        return _exact_attention(*wide)
    return [_exact_convolution(case, *wide)]


def _erf(x: Array) -> Array:
    """libm's, element by element: NumPy has none."""
    return np.fromiter(map(math.erf, x.flat), np.float64, x.size).reshape(x.shape)


def _exact_attention(q: Array, k: Array, v: Array, g: Array | None = None) -> list[Array]:
    scale = 1 / math.sqrt(q.shape[-1])
    seen = np.tri(q.shape[-2], dtype=bool)
    scores = np.where(seen, scale * (q @ k.mT), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    values = weights @ v
    if g is None:
        return [values]
    by_weights = g @ v.mT
    by_scores = weights * (by_weights - (g * values).sum(-1, keepdims=True))
    return [values, scale * (by_scores @ k), scale * (by_scores.mT @ q), weights.mT @ g]


def _exact_convolution(case: Case, first: Array, second: Array) -> Array:
    """Tap by tap: each tap of the kernel is a product over channels of a strided view."""
    options = case.options
    (stride, _), (padding, _), groups = options["stride"], options["padding"], options["groups"]
    direction, size, kernel = options["direction"], options["size"], options["kernel"]
    y = second if direction == "backward-weights" else first
    place = (size[0] + 2 * padding - kernel[0]) // stride + 1
    padded = tuple(s + 2 * padding for s in size)
    inside = (..., slice(padding, padding + size[0]), slice(padding, padding + size[1]))
    n = first.shape[0]

    def view(x: Array, i: int, j: int) -> Array:
        reach = (place - 1) * stride + 1
        return x[..., i : i + reach : stride, j : j + reach : stride]

    def grouped(x: Array) -> Array:
        return x.reshape(n, groups, x.shape[1] // groups, -1)

    taps = np.ndindex(*kernel)
    if direction == "backward-data":
        outputs, inner = second.shape[:2]
        wide = np.zeros((n, inner * groups, *padded))
        for i, j in taps:
            w = second[:, :, i, j].reshape(groups, outputs // groups, inner)
            part = w.mT @ grouped(y)
            view(wide, i, j)[...] += part.reshape(n, inner * groups, place, place)
        return wide[inside]
    x = np.zeros((*first.shape[:2], *padded))
    x[inside] = first
    if direction == "forward":
        outputs, inner = second.shape[:2]
        total = np.zeros((n, groups, outputs // groups, place * place))
        for i, j in taps:
            w = second[:, :, i, j].reshape(groups, outputs // groups, inner)
            total += w @ grouped(view(x, i, j))
        return total.reshape(n, outputs, place, place)
    outputs, inner = y.shape[1], first.shape[1] // groups
    gradient = np.zeros((outputs, inner, *kernel))
    for i, j in taps:
        product = grouped(y) @ grouped(view(x, i, j)).mT
        gradient[:, :, i, j] = product.sum(0).reshape(outputs, inner)
    return gradient
