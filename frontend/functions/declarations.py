"""How a public function says where users find it, and what holds of it by name:

    @public(method=True, in_place="torch")
    def asin(input: Tensor, *, out: Any = None) -> Tensor:
        …

    arcsin = asin

is `torch.asin`, `Tensor.asin`, `Tensor.asin_` and `torch.asin_`, and all of them as `arcsin`. The
namespaces, Tensor's methods and in-place forms are derived from that (`frontend.namespace`). What
`public` gives is what everyone calls: its node's name, autocast and NumPy's names are part of it
wherever it is imported from.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from frontend.engine.eager.autocasting import full_precision, lower_precision, widest_precision
from frontend.engine.eager.node_names import naming
from frontend.functions.arguments import numpy_names as with_numpy_names
from frontend.functions.arguments import takes_out
from graphc.system import import_module

F = TypeVar("F", bound=Callable[..., Any])

AUTOCAST = {
    "lower_precision": lower_precision, "float32": full_precision, "promote": widest_precision
}  # fmt: skip


class Declaration(NamedTuple):
    """A public function, and what `public` was told of it."""

    function: Any
    module: str
    at: str
    also: str
    method: bool | str
    in_place: bool | str
    node: str | None
    node_along: str | None
    autocast: str | None

    def further(self) -> list[tuple[str, str]]:
        """Namespaces and names of `also`."""
        parts = [full.rpartition(".") for full in self.also.split()]
        return [(space or "torch", name) for space, _, name in parts]

    def is_in(self, namespace: str) -> bool:
        return namespace in self.at.split() or namespace in dict(self.further())


class Spellings(NamedTuple):
    """What users call a declared function."""

    declaration: Declaration
    own: list[str]
    """In its module: its name, and names assigned below it."""

    def in_namespace(self, namespace: str) -> list[str]:
        """In one of PyTorch's namespaces, in-place forms left out."""
        declaration = self.declaration
        names = list(self.own) if namespace in declaration.at.split() else []
        return names + [name for space, name in declaration.further() if space == namespace]

    def methods(self) -> list[str]:
        """As methods of Tensor."""
        named = self.declaration.method
        if isinstance(named, str):
            return named.split()
        return self.own if named else []

    def in_place_methods(self) -> list[str]:
        """As methods that write their result into the tensor."""
        return [f"{name}_" for name in self.methods()] if self.declaration.in_place else []

    def in_place_functions(self) -> list[str]:
        """As those of them that `torch` has too."""
        functions = self.declaration.in_place
        if not isinstance(functions, str):
            return []
        if functions == "torch":
            return self.in_place_methods()
        return [full.removeprefix("torch.") for full in functions.split()]


DECLARED: dict[str, list[Declaration]] = {}
"""By the module in which they stand."""


_SPELLED: dict[str, tuple[list[Declaration], list[Spellings]]] = {}
"""By module, what was declared when `names_of` was asked, and its answer."""


def names_of(module: str) -> list[Spellings]:
    """Of the functions declared in a module that is imported to its end."""
    declared, known = DECLARED[module], _SPELLED.get(module)
    if known is None or known[0] != declared:
        own: dict[int, list[str]] = {}
        for name, value in vars(sys.modules[module]).items():
            if not name.startswith("_"):
                own.setdefault(id(value), []).append(name)
        spelled = [Spellings(each, own.get(id(each.function), [])) for each in declared]
        known = _SPELLED[module] = [*declared], spelled
    return known[1]


def namespace(name: str) -> dict[str, Any]:
    """What one of PyTorch's namespaces has, of the modules imported so far. Raises TypeError where
    two functions were given one name."""
    members: dict[str, Any] = {}
    for module, declarations in list(DECLARED.items()):
        if not any(each.is_in(name) for each in declarations):
            continue  # it may be under way
        for names in names_of(module):
            function = names.declaration.function
            for each in names.in_namespace(name):
                if members.setdefault(each, function) is not function:
                    raise TypeError(f"{name}.{each} is declared twice, the second time in {module}")
    return members


@functools.cache
def late_function(module: str, name: str) -> Any:
    """The function that is a method, or in `torch`, by this name, of a module that is imported when
    it is first asked for."""
    import_module(module)
    for names in names_of(module):
        if name in names.methods() or name in names.in_namespace("torch"):
            return names.declaration.function
    raise AttributeError(f"{module} declares no {name}")


def public(
    *, at: str = "torch", also: str = "", method: bool | str = False, in_place: bool | str = False,
    node: str | None = None, node_along: str | None = None, autocast: str | None = None,
    numpy_names: bool = False, out: bool = False,
) -> Callable[[F], F]:  # fmt: skip
    """Declare a function, with all names that its module has for it.

    - `at`: the namespaces that have it under these names: "torch", "nn.functional", "linalg",
      "special", several, or none ("")
    - `also`: further names, that of the namespace in front ("special.psi")
    - `method`: whether Tensor has it, under these names, or under which
    - `in_place`: whether Tensor has the form that writes its result into the tensor, `name_`;
      "torch" where `torch` has that too, "torch.name_" where not under all names
    - `node`: what `grad_fn` is called, "Pow" for PowBackward0; where there is none, the op that
      made the result says that. `node_along`: the same where there are several results
    - `autocast`: "lower_precision", "float32" or "promote": see `frontend.engine.eager.autocasting`
    - `numpy_names`: takes `axis` for `dim` and `keepdims` for `keepdim` too
    - `out`: takes `out=` too, and stores there what the function returns
    """
    module = sys._getframe(1).f_globals["__name__"]

    def declare(function: F) -> F:
        result: Any = function
        if autocast is not None:
            result = AUTOCAST[autocast](result)
        if out:
            result = takes_out(result)
        if numpy_names:
            result = with_numpy_names(result)
        if node is not None or node_along is not None:
            result = naming(result, node, node_along or node)
        DECLARED.setdefault(module, []).append(
            Declaration(result, module, at, also, method, in_place, node, node_along, autocast)
        )
        return result

    return declare
