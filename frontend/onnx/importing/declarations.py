"""The table of ONNX operators: one declaration each.

in : `@onnx_op("Conv")` on a Python function over public functions of the frontend
out: `declared(domain, name, opset)`, the declaration that holds in a version of an operator set

The signature says all: positional parameters are the operator's inputs, in order (those with a
default may be left out), `*xs` any number of them, keyword-only ones its attributes with their
defaults. `node` among these is no attribute: it is the node that is run. An input annotated
`Numbers` is read as a list of Python numbers (or sizes), not as a tensor; one annotated `Value` is
taken as it comes, and a `Statistic` is a tensor that is not learned. What became an input in a
later version keeps the attribute's name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Numbers = list[Any]
"""An input that is read as numbers: ints, floats, and sizes known only when the program runs."""
Statistic = Any
"""An input that is measured, not learned: a weight in its place is a buffer."""
Value = Any
"""An input that is a tensor or an array of numbers, as it comes."""

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class OnnxInput:
    """One input of an operator. `kind`: "tensor", "statistic", "numbers" or "value"."""

    name: str
    kind: str
    required: bool


@dataclass(frozen=True, slots=True)
class OnnxOp:
    """What an operator means from version `since` of its domain's operator set on, up to the next
    declaration of the same name. `on_numbers` is its meaning where all inputs are arrays of
    numbers, such as shapes: a function of NumPy arrays with the same attributes."""

    name: str
    domain: str
    since: int
    function: Callable[..., Any]
    on_numbers: Callable[..., Any] | None
    inputs: tuple[OnnxInput, ...]
    variadic: str | None
    attributes: dict[str, Any]
    takes_node: bool

    def __reduce__(self) -> Any:
        """Copies and pickles name the declaration."""
        return declared, (self.domain, self.name, self.since)

    def kind_of(self, position: int) -> str:
        """How the input at `position` is read."""
        if position < len(self.inputs):
            return self.inputs[position].kind
        return self.variadic or "tensor"


_TABLE: dict[tuple[str, str], list[OnnxOp]] = {}


def onnx_op(
    name: str, since: int = 1, *, domain: str = "", on_numbers: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare what operator `name` means from version `since` on. Raises ValueError for a second
    declaration of the same version."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        known = _TABLE.setdefault((domain, name), [])
        if any(each.since == since for each in known):
            raise ValueError(f"{name} is declared twice from version {since} on")
        known.append(_declaration(name, domain, since, function, on_numbers))
        known.sort(key=lambda each: -each.since)
        return function

    return declare


def _declaration(
    name: str, domain: str, since: int, function: Callable[..., Any],
    on_numbers: Callable[..., Any] | None,
) -> OnnxOp:  # fmt: skip
    inputs: list[OnnxInput] = []
    variadic: str | None = None
    attributes: dict[str, Any] = {}
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            attributes[parameter.name] = parameter.default
        elif parameter.kind is parameter.VAR_POSITIONAL:
            variadic = _kind(parameter.annotation)
        else:
            required = parameter.default is REQUIRED
            inputs.append(OnnxInput(parameter.name, _kind(parameter.annotation), required))
    takes_node = "node" in attributes
    attributes.pop("node", None)
    return OnnxOp(
        name, domain, since, function, on_numbers, tuple(inputs), variadic, attributes, takes_node
    )


def _kind(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    kinds = {"Numbers": "numbers", "Value": "value", "Statistic": "statistic"}
    return kinds.get(text.split(" |")[0], "tensor")


def declared(domain: str, name: str, opset: int) -> OnnxOp | None:
    """The declaration that holds in version `opset` of a domain; None where there is none."""
    for each in _TABLE.get((domain, name), ()):
        if each.since <= opset:
            return each
    return None


def all_declared() -> list[OnnxOp]:
    """Every declaration, by domain, name and version."""
    every = [each for known in _TABLE.values() for each in known]
    return sorted(every, key=lambda each: (each.domain, each.name, each.since))
