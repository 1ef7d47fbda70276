"""Drawn programs that write weights in every way between the calls of compiled functions, which
keep packed copies of them: each call gives the bits of eager mode on native kernels.

A program is lines of Python over a `World`: its weights by name, functions that read them, and what
was made of a weight before (views, arrays, `.data`), through which later lines write.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.compiled.packed_copies import PACKED
from frontend.nn import functional as F
from frontend.nn.utils import parameters_to_vector, vector_to_parameters
from frontend.utils.dlpack import from_dlpack
from tests.fuzz.frame import Broken, Fuzzer, without_parts

WEIGHTS = ("m.square.weight", "m.wide.weight", "m.wide.bias", "m.conv.weight", "plain", "outside")
FUNCTIONS = ("all", "square", "wide", "conv", "plain", "outside")

# In these, W is a weight, V a number, I 0 or 1, S a name that earlier lines may have given.
WRITES = """
W.add_(V)
W.mul_(V)
W.copy_(torch.full_like(W, V))
W.zero_()
W.normal_(V, 1.0)
W.clamp_(-1.0, V)
W[I] = V
W[W > V] = I
W[..., torch.tensor([0, I])] = V
W[I:].mul_(V)
W.index_fill_(0, torch.tensor([I]), V)
W.index_copy_(0, torch.tensor([I]), W[:1] + V)
W.masked_fill_(W > 0, V)
W.apply_(lambda x: x * V)
W.view(-1)[I].fill_(V)
W.unsqueeze(0)[0, I].add_(V)
W.flatten()[I:].sub_(V)
W.select(0, I).mul_(V)
W.unbind()[I].add_(V)
W.detach().add_(V)
W.detach()[I] = V
W.data.add_(V)
W.data[I] = V
W.data = W.data * V
W.data = W.data.contiguous()
W.data = W.data.clone()
W.data = torch.full_like(W, V)
W.data = torch.from_numpy(W.detach().clone().numpy() * np.float32(V))
W.data = S[0] if S[0].shape == W.shape and S[0].dtype == W.dtype else W.data
W.set_((W.detach() + V).contiguous()) if not W.requires_grad else None
W.resize_(W.shape) if not W.requires_grad else None
W.untyped_storage()[0] = I
W.untyped_storage().copy_((W + V).contiguous().untyped_storage()) if W.is_contiguous() else None
W.as_strided((2,), (1,)).add_(V)
W.T.mul_(V) if W.dim() == 2 else None
W.t_() if W.dim() == 2 and W.shape[0] == W.shape[1] else None
torch.add(W.detach(), V, out=W)
torch.mul(W, V, out=W.detach())
np.asarray(W.detach())[...] *= np.float32(V)
W.detach().numpy()[I] = V
np.from_dlpack(W.detach())[...] += np.float32(V)
from_dlpack(W.detach()).mul_(V)
torch.autograd.graph.increment_version(W)
torch.nn.init.constant_(W, V)
W.requires_grad_(not W.requires_grad) if W.is_leaf else None
array[I] = V
array *= np.float32(V)
S = W.detach()
S = W[I:]
S = W.view(-1) if W.is_contiguous() else W
S = W.data
S = W.data[I:]
S = W.detach().numpy()
S = np.from_dlpack(W.detach())
S = W.untyped_storage()
S = W.as_strided((2,), (1,))
S = torch.nn.Parameter(W.detach())
S = W.clone().detach()
S[0] = V
S.fill_(V) if not isinstance(S, np.ndarray) else S.fill(V)
S[0].fill_(V) if isinstance(S, torch.Tensor) else None
S = torch.zeros(4)
sgd.step()
adam.step()
train(x)
update(plain, x)
update(S, x) if isinstance(S, torch.Tensor) and not S.requires_grad else None
step_inside(x)
m.load_state_dict(kept)
m.load_state_dict(kept, assign=True)
refused(lambda: m.load_state_dict({**kept, 'wide.bias': torch.zeros(9)}))
kept = {name: value + V for name, value in m.state_dict().items()}
kept = dict(m.state_dict())
m.square.weight = torch.nn.Parameter(torch.full((4, 4), V))
m.wide.load_state_dict({'weight': torch.full((6, 4), V), 'bias': torch.ones(6)})
by_vector(m.parameters, V)
m.double().float()
m.to(torch.float32)
torch.freeze(plain)
torch.unfreeze(plain)
writer(lambda: W.add_(V))
Leaves.apply(W).mul_(V)
S = recorded(Leaves.apply, W)
torch.cond(torch.tensor(True), lambda a: a, lambda a: a * 2, (W.detach(),)).zero_()
moved = m.wide.weight; m.wide.weight = torch.nn.Parameter(moved.detach() * V)
torch.compiler.set_packing_limit(I * 200)
torch.compiler.set_packing_limit(1 << 30)
""".strip().splitlines()  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """The lines of a program; `call(f, x)` among them."""

    lines: tuple[str, ...]


class Leaves(torch.autograd.Function):
    """Returns its operand."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


