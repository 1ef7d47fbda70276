"""A smaller learning rate when a measured value no longer improves."""

from __future__ import annotations

import math
import warnings
from typing import Any

from frontend.optim.lr_scheduler.base import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    defer_step,
    need_optimizer,
    put,
)
from frontend.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """`step(value)` makes lr smaller by `factor` once `value` was not better than the best by
    `threshold` (relative or absolute) for more than `patience` steps; then `cooldown` steps do not
    count. "min": smaller is better; "max": greater."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0,
        eps: float = 1e-8,
    ):  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        need_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, list | tuple) and len(min_lr) != groups:
            raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
        self.factor = factor
        self.optimizer = optimizer
        several = isinstance(min_lr, list | tuple)
        self.default_min_lr = None if several else min_lr
        self.min_lrs = list(min_lr) if several else [min_lr] * groups
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.last_epoch = 0
        self._last_lr = self._rates()
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        return self.cooldown_counter > 0

    def step(  # type: ignore[override]
        self, metrics: Any, epoch: Any = None
    ) -> None:
        """Look at a new value (a number or a 0-d tensor)."""
        if defer_step(self, metrics, epoch):
            return
        current = float(metrics)
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        missing = len(groups) - len(self.min_lrs)
        if missing and self.default_min_lr is None:
            raise RuntimeError(
                f"min_lr has {len(self.min_lrs)} values and the optimizer {len(groups)} groups by "
                "now: put one value for each into min_lrs"
            )
        self.min_lrs += [self.default_min_lr] * missing
        for group, least in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                put(group, "lr", new)

    def _is_better(self, value: float, best: float) -> bool:
        smaller = self.mode == "min"
        if self.threshold_mode == "abs":
            return value < best - self.threshold if smaller else value > best + self.threshold
        if smaller:
            return value < best * (1.0 - self.threshold)
        return value > best * (1.0 + self.threshold)
