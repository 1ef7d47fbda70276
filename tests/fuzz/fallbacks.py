"""Drawn functions made of pieces that cannot be traced, or not always: values asked for, branches,
effects, state of Python, generators, exceptions, files. Compiled they give eager mode's results,
bit by bit, and its effects, in order and number; so do the Modules below them.

The functions are text, since what code asks is read from its bytecode too.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import os
import random
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import frontend as torch
from tests.fuzz.frame import Broken, Fuzzer

# Of x [n, 3] and an int k; y is what was computed so far, of the same shape.
PIECES = (
    "y = y * y.sum().item()", "log.append(y.mean().item())", "y = y * float(y.max()) * 0.25",
    "y = y + int(y.sum()) * 0.5", "log.append(y.tolist())", "y = y[y > 0].sum() * x",
    "v = [y.sum().item(), k]; y = y * v[1]", "log.append((k, y.sum().item()))",
    "v = y.sum().item(); log.append(v); y = y * 2", "log.append(k)", "log.append('text')",
    "y = y * len(y.detach().numpy())", "y = y * len(str(y.detach()))", "H.last = y.sum().item()",
    "TABLE['value'] = y.sum().item()", "TABLE['k'] = k", "TABLE[k] = TABLE.get(k, 0) + 1",
    "if y.sum() > 0:\n    y = -y", "for _ in range(9):\n    if y.norm() < 2: break\n    y = y / 2",
    "assert (y < 1e9).all()", "assert not y.isnan().any(), 'nan'", "assert y.sum() < 1e9 and k < 9",
    "assert y.max() < 2 or y.sum() < 1e9, f'{k}'", "try:\n    assert (y < 1).all()\n"
    "except AssertionError:\n    y = y * 0.5", "if k > 2:\n    y = y * 3",
    "y = y if y.isnan().any() else y + 1",
    "y = max([y, -y], key=lambda z: z.sum())", "if y.sum().item() > 1:\n    y = y - 1",
    "print('here', k)", "print('sum', y.detach().sum().item(), sep='=', end=';')",
    "print(y.detach())", "print(y.sum())", "print(f'{y.sum().item():.3f}')", "print()",
    "sys.stdout.write(f'{k}\\n')", "LOGGER.info('said %s', k)", "LOGGER.debug('not said')",
    "with open(PATH, 'a') as f:\n    f.write('line\\n')", "os.makedirs(PATH + '.d', exist_ok=True)",
    "y = y * len(open(PATH).read())", "list(map(print, ['m', 'n']))", "WRITE('w', k)",
    "print('to', file=FILE)", "FILE.write('f')", "with redirected():\n    print('inside')",
    "H.n += 1; y = y * H.n", "H.n += 1", "global COUNT\nCOUNT += 1\ny = y + COUNT",
    "Q.append(k)", "y = y * len(Q); Q.append(1)", "SEEN.add(k)", "Kind.count = Kind.count + 1",
    "SCHEDULE.step()", "y = y * SCHEDULE.get_last_lr()[0]", "y = y * SCHEDULE.last_epoch",
    "y = y * OPTION['lr']", "y = PRIOR.log_prob(y)", "SCHEDULE.step(); print('stepped')",
    "y.requires_grad and y.register_hook(lambda g: print('gradient'))",
    "y.requires_grad and y.register_hook(lambda g: g * 2)",
    "y = torch.func.vmap(lambda t: t * 2 + t.sum())(y)",
    "y = torch.func.vmap(lambda t: t * (2.0 if t.sum() > 0 else 3.0))(y)",
    "y = torch.func.vmap(torch.func.grad(lambda t: (t * t).sum()))(y)",
    "y = y * next(IT)", "y = y * RNG.random()", "y = y + random.random()",
    "y = y + float(np.random.rand())", "y = y + torch.rand(3)", "QUEUE.put(k); y = y * QUEUE.get()",
    "y = y * cached(k)", "H.items.append(k)", "ARRAY[0] += 1; y = y + float(ARRAY[0])",
    "y = net(y)", "y = branching(y)", "z = viewing(y); z.add_(1.0); y = z.view(y.shape)",
    "y = nn.Tanh()(y)", "y = two(y)", "y = net(y) * net(x).sum().item()",
    "y = sum(numbered(y))", "for z in numbered(y):\n    y = y + z",
    "y = y * sum(v for v in (1, 2) if y.sum() > v)", "it = iter([y, x])\ny = next(it) + next(it)",
    "try:\n    y = y * y.sum().item()\n    log.append('tried')\n"
    "finally:\n    log.append('finally')",
    "try:\n    if y.sum() > 1: raise ValueError('big')\n    y = y * 2\n"
    "except ValueError as e:\n    log.append(str(e))",
    "try:\n    print('t')\nexcept Exception:\n    print('caught')",
    "try:\n    y = y * float(y.sum())\nexcept Exception:\n    H.n += 5",
    "with contextlib.suppress(Exception):\n    y = y * y.sum().item() + y",
    "HISTORY['loss'].append(y.mean().item())", "HISTORY['rows'][0].append((k, y.tolist()))",
    "for name in ('loss', 'sum'):\n    HISTORY[name].append(y.sum().item())",
    "H.logs['loss'].append(y.detach().sum().item())", "y = y * len(HISTORY['loss'])",
    "y = y + sum(HISTORY['sum'][-1:])", "FOUND['loss'].append(y.sum().item())",
    "HISTORY['sum'] += [y.sum().item()]", "H.n += 1; log.append((H.n, y.sum().item()))",
    "H.n += 2; print(H.n, H.n * 0.5)", "HISTORY['loss'].append(k * 0.1)",
    "if y.sum() > 40:\n    raise KeyError('over')", "steps(y)", "y = stepped(y)",
)  # fmt: skip
RETURNS = (
    "y", "y, y.sum().item()", "{'y': y, 'loss': y.sum().item()}", "[y.tolist(), k]",
    "y.sum().item()",
    "(z for z in [y, x])", "y.detach().numpy()", "(y, log[-1:])", "None", "y.sum()",
)  # fmt: skip

HEAD = """
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.calls = nn.Linear(3, 3), 0
    def forward(self, x):
        self.calls += 1
        x = self.inner(x)
        return x if x.sum() > 0 else x * 2
