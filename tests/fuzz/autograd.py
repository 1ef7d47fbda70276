"""Drawn programs of views, changes in place, layers of which some parameters are frozen, shared
parts, hooks, grad modes, custom Functions and derivatives of derivatives: eager mode against
PyTorch where it is installed, else against the same program compiled.

A program (see `autograd_programs`) is run line by line with `T` as either library. What both refuse
is left out, but for a backward: what one has done before it raises is its own affair.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import frontend
from graphc.errors import GraphError
from tests.fuzz.autograd_programs import SHAPES, Drawer
from tests.fuzz.frame import Broken, Fuzzer, without_parts

Case = tuple[int, str, tuple[str, ...]]
"""The seed of the numbers, the names of the frozen leaves, the lines."""


def draw(random: np.random.Generator, size: int) -> Case:
    names = [*SHAPES]
    free = random.random(len(names)) < 0.7
    free[random.integers(len(names))] = True
    frozen = "".join(name for name, one in zip(names, free) if not one)
    return int(random.integers(1 << 30)), frozen, Drawer(random).program(2 * size)


# -- running -------------------------------------------------------------------------------------


@functools.cache
def functions(name: str) -> dict[str, Any]:
    """The custom Functions of a library."""
    T = importlib.import_module(name)

    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * g * x * x

    class Twice(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    class Product(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            over = tuple(range(x.dim() - y.dim()))
            through = (g * x).sum(over) if over else g * x
            return g * y, through.sum_to_size(y.shape) if y.dim() else through.sum()

    return {"Cube": Cube, "Twice": Twice, "Product": Product}


class Ran:
    """What came of a program in one library: how many lines ran, why it stopped, what was seen."""

    def __init__(self, T: Any, case: Case):
        seed, frozen, self.lines = case
        random = np.random.default_rng(seed)
        self.T, self.seen = T, []
        self.names: dict[str, Any] = {
            "T": T, "grad": self.grad, "seen": self.note, **functions(T.__name__)
        }  # fmt: skip
        for name, shape in SHAPES.items():
            numbers = random.standard_normal(shape).tolist()
            self.names[name] = T.tensor(numbers, dtype=T.float64, requires_grad=name not in frozen)
        self.error: Exception | None = None
        self.done = 0
        self.hooked: list[tuple[Any, int]] = []

    def grad(self, y: Any, x: Any, create_graph: bool) -> Any:
        if not y.requires_grad or not x.requires_grad:
            return self.T.zeros_like(x)
        (g,) = self.T.autograd.grad(y, [x], create_graph=create_graph, retain_graph=True,
                                    allow_unused=True)  # fmt: skip
        first = not self.seen
        self.seen.append(None if g is None else g.requires_grad or not first)
        if g is None:
            return self.T.zeros_like(x)
        # What a third derivative is connected with, rules decide.
        return g.clone() if first else g.detach().clone()

    def note(self, gradient: Any) -> None:
        self.seen.append(gradient.detach().tolist())

    def step(self) -> None:
        """Run the next line."""
        self.error, line = None, self.lines[self.done]
        for name in re.findall(r"(\w+)\.register_hook", line):
            if (x := self.names.get(name)) is not None and x._is_view():
                self.hooked.append((x, x._version))
        try:
            exec(line, self.names)
        except Exception as error:
            self.error = error
        self.done += 1

    def tensors(self) -> dict[str, Any]:
        return {name: x for name, x in self.names.items() if isinstance(x, self.T.Tensor)}

    def outcome(self) -> dict[str, Any]:
        """By name: flags, numbers, gradient."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # .grad of what is no leaf
            return {name: ((x.requires_grad, x.is_leaf, tuple(x.shape)), x.detach().tolist(),
                           None if x.grad is None else x.grad.detach().tolist())
                    for name, x in self.tensors().items()}  # fmt: skip


