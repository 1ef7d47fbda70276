"""`torch.utils.model_zoo`: the former name of `torch.hub.load_state_dict_from_url`, and the bar of
progress that datasets import from here: tqdm's where that is installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontend.hub import load_state_dict_from_url as load_url

__all__ = ["load_url", "tqdm"]

try:
    from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]
except ImportError:

    class tqdm:  # type: ignore[no-redef]
        """What is iterated over, without a bar."""

        def __init__(self, iterable: Iterable[Any] = (), *args: Any, **kwargs: Any):
            self.iterable = iterable

        def __iter__(self) -> Any:
            return iter(self.iterable)

        def update(self, n: float = 1) -> None:
            """Nothing is shown."""

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: Any) -> None:
            pass