class Viewing(nn.Module):
    def forward(self, x): return x.view(-1)
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Branching(), nn.Linear(3, 3)
    def forward(self, x): return self.b(self.a(x)) + x
class Kind:
    count = 0
branching, viewing, two = Branching(), Viewing(), Two()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
H = types.SimpleNamespace(n=0, last=None, items=[], logs={'loss': []})
HISTORY = {'loss': [], 'sum': [], 'rows': [[], []]}
FOUND = collections.defaultdict(list)
log, TABLE, COUNT, Q, SEEN = [], {}, 0, collections.deque(), set()
SGD = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
SGD.step()
SCHEDULE, OPTION = torch.optim.lr_scheduler.ExponentialLR(SGD, 0.5), SGD.param_groups[0]
PRIOR = torch.distributions.Normal(0.0, 2.0)
IT, RNG, QUEUE, ARRAY = itertools.count(1), random.Random(3), queue.Queue(), np.zeros(2)
WRITE, FILE = print, io.StringIO()
@functools.lru_cache
def cached(k):
    return k + 1
@contextlib.contextmanager
def redirected():
    log.append('enter')
    try:
        yield
    finally:
        log.append('exit')
def numbered(y):
    yield y * 2
    log.append('between')
    yield y
def steps(y):
    optimizer.zero_grad()
    loss = net(y.detach()).square().mean()
    loss.backward()
    optimizer.step()
    log.append(loss.item())
def stepped(y):
    steps(y)
    print('step', len(log) > 0)
    return y * 2
"""
WATCHED = """[HISTORY, FOUND, H.logs,
log, TABLE, COUNT, [*Q], sorted(SEEN), H.n, H.last, H.items, Kind.count, next(IT),
SCHEDULE.last_epoch, OPTION["lr"],
RNG.random(), random.random(), float(np.random.rand()), torch.rand(2).tolist(), QUEUE.qsize(),
ARRAY.tolist(), FILE.getvalue(), branching.calls, two.a.calls,
[p.tolist() for m in (net, branching, two) for p in m.parameters()],
[None if p.grad is None else p.grad.tolist() for p in net.parameters()],
os.path.exists(PATH + '.d'), open(PATH).read() if os.path.exists(PATH) else '']"""
IMPORTS = """import collections, contextlib, functools, io, itertools, os, queue, random, sys, types
import numpy as np
import frontend as torch
from frontend import nn
"""
CHANGES = ("pass", "pass", "SCHEDULE.step()", "PRIOR.scale = torch.tensor(3.0)",
           "H.n = 7", "COUNT = 3", "log.clear()", "net.eval()", "TABLE.clear()",
           "LOGGER.setLevel(10)", "random.seed(5)",
           "HISTORY['loss'] = [1.0]", "HISTORY['sum'].clear()",
           "H.logs = {'loss': []}")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A function of some pieces, and its calls: rows, the int, whether x requires gradients, and
    what changes ahead."""

    pieces: tuple[str, ...]
    returned: str
    calls: tuple[tuple[int, int, bool, str], ...]

    def lines(self) -> Iterator[str]:
        yield "def f(x, k):"
        globals_ = [line for piece in self.pieces for line in piece.splitlines()[:1]]
        if any(line.startswith("global") for line in globals_):
            yield "    global COUNT"
        yield "    y = x * 0.5"
        for piece in self.pieces:
            yield from (
                f"    {line}" for line in piece.splitlines() if not line.startswith("global")
            )
        yield f"    return {self.returned}"


