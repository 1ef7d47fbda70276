"""Ctrl-C at any line of tracing, compiling and restoring.

A program runs once to see which lines of graphc and frontend it comes by; a case runs it again and
raises KeyboardInterrupt at one of them. Then every parameter, buffer, gradient and flag is as ahead
of the call, or as after it (where native code had run), no lock is held, and the next call works.
`python -m tests.fuzz --every-line frontend/engine/tracing` does so at every line of the files named
so.
"""

from __future__ import annotations

import dis
import linecache
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.tensors.epoch import TRACE_LOCK
from frontend.engine.tensors.state import STATE, put_back, state_now
from graphc.codegen.llvm.native import LOCK as NATIVE
from graphc.ir.undecided import answers_now
from graphc.system import IMPORTING
from tests.fuzz.frame import Broken, Fuzzer

ROOT = Path(torch.__file__).parent.parent
OURS = (str(ROOT / "frontend"), str(ROOT / "graphc"))
RESTORING = (
    "frontend/engine/tracing", "frontend/engine/sizes", "frontend/engine/outside",
    "frontend/engine/compiled", "frontend/engine/tensors/state.py", "epoch.py",
)  # fmt: skip
Line = tuple[CodeType, int]
State = dict[str, Any]


class World:
    """A model of a width, what trains it, and its data; the same for the same width."""

    def __init__(self, width: int):
        self.generator = torch.random.default_generator
        torch.manual_seed(width)
        self.first = torch.nn.Linear(3, width)
        self.norm = torch.nn.BatchNorm1d(width)
        self.last = torch.nn.Linear(width, 1)
        self.model = torch.nn.Sequential(
            self.first, self.norm, torch.nn.Tanh(), torch.nn.Dropout(0.5), self.last
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.125, momentum=0.5)
        self.x = torch.randn(4, 3)
        self.buffer = torch.zeros(3)
        self.first.calls = 0
        self.steps, self.options = 0, {"rate": 1.0}
        self.outputs: list[Any] = []
        self.losses: list[float] = []

    def collected(self) -> tuple[int, int]:
        """How much is in the lists."""
        return len(self.outputs), len(self.losses)

    def state(self) -> State:
        """All else that an interrupt could lose."""
        named = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        named |= {"x": self.x, "buffer": self.buffer}
        named |= dict(zip(("inside", "words", "spare"), self.generator.tensors))
        state: State = {name: _flags(tensor) for name, tensor in named.items()}
        state |= {f"value of {name}": _bytes(tensor) for name, tensor in named.items()}
        state |= {f"grad of {name}": _bytes(tensor._grad) for name, tensor in named.items()}
        state["thread"] = state_now()
        state["counted"] = [repr(self.first.calls), repr(self.steps), repr(self.options)]
        for name, p in self.model.named_parameters():
            held = self.optimizer.state.get(p, {}).get("momentum_buffer")
            state[f"momentum of {name}"] = None if held is None else _bytes(held)
        return state


def _flags(tensor: Any) -> tuple[Any, ...]:
    return tensor._requires_grad, tensor._edge, tensor._view, tensor._frozen, tensor.tensor_type


def _bytes(tensor: Any) -> Any:
    if tensor is None:
        return None
    if not isinstance(tensor._value, np.ndarray):
        raise Broken(f"a tensor {tensor.tensor_type} has no value")
    return tensor._value.tobytes()


def _train(world: World) -> Callable[[], Any]:
    def step(x: Any) -> Any:
        world.optimizer.zero_grad()
        loss = world.model(x).square().mean()
        loss.backward()
        world.optimizer.step()
        return loss

    return _called(world, torch.compile(step))


def _gather(world: World) -> Callable[[], Any]:
    """Gradients are left in `.grad`, and nothing else happens."""

    def backward(x: Any) -> Any:
        loss = world.model(x).square().mean()
        loss.backward()
        return loss

    return _called(world, torch.compile(backward))


def _differentiate(world: World) -> Callable[[], Any]:
    """A pair, its backward, and the derivative of that."""
    compiled = torch.compile(world.model.eval())

    def run() -> Any:
        x = world.x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(compiled(x).sum(), [x], create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [world.first.weight])

    return run


