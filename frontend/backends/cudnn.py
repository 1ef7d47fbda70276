"""cuDNN is not there; its switches may be set and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from frontend.namespace.stubs import stubs

enabled = True
deterministic = False
benchmark = False
benchmark_limit = 10
allow_tf32 = True
globals().update(stubs("backends.cudnn"))


@contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10,
    deterministic: bool = False, allow_tf32: bool = True,
) -> Iterator[None]:  # fmt: skip
    """The switches set inside, and put back."""
    switches = dict(locals())
    before = {name: globals()[name] for name in switches}
    globals().update(switches)
    try:
        yield
    finally:
        globals().update(before)
