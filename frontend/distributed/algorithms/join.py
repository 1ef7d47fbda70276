"""`torch.distributed.algorithms.join`: processes that have different numbers of batches.

Before each of their steps processes say that they take one; who is through answers, and takes part
in what the step exchanges by its `main_hook`, until nobody takes a step any more.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from frontend.distributed.exchange import Round, all_reduce
from frontend.distributed.groups import ProcessGroup
from frontend.distributed.reducer import add
from frontend.distributed.world import current

FEW = 1000
"""Steps of others after which a process that is through warns that it has far fewer batches."""


class JoinHook:
    """What a process that is through does in each step of the others, and at the end."""

    def main_hook(self) -> None:
        """In each step of the others: take part in what it exchanges."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """When all are through."""


class Joinable:
    """What can be given to `Join`: has `join_hook`, `join_device` and `join_process_group`."""

    def join_hook(self, **kwargs: Any) -> JoinHook:
        raise NotImplementedError

    @property
    def join_device(self) -> Any:
        raise NotImplementedError

    @property
    def join_process_group(self) -> Any:
        raise NotImplementedError


class Join:
    """A context in which processes may run out of batches at different steps. Raises ValueError for
    things of several process groups, RuntimeError on all processes where one is through and
    `throw_on_early_termination` is set."""

    def __init__(
        self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False,
        **kwargs: Any,
    ):  # fmt: skip
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        groups = {id(joinable.join_process_group): joinable for joinable in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self.joinables, self.enable, self.throws = joinables, enable, throw_on_early_termination
        self.group: ProcessGroup = joinables[0].join_process_group
        self.hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        for hook in self.hooks:
            hook.join = self
        self.divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        self.active: np.ndarray = np.ones(self.group.size(), np.int32)

    def __enter__(self) -> Join:
        for joinable in self.joinables if self.enable else ():
            _tell(joinable, self)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        for joinable in self.joinables if self.enable else ():
            _tell(joinable, None)
        if not self.enable or kind is not None:
            return
        last, steps = True, 0
        while self._said(0).any():
            if self.throws:
                raise self._early()
            last = False
            steps += 1
            if steps == FEW:
                warnings.warn(
                    f"rank {self.group.rank()} was through {FEW} steps before others: they compute "
                    "while it waits; see whether their inputs are to differ so much",
                    stacklevel=2,
                )
            for hook in self.hooks:
                hook.main_hook()
        for hook in self.hooks:
            hook.post_hook(last)

    def _early(self) -> RuntimeError:
        done = [rank for rank, says in enumerate(self.active) if not says]
        return RuntimeError(f"Rank {', '.join(map(str, done))} exhausted all inputs.")

    def _said(self, what: int) -> np.ndarray:
        """What all processes say of their next step: 0 where there is none."""
        says = np.zeros(self.group.size(), np.int32)
        says[self.group.rank()] = what
        name = "which processes of a Join take a step"
        steps = all_reduce(Round(self.group._members, name), says, add)
        current().start(name, steps, self.group._timeout).wait()
        self.active = says
        return says

    def notify(self, joinable: Any, what: int = 1) -> None:
        """Say that this process takes a step."""
        if joinable is self.joinables[0]:
            says = self._said(what)
            if self.throws and not says.all():
                raise self._early()

    @staticmethod
    def notify_join_context(joinable: Any) -> None:
        """Say so, before a step's own exchange."""
        context = getattr(joinable, "_join_context", None)
        if context is not None:
            context.notify(joinable)


def _tell(joinable: Any, context: Join | None) -> None:
    steps = getattr(joinable, "_steps", None)
    if steps is not None:
        steps.joins = context
    else:
        joinable._join_context = context


class ModelJoinHook(JoinHook):
    """What DistributedDataParallel does: adds nothing to the others' gradients, and at the end
    becomes what it is on the process that was through last."""

    def __init__(self, model: Any):
        self.model = model
        self.join: Join | None = None

    def main_hook(self) -> None:
        assert self.join is not None
        self.model._steps.shadow(self.join)

    def post_hook(self, is_last_joiner: bool) -> None:
        group = self.model.process_group
        last = np.zeros(group.size(), np.int32)
        last[group.rank()] = is_last_joiner
        name = "which process was through last"
        steps = all_reduce(Round(group._members, name), last, add)
        current().start(name, steps, group._timeout).wait()
        self.model._steps.broadcast_state(int(np.flatnonzero(last)[0]))