def _loop(world: World) -> Callable[[], Any]:
    def looped(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            world.buffer.add_(row)
            carry = carry + world.first(row).sum() * world.buffer
            return carry, carry

        world.buffer.mul_(0.5)
        return torch.scan(step, torch.zeros(3), x)

    return _called(world, torch.compile(looped))


def _sized(world: World) -> Callable[[], Any]:
    """A second number of rows, of which a first was compiled: it is traced for any."""

    def step(x: Any) -> Any:
        loss = world.last(world.first(x)).square().sum()
        loss.backward()
        world.optimizer.step()
        return loss

    compiled = torch.compile(step)
    compiled(world.x[:3])
    return _called(world, compiled)


def _count(world: World) -> Callable[[], Any]:
    """Numbers outside are assigned, beside tensors that are changed."""

    def step(x: Any) -> Any:
        world.steps += 1
        world.options["rate"] *= 0.75
        world.first.calls += 2
        world.buffer.add_(x[0], alpha=0.5**world.steps)
        loss = (world.first(x) * world.options["rate"]).square().sum() / world.first.calls
        loss.backward()
        return loss

    return _called(world, torch.compile(step))


def _count_forward(world: World) -> Callable[[], Any]:
    """The same where backward is called outside."""

    def forward(x: Any) -> Any:
        world.steps += 1
        world.buffer.add_(1)
        return (world.first(x) * world.steps).sum()

    return _called(world, torch.compile(forward))


def _collect(world: World) -> Callable[[], Any]:
    """Lists that tensors and values are put into, beside tensors that are changed."""

    def step(x: Any) -> Any:
        loss = world.first(x).square().sum()
        loss.backward()
        world.optimizer.step()
        world.buffer.add_(x[0])
        world.outputs.append(x * 2)
        world.losses.append(loss.item())
        return loss

    return _called(world, torch.compile(step))


def _fall_back(world: World) -> Callable[[], Any]:
    """What cannot be traced, with a Module below that is compiled and changes its buffers."""
    below = torch.nn.Sequential(world.first, world.norm)

    def step(x: Any) -> Any:
        y = below(x)
        return y * 2 if y.sum() > 1 else y

    compiled = torch.compile(step)

    def run() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it runs eagerly
            return compiled(world.x)

    return run


def _trace(world: World) -> Callable[[], Any]:
    return lambda: torch.trace(world.model, world.x)


def _called(world: World, function: Any) -> Callable[[], Any]:
    return lambda: function(world.x)


PROGRAMS = {
    "train": _train, "gather": _gather, "differentiate": _differentiate, "loop": _loop,
    "sized": _sized, "trace": _trace, "count": _count, "count forward": _count_forward,
    "collect": _collect, "fall back": _fall_back,
}  # fmt: skip


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(OURS)


_LINES: dict[tuple[str, bool], dict[Line, int]] = {}


def lines(program: str, again: bool) -> dict[Line, int]:
    """How often a first or second call comes by each line."""
    if (program, again) not in _LINES:
        run = PROGRAMS[program](World(2))
        if again:
            run()
        seen: dict[Line, int] = {}

        def on_line(frame: FrameType, event: str, argument: Any) -> Any:
            line = (frame.f_code, frame.f_lineno)
            if event == "line" and not _is_of_a_lock(line):
                seen[line] = seen.get(line, 0) + 1
            return on_line

        with _traced(lambda frame, *_: on_line if _is_ours(frame.f_code) else None):
            run()
        _LINES[program, again] = seen
    return _LINES[program, again]


OF_A_LOCK = re.compile(r"with (IMPORTING|[\w.]*(lock|LOCK)\w*(\.\w+)?):")


def _is_of_a_lock(line: Line) -> bool:
    """Python reports `with lock:` again ahead of releasing it, where no signal is handled; nor is
    one at a `try:` inside of a `with`, which is no instruction that the `with` covers."""
    text = linecache.getline(line[0].co_filename, line[1]).strip()
    inside = text == "try:" and "BEFORE_WITH" in {op.opname for op in dis.get_instructions(line[0])}
    return inside or OF_A_LOCK.match(text) is not None


class _traced:
    """Has a trace function called inside."""

    def __init__(self, function: Any):
        self.function = function

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self.function)

    def __exit__(self, *error: Any) -> None:
        sys.settrace(self.before)


def interrupted(run: Callable[[], Any], line: Line, occurrence: int) -> bool:
    """Run, with an interrupt when `line` is come by for that time; whether it got that far."""
    left = occurrence

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if event == "line" and frame.f_lineno == line[1]:
            left -= 1
            if not left:
                raise KeyboardInterrupt
        return on_line

    try:
        with _traced(lambda frame, *_: on_line if frame.f_code is line[0] else None):
            run()
    except KeyboardInterrupt:
        return True
    return False


Case = tuple[str, bool, int, int, float]  # program, a second call, width, number of line, when


