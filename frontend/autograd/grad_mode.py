"""`torch.autograd.grad_mode`: whether operations are recorded."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.state import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "enable_grad",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


class set_multithreading_enabled:
    """Whether backward may run on several threads. The sweep runs on one, either way."""

    def __init__(self, mode: bool):
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass
