"""Drawn functions that catch errors, and ask for texts, types and identities, where sizes, an int
and a float are left open: compiled they give what eager gives, call by call, or are refused where
an expression needs the value of a tensor.

The functions are text, since what code asks is read from its bytecode too.
"""

from __future__ import annotations

import contextlib
import itertools
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

import frontend as torch
from frontend.engine.compiled import program as compiled_program
from graphc.errors import ArgumentError
from graphc.ir.instances import at_sizes
from tests.fuzz import state
from tests.fuzz.frame import Broken, Fuzzer

# Of x [n, 3], y [m, 3], an int k and a float r, among arguments or outside: for some they fail.
FAILING = (
    "x + y", "x * y - y", "x.t() @ y", "x @ y.t()[:, :4]", "torch.stack([x, y]).sum(0)",
    "torch.cat([x, y], 1)", "x.expand(y.shape)", "x.clone().copy_(y)", "x.clone().add_(y)",
    "torch.einsum('ij,ij->i', x, y)", "torch.where(x > 0, x, y)", "x.chunk(k - 3)[0]",
    "x.masked_fill(y > 0, 1.0)", "x.view(k, -1)", "x.view(y.shape[0], 3)", "x.t().view(-1)",
    "x.view(-1) * 2", "x * (12 // (k - 3))", "x * (12 % (k - 4))", "x[k] * 1", "x.reshape(k, 3)",
    "x.split(k - 2)[0]", "x / (1 / (k - 4))", "x * [1.0, 2.0, 3.0, 4.0, 5.0][k]",
    "x.narrow(0, k, 1)", "x.sum(k - 3)", "torch.lerp(x, y, r)",
    "F.mse_loss(x, y, reduction='none')",
    "F.linear(x.t(), y.t())", "torch.broadcast_tensors(x, y)[0]", "x.unflatten(0, (k, -1))",
    "x.repeat(k - 4, 1)", "x.unfold(0, k, 1).sum(-1)", "torch.zeros(k - 4) + x.sum()",
    "x.flatten().dot(y.flatten()) * x", "x * (1 / (r - 0.5))", "x * r ** (k - 6)",
    "x.roll(1, k - 3)", "x.squeeze(k - 4) * 3", "x.index_select(0, torch.arange(2)) + y",
    "assigned(x, y)", "checked(x, y)", "x * {4: 2.0, 7: 3.0}[k]",
    "torch.autograd.grad((w * x).sum(), w, y)[0]", "x * len(range(k - 5)) + x[k - 5]",
    "F.cross_entropy(x, (y[:, 0] * 0).long()) * x", "x.bmm(y)", "x.permute(k - 3, 0)",
)  # fmt: skip
# What is refused while tracing, and what takes its place with a value that is known.
REFUSED = (
    "x * x.sum().item()", "x * float(x.sum())", "x if x.sum() > 0 else -x", "x * int(x.max())",
    "x[x > 0].sum() * x", "x * len(x.nonzero())", "x * float(x.numpy().sum())",
    "x.tolist()[0][0] * x", "x * len(str(x))", "x * float(np.asarray(y)[0, 0])",
    "(x * 1j).real", "torch.add(x, 1, out=torch.empty(k)) * 1",
)  # fmt: skip
# What looks at contents: refused where an error is caught behind it.
LOOKING = (
    "x.index_select(0, torch.arange(2)) + y", "F.cross_entropy(x, (y[:, 0] * 0).long()) * x",
)  # fmt: skip
ASKING = (
    "x * float(str(k))", "x * len(f'{k} {tuple(x.shape)}')", "x * D.get(f'{x.shape[0]}', 3.0)",
    "x * D.get(str(k), 5.0)", "x * float('%d' % k) + len('%s' % r)", "x * len(repr(x.shape))",
    "x * float(format(r, '.2f')) + float('{:5d}'.format(k))", "x * (2 if type(k) is int else 3)",
    "x * (2 if type(x.shape[0]) is int else 3)", "x * (2 if type(r) is not float else 3)",
    "x * {int: 2, float: 3}[type(r)] + {int: 2}.get(type(k), 9)", "x * len(type(k).__name__)",
    "x * (2 if type(k) == int and type(r) in (float, complex) else 3)", "x * type(k)(2.7)",
    "x * (2 if issubclass(type(y.shape[0]), int) else 3)", "x * (2 if kind(k) is int else 3)",
    "x * (2 if k.__class__ is int and isinstance(r, float) else 3)", "x * (k & 6) + (k << 1)",
    "x * k.bit_length() + r.is_integer()", "x * (2 if x is W else 3)",
    "x * (2 if id(y) == id(W) else 3)", "x * float(np.array([k, 2]).sum())",
    "x * M.get(x, 3.0)", "x * (2 if x is y else 3)", "x * (2 if y is not H.last else 3)",
    "x * sum(v is x for v in L)", "x * round(k, -1) + round(r)",
    "x * (2 if hash(k) == 4 else 3)", "x * len({k, 4}) + len({r: 1, 0.5: 2})",
    "x * torch.tensor([k, 2]).sum()", "x * len('ab' * k)", "x * (2 if x.is_leaf else 3)",
)  # fmt: skip
CAUGHT = ("RuntimeError", "Exception", "(ValueError, RuntimeError)", "BaseException", "",
          "LookupError", "ArithmeticError", "TypeError", "IndexError")  # fmt: skip
