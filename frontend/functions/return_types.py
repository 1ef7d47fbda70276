"""Named tuples of functions with several results, printed as PyTorch's; users find them in
`frontend.return_types`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


def _declared(name: str, *fields: str) -> Any:
    base = namedtuple(name, fields)  # type: ignore[misc]

    def text(self: Any) -> str:
        parts = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
        return f"torch.return_types.{name}(\n{parts})"

    module = "frontend.return_types"  # where pickles look for them
    return type(name, (base,), {"__repr__": text, "__slots__": (), "__module__": module})


aminmax = _declared("aminmax", "min", "max")
cummax = _declared("cummax", "values", "indices")
cummin = _declared("cummin", "values", "indices")
kthvalue = _declared("kthvalue", "values", "indices")
max = _declared("max", "values", "indices")
median = _declared("median", "values", "indices")
min = _declared("min", "values", "indices")
mode = _declared("mode", "values", "indices")
nanmedian = _declared("nanmedian", "values", "indices")
sort = _declared("sort", "values", "indices")
topk = _declared("topk", "values", "indices")
