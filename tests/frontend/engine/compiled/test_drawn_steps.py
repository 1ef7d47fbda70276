"""Drawn training programs, eager and compiled, over several calls with changes between them: the
same results, gradients, parameters, buffers, optimizer state and random state.

A program is Python text, printed where a comparison fails. Run as a script with two numbers, this
file tries the programs of all seeds between them.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn, optim
from frontend.engine.tensors import tree
from frontend.nn import functional as F
from graphc.errors import ArgumentError, TraceError

DRAWN = 6

# Values are float [4, 3]; i: int [4], j: int [4, 3], q: bool [4, 3], c: classes [4], n: a number.
UNARY = """torch.tanh({a}) | F.relu({a}) | {a}.flip(0) | {a}.cumsum(0) | F.softmax({a}, 1)
{a}[:, [2, 0, 1]] | {a}.clone() | {a}.detach() | {a}.reshape(3, 4).t() | {a} - {a}.mean(0, True)
{a}.masked_fill({a} > 0.3, 0.1) | torch.where({a} > 0, {a}, {a} * 0.1) | {a}.gather(1, j)
{a}.roll(1, 0) | {a}.index_select(0, i) | {a}.logsumexp(1, keepdim=True) + {a}
{a}.unbind(0)[1].expand(4, 3) | F.pad({a}, (1, 0))[:, :3] | {a}.max(1, keepdim=True)[0] + {a}
F.dropout({a}, 0.3) | {a} + torch.randn(4, 3) * 0.1 | torch.cat([{a}[2:], {a}[:2]]) | m1({a})
m2({a}) | m1(m2({a})) | F.linear({a}, m1.weight) | {a} * w | {a} * w[0] + v | emb(i) + {a}
Sq.apply({a}) | branch({a}) | loop({a}) | rows({a}) | scanned({a}) | F.layer_norm({a}, (3,), v)
gru({a}[None])[0][0] | {a}.half().float() | {a}.double().float()"""
BINARY = """{a} + {b} | {a} * {b} | torch.maximum({a}, {b}) | torch.cat([{a}, {b}])[1:5]
{a} - {b}.detach() | torch.where(q, {a}, {b}) | {a} @ ({b}.t() @ {b}) * 0.1
torch.stack([{a}, {b}]).mean(0)
torch.cond({a}.sum() > 0, lambda a, b: a * 2 + b + w, lambda a, b: (b * w + a).tanh(), ({a}, {b}))
torch.scan(lambda s, r: (torch.tanh(s * w[0] + r[0]), s * r[1]), v * 1, ({a}, {b}))[1]"""
# Each is run on a fresh copy of a value.
IN_PLACE = """{a}.mul_({b}) | {a}[1] = {b}[0] | {a}[:, 0] += v[0] | {a}[{a} > 0.2] = 0.1
{a}[1:3].mul_(2) | {a}.t()[0] = {b}[:, 1] | {a}.view(-1)[3:5] = 0.5
{a}.relu_().add_({b}, alpha=0.5) | {a}.copy_({b}) | {a}.index_add_(0, i, {b})
{a}.view(2, 6)[:, ::2] *= {b}.reshape(2, 6)[:, 1::2] | {a}.detach()[1] = 0.7 | {a}.data.mul_(1.1)
{a}.diagonal().mul_(2) | {a}.scatter_(1, j, {b}) | {a}[i] = {b} | {a}[:2] = {a}[2:]
{a}.masked_fill_(q, 0.2) | {a}[0], {a}[1] = {a}[1].clone(), {a}[0].clone() | {a}.retain_grad()
{a}.register_hook(lambda g: g * 0.5) | {a}.unsqueeze(0)[0].add_(1)"""
STATE = """buf.mul_(0.9).add_({a}.detach().mean(0)) | buf[0] += 1 | x.mul_(0.99) | count.add_(1)
buf.view(3, 1)[1:].mul_(0.5) | torch.tap({a}.sum(), seen.append) | w.data.add_(0.001)
rest.mul_(0.7)
torch.scan(lambda s, r: (buf.add_(r.detach() * 0.1).sum() * 0 + s, None), {a}.sum(), {a})"""
READS = """{a} + buf | {a} * count | {a} + rest.sum() | {a} * n
{a} + torch.autograd.grad({a}.sum(), w, retain_graph=True)[0].detach()
{a} + torch.autograd.grad(({a} * {a}).sum(), [w], create_graph=True)[0] * 0.1
{a} + torch.cond(count > 1, lambda: buf.mul_(0.9).sum() * w.sum(), lambda: w.sum() * 2, ())"""
LOSS = """F.mse_loss({a}, {b}) | F.cross_entropy({a}, c) | {a}.pow(2).mean()
{a}.abs().mean() + {b}.mean() | F.smooth_l1_loss({a}, {b}.detach())
F.binary_cross_entropy_with_logits({a}, q.float())"""
# Large eps: rounding of gradients that are 0 must not be blown up.
OPTIMIZERS = """optim.SGD({p}, lr=0.05) | optim.SGD({p}, lr=0.05, momentum=0.9, weight_decay=0.01)
optim.Adam({p}, lr=0.02, eps=0.1) | optim.RMSprop({p}, lr=0.01, eps=0.1)"""
MODULES = """nn.Linear(3, 3) | nn.BatchNorm1d(3) | nn.LayerNorm(3, eps=0.1) | nn.Dropout(0.4)
nn.PReLU() | nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.2))
nn.BatchNorm1d(3, momentum=None)"""
CHANGES = """[m.eval() for m in mods] | [m.train() for m in mods] | x = torch.randn(3, 4).t()
opts[0].param_groups[0]['lr'] *= 0.5 | [setattr(p, 'grad', None) for p in params] | buf.fill_(0.3)
params[0].data = params[0].detach() * 1.1 | torch.manual_seed(9) | x = torch.randn(8, 3)[::2]
params[0].grad = torch.ones_like(params[0]) | [o.zero_grad(set_to_none=False) for o in opts]
params[0].requires_grad_(not params[0].requires_grad) | y = x | n = n + 1 | i = i.flip(0)
[o.load_state_dict(copy.deepcopy(o.state_dict())) for o in opts] | x = torch.randn(4, 3)
x = torch.randn(4, 3, requires_grad=True) | c = c.flip(0) | x = torch.full((4, 3), 1e30)
w.grad = None | opts[0].param_groups[0]['weight_decay'] = 0.1 | count.zero_()"""
SETUP = """
m1 = nn.Linear(3, 3); m2 = {module}; emb = nn.Embedding(4, 3); gru = nn.GRU(3, 3, batch_first=True)
w = nn.Parameter(torch.randn(4, 3)); v = nn.Parameter(torch.rand(3)); mods = [m1, m2, emb, gru]
params = [p for m in mods for p in m.parameters()] + [w, v]; half = len(params) // 2
buf = torch.zeros(3); count = torch.zeros((), dtype=torch.int64); all_rest = torch.ones(5, 3)
rest = all_rest[3:]; all_rest.add_(1); seen = []; opts = [{optimizers}]
x = torch.randn(4, 3); y = torch.randn(4, 3); n = 1; q = torch.tensor([[True, False, True]] * 4)
c = torch.tensor([0, 1, 2, 1]); i = torch.tensor([1, 0, 3, 2])
j = torch.tensor([[0, 1, 2], [2, 1, 0], [1, 1, 0], [0, 2, 1]])
class Sq(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t): ctx.save_for_backward(t); return t * t
    @staticmethod
    def backward(ctx, g): return g * ctx.saved_tensors[0] * 3