def draw(random: np.random.Generator, size: int) -> Case:
    program, again = str(random.choice([*PROGRAMS])), bool(random.random() < 0.25)
    return program, again, 1 + size, int(random.integers(1 << 30)), float(random.random())


def _chosen(case: Case) -> tuple[Line, int]:
    """The line, and when; every other one is of what restores."""
    program, again, _, number, when = case
    known = lines(program, again)
    near = [line for line in known if _is_of(line, RESTORING)]
    among = near if number % 2 else [*known]
    line = among[number // 2 % len(among)]
    return line, 1 + int(when * known[line])


def check(case: Case) -> str:
    program, again, width, *_ = case
    return check_at(program, again, width, *_chosen(case))


def check_at(program: str, again: bool, width: int, line: Line, occurrence: int) -> str:
    """An interrupt when a first or second call comes by a line for that time."""
    states, run, world = _expected(program, width), *_started(program, width)
    if again:
        run()
    counts, where = world.collected(), f"{line[0].co_filename}:{line[1]}"
    hit = interrupted(run, line, occurrence)
    try:
        done = _compared(world, states[again:], where)
        _collected_up_to(world, counts, hit, done, where)
    finally:  # the next case begins as this one did
        put_back(states[0]["thread"])
    counts = world.collected()
    run()
    _same(world.state(), states[again + done + 1], "after the next call")
    if program == "collect" and world.collected() != tuple(count + 1 for count in counts):
        raise Broken(f"{where}: the next call does not collect")
    return f"{program}: {('before', 'after')[done] if hit else 'not reached'}"


def every_line(program: str, again: bool, parts: Sequence[str]) -> int:
    """An interrupt at each line that a first or second call comes by, the first time it does, in
    files whose names have one of these parts; how many there are."""
    chosen = [line for line in lines(program, again) if _is_of(line, parts)]
    for line in chosen:
        check_at(program, again, 2, line, 1)
    return len(chosen)


def _is_of(line: Line, parts: Sequence[str]) -> bool:
    return any(part in line[0].co_filename for part in parts)


def _started(program: str, width: int) -> tuple[Callable[[], Any], World]:
    world = World(width)
    return PROGRAMS[program](world), world


_STATES: dict[tuple[str, int], list[State]] = {}


def _expected(program: str, width: int) -> list[State]:
    """The states before a first call, and after each of three."""
    if (program, width) not in _STATES:
        run, world = _started(program, width)
        states = [world.state()]
        for _ in range(3):
            run()
            states.append(world.state())
        _STATES[program, width] = states
    return _STATES[program, width]


def _compared(world: World, states: list[State], where: str) -> bool:
    """Whether the state is that after the call; else it is that before."""
    if STATE.mode is not None:
        raise Broken(f"{where}: the trace is still under way")
    if answers_now() is not None:
        raise Broken(f"{where}: an example still decides about sizes")
    for lock in (TRACE_LOCK.tracing, TRACE_LOCK.specializing, IMPORTING, NATIVE):
        if not _is_free(lock):
            raise Broken(f"{where}: a lock is held")
    state = world.state()
    if not list(_differences(state, states[0])):
        return False
    _same(state, states[1], where)
    return True


def _collected_up_to(
    world: World, counts: tuple[int, int], hit: bool, done: bool, where: str
) -> None:
    """A call that raises need not have put into lists what it puts there once state is written,
    list by list; but nothing ahead of that, and nothing twice."""
    added = tuple(now - before for now, before in zip(world.collected(), counts))
    whole = {(0, 0)} if hit else {(0, 0), (1, 1)}
    if not (set(added) <= {0, 1} if hit and done else added in whole):
        raise Broken(f"{where}: {added} was put into lists")


def _is_free(lock: Any) -> bool:
    """Whether another thread gets it."""
    got: list[bool] = []

    def ask() -> None:
        got.append(lock.acquire(blocking=False))
        if got[0]:
            lock.release()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return got[0]


def _differences(state: State, other: State) -> Iterator[str]:
    for name, value in other.items():
        # Momenta of 0 that a trace has made are as good as none.
        if state[name] != value and (any(state[name] or b"") or any(value or b"")):
            yield name


def _same(state: State, other: State, where: str) -> None:
    names = list(_differences(state, other))
    if names:
        raise Broken(f"{where}: {', '.join(names)} changed")


def program(case: Case) -> str:
    return f"from tests.fuzz import interrupts\ninterrupts.check({case!r})"


FUZZER = Fuzzer("interrupts", draw, check, program)
