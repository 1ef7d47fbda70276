"""The base of the schedulers: counting steps, and writing what `get_lr` says."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from frontend.engine.tensors.state import no_grad, tracing
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.effects import defer
from frontend.optim.optimizer import Optimizer
from graphc.errors import TraceError
from graphc.ir.builder import user_location

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)


def defer_step(scheduler: LRScheduler, *arguments: Any) -> bool:
    """In a trace: have each call take this step, once it is over; whether a trace is under way.
    Raises TraceError where calls cannot: with `fullgraph=True`, where step() is of a class of a
    user's, or an option is a tensor, which code may read by itself."""
    if not tracing():
        return False
    step, groups = scheduler.step, scheduler.optimizer.param_groups
    can_wait = step.__module__.startswith("frontend.") and not any(
        isinstance(option, Tensor) for group in groups for option in group.values()
    )
    if can_wait and defer(step, arguments, [scheduler, *scheduler.parts(), *groups]):
        return True
    raise _in_trace("a scheduler's step() is called")


def _in_trace(what: str) -> TraceError:
    return TraceError(
        f"{what} while tracing; compiled code would not repeat it",
        hint="call scheduler.step() after the compiled step",
        location=user_location(),
    )


class LRScheduler:
    """Base of the schedulers. A subclass says in `get_lr()` what the learning rates of the groups
    become at step `last_epoch`, from those they have now; `_get_closed_form_lr()`, where there is
    one, says it from the initial ones, for `step(epoch)`.

    `last_epoch` is the number of the step taken last; -1 starts anew. Raises TypeError for anything
    but an Optimizer, KeyError where it is to go on and the groups have no `initial_lr`.
    """

    _computes_by: ClassVar[Mapping[str, Sequence[str]]] = {"step": (), "get_last_lr": ("_last_lr",)}
    """What methods read of the attributes, for traces, which look at it again: others read all. A
    trace defers a step, which reads then."""

    _get_lr_called_within_step = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer = need_optimizer(optimizer)
        if tracing():
            raise _in_trace("a scheduler is made")
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", taken(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0: load the optimizer's state dict of the "
                    "checkpoint first, or start with last_epoch=-1"
                )
        self.base_lrs: list[Any] = [taken(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        """Take the step to epoch 0 (or the one to go on from)."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def parts(self) -> list[LRScheduler]:
        """The schedulers that this one is made of."""
        return []

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The learning rates of the groups as last set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The learning rates of the groups at step `last_epoch`."""
        raise NotImplementedError

    def step(self, epoch: Any = None) -> None:
        """Go to the next epoch (or to `epoch`) and set the learning rates."""
        if defer_step(self, epoch):
            return
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: `optimizer.step()` "
                "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping "
                "the first value of the learning rate schedule.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._go_to(epoch)

    def _go_to(self, epoch: Any) -> None:
        """Set the learning rates of the next epoch, or of `epoch`."""
        closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self._asked(closed or self.get_lr))

    def _asked(self, rates: Callable[[], list[Any]]) -> list[Any]:
        """What `rates` says within a step."""
        self._get_lr_called_within_step = True
        try:
            return rates()
        finally:
            self._get_lr_called_within_step = False

    def _set(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            put(group, "lr", rate)
        self._last_lr = self._rates()

    def _rates(self) -> list[Any]:
        """The learning rates as they are now."""
        return [taken(group["lr"]) for group in self.optimizer.param_groups]

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )


def need_optimizer(optimizer: Any) -> Optimizer:
    """The optimizer itself. Raises TypeError for anything else."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def taken(value: Any) -> Any:
    """An option as it is now: a tensor is copied."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def put(group: Any, name: str, value: Any) -> None:
    """Give an option a new value; a tensor is filled, so that whoever holds it sees it."""
    old = group.get(name)
    if not isinstance(old, Tensor):
        group[name] = value
        return
    with no_grad():
        old.fill_(value)


def per_group(optimizer: Optimizer, name: str, value: Any) -> list[Any]:
    """A value for each group, given as one or as a list. Raises ValueError for another number."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} "
            f"values, param_groups has {count}."
        )
    return list(value)


_LRScheduler = LRScheduler
