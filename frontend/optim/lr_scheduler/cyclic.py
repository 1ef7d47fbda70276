"""Schedules that go up and down, and cycle the momentum the other way (Smith, 2015 and 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from frontend.optim.lr_scheduler.base import (
    LRScheduler,
    need_optimizer,
    per_group,
    put,
    taken,
)
from frontend.optim.optimizer import Optimizer


class _Cycling(LRScheduler):
    """Schedules that may cycle the momentum: `momentum`, or the first of `betas`."""

    use_beta1 = False
    cycle_momentum = False

    def _find_momentum(self) -> None:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in defaults

    def _set_momentum(self, group: dict[str, Any], momentum: Any) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            put(group, "momentum", momentum)


class CyclicLR(_Cycling):
    """lr goes from `base_lr` to `max_lr` in `step_size_up` steps and back in `step_size_down`; the
    height of a cycle stays ("triangular"), halves each time ("triangular2") or falls by gamma per
    step ("exp_range"), or is scaled by `scale_fn` of the cycle or of the iteration (`scale_mode`).
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ):  # fmt: skip
        self.optimizer = need_optimizer(optimizer)
        lowest = per_group(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for rate, group in zip(lowest, optimizer.param_groups):
                put(group, "lr", rate)
        self.max_lrs = per_group(optimizer, "max_lr", max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = float(step_size_up) / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._find_momentum()
            self.base_momentums = per_group(optimizer, "base_momentum", base_momentum)
            self.max_momentums = per_group(optimizer, "max_momentum", max_momentum)
            if last_epoch == -1:
                for highest, low, group in zip(
                    self.max_momentums, self.base_momentums, optimizer.param_groups
                ):
                    self._set_momentum(group, highest)
                    group["max_momentum"], group["base_momentum"] = highest, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = list(map(taken, lowest))

    def scale_fn(self, x: float) -> float:
        """How high a cycle is."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = [
            base + (highest - base) * share * scale
            for base, highest in zip(self.base_lrs, self.max_lrs)
        ]
        if self.cycle_momentum:
            for low, highest, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups
            ):
                self._set_momentum(group, highest - (highest - low) * share * scale)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; a scaling function is not kept."""
        state = super().state_dict()
        state["_scale_fn_custom"] = None
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        own = self._scale_fn_custom
        super().load_state_dict(state_dict)
        self._scale_fn_custom = own


class OneCycleLR(_Cycling):
    """One cycle over `total_steps` (or epochs · steps_per_epoch): lr from max_lr / div_factor up to
    max_lr, then down to that over final_div_factor; momentum the other way. With `three_phase` it
    comes down as it went up before it is annihilated."""

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: Any = 0.85,
        max_momentum: Any = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ):  # fmt: skip
        self.optimizer = need_optimizer(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        total = self.total_steps
        self._schedule_phases = [
            _phase(float(pct_start * total) - 1, "initial_lr", "max_lr", "max", "base"),
            *(
                [
                    _phase(float(2 * pct_start * total) - 2, "max_lr", "initial_lr", "base", "max"),
                    _phase(total - 1, "initial_lr", "min_lr", "max", "max"),
                ]
                if three_phase
                else [_phase(total - 1, "max_lr", "min_lr", "base", "max")]
            ),
        ]
        if last_epoch == -1:
            highest = per_group(optimizer, "max_lr", max_lr)
            for rate, group in zip(highest, optimizer.param_groups):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._find_momentum()
            if last_epoch == -1:
                low = per_group(optimizer, "base_momentum", base_momentum)
                high = per_group(optimizer, "max_momentum", max_momentum)
                for least, greatest, group in zip(low, high, optimizer.param_groups):
                    self._set_momentum(group, greatest)
                    group["max_momentum"], group["base_momentum"] = greatest, least
        super().__init__(optimizer, last_epoch)

    def _annealed(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for phase in self._schedule_phases:
                end = phase["end_step"]
                if step <= end or phase is self._schedule_phases[-1]:
                    share = (step - start) / (end - start)
                    break
                start = end
            rates.append(self._annealed(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                first, last = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._annealed(first, last, share))
        return rates


def _phase(end: float, start_lr: str, end_lr: str, first: str, last: str) -> dict[str, Any]:
    return {
        "end_step": end, "start_lr": start_lr, "end_lr": end_lr,
        "start_momentum": f"{first}_momentum", "end_momentum": f"{last}_momentum",
    }  # fmt: skip


def _total_steps(total: Any, epochs: Any, steps: Any) -> int:
    if total is not None:
        if total <= 0 or not isinstance(total, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total}")
        return total
    if epochs is None or steps is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps
