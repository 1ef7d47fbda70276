"""`torch.return_types`: named tuples of functions with several results."""

from frontend.functions.return_types import (
    aminmax,
    cummax,
    cummin,
    kthvalue,
    max,
    median,
    min,
    mode,
    nanmedian,
    sort,
    topk,
)

__all__ = [
    "aminmax", "cummax", "cummin", "kthvalue", "max", "median", "min", "mode", "nanmedian", "sort",
    "topk",
]  # fmt: skip
