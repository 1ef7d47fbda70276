"""Several schedulers one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from frontend.optim.lr_scheduler.base import LRScheduler, defer_step, put, taken
from frontend.optim.lr_scheduler.plateau import ReduceLROnPlateau
from frontend.optim.optimizer import Optimizer


def _check(schedulers: Sequence[Any], optimizer: Any, name: str) -> None:
    """Raise ValueError, TypeError for schedulers that cannot be combined."""
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                f"kwargs to be specified when calling `step`, but got one at index {i} in the "
                "given schedulers sequence."
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {i} of another one"
            )


def _undo_first_step(scheduler: Any) -> None:
    """Take back one epoch of a scheduler; of one of several, of those inside, as PyTorch does: its
    own count, where it has one, stays."""
    inner = getattr(scheduler, "_schedulers", None)
    if inner is None:
        scheduler.last_epoch -= 1
        return
    for one in inner:
        _undo_first_step(one)


class _Several(LRScheduler):
    """What both share: state dicts with those of the schedulers inside."""

    _schedulers: list[Any]

    def parts(self) -> list[LRScheduler]:
        return [each for one in self._schedulers for each in (one, *one.parts())]

    def state_dict(self) -> dict[str, Any]:
        left_out = ("optimizer", "_schedulers")
        state = {name: value for name, value in self.__dict__.items() if name not in left_out}
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        kept = dict(state_dict)
        inner = kept.pop("_schedulers")
        self.__dict__.update(kept)
        for scheduler, state in zip(self._schedulers, inner):
            scheduler.load_state_dict(state)


class SequentialLR(_Several):
    """One scheduler until the first milestone (an epoch), the next until the second, …"""

    def __init__(
        self, optimizer: Optimizer, schedulers: list[Any], milestones: list[int],
        last_epoch: int = -1,
    ):  # fmt: skip
        if len(schedulers) < 1:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        _check(schedulers, optimizer, "SequentialLR")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each scheduler took its first step when it was made: undo that, and take only the one of
        # the scheduler that runs at epoch 0 (not the first's, where the first milestone is 0).
        for group in optimizer.param_groups:
            put(group, "lr", taken(group["initial_lr"]))
        for scheduler in schedulers:
            _undo_first_step(scheduler)
        running = schedulers[bisect_right(milestones, 0)]
        running._initial_step()
        self._last_lr = running.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        if defer_step(self):
            return
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._go_to(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Several):
    """All schedulers at each step."""

    def __init__(self, schedulers: Sequence[Any], optimizer: Optimizer | None = None):
        if len(schedulers) < 1:
            raise ValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        _check(schedulers, optimizer, "ChainedScheduler")
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = self._rates()

    def step(self) -> None:  # type: ignore[override]
        if defer_step(self):
            return
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()
