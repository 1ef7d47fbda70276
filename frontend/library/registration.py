"""How operators get their schemas, kernels and gradient rules: functions, a decorator, blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from frontend.library.operators import Operator, operator_of
from frontend.library.schema import infer_schema


def _decorated(put: Callable[[Any], None], func: Any) -> Any:
    """`put(func)`; without a function, a decorator that does so."""

    def decorate(function: Any) -> Any:
        put(function)
        return function

    return decorate if func is None else decorate(func)


# -- functions -----------------------------------------------------------------------------------


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Define an operator by its schema, "(Tensor x) -> Tensor"."""
    operator_of(qualname).schema = schema


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Register a kernel for device types ("cpu", "default"); also a decorator."""
    return register_kernel(qualname, types, func, lib=lib)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register a kernel for device types, one or several, None or "default" for all."""
    names = [device_types] if isinstance(device_types, str | None) else device_types

    def put(function: Any) -> None:
        for name in names:
            every = name in (None, "default", "CompositeExplicitAutograd")
            key = "CompositeExplicitAutograd" if every else str(name).upper()
            operator_of(op).kernels[key] = function

    return _decorated(put, func)


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, **options: Any) -> Any:
    """Register what gives results of the right shapes and dtypes where types alone are computed: on
    tensors of the device "meta", and inside a `FakeTensorMode`. Traces run the kernel itself."""
    return _decorated(lambda function: setattr(operator_of(op), "fake", function), func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """`backward(ctx, *gradients)` gives a gradient for each argument; `setup_context(ctx, inputs,
    output)` keeps on `ctx` what that needs."""
    operator = operator_of(op)
    operator.backward, operator.setup_context = backward, setup_context


def _not_here(name: str, why: str) -> Callable[..., NoReturn]:
    def raising(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"torch.library.{name}: {why}")

    raising.__name__ = name
    return raising


triton_op = _not_here("triton_op", "there are no Triton kernels on a CPU; use custom_op")
wrap_triton = _not_here("wrap_triton", "there are no Triton kernels on a CPU")
opcheck = _not_here("opcheck", "compare the operator with a reference, and use gradcheck")
register_vmap = _not_here("register_vmap", "operators are mapped by tracing their kernels")
register_torch_dispatch = _not_here("register_torch_dispatch", "there are no dispatch modes")
get_ctx = _not_here("get_ctx", "no size of a fake result depends on data")


def fallthrough_kernel(*args: Any, **kwargs: Any) -> NoReturn:
    """A mark for `Library.impl`: nothing for this key."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


# -- classes -------------------------------------------------------------------------------------


class CustomOpDef:
    """What `custom_op` gives: the operator, to be called and to have rules registered."""

    def __init__(self, operator: Operator, function: Callable[..., Any]):
        self.operator = operator
        self._init_fn = function
        self.__name__ = operator.name
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.operator(*args, **kwargs)

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn: Any = None, /) -> Any:
        return register_fake(self, fn)

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        register_autograd(self, backward, setup_context=setup_context)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.operator.qualified})>"


def custom_op(
    name: str, fn: Any = None, /, *, mutates_args: str | Iterable[str], device_types: Any = None,
    schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Define an operator "namespace::name" by its Python function; also a decorator. The schema is
    that of the annotations unless given. Raises ValueError for what has no schema."""

    def decorate(function: Callable[..., Any]) -> CustomOpDef:
        operator = operator_of(name)
        operator.schema = schema or infer_schema(function, mutates_args=mutates_args)
        definition = CustomOpDef(operator, function)
        definition.register_kernel(device_types, function)
        return definition

    return decorate if fn is None else decorate(fn)


class Library:
    """A block of definitions or of kernels of one namespace: `Library("mine", "DEF")`."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = ""):
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._mine: list[tuple[Operator, str]] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define "name(Tensor x) -> Tensor"; the name."""
        name = schema.partition("(")[0].strip()
        operator_of(f"{self.ns}::{name}").schema = schema[len(name) :]
        return name

    def impl(
        self, op_name: Any, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:  # fmt: skip
        """Register a kernel for a dispatch key, the library's where none is given."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        text = op_name if isinstance(op_name, str) else operator_of(op_name).name
        operator = operator_of(f"{self.ns}::{text.rpartition('::')[2]}")
        if fn is not fallthrough_kernel:
            operator.kernels[key] = fn
            self._mine.append((operator, key))

    def _register_fake(self, op_name: str, fn: Any, *args: Any, **options: Any) -> None:
        register_fake(f"{self.ns}::{op_name}", fn)

    def _destroy(self) -> None:
        """Take the kernels of this block away."""
        for operator, key in self._mine:
            operator.kernels.pop(key, None)
        self._mine.clear()