def branch(t):
    return torch.cond(t.mean() > 0, lambda t: torch.tanh(m1(t)) * w, lambda t: m1(t) * w, (t,))
def loop(t):
    def more(k, s): return (k < 3) & (s.sum() < 5)
    with torch.no_grad():
        k, s = torch.while_loop(more, lambda k, s: (k + 1, s * 1.5 + v), (torch.tensor(0), t[0]))
    return t + s * 0.1
def rows(t):
    return torch.scan(lambda s, r: (s * 0.5 + m1(r), s + r * v), v * 1, t, reverse=True)[1]
def scanned(t):
    def outer(s, r):
        def inner(d, e):
            return torch.cond(e > 0, lambda d: d * v, lambda d: torch.sin(d) + r, (d,)), d * e
        d, e = torch.scan(inner, s * 0.5, r)
        return d, e.sum(0) + s
    return torch.scan(outer, v * 1, t)[1]
def step(x, y, c, i, j, q, n):
    t0 = x * 0.5 + w
"""
WATCHED = """[x, x.grad, y, buf, all_rest, count, seen, params, [p.grad for p in params],
torch.get_rng_state(), [[*m.buffers()] for m in mods],
[[*s.values()] for o in opts for s in o.state.values()]]"""


def program(seed: int) -> tuple[str, list[list[str]], bool]:
    """The text of a program, what is changed ahead of each call, and whether the step is compiled
    whole, with its backward and update."""
    draw = random.Random(seed)

    def pick(text: str) -> str:
        return draw.choice(text.replace("\n", " | ").split(" | "))

    whole, lines, names = draw.random() < 0.7, [], ["t0"]
    for _ in range(draw.randint(3, 8)):
        a, b, target = draw.choice([*names[-3:], "x"]), draw.choice([*names, "y"]), f"t{len(names)}"
        kind = draw.choice([UNARY, UNARY, BINARY, IN_PLACE, IN_PLACE, STATE, READS])
        text = pick(kind).format(a=target if kind is IN_PLACE else a, b=b)
        if kind is STATE:
            lines.append(text)
            continue
        lines += (
            [f"{target} = {a} * 1.0 + w * 0", text] if kind is IN_PLACE else [f"{target} = {text}"]
        )
        names.append(target)
    lines.append(f"loss = {pick(LOSS).format(a=names[-1], b=draw.choice(names))} + (v * w).mean()")
    if whole:
        zero = f"[o.zero_grad({draw.choice(['', 'False'])}) for o in opts]"
        clip = "nn.utils.clip_grad_norm_(params, 0.5)"
        more = draw.choice(["", clip, "(m1(y).sum() * 0.1).backward()"])
        lines += [draw.choice([zero, ""]), "loss.backward()", more, "[o.step() for o in opts]"]
        lines.append(draw.choice(["", zero]))
    result = draw.choice(["loss", f"loss, {names[-1]}", "{'loss': loss, 'x': [x, w]}"])
    lines.append(f"return {result}")
    parts = ["params[:half]", "params[half:]"] if draw.random() < 0.3 else ["params"]
    optimizers = ", ".join(pick(OPTIMIZERS).format(p=part) for part in parts)
    setup = SETUP.replace("{module}", pick(MODULES)).replace("{optimizers}", optimizers)
    calls = [[pick(CHANGES) for _ in range(draw.choice([0, 0, 1, 2]))] for _ in range(4)]
    return setup + "".join(f"    {line}\n" for line in lines if line), calls, whole


def run(seed: int, wrap: Callable[[Any], Any]) -> list[Any]:
    """What each call returned and left, or the error at which the program ended."""
    text, calls, whole = program(seed)
    torch.manual_seed(0)
    names: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "optim": optim, "copy": copy}
    exec(compile(text, "<drawn>", "exec"), names)
    step, results = wrap(names["step"]), []
    for changes in calls:
        try:
            for change in changes:
                exec(change, names)
            result = step(*[names[name] for name in "xycijqn"])
            if not whole:
                leaves: list[Any] = []
                tree.flatten(result, leaves)
                leaves[0].backward()
                exec("[o.step() for o in opts]", names)
        except (RuntimeError, TypeError) as error:
            return [*results, error]
        leaves = []
        structure = tree.flatten([result, eval(WATCHED, names)], leaves)
        results.append((structure, [leaf.detach().numpy().copy() for leaf in leaves]))
    return results


def difference(seed: int) -> str:
    """What differs between eager and compiled; nothing where the compiler refuses, or where eager
    mode does because of a value that changed."""
    want, got = run(seed, lambda step: step), run(seed, partial(torch.compile, fullgraph=True))
    for call, (expected, actual) in enumerate(zip(want, got)):
        # Compiled, a loop or branch has the values that it read, also where they changed since.
        saved = isinstance(expected, Exception) and "by an inplace operation" in str(expected)
        if isinstance(actual, ArgumentError | TraceError) or saved:
            return ""
        if isinstance(expected, Exception) or isinstance(actual, Exception):
            both = type(expected) is type(actual)
            return "" if both else f"call {call}: {expected!r:.200}\n{actual!r:.200}"
        if expected[0] != actual[0]:
            return f"call {call}: other values"
        for position, (one, two) in enumerate(zip(expected[1], actual[1])):
            if not np.allclose(one, two, 2e-3, 2e-4, equal_nan=True):
                return f"call {call}, value {position}:\n{one}\n{two}"
    return ""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(DRAWN))
def test_a_drawn_program_is_the_same_compiled(seed: int) -> None:
    assert not (text := difference(seed)), f"{text}\n{program(seed)}"


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        print(number, difference(number) or "same")
