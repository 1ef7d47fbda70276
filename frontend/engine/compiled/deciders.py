"""What has to hold of a specialization, for a call that found it: in the order it is asked.

in : the guards of a program
out: the check of a call, code that is generated from them

How a call finds one: specializations.py, with the table of all that decides, `DECIDERS`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from frontend.engine.outside.constants import Constants
from frontend.engine.outside.guard import Guard, lines_of
from frontend.engine.outside.source import Call
from frontend.engine.tensors.epoch import EPOCH
from graphc.records import record


class Checked(Protocol):
    """What a check is of. `epoch`: the last one in which the guards of `epoch` held; `bind()` looks
    up what may be another in a new one."""

    epoch: object

    def bind(self) -> object: ...


CallCheck = Callable[[Checked, Call], bool]
"""Whether a call on arguments of its signature fits a specialization."""


@record
class Decider:
    """`ask`: what asks, `of`: what is asked, at which `cost`."""

    name: str
    ask: Callable[..., Any]
    cost: str
    of: str


def _in_each_epoch(lines: list[str], constants: Constants) -> list[str]:
    """What is read for as long as an epoch lasts is read after the epoch is: a write in between has
    the next call look again. Guards that held in it hold for all that have this check, the program
    at other sizes: a model at a further position asks each of its Modules once."""
    held = constants.of([None])
    return [
        f"epoch = {constants.of(EPOCH)}.current",
        "if epoch is not one.epoch:",
        f"    if epoch is not {held}[0]:",
        *[f"        {line}" for line in lines],
        f"        {held}[0] = epoch",
        "    one.bind()",
        "    one.epoch = epoch",
    ]


def _at_each_call(lines: list[str], constants: Constants) -> list[str]:
    return lines


HOLDING = (
    Decider("epoch guards", _in_each_epoch, "0.1 us; in a new epoch 1 us for a Module",
            "Modules, hooks, options, captured tensors: what tells when it is written"),
    Decider("further guards", _at_each_call, "0.1 us for a name, 1 us for a container",
            "globals, attributes, items; numbers outside that a graph is for"),
    Decider("call guards", _at_each_call, "0.2 us each",
            "layout, hooks, identity, gradients of the arguments"),
)  # fmt: skip
"""What has to hold of a specialization that was found: `ask` makes code of that of the guards."""


def check_of(guards: Iterable[Guard], of_calls: Sequence[Guard]) -> CallCheck:
    """The check of a call: that a specialization with these guards, and those on the arguments,
    serves it."""
    by_epoch: list[Guard] = []
    further: list[Guard] = []
    for guard in guards:
        (by_epoch if guard.source.by_epoch else further).append(guard)
    constants = Constants()
    lines: list[str] = []
    for decider, part in zip(HOLDING, (by_epoch, further, of_calls), strict=True):
        lines += decider.ask(lines_of(part, constants), constants)
    text = textwrap.indent("\n".join([*lines, "return True"]), "    ")
    names = {**constants.names, "__name__": __name__}
    exec(compile(f"def check(one, call):\n{text}", _FILE, "exec"), names)
    check: CallCheck = names.pop("check")  # type: ignore[assignment]
    return check


_FILE = str(Path(__file__).with_name("check of a call"))
"""Where the code says it is: among ours."""
