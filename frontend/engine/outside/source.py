"""Where a value lives that a compiled function reads from outside.

in : the tensors among the arguments of a call
out: the value that stands there at that call. What must hold of it is a `ValueCheck` (check.py)

Sources of graph inputs give arrays besides; those of numbers can be written, for a trace.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import CellType
from typing import Any, Generic, TypeVar

import numpy as np

from frontend.engine.outside.constants import Constants
from frontend.engine.tensors.epoch import TRACE_LOCK, changed
from frontend.engine.tensors.memory_tracking import place_in_memory, whole_array
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.types import DType

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Call = Sequence[Tensor]
"""The tensors among the arguments of a call."""


class _Missing:
    """`MISSING`: what a source gives where nothing stands, or what is there is no tensor."""

    def __repr__(self) -> str:
        return "deleted"


MISSING = _Missing()


class Source(Generic[T_co]):
    """`read(call)` is what stands there; `label` what it is called in a reason. Reading runs
    nothing of the user's."""

    __slots__ = ()

    label = ""
    by_epoch = False
    """Whether each write there begins an epoch (tensors.epoch): it is read once in each then, and
    at every call otherwise."""
    owner: object = None
    """The Module whose attributes stand there."""

    def read(self, call: Call) -> T_co:
        raise NotImplementedError

    def code(self, constants: Constants) -> str:
        """An expression for `read(call)`."""
        return f"{constants.of(self.read)}(call)"


# -- inputs of graphs ----------------------------------------------------------------------------


class InputSource(Source[T_co]):
    """An input of a graph. `tensor(call)` is the tensor it is bound to, None where it is that of
    none; `array(call)` its value. `order`: inputs of graphs stand by it."""

    __slots__ = ()

    order = 0

    def tensor(self, call: Call) -> Tensor | None:
        return None

    def array(self, call: Call) -> np.ndarray:
        raise NotImplementedError


class TensorSource(InputSource[Tensor]):
    """A tensor."""

    __slots__ = ()

    def tensor(self, call: Call) -> Tensor:
        return self.read(call)

    def array(self, call: Call) -> np.ndarray:
        return self.read(call)._array("a compiled call")


class ArgumentSource(TensorSource):
    """The tensor at a position of the flattened arguments."""

    __slots__ = ("position",)

    label = "an argument"

    def __init__(self, position: int):
        self.position = position

    def read(self, call: Call) -> Tensor:
        return call[self.position]

    tensor = read  # a call of Python's less

    def code(self, constants: Constants) -> str:
        return f"call[{self.position}]"


class CapturedSource(TensorSource):
    """A tensor met in the trace; its array is read anew at each call."""

    __slots__ = ("captured",)

    order = 1
    label = "a captured tensor"

    def __init__(self, captured: Tensor):
        self.captured = captured

    def read(self, call: Call) -> Tensor:
        return self.captured

    tensor = read  # a call of Python's less

    def code(self, constants: Constants) -> str:
        return constants.of(self.captured)


class GradSource(TensorSource):
    """The `.grad` of a tensor: of `owner` in the trace, at a call of what `source` gives."""

    __slots__ = ("of", "source")

    order = 2
    label = "a .grad"

    def __init__(self, of: Tensor, source: InputSource[object]):
        self.of = of
        self.source = source

    def read(self, call: Call) -> Tensor:
        of = self.source.tensor(call)
        assert of is not None
        grad: Tensor = of._grad
        return grad

    tensor = read  # a call of Python's less


class MemorySource(InputSource[np.ndarray]):
    """All of the memory that the array of another input lies in, in a row. `place`: how many
    elements it has, and where that array begins."""

    __slots__ = ("place", "source")

    order = 5

    def __init__(self, source: InputSource[object], place: tuple[int, int]):
        self.source = source
        self.place = place

    def read(self, call: Call) -> np.ndarray:
        return whole_array(self.source.array(call)).reshape(-1)

    array = read


class HostSource(InputSource[np.ndarray]):
    """A Python number that is looked up, a learning rate say, as a 0-d array; with `index`, one in
    a tuple there."""

    __slots__ = ("cell", "index", "source", "value")

    order = 3

    def __init__(self, source: LookupSource, index: int | None, dtype: DType):
        self.source = source
        self.index = index
        self.value: object = None
        self.cell = np.zeros((), dtype.numpy)
        self.read(())

    def read(self, call: Call) -> np.ndarray:
        value: Any = self.source.getter(self.source.key)
        if self.index is not None:
            value = value[self.index]
        if value is not self.value:
            self.cell[...] = self.value = value
        return self.cell

    array = read

    @property
    def place(self) -> tuple[object, ...]:
        """What tells it from others: the mapping, the key, the index."""
        return id(getattr(self.source.getter, "__self__", None)), self.source.key, self.index


class ComputedSource(InputSource[np.ndarray]):
    """A number that Python computes for each call, which hands it over (tracing.call_numbers)."""

    __slots__ = ()

    order = 6


# -- what is read by name --------------------------------------------------------------------------


class LookupSource(Source[object]):
    """What `getter(key)` gives: functions of Python's alone, `dict.get` or a descriptor's. MISSING
    for a closure variable or slot without a value."""

    __slots__ = ("getter", "key", "label")

    def __init__(self, getter: Callable[[object], object], key: object, label: str):
        self.getter = getter
        self.key = key
        self.label = label

    def read(self, call: Call = ()) -> object:
        try:
            return self.getter(self.key)
        except (ValueError, AttributeError):
            return MISSING


class PlaceSource(LookupSource):
    """A place where a number may stand: it can be left open, so that another number there costs no
    trace. `identity` tells two apart."""

    __slots__ = ("holder",)

    holder: object

    @property
    def identity(self) -> tuple[int, object]:
        raise NotImplementedError

    def now(self) -> object:
        """What stands there, MISSING for nothing."""
        return self.read()

    def put(self, value: object) -> None:
        """Let a value stand there, or, MISSING, nothing."""
        raise NotImplementedError


