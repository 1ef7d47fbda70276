"""`frontend.utils`: what stands beside the network; `frontend.utils.data` feeds it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = (
    "_foreach_utils", "_python_dispatch", "_pytree", "benchmark", "checkpoint", "collect_env",
    "cpp_extension", "data", "deterministic", "dlpack", "flop_counter", "hooks", "model_zoo",
    "tensorboard", "weak",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Submodules are imported when first asked for: `import frontend` stays fast."""
    if name in _MODULES:
        return import_module(f"frontend.utils.{name}")
    if name == "swap_tensors":
        return import_module("frontend.utils.swapping").swap_tensors
    raise AttributeError(f"module 'frontend.utils' has no attribute {name!r}")