FORMS = ("except", "except", "except", "else", "finally", "return", "suppress", "nested", "raises",
         "loop", "plain")  # fmt: skip
SIZES = (2, 3, 4, 5, 6, 7, 9)
INTS = (3, 4, 5, 6, 7, 9)
FLOATS = (0.25, 0.5, 2.0, 1.75, -1.5)


@dataclass(frozen=True, slots=True)
class Part:
    """One expression in one form of handling what it raises."""

    form: str
    caught: str
    expression: str
    otherwise: str

    def lines(self) -> Iterator[str]:
        value, other = f"z = z + ({self.expression}).sum()", f"z = z * 2 + ({self.otherwise}).sum()"
        caught = f"except {self.caught}:" if self.caught else "except:"
        match self.form:
            case "plain":
                yield value
            case "else":
                yield from (
                    "try:",
                    f"    {value}",
                    caught,
                    f"    {other}",
                    "else:",
                    "    z = z + 1",
                )
            case "finally":
                yield from (
                    "try:",
                    f"    {value}",
                    caught,
                    "    z = z * 3",
                    "finally:",
                    f"    {other}",
                )
            case "return":
                yield from ("try:", f"    {value}", "finally:", "    return z * 7")
            case "suppress":
                yield from ("with contextlib.suppress(Exception):", f"    {value}", "    z = z + 1")
            case "nested":
                yield from ("try:", "    try:", f"        {value}", "    finally:",
                            "        z = z + 5", caught, f"    {other}")  # fmt: skip
            case "raises":
                yield from ("try:", f"    {value}", "except Exception as e:",
                            "    raise ValueError('other') from e")  # fmt: skip
            case "loop":
                yield from ("for i in range(2):", "    try:", f"        {value}", "        break",
                            f"    {caught}", "        x = x[:-1]")  # fmt: skip
            case _:
                yield from ("try:", f"    {value}", caught, f"    {other}")


@dataclass(frozen=True, slots=True)
class Case:
    """A function of some parts, where numbers stand, and its calls: sizes, an int, a float, and
    which tensors are given (`W` is one from outside)."""

    parts: tuple[Part, ...]
    outside: bool
    grad: bool
    calls: tuple[tuple[int, int, int, float, str], ...]

    @property
    def handles(self) -> bool:
        """Whether code handles an error."""
        return any(part.form != "plain" for part in self.parts)

    def lines(self) -> Iterator[str]:
        if self.outside:
            yield from ("def f(x, y):", "    k, r = H.k, H.r")
        else:
            yield "def f(x, y, k, r):"
        yield "    z = x.sum() * 0.5"
        for part in self.parts:
            yield from (f"    {line}" for line in part.lines())
        yield "    return z"


HEAD = """
W = torch.arange(12.0).reshape(4, 3) * 0.25 + 0.5
L, M, D = [W, W * 2], {W: 2.0}, {'4': 2.0, '5': 4.0, '7': 7.0}
H = types.SimpleNamespace(last=W, k=4, r=0.5)
w = torch.ones(4, 3).requires_grad_()
def kind(n): return type(n)
def assigned(x, y):
    z = x.clone()
    z[:] = y
    return z
def checked(x, y):
    if x.shape != y.shape: raise ValueError(f'{x.shape} is not {y.shape}')
    return x * y
"""


class Interpreted(state.Interpreted):
    """A graph with sizes left open, run op by op."""

    def __init__(self, graph: Any, options: Any, example: Any = None):
        super().__init__(graph, options)

    def at(self, **sizes: int) -> Interpreted:
        return Interpreted(at_sizes(self.graph, sizes), None)