class World:
    """Weights, functions over them eager and compiled, and what writes the weights."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.array = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
        model = torch.nn.Module()
        model.square, model.wide = torch.nn.Linear(4, 4), torch.nn.Linear(4, 6)
        model.conv = torch.nn.Conv2d(1, 2, 3, padding=1)
        plain, outside = torch.randn(4, 4), torch.from_numpy(self.array)
        optim = torch.optim
        self.names: dict[str, Any] = {
            "m": model.eval(), "plain": plain, "outside": outside, "array": self.array,
            "S": torch.zeros(4), "x": torch.randn(2, 4), "kept": dict(model.state_dict()),
            "sgd": optim.SGD(model.parameters(), lr=0.5), "torch": torch, "np": np,
            "adam": optim.Adam(model.parameters(), lr=0.5), "from_dlpack": from_dlpack,
            "Leaves": Leaves, "refused": refused, "writer": in_a_thread, "moved": None,
            "by_vector": by_vector, "recorded": recorded,
        }  # fmt: skip
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        names = self.names
        self.eager = {
            "square": lambda x: names["m"].square(x),
            "wide": lambda x: names["m"].wide(x),
            "conv": lambda x: F.relu(names["m"].conv(x.reshape(-1, 1, 2, 2))),
            "plain": lambda x: x @ (plain * 2).t() + plain.sum(),
            "outside": lambda x: x @ outside.t(),
        }
        parts = list(self.eager.values())
        self.eager["all"] = lambda x: torch.cat([part(x).reshape(-1) for part in parts])
        self.compiled = {
            name: torch.compile(f, threads=1, fullgraph=True) for name, f in self.eager.items()
        }
        self._train()
        self.used = False

    def _train(self) -> None:
        model, plain = self.names["m"], self.names["plain"]
        sgd = self.names["sgd"]

        def train(x: Any) -> None:
            with torch.enable_grad():
                sgd.zero_grad()
                model.wide(model.square(x)).square().mean().backward()
                sgd.step()

        def step_inside(x: Any) -> Any:
            plain.mul_(0.5)
            model.square.bias.add_(1)
            return x @ plain.t()

        self.names["train"] = torch.compile(train, threads=1, fullgraph=True)
        self.names["step_inside"] = torch.compile(step_inside, threads=1, fullgraph=True)
        self.names["update"] = torch.compile(
            lambda w, x: w.add_(x.sum()), threads=1, fullgraph=True
        )

    def call(self, name: str, rows: int) -> None:
        """One call of a compiled function. Raises Broken where eager mode has other bits."""
        x = torch.arange(4.0 * rows).reshape(rows, 4) * 0.25 - 1
        actual = self.compiled[name](x)
        expected = self.eager[name](x)
        one, other = actual.detach()._value, expected.detach()._value
        if one.tobytes() != other.tobytes():
            raise Broken(f"{name}: {one.tolist()} is not eager mode's {other.tolist()}")
        for each in self.compiled[name].specializations:
            if each.packing is not None and each.packing.copies():
                self.used = True


def recorded(function: Any, *arguments: Any) -> Any:
    """A call with grad mode on."""
    with torch.enable_grad():
        return function(*arguments)


def by_vector(parameters: Any, factor: float) -> None:
    """Let parameters be parts of one vector."""
    vector = parameters_to_vector(parameters()) * factor
    vector_to_parameters(vector, parameters())


def refused(function: Any) -> None:
    """Call what raises."""
    try:
        function()
    except RuntimeError:
        return
    raise Broken("was not refused")


def in_a_thread(function: Any) -> None:
    """Call it in another thread, without recording."""

    def run() -> None:
        with torch.no_grad(), contextlib.suppress(RuntimeError):  # of a frozen one
            function()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def draw(random: np.random.Generator, size: int) -> Case:
    """Writes with one to four calls of one or two functions between them."""
    lines: list[str] = []
    for _ in range(size):
        for name in random.choice(FUNCTIONS, int(random.integers(1, 3))):
            rows = int(random.choice([1, 2, 2, 5]))
            lines += [f"call({str(name)!r}, {rows})"] * int(random.integers(1, 5))
        for _ in range(int(random.integers(1, 3))):
            lines.append(_filled(str(random.choice(WRITES)), random))
    names = random.permutation(FUNCTIONS)[:3]
    return Case((*lines, *[f"call({str(name)!r}, 2)" for name in names]))


def _filled(line: str, random: np.random.Generator) -> str:
    values = {
        "W": str(random.choice(WEIGHTS)), "V": str(float(random.choice([0.5, -1.0, 2.0, 3.0]))),
        "I": str(int(random.integers(2))),
    }  # fmt: skip
    return re.sub(r"\b[WVI]\b", lambda match: values[match[0]], line)


def check(case: Case) -> str:
    """Run a program. What eager mode itself refuses, a write that PyTorch forbids, is left out."""
    limit = PACKED.limit
    world = World()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for line in case.lines:
                if line.startswith("call("):
                    exec(line, {"call": world.call})
                else:
                    _write(line, world.names)
    finally:
        PACKED.limit = limit
    return "packed" if world.used else "one piece"


def _write(line: str, names: dict[str, Any]) -> None:
    try:
        exec(line, names)
    except Broken:
        raise
    except (
        RuntimeError, TypeError, IndexError, ValueError, AttributeError, OverflowError,
    ):  # fmt: skip
        return


def smaller(case: Case) -> Iterator[Case]:
    return (Case(lines) for lines in without_parts(case.lines))


def program(case: Case) -> str:
    listed = "\n".join(f"    {line!r}," for line in case.lines)
    return f"from tests.fuzz.packing import Case, check\n\ncheck(Case((\n{listed}\n)))"


FUZZER = Fuzzer("packing", draw, check, program, smaller)