def compared(one: Ran, other: Ran) -> None:
    # The gradients of rms_norm's input and weight come of one node, and of two in PyTorch.
    ordered = not any("rms_norm" in line for line in one.lines)
    if ordered and not all(map(_connected, one.seen, other.seen)):
        raise Broken(f"gradients seen: {one.seen}, expected {other.seen}")
    expected = other.outcome()
    twice = any("grad(" in line for line in one.lines)
    for name, (flags, numbers, gradient) in one.outcome().items():
        for what, mine, theirs in zip(
            ("flags", "numbers", "gradient"), (flags, numbers, gradient), expected[name],
        ):  # fmt: skip
            if what == "gradient" and (theirs is None or (twice and not flags[1])):
                continue  # what results a rule saves is its own affair, and more zeros do no harm
            if what == "gradient" and one.error is not None:
                continue  # what a backward has done before it raises is its own affair
            if what == "gradient" and mine is None and (twice and not np.any(theirs)):
                continue  # zeros of a rule of PyTorch's for what its result does not depend on
            if what == "gradient" and not flags[1] and any(".t_()" in line for line in one.lines):
                continue  # whether an earlier view is made of what was transposed in place
            if not (_alike(mine, theirs) if what == "flags" else _close(mine, theirs)):
                raise Broken(f"{what} of {name} after line {one.done}: {mine}, expected {theirs}")


def _connected(mine: Any, theirs: Any) -> bool:
    """A gradient may be connected with more than PyTorch's: with what is overwritten."""
    return mine is True or _close(mine, theirs)


def _alike(mine: Any, theirs: Any) -> bool:
    """The same of what requires gradients, is a leaf, has a shape."""
    return mine == theirs or (mine[0] and not mine[1] and mine[2] == theirs[2])


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        near = abs(one - other) <= 1e-9 + 1e-7 * abs(other)
        return near or one == other or (math.isnan(one) and math.isnan(other))
    return one is other or (type(one) is type(other) and one == other)


SAVED = "modified by an inplace operation"  # what is saved for backward is not the same everywhere
REPEATED = ("to a single memory location", "whose elements share memory")
UNSEEN_VIEW = "A view was created in no_grad mode"
"""What is said of results that are views of something nobody sees, which PyTorch's are not."""
STRICTER = (
    SAVED,
    REPEATED[0],
    "returned an invalid gradient",
    "has been detached in-place",
    "a function that returns multiple views",
    UNSEEN_VIEW,
    "a leaf Variable that requires grad",  # where it once was a view of one that does not
    "INTERNAL ASSERT",
    "ZeroTensors are immutable",
    "does not require grad and does not have a grad_fn",  # what is connected with zeros
    "its base or another view of its base has been modified inplace",
)
"""Parts of what PyTorch says where it refuses what is well defined; the program ends there."""


def against_torch(case: Case) -> str:
    torch = importlib.import_module("torch")
    one, other = Ran(frontend, case), Ran(torch, case)
    while one.done < len(one.lines):
        if _asked(one) != _asked(other):
            return "one is stricter"  # they go on by flags that may differ
        if any(mine is True and theirs is False for mine, theirs in zip(one.seen, other.seen)):
            break  # the same: what else is asked of a gradient goes by whether it is connected
        one.step()
        other.step()
        if one.error is None and other.error is None:
            if _share_memory(other):
                return "gradients of PyTorch's share memory"
            continue
        known = one.error is None and any(reason in str(other.error) for reason in STRICTER)
        if known or any(reason in str(one.error) for reason in (SAVED, *REPEATED, UNSEEN_VIEW)):
            return "one is stricter"
        if _stricter(one, other):
            return "one is stricter"
        if (one.error is None) != (other.error is None):
            line = one.lines[one.done - 1]
            raise Broken(f"{line}: {one.error!r}, expected {other.error!r}") from one.error
        if "backward(" in one.lines[one.done - 1] or "grad(" in one.lines[one.done - 1]:
            break
    if _stricter(one, other):
        return "one is stricter"
    if any("sin(" in line or "cos(" in line for line in one.lines) and _greatest(one) > LARGE:
        return "angles of large numbers"
    try:
        compared(one, other)
    except RuntimeError as error:
        return "one is stricter" if any(reason in str(error) for reason in STRICTER) else "?"
    return "agrees" if one.error is None else "both refuse a backward"


LARGE = 1e5
"""From here on the last bits of a number are an angle of 1e-11 and more."""


RESHAPING = ("unsqueeze", "squeeze", "t", "transpose", "swapaxes")


def _greatest(ran: Ran) -> float:
    """The greatest magnitude of a finite number."""
    seen = [np.abs(numbers) for _, numbers, _ in ran.outcome().values()]
    return max([float(np.max(x, where=np.isfinite(x), initial=0)) for x in seen], default=0.0)


