"""Programs that `autograd` runs: lines of Python over tensors `a` to `d` and what earlier lines
made. Where PyTorch leaves open what happens they do not go: layouts, writing what is being read.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Shape = tuple[int, ...]
SHAPES: dict[str, Shape] = {"a": (2, 3), "b": (3, 2), "c": (3,), "d": (3,)}

UNARY = (
    "{x}.tanh()", "{x}.sin()", "{x} * 0.5", "1 - {x}", "{x}.relu()", "{x}.abs()", "{x}.sigmoid()",
    "-{x}", "{x}.clamp(-0.6, 0.8)", "{x}.square()", "{x} * {x}", "{x}.exp() * 0.2", "{x} ** 3",
    "{x}.clone()", "{x}.detach()", "{x}.detach().requires_grad_()", "{x} / 3",
    "T.nn.functional.gelu({x})",
    "T.nn.functional.leaky_relu({x}, 0.1)", "{x}.masked_fill({x} > 0.3, 0.25)",
    "Cube.apply({x})", "Twice.apply({x})", "T.where({x} > 0.1, {x}, {x} * 0.3)", "{x}.flip(0)",
    "{x}.cumsum(0)", "T.softmax({x}, 0)", "T.nn.functional.hardtanh({x}, -0.7, 0.7)",
)  # fmt: skip
IN_PLACE = (
    "{x}.mul_(0.5)", "{x}.add_(0.3)", "{x}.tanh_()", "{x}.relu_()", "{x}.zero_()", "{x}.neg_()",
    "{x}.clamp_(-0.5, 0.5)", "{x}.sin_()", "{x}.masked_fill_({x} > 0.2, 0.125)", "{x}[0] = 0.75",
    "{x}[..., -1] = 0.5", "{x}.fill_(0.625)", "{x} += {x}", "{x}.square_()",
    "{x}.detach().mul_(1.1)", "{x}.fill_(c[1])", "{x}[0] *= 2", "{x}.sigmoid_()",
)  # fmt: skip
OTHER_IN_PLACE = ("{x}.add_({y})", "{x}.mul_({y})", "{x}.copy_({y})", "{x}.sub_({y}, alpha=0.5)",
                  "{x} += {y}", "{x}[...] = {y}", "{x}.lerp_({y}, 0.25)")  # fmt: skip
BINARY = ("{x} + {y}", "{x} * {y}", "{x} - {y}", "T.maximum({x}, {y})", "{x} / (2 + {y}.square())",
          "T.where({x} > {y}, {x}, {y})", "T.lerp({x}, {y}, 0.3)", "Product.apply({x}, {y})",
          "T.add({x}, {y}, alpha=0.5)", "T.atan2({x}, 2 + {y}.square())")  # fmt: skip
F = "T.nn.functional"
LAST = (f"{F}.layer_norm({{x}}, (3,), c, d)", f"{F}.layer_norm({{x}}, (3,), d, c)",
        f"{F}.rms_norm({{x}}, (3,), d, 1e-3)", "{x} * c + d", "T.addcmul({x}, c, d)",
        "T.addcdiv({x}, c, 2 + d.square())", "T.lerp({x}, c, d)")  # fmt: skip
"""Layers of what has 3 elements along the last axis."""
CHANNELS = (f"{F}.batch_norm({{x}}, None, None, c, d, True)",
            f"{F}.batch_norm({{x}}, d.detach(), 1 + c.detach().square(), c, d)",
            f"{F}.prelu({{x}}, d)", f"{F}.group_norm({{x}}, 1, d, c)")  # fmt: skip
"""Layers of what has 3 channels, and more than one element in each."""
MATRICES = (f"{F}.linear({{x}}, T.outer(c, d), c)", "T.addmm(d, {x}, T.outer(d, c))")
"""Layers of a matrix with 3 columns. (What has another rank, they give a view of a matrix for.)"""
MODES = ("", "", "", "", "", "with T.no_grad(): ", "with T.enable_grad(): ")
SHAPED_IN_PLACE = {"t_()": lambda s: s[::-1], "unsqueeze_(0)": lambda s: (1, *s),
                   "transpose_(0, -1)": lambda s: s[::-1] if len(s) == 2 else s,
                   "squeeze_()": lambda s: tuple(n for n in s if n > 1)}  # fmt: skip


class Drawer:
    """Draws lines, keeping account of what shape each name has."""

    def __init__(self, random: np.random.Generator):
        self.random = random
        self.shapes = dict(SHAPES)
        self.lines: list[str] = []
        self.count = 0

    def one(self, choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def has(self, text: str) -> bool:
        """Whether there is such a line."""
        return any(text in line for line in self.lines)

    def name(self) -> str:
        """One of all names; later ones more often."""
        names = [*self.shapes]
        return str(self.one(names if self.random.random() < 0.4 else names[-4:]))

    def define(self, expression: str, shape: Shape, mode: str = "") -> None:
        self.lines.append(f"{mode}v{self.count} = {expression}")
        self.shapes[f"v{self.count}"] = shape
        self.count += 1

    def fitting(self, shape: Shape) -> str:
        """A name that broadcasts to a shape."""
        fits = [name for name, other in self.shapes.items() if _fits(other, shape)]
        return str(self.one(fits))

    def unary(self) -> None:
        x = self.name()
        self.define(self.one(UNARY).format(x=x), self.shapes[x], self.one(MODES))

    def binary(self) -> None:
        x = self.name()
        y = self.fitting(self.shapes[x])
        self.define(self.one(BINARY).format(x=x, y=y), self.shapes[x])

    def layer(self) -> None:
        """A layer whose parameters are leaves."""
        if self.shapes["c"] != (3,) or self.shapes["d"] != (3,):
            return  # reshaped: PyTorch takes some of these
        of_last = [x for x, shape in self.shapes.items() if shape[-1:] == (3,)]
        channelled = [
            x for x, shape in self.shapes.items() if shape[1:2] == (3,) and math.prod(shape) > 3
        ]
        x, layers = self.one(of_last), LAST
        if channelled and self.random.random() < 0.5:
            x = self.one(channelled)
            layers = CHANNELS + MATRICES * (len(self.shapes[x]) == 2)
        self.define(self.one(layers).format(x=x), self.shapes[x])

    def view(self) -> None:
        x = self.name()
        expression, shape = self.one(_views(x, self.shapes[x]))
        self.define(expression, shape)

    def in_place(self) -> None:
        x = self.name()
        if self.has(f"{x}.register_hook"):
            return
        if self.random.random() < 0.4:
            # A clone: what is written while it is read, PyTorch does not define.
            y = f"{self.fitting(self.shapes[x])}.clone()"
            line = self.one(OTHER_IN_PLACE).format(x=x, y=y)
        else:
            line = self.one(IN_PLACE).format(x=x)
        self.lines.append(self.one(MODES) + line)

    def reshaped(self) -> None:
        x = self.name()
        method = self.one([*SHAPED_IN_PLACE])
        if self.has("retain_grad(") or self.has("inputs=") or self.has("register_hook"):
            return  # PyTorch then leaves a gradient of the former shape
        if method == "t_()" and len(self.shapes[x]) > 2:
            return
        self.lines.append(f"{x}.{method}")
        self.shapes[x] = SHAPED_IN_PLACE[method](self.shapes[x])

    def reduced(self) -> None:
        x = self.name()
        shape = self.shapes[x]
        if not shape:
            return self.unary()
        kind = self.one(["sum", "mean", "amax", "prod", "logsumexp"])
        rest = shape[1:] if self.random.random() < 0.5 else (1, *shape[1:])
        return self.define(f"{x}.{kind}(0, keepdim={len(rest) == len(shape)})", rest)

    def joined(self) -> None:
        x = self.name()
        shape = self.shapes[x]
        same = [name for name, other in self.shapes.items() if other == shape]
        if shape and self.random.random() < 0.5:
            self.define(f"T.cat([{x}, {self.one(same)}])", (2 * shape[0], *shape[1:]))
        elif len(shape) == 2:
            self.define(f"{x} @ {x}.t()", (shape[0], shape[0]))
        else:
            self.define(f"T.stack([{x}, {self.one(same)}])", (2, *shape))

    def hook(self) -> None:
        if any(map(self.has, SHAPED_IN_PLACE)) or self.has("grad("):
            return  # which history they watch, views decide, and what rules save
        # PyTorch 2.13 dies where a hook is the first to ask a view for its new history.
        line = self.one([
            "({x}.grad_fn, {x}.register_hook(lambda g: g * 2))", "{x}.retain_grad()",
            "({x}.grad_fn, {x}.register_hook(lambda g: g.clamp(-1, 1)))",
            "({x}.grad_fn, {x}.register_hook(lambda g: seen(g)))",
            "({x}.grad_fn, {x}.register_hook(lambda g: None).remove())",
        ])  # fmt: skip
        self.lines.append(line.format(x=self.name()))

    def backward(self) -> None:
        x = self.name()
        self.lines.append(f"if {x}.requires_grad: " + self.one([
            "({x} * 0.5).sum().backward(retain_graph=True)",
            "{x}.sum().backward(retain_graph=True, create_graph={flag})",
            "{x}.square().mean().backward(retain_graph=True, inputs=[{y}])",
            "T.autograd.backward([{x}.sum(), {y}.sum()], retain_graph=True)",
        ]).format(x=x, y=self.name(), flag=self.random.random() < 0.3))  # fmt: skip

    def derivative(self) -> None:
        if self.has("register_hook"):
            return
        # By leaves: what an intermediate value has of a second derivative, rules decide.
        x, y = self.name(), self.one("acd")
        scale = self.one(["", ".square()"])
        created = self.random.random() < 0.8
        self.define(f"grad({x}{scale}.sum(), {y}, {created})", self.shapes[y])

    def program(self, steps: int) -> tuple[str, ...]:
        steps_of = [
            self.unary, self.unary, self.binary, self.binary, self.view, self.view, self.in_place,
            self.in_place, self.reduced, self.joined, self.hook, self.derivative, self.backward,
            self.reshaped, self.layer, self.layer,
        ]  # fmt: skip
        for _ in range(steps):
            self.one(steps_of)()
            if math.prod(list(self.shapes.values())[-1]) > 24:
                self.shapes.popitem()
        for name in [*self.shapes][-6::2]:
            last = f"{name}.square().sum().backward(retain_graph=True)"
            self.lines.append(f"if {name}.requires_grad: {last}")
        return tuple(self.lines)


def _fits(small: Shape, big: Shape) -> bool:
    pairs = zip(small[::-1], big[::-1])
    return len(small) <= len(big) and all(s in (1, b) for s, b in pairs)


def _views(x: str, shape: Shape) -> list[tuple[str, Shape]]:
    """Views of `x` and their shapes."""
    views = [
        (f"{x}.view({x}.shape)", shape), (f"{x}[None]", (1, *shape)), (f"{x}.view_as({x})", shape),
        (f"{x}.clone().reshape(-1)", (math.prod(shape),)),
        (f"{x}.expand(2, *{x}.shape)", (2, *shape)),
    ]  # fmt: skip
    if shape:
        first, rest = shape[0], shape[1:]
        views += [
            (f"{x}[0]", rest), (f"{x}[-1:]", (1, *rest)), (f"{x}[::2]", ((first + 1) // 2, *rest)),
            (f"{x}.unbind(0)[-1]", rest), (f"{x}.narrow(0, {first - 1}, 1)", (1, *rest)),
            (f"{x}.chunk(2)[0]", ((first + 1) // 2, *rest)), (f"{x}.transpose(0, -1)",
             (shape[-1], *shape[1:-1], first) if rest else shape), (f"{x}.squeeze()",
             tuple(n for n in shape if n > 1)),
        ]  # fmt: skip
    if len(shape) == 2:
        views += [(f"{x}.t()", shape[::-1]), (f"{x}[:, 0]", shape[:1]),
                  (f"{x}.diagonal()", (min(shape),)), (f"{x}[..., 1:]", (shape[0], shape[1] - 1)),
                  ]  # fmt: skip
    return [(text, size) for text, size in views if math.prod(size)]
