"""`torch.nn._reduction`: reductions of losses by number, and by their former arguments."""

from __future__ import annotations

from frontend.nn.checks import fail
from frontend.nn.functional.reduction import CHOICES, legacy
from graphc.errors import AttributeValueError


def get_enum(reduction: str) -> int:
    """0, 1 or 2: "none", "mean", "sum". Raises ValueError for another name."""
    if reduction not in CHOICES:
        raise fail(AttributeValueError, f"{reduction} is not a valid value for reduction")
    return CHOICES.index(reduction)


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The name of what the former arguments say."""
    return legacy(size_average, reduce, warns=emit_warning)


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The number of what the former arguments say."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
