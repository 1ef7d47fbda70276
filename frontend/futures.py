"""`torch.futures`: values that come later, from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value, or an error, that `set_result` or `set_exception` gives once; callbacks then run in
    the thread that gives it. `devices` are PyTorch's: there are none to wait for."""

    def __init__(self, *, devices: Any = None):
        self._condition = threading.Condition()
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], Any]] = []

    def done(self) -> bool:
        """Whether it has a value or an error."""
        return self._is_done

    def wait(self) -> T:
        """The value, once it is there. Raises the error where there is one."""
        with self._condition:
            self._condition.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """The value. Raises the error where there is one, RuntimeError where there is neither."""
        if not self._is_done:
            raise RuntimeError("the Future has no value yet: wait() for it")
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def set_result(self, result: T) -> None:
        """Give the value. Raises RuntimeError where something was given before."""
        self._set(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give an error, which `wait` raises. Raises RuntimeError where something was given
        before, AssertionError for anything but an exception."""
        assert isinstance(result, Exception), (
            f"{result} is of type {type(result)}, not an Exception."
        )
        self._set(None, result)

    def _set(self, value: Any, error: BaseException | None) -> None:
        with self._condition:
            if self._is_done:
                raise RuntimeError(
                    "Future can only be marked completed once: it has a value or an error already"
                )
            self._value, self._error, self._is_done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call `callback(self)` when it is done, at once where it is."""
        with self._condition:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Any], Any]) -> Future[Any]:
        """A Future of what `callback(self)` returns or raises, which runs when this one is done."""
        result: Future[Any] = Future()

        def run(done: Any) -> None:
            try:
                value = callback(done)
            except Exception as error:
                result.set_exception(error)
            else:
                result.set_result(value)

        self.add_done_callback(run)
        return result


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """A Future of the same ones, once all are done. Where some have errors, it has one of them."""
    collected: Future[list[Future[Any]]] = Future()
    left = [len(futures)]
    lock = threading.Lock()

    def finished(_: Any) -> None:
        with lock:
            left[0] -= 1
            if left[0]:
                return
        errors = [each._error for each in futures if isinstance(each._error, Exception)]
        if errors:
            collected.set_exception(errors[0])
        else:
            collected.set_result(list(futures))

    for each in futures:
        each.add_done_callback(finished)
    if not futures:
        collected.set_result([])
    return collected


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Their values, once all are done. Raises the error of one where there is any."""
    return [each.wait() for each in collect_all(futures).wait()]
