"""`GradScaler`: scales losses so that gradients in float16 do not vanish."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.logic import isfinite

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """How far an optimizer's step is, between updates of a scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """`scale(loss)` times the scale, `step(optimizer)` divides gradients by it and leaves the step
    out where one is not finite, `update()` adapts it. For "cuda", which is not there, it is
    disabled with a warning, as in PyTorch: losses and steps are then as they are."""

    _computes_by: ClassVar[Mapping[str, Sequence[str]]] = {
        "scale": ("_enabled", "_scale"), "get_scale": ("_enabled", "_scale"),
        "is_enabled": ("_enabled",), "step": ("_enabled", "_unscaled"),
    }  # fmt: skip
    """What methods read of the attributes, for traces, which look at it again: others read all."""

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ):  # fmt: skip
        self._device = device
        self._enabled = enabled and device == "cpu"
        if enabled and device != "cpu":
            warnings.warn(
                f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not available. "
                " Disabling.",
                UserWarning,
                stacklevel=2 if type(self) is GradScaler else 3,
            )
        if self._enabled and (growth_factor <= 1.0 or backoff_factor >= 1.0):
            raise AssertionError("The growth factor must be > 1.0, the backoff factor < 1.0.")
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._unscaled: dict[int, bool] = {}  # by optimizer: whether all was finite

    def scale(self, outputs: Any) -> Any:
        """A tensor, or the tensors of a nest, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            kind = type(outputs) if isinstance(outputs, list | tuple) else list
            return kind(self.scale(each) for each in outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, once between updates.
        Raises RuntimeError the second time."""
        if not self._enabled:
            return
        if id(optimizer) in self._unscaled:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        finite = True
        with no_grad():
            for group in optimizer.param_groups:
                for gradient in (p.grad for p in group["params"] if p.grad is not None):
                    gradient.mul_(1.0 / self._scale)
                    values = gradient.coalesce()._values() if gradient.is_sparse else gradient
                    finite = finite and bool(isfinite(values).all())
        self._unscaled[id(optimizer)] = finite

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()` on unscaled gradients, unless one of them is not finite."""
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        return optimizer.step(*args, **kwargs) if self._unscaled[id(optimizer)] else None

    def update(self, new_scale: Any = None) -> None:
        """A smaller scale after a step left out, a greater one after `growth_interval` steps."""
        if not self._enabled:
            return
        finite = all(self._unscaled.values())
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._unscaled:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif not finite:
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._unscaled.clear()

    def is_enabled(self) -> bool:
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1.0 where disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """PyTorch's names; empty where disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state dict. Raises RuntimeError for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