def _stricter(one: Ran, other: Ran) -> bool:
    """Whether the libraries are known to differ in what is connected, or in which hooks run: one
    of a view does not in PyTorch, once the view or a view of it is changed in place; and what is on
    the way to a view that was asked for, or to what has another shape since."""
    if any("prelu" in line for line in one.lines) and _unmarked(one, other):
        return True
    if any("layer_norm" in line for line in one.lines) and _marked(one, other):
        return True
    if any(x._version > version for x, version in other.hooked):
        return True
    asked = {n for line in one.lines for n in re.findall(r"inputs=\[(\w+)\]", line)}
    return any(
        (name in other.names and other.names[name]._version and other.names[name]._is_view())
        or any(f"{name}.{change}_(" in line for line in one.lines for change in RESHAPING)
        for name in asked
    )


def _asked(ran: Ran) -> Any:
    """The flag by which the next line is run or not."""
    line = ran.lines[ran.done]
    name, flag, _ = line.removeprefix("if ").partition(".requires_grad:")
    return ran.names[name].requires_grad if flag and name in ran.names else None


def _marked(one: Ran, other: Ran) -> bool:
    """Whether PyTorch has a gradient require gradients, and we do not: its layer_norm has results
    that its rule saves, which connect the gradient of its bias where no derivative comes of it."""
    return any(mine is False and theirs is True for mine, theirs in zip(one.seen, other.seen))


def _unmarked(one: Ran, other: Ran) -> bool:
    """Whether PyTorch has a gradient where we have none: its prelu has the derivative of its
    weight's gradient by the weight, which is 0."""
    return any(mine is None and theirs is True for mine, theirs in zip(one.seen, other.seen))


def _share_memory(ran: Ran) -> bool:
    """Whether gradients of two leaves are one array: what is added to the one then changes the
    other too, as PyTorch's after a stack of leaves and a sum."""
    leaves = [x for x in ran.tensors().values() if _is_leaf(x) and x.grad is not None]
    places = {id(x): x.grad.data_ptr() for x in leaves}
    return len(set(places.values())) < len(places)


def _is_leaf(x: Any) -> bool:
    """False, too, of a view that PyTorch no longer answers for."""
    try:
        return bool(x.is_leaf)
    except RuntimeError:
        return False


UNTRACED = ("register_hook", "retain_grad", "requires_grad_", *(f"{name}." for name in SHAPES))
"""What a trace does not take, or does not do to tensors from outside."""


def against_compiled(case: Case) -> str:
    """The lines that run eagerly, and again as a compiled function that leaves gradients."""
    seed, frozen, lines = case
    lines = tuple(x for x in lines if not any(x.strip().startswith(y) or y in x for y in UNTRACED))
    tried = Ran(frontend, (seed, frozen, lines))
    ran = []
    for line in lines:
        tried.step()
        ran += [line] * (tried.error is None)
    one, other = (Ran(frontend, (seed, frozen, tuple(ran))) for _ in range(2))
    for _ in ran:
        one.step()

    def traced(*leaves: Any) -> Any:
        other.names |= dict(zip(SHAPES, leaves))
        for line in ran:
            exec(line, other.names)
        return {name: x for name, x in other.tensors().items() if name not in SHAPES}

    arguments = [other.names[name] for name in SHAPES]
    try:
        results = frontend.compile(traced, fullgraph=True)(*arguments)
    except (GraphError, RuntimeError):
        return "not traced"
    other.names |= {**results, **dict(zip(SHAPES, arguments))}
    for name, (_, numbers, gradient) in one.outcome().items():
        _, result, grad = other.outcome()[name]
        if not _close(result, numbers) or (name in SHAPES and not _close(grad, gradient)):
            raise Broken(f"compiled, {name} is {result}, {grad}; expected {numbers}, {gradient}")
    return "agrees with compiled code"


def check(case: Case) -> str:
    known: Callable[[Case], str] = against_compiled
    if importlib.util.find_spec("torch") is not None:
        known = against_torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return known(case)


def smaller(case: Case) -> Any:
    seed, frozen, lines = case
    return ((seed, frozen, tuple(kept)) for kept in without_parts(lines))


def program(case: Case) -> str:
    *_, lines = case
    text = "".join(f"# {line}\n" for line in lines)
    return f"{text}from tests.fuzz import autograd\nautograd.check({case!r})"


FUZZER = Fuzzer("autograd", draw, check, program, smaller)
