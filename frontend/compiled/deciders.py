"""Whether a specialization serves a call: what is asked, in the order it is asked.

in : the guards of a program
out: the check of a call, code that is generated from them

A call finds a specialization by the rows of `FINDING`; whatever one gives has to hold, by those of
`HOLDING`. The check of a call is their code.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from frontend.tensors.epoch import EPOCH
from frontend.tracing.outside.constants import Constants
from frontend.tracing.outside.guard import Guard, lines_of
from frontend.tracing.outside.source import Call


class Checked(Protocol):
    """What a check is of. `epoch`: the last one in which the guards of `epoch` held; `bind()` looks
    up what may be another in a new one."""

    epoch: object

    def bind(self) -> object: ...


CallCheck = Callable[[Checked, Call], bool]
"""Whether a call on arguments of its signature fits a specialization."""


@dataclass(frozen=True, slots=True)
class Decider:
    """`asks`: what, `when` and at which `cost`."""

    name: str
    asks: str
    when: str
    cost: str


FINDING = (
    Decider("inline cache", "the state of the thread; class, type and flag of each argument",
            "of the last call", "under 1 us"),
    Decider("signature", "the same, structure, numbers, which arguments are one tensor, as a key",
            "of all specializations", "5 to 10 us"),
    Decider("last free numbers", "the signature, with numbers that Python computes anew",
            "of the last call that had such", "5 to 10 us"),
    Decider("free numbers", "the signature without numbers that Python computes anew",
            "of all specializations", "10 to 30 us"),
    Decider("size guards", "what was asked of sizes in the trace has the same answers",
            "of programs for several sizes", "0.3 ms"),
)  # fmt: skip
HOLDING = (
    Decider("epoch guards", "Modules, hooks, options: whose writes begin an epoch",
            "once in each epoch", "0.1 us for a read, some for a Module"),
    Decider("further guards", "globals, attributes, items; numbers outside that a graph is for",
            "at each call", "0.1 us for a read, 1 us for a container"),
    Decider("call guards", "layout, hooks, identity, gradients of the arguments",
            "at each call", "0.2 us each"),
)  # fmt: skip


def check_of(guards: Iterable[Guard], of_calls: Iterable[Guard]) -> CallCheck:
    """The check of a call, that a specialization with these guards, and those on the arguments,
    serves it. What is read anew in each epoch is read after the epoch is."""
    guards, constants = list(guards), Constants()
    by_epoch = [guard for guard in guards if guard.source.by_epoch]
    further = [guard for guard in guards if not guard.source.by_epoch]
    lines = [
        f"epoch = {constants.of(EPOCH)}.current",
        "if epoch is not one.epoch:",
        *[f"    {line}" for line in lines_of(by_epoch, constants)],
        "    one.bind()",
        "    one.epoch = epoch",
        *lines_of([*further, *of_calls], constants),
        "return True",
    ]
    text = "def check(one, call):\n" + textwrap.indent("\n".join(lines), "    ")
    names = {**constants.names, "__name__": __name__}
    exec(compile(text, _FILE, "exec"), names)
    check: CallCheck = names.pop("check")  # type: ignore[assignment]
    return check


_FILE = str(Path(__file__).with_name("check of a call"))
"""Where the code says it is: among ours."""
