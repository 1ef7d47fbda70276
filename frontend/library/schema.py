"""The schema of an operator from the annotations of its Python function."""

from __future__ import annotations

import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from frontend.engine.tensors.dtypes import device
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.types import DType

_TYPES: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", DType: "ScalarType",
    device: "Device", int | float | bool: "Scalar",
}  # fmt: skip


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str] = (),
    op_name: str | None = None,
) -> str:  # fmt: skip
    """PyTorch's text, "(Tensor x, SymInt n=2) -> Tensor". Raises ValueError for a parameter
    without an annotation, or of a type that operators do not take."""
    hints = typing.get_type_hints(prototype_function)
    parts = []
    starred = False
    for name, parameter in inspect.signature(prototype_function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(f"infer_schema(func): parameter {name} has no fixed number of values")
        if name not in hints:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        kind = _text(hints[name], f"Parameter {name}")
        if mutates_args == "unknown" or name in mutates_args:
            kind = kind.replace("Tensor", f"Tensor(a{len(parts)}!)", 1)
        parts.append(f"{kind} {name}{_default(parameter)}")
    returned = hints.get("return", type(None))
    return f"{op_name or ''}({', '.join(parts)}) -> {_result(returned)}"


def _default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if value is parameter.empty:
        return ""
    return f'="{value}"' if isinstance(value, str) else f"={value}"


def _text(kind: Any, what: str) -> str:
    if kind in _TYPES:
        return _TYPES[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        rest = [each for each in inner if each is not type(None)]
        if len(rest) < len(inner):
            return _text(functools.reduce(operator.or_, rest), what) + "?"
    if origin in (list, Sequence) and len(inner) == 1:
        return _text(inner[0], what) + "[]"
    raise ValueError(f"infer_schema(func): {what} has unsupported type {kind}")


def _result(kind: Any) -> str:
    if kind is type(None):
        return "()"
    if typing.get_origin(kind) is tuple:
        return f"({', '.join(_text(each, 'Return') for each in typing.get_args(kind))})"
    return _text(kind, "Return")