def _plain(value: Any) -> Any:
    """A result, comparable: tensors by dtype, bytes and whether they require gradients."""
    if isinstance(value, torch.Tensor):
        array = value.detach().numpy()
        return "tensor", str(value.dtype), value.requires_grad, array.shape, array.tobytes()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value).__name__, [_plain(item) for item in value]
    if isinstance(value, types.GeneratorType):
        return "generator", [_plain(item) for item in value]
    return type(value).__name__, repr(value)


def results(case: Case, compile: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """What each call gives, prints and logs, with the state behind it; and what ran."""
    out, said = io.StringIO(), io.StringIO()
    logger = logging.Logger("drawn", logging.INFO)
    logger.addHandler(logging.StreamHandler(said))
    seen: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        space: dict[str, Any] = {"__name__": "drawn", "LOGGER": logger, "PATH": path}
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        exec(IMPORTS + HEAD + "\n".join(case.lines()), space)
        function = compile(space["f"])
        for at, (rows, k, grad, change) in enumerate(case.calls):
            exec(change, space)
            array = np.random.default_rng(at).normal(size=(rows, 3)).astype(np.float32)
            # What a compiled training step gives cannot be differentiated.
            grad = grad and not any("step" in piece for piece in case.pieces)
            x = torch.from_numpy(array).requires_grad_(grad)
            with contextlib.redirect_stdout(out):
                try:
                    result = function(x, k)
                    if isinstance(result, torch.Tensor) and result.requires_grad:
                        result.sum().backward()
                    given = _plain(result)
                except Exception as error:
                    given = type(error).__name__, str(error).replace(folder, "")
            gradient = None if x.grad is None else x.grad.numpy().tobytes()
            texts = out.getvalue(), said.getvalue()
            seen.append((given, gradient, texts, [*map(repr, eval(WATCHED, space))]))
    return seen, function


def check(case: Case) -> str:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        eager, _ = results(case, lambda function: function)
        compiled, function = results(case, torch.compile)
    for at, (want, have) in enumerate(zip(eager, compiled)):
        for what, one, two in zip(("result", "gradient", "texts", "state"), want, have):
            if one != two:
                if what == "state":
                    one, two = next(each for each in zip(one, two) if each[0] != each[1])
                raise Broken(f"call {at}, {what}: eager\n{one!r}\ncompiled\n{two!r}")
    if not function.refusals:
        return "compiled"
    return "both" if function.specializations else "fell back"


def draw(draws: np.random.Generator, size: int) -> Case:
    def one(among: Any) -> Any:
        return among[int(draws.integers(len(among)))]

    pieces = tuple(one(PIECES) for _ in range(int(draws.integers(1, min(size, 4) + 1))))
    calls = tuple(
        (one((2, 2, 4)), one((1, 1, 3)), bool(draws.integers(4) == 0), one(CHANGES))
        for _ in range(int(draws.integers(2, 6)))
    )
    return Case(pieces, one(RETURNS), calls)


def smaller(case: Case) -> Iterator[Case]:
    """Without a piece, a call, or with a plain result."""
    for left in itertools.combinations(case.pieces, max(len(case.pieces) - 1, 0)):
        yield Case(left, case.returned, case.calls)
    for calls in itertools.combinations(case.calls, max(len(case.calls) - 1, 1)):
        if len(calls) < len(case.calls):
            yield Case(case.pieces, case.returned, calls)
    if case.returned != "y":
        yield Case(case.pieces, "y", case.calls)


def program(case: Case) -> str:
    shown = "\n".join(f"# {line}" for line in case.lines())
    return f"{shown}\nfrom tests.fuzz.fallbacks import *\ncheck({case!r})"


FUZZER = Fuzzer("fallbacks", draw, check, program, smaller)
