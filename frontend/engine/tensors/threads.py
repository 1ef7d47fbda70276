"""How many threads compiled functions run on, where they were not told themselves."""

from __future__ import annotations

from graphc.runtime.processors import MOST_THREADS, available


class Threads:
    """`asked`: the most a call may have; None for all processors this process may use."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked: int | None = None


THREADS = Threads()


def get_num_threads() -> int:
    """The most threads a call of a compiled function runs on that was made without `threads=`;
    small work runs on fewer. Eager operations run on the thread that calls them."""
    return THREADS.asked or min(available(), MOST_THREADS)


def set_num_threads(int: int) -> None:
    """Have calls of compiled functions run on at most so many threads, in the whole process and
    from the next call on; functions made with `threads=` keep theirs. At most 256. The bits of
    results are the same for any number. Raises RuntimeError for what is no positive int."""
    check_threads("set_num_threads", int)
    THREADS.asked = min(int, MOST_THREADS)


def check_threads(name: str, count: object) -> None:
    """Raise RuntimeError for what is no positive int."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(count).__name__}")
    if count < 1:
        raise RuntimeError(f"{name} expects a positive integer")