def results(case: Case, compile: Callable[[Any], Any]) -> Iterator[Any]:
    """What each call gives: a number and the gradient of x, or the error."""
    space: dict[str, Any] = {
        "torch": torch, "F": torch.nn.functional, "np": np, "types": types,
        "contextlib": contextlib, "__name__": "drawn",
    }  # fmt: skip
    exec("\n".join([HEAD, *case.lines()]), space)
    function = compile(space["f"])
    for at, (n, m, k, r, given) in enumerate(case.calls):
        draw = np.random.default_rng(at)
        x, y = (torch.from_numpy(draw.normal(size=(s, 3)).astype(np.float32)) for s in (n, m))
        turned = torch.from_numpy(x.numpy().T.copy()).t()
        x, y = {"x is W": (space["W"], y), "y is W": (x, space["W"]), "x is y": (x, x),
                "turned": (turned, y)}.get(given, (x, y))  # fmt: skip
        leaf = x.detach().requires_grad_() if case.grad and x is not space["W"] else None
        x = x if leaf is None else leaf * 1 if given == "computed" else leaf
        y = x if given == "x is y" else y
        if case.outside:
            space["H"].k, space["H"].r = k, r
        try:
            z = function(x, y) if case.outside else function(x, y, k, r)
            if z.requires_grad:
                z.backward()
            grad = None if leaf is None or leaf.grad is None else leaf.grad.numpy().copy()
            yield float(z), grad
        except Exception as error:
            yield error


def check(case: Case) -> str:
    refusing = any(part.expression in (*REFUSED, *LOOKING) for part in case.parts)
    end = "agrees"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        eager = list(results(case, lambda function: function))
        with mock.patch.object(compiled_program, "compile_graph", Interpreted):
            compiled = list(results(case, partial(torch.compile, fullgraph=True)))
            if refusing and any(map(_is_refusal, compiled)):
                _check_fallen_back(eager, list(results(case, torch.compile)))
    for at, (want, have) in enumerate(zip(eager, compiled)):
        if refusing and _is_refusal(have) and not _is_refusal(want):
            end = "refused"
        elif "view size is not compatible" in str(want) and not case.handles:
            continue  # a view that nothing depends on but this error, which no code handles
        elif isinstance(want, Exception) or isinstance(have, Exception):
            if type(want) is not type(have):
                raise Broken(f"call {at}: eager {want!r}, compiled {have!r}")
        elif not _alike(want, have):
            raise Broken(f"call {at}: eager {want}, compiled {have}")
    return end


def _check_fallen_back(eager: list[Any], compiled: list[Any]) -> None:
    """What cannot be traced is as in eager mode."""
    for at, (want, have) in enumerate(zip(eager, compiled)):
        raised = isinstance(want, Exception) or isinstance(have, Exception)
        if isinstance(have, ArgumentError) or (raised and type(want) is type(have)):
            continue
        if raised or not _alike(want, have):
            raise Broken(f"not traced, call {at}: eager {want!r}, compiled {have!r}")


def _is_refusal(result: Any) -> bool:
    return isinstance(result, ArgumentError) or getattr(result, "is_refusal", False)


def _alike(want: Any, have: Any) -> bool:
    (a, b), (c, d) = want, have
    close = bool(np.isclose(a, c, rtol=1e-3, atol=1e-4, equal_nan=True))
    if b is None or d is None:
        return close and b is d
    return close and np.allclose(b, d, rtol=1e-3, atol=1e-4, equal_nan=True)


def draw(random: np.random.Generator, size: int) -> Case:
    def one(among: Any) -> Any:
        return among[int(random.integers(len(among)))]

    parts = []
    for _ in range(int(random.integers(1, min(size, 3) + 1))):
        sort = random.random()
        expression = one(FAILING) if sort < 0.6 else one(ASKING) if sort < 0.85 else one(REFUSED)
        otherwise = one(("x * 100", "x - 1", "x * k", "y", "x / r"))
        parts.append(Part(one(FORMS), one(CAUGHT), expression, otherwise))
    calls = []
    for _ in range(int(random.integers(2, 7))):
        n = one(SIZES)
        m = n if random.random() < 0.5 else one(SIZES)
        given = one(("", "", "", "x is W", "y is W", "x is y", "turned", "computed"))
        calls.append((n, m, one(INTS), one(FLOATS), given))
    return Case(tuple(parts), bool(random.integers(2)), random.random() < 0.3, tuple(calls))


def smaller(case: Case) -> Iterator[Case]:
    """Without a part, a call, or gradients."""
    for left in itertools.combinations(case.parts, len(case.parts) - 1):
        if left:
            yield Case(left, case.outside, case.grad, case.calls)
    for calls in itertools.combinations(case.calls, max(len(case.calls) - 1, 0)):
        if calls:
            yield Case(case.parts, case.outside, case.grad, calls)
    if case.grad:
        yield Case(case.parts, case.outside, False, case.calls)


def program(case: Case) -> str:
    shown = "\n".join(f"# {line}" for line in case.lines())
    return f"{shown}\nfrom tests.fuzz.caught import *\ncheck({case!r})"


FUZZER = Fuzzer("caught", draw, check, program, smaller)
