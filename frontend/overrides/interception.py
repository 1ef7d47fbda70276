"""How functions of tensors come to ask their arguments for `__torch_function__`.

As imported they do not: on plain tensors that would cost as much as a tenth of a small op. The
first time that something exists which could answer (a class derived from Tensor, an `fx.Proxy`, a
mode), `intercept_functions` gives each public function and method new code: it looks at the types
of its arguments, and goes on with a copy of the function as it was. The function *object* stays,
and with it all names under which it was imported, and its identity: `from torch import relu` asks
too, and `node.target is torch.relu` holds for what was recorded before and after.

A subclass of Tensor gets members of its own for what is left: properties, and methods that only say
what a tensor is (`size()`, `detach()`), which the frontend itself calls too often.

An object that is no Tensor, and whose class nobody saw being made, is heard from then on; call
`intercept_functions` (or import `frontend.fx` and make a Proxy) where it is the first.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.namespace.lazy_names import LAZY
from frontend.overrides.protocol import (
    ASKING_FILE,
    OVERRIDING,
    any_takes_over,
    handle_torch_function,
    takes_over,
)
from graphc.system import import_module

FAMILIES = ("frontend.functions.", "frontend.nn.functional.", "frontend.namespace.methods")
"""Where the functions come from that are intercepted."""
LEFT_OUT = (
    "frontend.functions.control", "frontend.functions.arguments", "frontend.functions.declarations"
)  # fmt: skip
"""Those take functions, or are none of tensors."""
SPACES = ("frontend", "frontend.nn.functional", "frontend.linalg", "frontend.special")

_OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift", "lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert",
    "getitem", "setitem",
)  # fmt: skip
OPERATORS = frozenset(f"__{kind}{name}__" for name in _OPERATORS for kind in ("", "r", "i"))
TEXTS = frozenset(("__repr__", "__format__", "__len__", "__bool__", "__float__", "__contains__"))

ASKS_NOBODY = frozenset(("as_subclass",))
"""How a subclass's own `__torch_function__` comes to a plain tensor."""

_ORIGINALS: dict[FunctionType, FunctionType] = {}
_LOCK = threading.Lock()
_PLACE = "where the interceptor goes"


def is_public(name: str) -> bool:
    return not name.startswith("_") or name in OPERATORS


def public_functions() -> Iterator[FunctionType]:
    """Functions and methods of tensors, each once."""
    known: set[int] = set()
    modules = map(import_module, (*SPACES, *LAZY))
    for scope in (*map(vars, modules), vars(Tensor)):
        for name, value in list(scope.items()):
            if not isinstance(value, FunctionType) or not is_public(name) or id(value) in known:
                continue
            module = f"{value.__module__}."
            if module.startswith(FAMILIES) and not module.startswith(LEFT_OUT):
                known.add(id(value))
                yield value


def intercept_functions() -> None:
    """Have all public functions ask, from now on."""
    if _ORIGINALS:
        return
    with _LOCK:
        for function in () if _ORIGINALS else list(public_functions()):
            _ORIGINALS[function] = _intercepted(function)


def _intercepted(function: FunctionType) -> FunctionType:
    """Give a function code that asks first; the function as it was."""
    original = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    original.__kwdefaults__ = function.__kwdefaults__
    original.__dict__.update(function.__dict__)
    original.__qualname__, original.__doc__ = function.__qualname__, function.__doc__
    function.__wrapped__ = original  # type: ignore[attr-defined]  # inspect.signature looks there
    function.__code__ = _asking(original.__code__, interceptor(function, original))
    return original


@functools.cache
def _template(captured: int) -> CodeType:
    """Code of a function with so many captured variables, as the one it replaces has."""
    names = ", ".join(f"v{i}" for i in range(captured))
    lines = [
        f"def outer({names}):",
        "  def asking(*args, **kwargs):",
        f"    if 0: {names or 'pass'}",
        f"    call = {_PLACE!r}",
        "    return call(args, kwargs)",
        "  return asking",
    ]
    space: dict[str, Any] = {}
    exec(compile("\n".join(lines), ASKING_FILE, "exec"), space)
    code: CodeType = space["outer"](*range(captured)).__code__
    return code


def _asking(code: CodeType, call: Callable[..., Any]) -> CodeType:
    template = _template(len(code.co_freevars))
    constants = tuple(call if item == _PLACE else item for item in template.co_consts)
    return template.replace(co_consts=constants, co_name=code.co_name)


def interceptor(function: Any, original: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """What a call of `function` does: ask who takes it over, or run `original`."""

    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if OVERRIDING.modes or (
            OVERRIDING.enabled
            and (any_takes_over(args) or (kwargs and any_takes_over(kwargs.values())))
        ):
            relevant = (*args, *kwargs.values())
            return handle_torch_function(function, relevant, *args, **kwargs)
        return original(*args, **kwargs)

    return call


# -- subclasses ----------------------------------------------------------------------------------


def register_subclass(cls: type) -> None:
    """Have functions ask a class derived from Tensor, unless it has opted out; called as it is
    made."""
    if not takes_over(cls):
        return
    intercept_functions()
    for base in Tensor.__mro__[:-1]:
        for name, member in vars(base).items():
            asks = name in TEXTS or (is_public(name) and name not in ASKS_NOBODY)
            if not asks or _defined_by(cls, name) is not base:
                continue
            if isinstance(member, property):
                setattr(cls, name, _property(member))
            elif isinstance(member, FunctionType) and member not in _ORIGINALS:
                setattr(cls, name, _method(member))


def _defined_by(cls: type, name: str) -> type | None:
    return next((base for base in cls.__mro__ if name in vars(base)), None)


def _method(member: FunctionType) -> Any:
    call = interceptor(member, member)

    @functools.wraps(member)
    def method(*args: Any, **kwargs: Any) -> Any:
        return call(args, kwargs)

    return method


def _property(member: property) -> property:
    def accessor(name: str, function: Any) -> Any:
        if function is None:
            return None
        call = interceptor(getattr(member, name), function)
        return lambda *args: call(args, {})

    return property(
        accessor("__get__", member.fget),
        accessor("__set__", member.fset),
        accessor("__delete__", member.fdel),
        member.__doc__,
    )
