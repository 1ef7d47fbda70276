"""Small programs of functions that look at sizes, and at an int and a float among their arguments:
compiled with all left open they give at every size and number the bits of code for these alone, and
the shapes, the numbers or the error that eager gives. A case is a seed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import frontend as torch
import frontend.nn.functional as F
from tests.fuzz.frame import Broken, Fuzzer

Case = int  # a seed

# Functions of a float tensor of any shape; where one does not fit, it is an error everywhere.
STEPS: dict[str, Callable[[Any], Any]] = {
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(-1).unsqueeze(0).squeeze(0).squeeze(-1),
    "add rows": lambda x: x + x.sum(0, keepdim=True),
    "expand": lambda x: x.mean(-1, keepdim=True).expand(x.shape) * x,
    "expand_as": lambda x: x[:1].expand_as(x) - x,
    "chunk": lambda x: x.chunk(2, 0)[0],
    "chunk all": lambda x: torch.cat([c * (i + 1) for i, c in enumerate(x.chunk(3, 0))]),
    "split": lambda x: x.split(2, 0)[0] * 2,
    "split last": lambda x: x.split(4, 0)[-1] * 2,
    "view": lambda x: x.reshape(-1) * 0.5,
    "view rows": lambda x: x.contiguous().view(x.shape[0], -1),
    "flatten": lambda x: x.flatten(),
    "first": lambda x: x[: x.shape[0] - 1],
    "all but two": lambda x: x[:-2],
    "last two": lambda x: x[-2:],
    "last": lambda x: x[-1:],
    "second": lambda x: x[1:],
    "every other": lambda x: x[::2],
    "half": lambda x: x[: x.shape[0] // 2],
    "min": lambda x: x[: min(x.shape[0], 4)],
    "max": lambda x: x * max(x.shape[0], 3),
    "len": lambda x: x * len(x),
    "three": lambda x: x[:3],
    "arange": lambda x: x + torch.arange(x.shape[-1]),
    "arange rows": lambda x: x.reshape(x.shape[0], -1) + torch.arange(x.shape[0]).unsqueeze(1),
    "zeros": lambda x: torch.cat([x, torch.zeros(x.shape)]),
    "ones": lambda x: x + torch.ones(x.shape[0], *[1] * (x.dim() - 1)),
    "full": lambda x: x * torch.full(tuple(x.shape), 2.0),
    "new_zeros": lambda x: x.new_zeros(x.shape[0]) + x.sum(),
    "tril": lambda x: torch.tril(torch.ones(x.shape[0], x.shape[0])) @ x.reshape(x.shape[0], -1),
    "triu": lambda x: torch.triu(x.reshape(x.shape[0], -1), 1),
    "masked": lambda x: x.masked_fill(torch.arange(x.shape[-1]) > 1, 0.25),
    "mask of square": lambda x: (_rows(x) @ _rows(x).t()).masked_fill(
        torch.triu(torch.ones(x.shape[0], x.shape[0], dtype=torch.bool), 1), -3.0),
    "cat": lambda x: torch.cat([x, x[:1]]),
    "stack": lambda x: torch.stack([x, x * 2]).sum(0),
    "pad": lambda x: F.pad(x, (1, 2)),
    "pad rows": lambda x: F.pad(x.reshape(x.shape[0], -1), (0, 0, 1, 0)),
    "repeat": lambda x: x.repeat(2, *[1] * (x.dim() - 1)),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "roll by half": lambda x: torch.roll(x, x.shape[0] // 2, 0),
    "transpose": lambda x: x.transpose(0, -1),
    "unfold": lambda x: x.unfold(0, 2, 1).sum(-1),
    "einsum": lambda x: torch.einsum("i...,i...->i", x, x),
    "outer": lambda x: torch.einsum("i,j->ij", x.flatten()[:5], x.flatten()[:5]),
    "softmax": lambda x: x.softmax(-1),
    "cumsum": lambda x: x.cumsum(0),
    "norm": lambda x: x / x.shape[0] ** 0.5,
    "mean": lambda x: x - x.mean(),
    "var": lambda x: x * x.var(unbiased=False),
    "std": lambda x: x / (x.numel() + 1),
    "one_hot": lambda x: F.one_hot(torch.arange(x.shape[0]), 12)[:, :12].float(),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "attention": lambda x: F.scaled_dot_product_attention(
        *[x.reshape(1, x.shape[0], -1)] * 3, is_causal=True)[0],
    "where": lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
    "diff": lambda x: x.diff(dim=0),
    "select": lambda x: x + x.select(0, 0),
    "narrow": lambda x: x.narrow(0, 1, x.shape[0] - 1),
    "if even": lambda x: x * 2 if x.shape[0] % 2 == 0 else x + 1,
    "if empty": lambda x: x if 0 in x.shape else x * 3,
    "if one": lambda x: x * 5 if x.shape[0] == 1 else x,
    "sort": lambda x: x.sort(0).values,
    "topk": lambda x: x.topk(1, 0).values,
    "argmax": lambda x: x.argmax(0).float(),
    "gather": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)],
    "index_select": lambda x: x.index_select(0, torch.arange(0, x.shape[0], 2)),
    "movedim": lambda x: x.movedim(0, -1),
    "unflatten": lambda x: x.reshape(-1).unflatten(0, (x.shape[0], -1)),
    "interpolate": lambda x: F.interpolate(x.reshape(1, 1, -1), scale_factor=2.0)[0, 0],
    "pool": lambda x: F.avg_pool1d(x.reshape(1, 1, -1), 2)[0, 0],
    "adaptive pool": lambda x: F.adaptive_avg_pool1d(x.reshape(1, 1, -1), 3)[0, 0],
    "tensor_split": lambda x: x.tensor_split(2, 0)[1],
    "diagonal": lambda x: (x.reshape(-1)[:, None] * x.reshape(-1)[None]).diagonal(),
    "meshgrid": lambda x: torch.meshgrid(x.flatten(), x.flatten()[:2], indexing="ij")[0],
    "linspace": lambda x: x + torch.linspace(0, 1, x.shape[-1]),
    "eye": lambda x: torch.eye(x.shape[0]) @ x.reshape(x.shape[0], -1),
    "assign": lambda x: _assigned(x),
    "list": lambda x: torch.stack(list(x.reshape(x.shape[0], -1)[:2])),
    "iterate": lambda x: sum(x.reshape(x.shape[0], -1)),
    "lstm": lambda x: _recurrent("LSTM", x),
    "gru both ways": lambda x: _recurrent("GRU", x, bidirectional=True),
    "two layers of rnn": lambda x: _recurrent("RNN", x, num_layers=2),
    "cell over time": lambda x: _scanned(x),
}  # fmt: skip


# Those of a number beside it.
OF_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "times": lambda x, k: x * k,
    "plus": lambda x, k: x + k - 1,
    "over": lambda x, k: x / k + 1.5 / (k + 20),
    "first of": lambda x, k: x[:k],
    "from": lambda x, k: x[k:],
    "last of": lambda x, k: x[-k:],
    "element": lambda x, k: x[k],
    "part": lambda x, k: x[k : k + 1],
    "narrow at": lambda x, k: x.narrow(0, k, 1),
    "times over": lambda x, k: x.repeat(k, *[1] * (x.dim() - 1)),
    "so many": lambda x, k: x.sum() + torch.arange(k),
    "so many zeros": lambda x, k: torch.cat([x.flatten(), torch.zeros(k)]),
    "filled with": lambda x, k: x * torch.full(x.shape, k),
    "tensor of": lambda x, k: x + torch.tensor(k),
    "below": lambda x, k: torch.where(torch.arange(x.shape[-1]) < k, x, -1.0),
    "written at": lambda x, k: _written(x, k),
    "rows of": lambda x, k: x.reshape(k, -1),
    "copies": lambda x, k: x.unsqueeze(0).expand(k, *x.shape) * 2,
    "sum along": lambda x, k: x.sum(k),
    "greatest": lambda x, k: x.topk(k, 0).values,
    "padded by": lambda x, k: F.pad(x, (k, 0)),
    "power": lambda x, k: x**k,
    "if many": lambda x, k: x * 2 if k > 3 else x + k,
    "if even": lambda x, k: x[: k // 2] if k % 2 == 0 else x,
    "parts of": lambda x, k: x.split(k, 0)[-1],
    "in parts": lambda x, k: x.chunk(k, 0)[0],
    "rolled by": lambda x, k: x.roll(k, 0),
    "diagonal at": lambda x, k: _rows(x).diagonal(k),
    "triangle at": lambda x, k: torch.tril(_rows(x), k),
    "repeated each": lambda x, k: x.repeat_interleave(k, 0),
    "by text": lambda x, k: x * {"2": 3.0, "5": 7.0}.get(str(k), 1.0),
    "rounds": lambda x, k: sum((x * i for i in range(k)), x),
    "at most": lambda x, k: x[: min(k, x.shape[0])] * max(k, 2),
    "windows of": lambda x, k: x.unfold(0, k, 1).sum(-1),
    "to its power": lambda x, k: x * 0.9**k,
    "corrected": lambda x, k: x / (1 - 0.999**k),
    "root": lambda x, k: x * k**0.5,
    "inverse root": lambda x, k: x * k**-0.5 + k**-2,
    "square": lambda x, k: x * k**2 + k**3,
    "integer power": lambda x, k: x * 2**k,
    "to minus it": lambda x, k: x + 2**-k,
    "odd power": lambda x, k: x * (k - 3) ** 1.5,
    "over less": lambda x, k: x / (k - 4) + 1 / (k - 5),
    "halves": lambda x, k: x * (k // 2) + (k + 0.5) // 3 + k % 2.5,
    "whole over": lambda x, k: x + 7 // k + 7 % k + 7.5 // k,
    "cosine by NumPy": lambda x, k: x * (0.5 + 0.5 * np.cos(k / 7)),
    "cosine": lambda x, k: x * math.cos(k / 7),
    "warmed up": lambda x, k: x * min((k + 1) / 5, 1.0),
    "not under": lambda x, k: x + max(k * 0.3, k - 3, 0.5),
    "how far": lambda x, k: x * abs(k - 3.5) + abs(k - 4),
    "rounded": lambda x, k: x + round(k / 3) + int(k / 2),
    "power of sizes": lambda x, k: x * (x.shape[0] + 1) ** -0.5 * 0.5 ** (x.shape[0] - k),
    "share of sizes": lambda x, k: x * (k / (x.shape[0] + 1)) ** 0.5,
    "whole tensor": lambda x, k: torch.arange(x.shape[-1]) * k + x + torch.arange(2).sum() * 0.5**k,
    "high power": lambda x, k: x.abs() ** (k + 15),
    "lerp": lambda x, k: torch.lerp(x, x * 2, 1 - 0.9**k),
    "added times": lambda x, k: torch.add(x, x, alpha=k).addcmul(x, x, value=0.5**k),
    "clamped": lambda x, k: x.clamp(-(0.7**k), k / 3),
    "told": lambda x, k: x * float(f"{0.5**k:.3f}"),
    "if small": lambda x, k: x * 2 if 0.7**k < 0.3 else x + 0.7**k,
}  # fmt: skip


# Those of a float beside it.
OF_FLOATS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "scaled by": lambda x, k, r: x * r,
    "less": lambda x, k, r: x - r,
    "decayed": lambda x, k, r: x * (r * 0.9**k),
    "its power": lambda x, k, r: x * r**k,
    "power of it": lambda x, k, r: x * 1.5**r,
    "its root": lambda x, k, r: x * r**0.5,
    "over it": lambda x, k, r: x / r + 1 / (r - 0.5),
    "of it": lambda x, k, r: x * (r // 0.3) + r % 0.3 + k % r,
    "at most it": lambda x, k, r: x * min(r, 0.4) + max(-r, r),
    "whole of it": lambda x, k, r: x + int(r * 4) + round(r, 1),
    "if positive": lambda x, k, r: x * r if r > 0 else x - k,
    "if it is": lambda x, k, r: x if r == 0.5 else x * r,
    "filled by it": lambda x, k, r: x + torch.full((1,), r) + torch.tensor(r),
    "power of": lambda x, k, r: x.abs() ** r,
    "leaky by": lambda x, k, r: F.leaky_relu(x, r),
    "clamped by": lambda x, k, r: x.clamp(-abs(r), abs(r)),
    "whole times": lambda x, k, r: (torch.arange(x.shape[-1]) * r) + x,
    "sine": lambda x, k, r: x * np.sin(r) + math.exp(r),
    "share of sizes and it": lambda x, k, r: x * (r / (x.shape[0] + 1)),
    "told of it": lambda x, k, r: x * float(str(r)),
    "rounds of it": lambda x, k, r: sum((x * r**i for i in range(3)), x),
}  # fmt: skip


@functools.cache
def _layer(kind: str, **options: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return getattr(torch.nn, kind)(1, 3, **options).requires_grad_(False)


def _recurrent(kind: str, x: Any, **options: Any) -> Any:
    """A layer whose batch is the first axis of x, and whose time steps are what is left of it."""
    steps = x.reshape(x.shape[0], -1, 1)
    return _layer(kind, batch_first=True, **options)(steps)[0].sum(-1)


def _scanned(x: Any) -> Any:
    """A cell in a loop of the user's over the first axis, of as many rows as are left."""
    cell, rows = _layer("GRUCell"), _rows(x)

    def step(h: Any, row: Any) -> Any:
        h = cell(row.unsqueeze(-1), h)
        return h, h

    return torch.scan(step, torch.zeros(rows.shape[1], 3), rows)[1].sum(-1)


