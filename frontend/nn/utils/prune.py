"""`torch.nn.utils.prune`: not here; each name raises NotImplementedError when used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from frontend.namespace.absent import absent_names


def _absent(name: str) -> Callable[..., NoReturn]:
    def raising(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"torch.nn.utils.prune.{name} is not here; register a parametrization that multiplies "
            "by a mask (torch.nn.utils.parametrize.register_parametrization)"
        )

    raising.__name__ = name
    return raising


_FUNCTIONS = (
    "custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured",
    "ln_structured", "random_structured", "random_unstructured", "remove",
)  # fmt: skip
globals().update(
    absent_names(
        "nn.utils.prune",
        "BasePruningMethod L1Unstructured LnStructured RandomStructured RandomUnstructured",
        "register a parametrization that multiplies by a mask",
    )
)
globals().update({name: _absent(name) for name in _FUNCTIONS})
__all__ = list(_FUNCTIONS)
