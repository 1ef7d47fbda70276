"""Schedules that fall (or rise) step by step: by a function, by factors, to an end."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from frontend.optim.lr_scheduler.base import LRScheduler, need_optimizer
from frontend.optim.optimizer import Optimizer


class _OfFunctions(LRScheduler):
    """Schedules with a function per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        count = len(need_optimizer(optimizer).param_groups)
        several = isinstance(lr_lambda, list | tuple)
        if several and len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        self.lr_lambdas = list(lr_lambda) if several else [lr_lambda] * count
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions; of callable objects, their attributes."""
        state = super().state_dict()
        del state["lr_lambdas"]
        state["lr_lambdas"] = [
            None if isinstance(function, FunctionType) else dict(vars(function))
            for function in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; functions stay those of this object."""
        kept = dict(state_dict)
        for function, attributes in zip(self.lr_lambdas, kept.pop("lr_lambdas")):
            if attributes is not None:
                vars(function).update(attributes)
        self.__dict__.update(kept)


class LambdaLR(_OfFunctions):
    """lr = initial lr · lr_lambda(epoch): one function, or a list with one per group."""

    lr_lambdas: list[Callable[[int], float]]

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return [
            base * function(self.last_epoch)
            for base, function in zip(self.base_lrs, self.lr_lambdas)
        ]


class MultiplicativeLR(_OfFunctions):
    """lr *= lr_lambda(epoch) at each epoch after the first."""

    lr_lambdas: list[Callable[[int], float]]

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._rates()
        return [
            rate * function(self.last_epoch)
            for rate, function in zip(self._rates(), self.lr_lambdas)
        ]


class StepLR(LRScheduler):
    """lr *= gamma every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ):
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """lr *= gamma at each of the `milestones` (epochs)."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ):  # fmt: skip
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._rates()
        return [rate * self.gamma ** self.milestones[self.last_epoch] for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """lr · factor until epoch `total_iters`, then lr."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5,
        last_epoch: int = -1,
    ):  # fmt: skip
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        return [rate * (1.0 / self.factor) for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        done = self.last_epoch >= self.total_iters
        return [base * (self.factor + done * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """lr times a factor that goes from `start_factor` to `end_factor` in `total_iters` epochs."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
        total_iters: int = 5, last_epoch: int = -1,
    ):  # fmt: skip
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._rates()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        change = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * change
        return [rate * (1.0 + change / before) for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        change = self.end_factor - self.start_factor
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + change * share) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """lr *= gamma at each epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """lr falls to 0 in `total_iters` epochs: initial lr · (1 - epoch / total_iters) ** power."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ):
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [rate * (left / before) ** self.power for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        share = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * share**self.power for base in self.base_lrs]
