"""What compiled functions do in this process: compile what is new, run it eagerly, or refuse it
(`torch.compiler.set_stance`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from frontend.engine.tensors.state import tracing

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
_OF_FIRST_CALLS = ("eager_then_compile", "aot_eager_then_compile")


class _Stance:
    """The one that holds now."""

    now = "default"


STANCE = _Stance()


class set_stance:
    """Have compiled functions take a stance from now on, inside a `with` block, or in a decorated
    function: "default" compiles where nothing compiled serves a call, "force_eager" runs all
    eagerly, "eager_on_recompile" what would be compiled, "fail_on_recompile" raises RuntimeError
    there. Raises RuntimeError for another stance and inside a compiled function,
    NotImplementedError for those of PyTorch that tell first calls apart. `force_backend`, which is
    for the default stance only, and `skip_guard_eval_unsafe` change nothing."""

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ):  # fmt: skip
        if stance in _OF_FIRST_CALLS:
            raise NotImplementedError(
                f"set_stance({stance!r}): the stances here are {', '.join(STANCES)}"
            )
        if stance not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("force_backend is for the stance 'default'")
        self._stance = stance
        self._previous = self._take()

    def _take(self) -> str:
        """Take the stance; the one before."""
        if tracing():
            raise RuntimeError("set_stance() may not be called inside a compiled function")
        previous, STANCE.now = STANCE.now, self._stance
        return previous

    def __enter__(self) -> None:
        self._take()

    def __exit__(self, *error: Any) -> None:
        STANCE.now = self._previous

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        STANCE.now = self._previous

        @functools.wraps(function)
        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            previous = self._take()
            try:
                return function(*arguments, **keywords)
            finally:
                STANCE.now = previous

        return wrapped
