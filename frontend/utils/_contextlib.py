"""`torch.utils._contextlib`: context managers that decorate functions, generators too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager", "context_decorator"]


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """`func` within a context: `ctx`, or what it returns where it is called for each run. A
    generator is within it whenever it runs, and outside while its caller does."""
    if isinstance(func, type):
        raise RuntimeError(f"a class is no function to decorate: decorate {func.__name__}.__init__")
    make = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx
    if inspect.isgeneratorfunction(func):
        return _generator(make, func)

    @functools.wraps(func)
    def within(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return within


def _generator(make: Callable[[], Any], func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def within(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = func(*args, **kwargs)
        go: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with make():
                    value = go()
            except StopIteration as ended:
                return ended.value
            try:
                sent = yield value
            except GeneratorExit:
                with make():
                    generator.close()
                raise
            except BaseException as error:
                go = functools.partial(generator.throw, error)
            else:
                go = functools.partial(generator.send, sent)

    return within


class _DecoratorContextManager:
    """A context manager that is a decorator as well: each run enters a `clone` of it."""

    def __call__(self, orig_func: Callable[..., Any]) -> Callable[..., Any]:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what it enters")

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what it leaves")

    def clone(self) -> Any:
        """Another one of the same arguments; classes that take some define it."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that may decorate without being called: `@no_grad`."""

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        manager = super().__new__(cls)
        return manager if orig_func is None else manager(orig_func)
