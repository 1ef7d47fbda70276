"""`torch.ops`: operators by namespace. `torch.ops.mine.square` is what `torch.library` defined;
`torch.ops.aten.add` the function of that name here. One that is missing is an AttributeError."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from frontend.library.operators import OPERATORS, Operator
from graphc.system import IMPORTING

_OVERLOADS = frozenset(
    [
        "default",
        "Tensor",
        "Scalar",
        "int",
        "dim",
        "self",
        "dtype",
        "out",
        "correction",
        "list",
        "input",
        "low",
        "stable",
        "side",
        "device",
        "Tensor_Tensor",
        "Scalar_Tensor",
        "Tensor_Scalar",
        "Scalar_mode",
        "Tensor_mode",
        "List",
        "ScalarList",
        "IntList",
        "dimname",
        "other",
        "dtype_layout",
        "two",
        "value",
        "src",
        "reduce",
        "self_int",
        "msg",
        "start",
        "start_step",
        "names",
    ]
)
_SOURCES = {
    "aten": ("frontend", "frontend.nn.functional", "frontend.library.aten_names"),
    "profiler": ("frontend.profiler",),
}
"""The modules whose functions a namespace has, beside what `library` defined."""


class OpOverload:
    """One overload of an operator; the function takes all of them."""

    def __init__(self, packet: OpOverloadPacket, name: str):
        self._packet = packet
        self._overload = name
        self.operator = packet.operator

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._packet(*args, **kwargs)

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        return self._packet

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._packet}', overload='{self._overload}')>"

    def __str__(self) -> str:
        return f"{self._packet}.{self._overload}"


class OpOverloadPacket:
    """An operator: called, it takes whatever its overloads do, which are its attributes."""

    def __init__(self, namespace: str, name: str, function: Any):
        self.operator = function
        self.__name__ = name
        self._qualified = f"{namespace}.{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.operator(*args, **kwargs)

    def overloads(self) -> list[str]:
        """The names of overloads that are known to be: one, which takes all there is."""
        return ["default"]

    def __getattr__(self, name: str) -> OpOverload:
        if name not in _OVERLOADS:
            raise AttributeError(
                f"The underlying op of '{self.__dict__.get('_qualified')}' has no overload name "
                f"'{name}'"
            )
        overload = OpOverload(self, name)
        self.__dict__[name] = overload
        return overload

    def __str__(self) -> str:
        return self._qualified


class _OpNamespace:
    """The operators of one namespace."""

    _name: str

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        operator: Any = OPERATORS.get(self._name, {}).get(name)
        if operator is not None and operator.schema is None and not operator.kernels:
            operator = None  # only rules were registered for it
        if operator is None and not name.startswith("__"):
            operator = _function(self._name, name)
        if operator is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        packet = OpOverloadPacket(self._name, name, operator)
        if not isinstance(operator, Operator):
            self.__dict__[name] = packet
        return packet


def _function(namespace: str, name: str) -> Any:
    """The function of this name; of `aten` the method where there is only that."""
    for source in _SOURCES.get(namespace, ()):
        function = getattr(import_module(source), name, None)
        if callable(function) and not isinstance(function, type):
            return function
    if namespace != "aten":
        return None
    with IMPORTING:
        from frontend.engine.tensors.tensor import Tensor

    return getattr(Tensor, name, None)


_WRITTEN = {
    ("torchvision", "_C"): "frontend.vision.operators",
    ("lib", "_torchaudio"): "frontend.audio.operators",
    ("lib", "libtorchaudio"): "frontend.audio.operators",
}
"""Libraries of compiled operators, by folder and name, that are written here instead."""


def load_library(path: Any) -> None:
    """Have `torch.ops` the operators of a library that is written here. Raises OSError for others:
    compiled operators are made for PyTorch's own library."""
    file = Path(path)
    written = _WRITTEN.get((file.parent.name, file.name.partition(".")[0]))
    if written is not None:
        import_module(written)
        return
    raise OSError(
        f"{path}: libraries of compiled operators need PyTorch's C++ library, which is not here; "
        "write the operator in Python with torch.library.custom_op"
    )


_NAMESPACES: dict[str, _OpNamespace] = {}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'frontend.ops' has no attribute {name!r}")
    return _NAMESPACES.setdefault(name, _OpNamespace(name))