def _written(x: Any, k: Any) -> Any:
    y = x.clone()
    y[k] = 1.5
    y[:k] *= 2
    return y


def _rows(x: Any) -> Any:
    return x.reshape(x.shape[0], -1)


def _assigned(x: Any) -> Any:
    y = x.clone()
    y[: x.shape[0] // 2] = 1.5
    return y


SIZES = (2, 3, 4, 5, 7, 8, 12, 1, 6, 0)
NUMBERS = (2, 3, 4, 5, 6, 9, 1, 0, -1, -2)
FLOATS = (0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 1e-3, 0.0, -0.0, -0.5, 3.5, 1e30, float("inf"))


class Program:
    """Some steps, over x [n, 3] or [n, m], and an int and a float that some look at."""

    def __init__(self, seed: int):
        draw = np.random.default_rng(seed)
        names = [*sorted(STEPS), *sorted(OF_NUMBERS), *sorted(OF_FLOATS)]
        chosen = draw.permutation(len(names))[: draw.integers(1, 5)]
        self.names = [names[int(i)] for i in chosen]
        self.grad = bool(draw.random() < 0.3)
        sizes = [int(n) for n in draw.permutation(SIZES)[:6]]
        two = draw.random() < 0.4
        self.shapes = [(n, int(draw.choice([n, 3, 4, 6])) if two else 3) for n in sizes]
        self.numbers = [int(k) for k in draw.choice(NUMBERS, len(sizes))]
        self.floats = [float(r) for r in draw.choice(FLOATS, len(sizes))]
        self.outside = bool(draw.random() < 0.4)
        self.tells = bool(draw.random() < 0.5)  # returns numbers that depend on the arguments

    def __call__(self, x: Any, k: Any, r: Any) -> Any:
        told = [x.shape[0] * 2 + k, 0.5**k, r] if self.tells else []
        for name in self.names:
            if name in OF_FLOATS:
                x = OF_FLOATS[name](x, k, r)
            else:
                x = STEPS[name](x) if name in STEPS else OF_NUMBERS[name](x, k)
        return x, [*told, x.numel()]

    def __str__(self) -> str:
        what = f"{self.shapes}, {self.numbers}, {self.floats}"
        what += " with gradient" if self.grad else ""
        what += " outside" if self.outside else ""
        return f"{' | '.join(self.names)} at {what}"


class Open:
    """A program compiled for what differs; its numbers are arguments, or attributes of this."""

    def __init__(self, program: Program):
        self.outside = program.outside
        self.k, self.r = 0, 0.0
        if self.outside:
            self.compiled = torch.compile(
                lambda x: program(x, self.k, self.r), dynamic=None, fullgraph=True
            )
        else:
            self.compiled = torch.compile(
                lambda x, k, r: program(x, k, r), dynamic=None, fullgraph=True
            )

    def __call__(self, x: Any, k: int, r: float) -> Any:
        if not self.outside:
            return self.compiled(x, k, r)
        self.k, self.r = k, r
        return self.compiled(x)


def check(case: Case) -> str:
    """How far sizes were left open; raises Broken for what differs."""
    program = Program(case)
    open_ = Open(program)
    for shape, k, r in zip(program.shapes, program.numbers, program.floats):
        values = np.random.default_rng(case).normal(size=shape).astype(np.float32)
        alone = torch.compile(lambda x, k, r: program(x, k, r), dynamic=False, fullgraph=True)
        functions = (program, alone, open_)
        eager, numbers, left_open = (_run(each, values, k, r, program.grad) for each in functions)
        where = f"{program}, at {shape}, {k} and {r}"
        if left_open != numbers:
            raise Broken(f"{where}: open {_told(left_open)}, a number {_told(numbers)}")
        # Powers of negative numbers are complex, which compiled code refuses.
        if numbers[0] != eager[0] and numbers[0] != "DTypeError":
            raise Broken(f"{where}: compiled {_told(numbers)}, eager {_told(eager)}")
    notes = open_.compiled._history.notes
    return "sizes were numbers" if notes else "sizes were left open"


def _told(outcome: Any) -> str:
    return f"{outcome[0]} {outcome[1]!r:.80}"


def _run(function: Any, values: np.ndarray, k: int, r: float, grad: bool) -> tuple[Any, ...]:
    """Shapes and ints, or the type of the error, and bytes."""
    x = torch.from_numpy(values.copy())
    if grad:
        x.requires_grad_()
    try:
        result, told = function(x, k, r)
        if grad and result.requires_grad:
            result.sum().backward()
    except Exception as error:
        return type(error).__name__, ""
    got = [result.detach().numpy()] + ([x.grad.numpy()] if x.grad is not None else [])
    shapes = tuple(str(each.shape) for each in got)
    # What is promised of a NaN is that it is one.
    plain = [np.where(np.isnan(each), np.float32(np.nan), each) for each in got]
    return (*shapes, repr([(type(n), n) for n in told])), tuple(each.tobytes() for each in plain)


def draw(random: np.random.Generator, size: int) -> Case:
    return int(random.integers(1 << 30))


def program(case: Case) -> str:
    return f"from tests.fuzz import sizes\nsizes.check({case!r})"


FUZZER = Fuzzer("sizes", draw, check, program)