class ItemSource(PlaceSource):
    """A key of a dict: an attribute of an object, a global, an item."""

    __slots__ = ()

    holder: dict[object, object]

    def __init__(self, holder: dict[object, object], key: object, label: str):
        super().__init__(holder.get, key, label)
        self.holder = holder

    @property
    def identity(self) -> tuple[int, object]:
        return id(self.holder), self.key

    def now(self) -> object:
        return self.holder.get(self.key, MISSING)

    def put(self, value: object) -> None:
        if value is MISSING:
            self.holder.pop(self.key, None)
        else:
            self.holder[self.key] = value


class ElementSource(PlaceSource):
    """A value that a set may hold: itself where it does."""

    __slots__ = ()

    holder: set[object]

    def __init__(self, holder: set[object], element: object, label: str):
        super().__init__(holder.__contains__, element, label)
        self.holder = holder

    @property
    def identity(self) -> tuple[int, object]:
        return id(self.holder), self.key

    def read(self, call: Call = ()) -> object:
        return self.key if self.key in self.holder else MISSING

    def put(self, value: object) -> None:
        if value is MISSING:
            self.holder.discard(self.key)
        else:
            self.holder.add(value)


class MemberSource(ItemSource):
    """An attribute of a Module: writing it begins an epoch (tensors.epoch)."""

    __slots__ = ()

    def put(self, value: object) -> None:
        super().put(value)
        changed()


class StateSource(ItemSource):
    """An item of an optimizer's state, which no trace may write otherwise."""

    __slots__ = ()

    def put(self, value: object) -> None:
        if value is MISSING:
            dict.pop(self.holder, self.key, None)
        else:
            dict.__setitem__(self.holder, self.key, value)
        changed()


class PositionSource(PlaceSource):
    """A place in a list."""

    __slots__ = ()

    holder: list[object]
    key: int

    def __init__(self, holder: list[object], key: int, label: str):
        super().__init__(holder.__getitem__, key, label)  # type: ignore[arg-type]
        self.holder = holder

    @property
    def identity(self) -> tuple[int, object]:
        return id(self.holder), self.key

    def read(self, call: Call = ()) -> object:
        return self.holder[self.key] if self.key < len(self.holder) else MISSING

    def put(self, value: object) -> None:
        self.holder[self.key] = value


class CellSource(PlaceSource):
    """A closure variable."""

    __slots__ = ()

    holder: CellType

    def __init__(self, cell: CellType, label: str):
        super().__init__(operator.attrgetter("cell_contents"), cell, label)
        self.holder = cell

    @property
    def identity(self) -> tuple[int, object]:
        return id(self.holder), None

    def put(self, value: object) -> None:
        if value is MISSING:
            del self.holder.cell_contents
        else:
            self.holder.cell_contents = value


# -- of tensors and Modules ------------------------------------------------------------------------


class PartSource(Source[object]):
    """What `part` gives of the tensor at another source; MISSING where no tensor stands there."""

    __slots__ = ("part", "source")

    def __init__(self, source: InputSource[object], part: Callable[[Tensor], object]):
        self.source = source
        self.part = part

    def read(self, call: Call) -> object:
        tensor = self.source.tensor(call)
        return self.part(tensor) if isinstance(tensor, Tensor) else MISSING

    def code(self, constants: Constants) -> str:
        if not isinstance(self.source, ArgumentSource | CapturedSource):
            return super().code(constants)
        return f"{constants.of(self.part)}({self.source.code(constants)})"


class TogetherSource(Source[tuple[object, ...]]):
    """The tensors at several sources."""

    __slots__ = ("sources",)

    label = "an argument"

    def __init__(self, sources: Sequence[InputSource[object]]):
        self.sources = tuple(sources)

    def read(self, call: Call) -> tuple[object, ...]:
        return tuple([source.tensor(call) for source in self.sources])

    def code(self, constants: Constants) -> str:
        return "(" + "".join([f"{source.code(constants)}, " for source in self.sources]) + ")"


class PlaceInMemorySource(Source[object]):
    """What memory an input lies in, and where it begins there."""

    __slots__ = ("source",)

    def __init__(self, source: InputSource[object]):
        self.source = source

    def read(self, call: Call) -> object:
        return place_in_memory(self.source.array(call))


class ValueSource(Source[np.ndarray]):
    """The array of a captured tensor, looked at at each call."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"values of a captured tensor {self.tensor.tensor_type}"

    def read(self, call: Call) -> np.ndarray:
        with TRACE_LOCK.tracing:  # in another thread's trace it has no value
            array: np.ndarray = self.tensor._value
        return array


class TensorsSource(Source[Sequence[Tensor]]):
    """Tensors that are there for as long as the program: types, flags and hooks of these change
    where an epoch begins."""

    __slots__ = ("tensors",)

    by_epoch = True

    def __init__(self, tensors: Sequence[Tensor]):
        self.tensors = list(tensors)

    def read(self, call: Call) -> Sequence[Tensor]:
        return self.tensors

    def code(self, constants: Constants) -> str:
        return constants.of(self.tensors)


class ModuleSource(Source[dict[str, object]]):
    """The attributes of a Module."""

    __slots__ = ("owner",)

    by_epoch = True

    def __init__(self, module: object):
        self.owner = module

    @property
    def label(self) -> str:  # type: ignore[override]
        return type(self.owner).__name__

    def read(self, call: Call) -> dict[str, object]:
        return self.owner.__dict__

    def code(self, constants: Constants) -> str:
        return f"{constants.of(self.owner)}.__dict__"
