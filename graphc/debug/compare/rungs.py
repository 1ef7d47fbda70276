"""The rungs of a ladder: from eager to compiled, each one change more than the one below.

| rung | what is new |
|---|---|
| eager, NumPy | each op computed by NumPy as the program comes to it |
| + freed memory kept | the C library keeps what arrays gave back, as it does for compiled calls |
| eager, native kernels | each op by the kernel that the compiler makes for it alone |
| static graph | the same kernels, recorded once: a call each for forward, backward, update |
| + passes | the passes of level *exact*; still a kernel for each op of the program |
| + fusion | ops share kernels |
| + planned memory | buffers share places in the arena |
| + layouts | matrices that a loop reads unchanged are packed ahead of it |
| + one call | forward, backward and update in one native call |
| + no .grad | gradients are not left behind for the program to read |
| + N threads | all processors |

No rung is handicapped: a movement that eager mode has as a view costs nothing on the static rungs
either, and an op that eager mode runs whole is one there. Nor is one favoured: each is timed as the
program calls it, from Python, with all arrays and state of its own.
"""

from __future__ import annotations

from typing import Any

from graphc.records import record, replace


@record
class Rung:
    """`backend` of eager mode, or None where the step is compiled: then the options below. `keeps`:
    freed memory is kept. `of_ops`: a kernel for each op of the program."""

    name: str
    backend: str | None = None
    keeps: bool = True
    of_ops: bool = False
    passes: bool = True
    plan_memory: bool = True
    layouts: bool = True
    whole: bool = True
    keep_grads: bool = True
    threads: int = 1
    trains_only: bool = False
    """Whether it is a change for what has a backward pass alone."""

    @property
    def compiled(self) -> bool:
        return self.backend is None


def rungs(processors: int) -> tuple[Rung, ...]:
    """All rungs, on a machine with so many processors."""
    ladder = [Rung("eager, NumPy", "numpy", keeps=False)]

    def change(name: str, **changes: Any) -> None:
        ladder.append(replace(ladder[-1], name=name, **changes))

    change("+ freed memory kept", keeps=True)
    change("eager, native kernels", backend="native")
    ladder.append(
        Rung(
            "static graph", of_ops=True, passes=False, plan_memory=False, layouts=False, whole=False
        )
    )
    change("+ passes", passes=True)
    change("+ fusion", of_ops=False)
    change("+ planned memory", plan_memory=True)
    change("+ layouts", layouts=True)
    change("+ one call", whole=True, trains_only=True)
    change("+ no .grad", keep_grads=False)
    if processors > 1:
        change(f"+ {processors} threads", threads=processors, trains_only=False)
    return tuple(ladder)
