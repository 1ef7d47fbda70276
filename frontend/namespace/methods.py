"""Attaches to Tensor what can be done with tensors: the functions that declare themselves methods
(`frontend.functions.declarations`), with their in-place forms. Methods under another name than
their function's, and Python's and NumPy's protocols, are attached one by one: whatever needs what
is built on Tensor, so that `frontend.engine.tensors` needs none of it.

The modules of functions that `import frontend` brings are imported here, the others when one of
their functions is first asked for (`lazy_names`)."""

# ruff: noqa: F401 (modules declare what is public as they are imported)

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.gradients.grad import backward
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import (
    complex_numbers,
    conversion,
    creation,
    declarations,
    einsum,
    in_place,
    in_place_variants,
    index,
    layout,
    linalg,
    logic,
    masks,
    matrix,
    norms,
    order,
    pointwise,
    pointwise_composites,
    random,
    ranges,
    rearrange,
    reduce,
    repeating,
    sampling,
    scatter,
    select,
    shape,
    statistics,
    tensor_types,
    torch_in_place,
    unary,
)
from frontend.functions.declarations import DECLARED, Spellings, names_of
from frontend.namespace.lazy_names import LAZY
from frontend.nn.functional import torch_layers, torch_spatial
from frontend.overrides import protocol
from graphc.system import IMPORTING


def _backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Any = None,
) -> None:  # fmt: skip
    """Add d(self)/d(leaf) to the `.grad` of every leaf it depends on."""
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _array_wrap(
    self: Tensor, array: np.ndarray, context: Any = None, return_scalar: bool = False
) -> Any:
    """What a NumPy function of tensors gives: a tensor."""
    return creation.from_numpy(np.asarray(array))


def _dlpack(
    self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
    copy: bool | None = None,
) -> Any:  # fmt: skip
    """A DLPack capsule over the tensor's memory: see `frontend.utils.dlpack`."""
    with IMPORTING:
        from frontend.engine.tensors.dlpack import exported  # few programs share tensors

    options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    asked = {name: value for name, value in options.items() if value is not None}
    return exported(self, stream=stream, **asked)


NAMED = {
    "__init__": tensor_types.initialize, "type": tensor_types.type_of, "backward": _backward,
    "__array_wrap__": _array_wrap, "__dlpack__": _dlpack, "as_subclass": protocol.as_subclass,
}  # fmt: skip
"""Methods by a name that their function does not have."""


def _init_subclass(cls: type, /, **options: Any) -> None:
    """A class derived from Tensor takes part in `__torch_function__`, from its definition on."""
    with IMPORTING:
        from frontend.overrides.interception import register_subclass  # few programs derive classes

    super(Tensor, cls).__init_subclass__(**options)  # type: ignore[misc]  # it is one
    register_subclass(cls)


def _late(module: str, name: str) -> Any:
    def method(self: Tensor, *arguments: Any, **keywords: Any) -> Any:
        return declarations.late_function(module, name)(self, *arguments, **keywords)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"`{name}(self, …)`."
    return method


def _reflected(function: Any, name: str) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        return function(other, self)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    return method


def _attach(names: Spellings) -> None:
    """Make a declared function a method, and its in-place form."""
    for name in names.methods():
        setattr(Tensor, name, names.declaration.function)
    if ending := names.in_place_methods():
        method = in_place_variants.in_place(names.declaration.function)
        for name in ending:
            setattr(Tensor, name, method)


def in_place_functions() -> dict[str, Any]:
    """The in-place functions that `torch` has because they are declared so, in `torch_in_place`."""
    declared = [each for module in DECLARED for each in names_of(module)]
    names = [name for each in declared for name in each.in_place_functions()]
    for kinds in LAZY.values():
        names += kinds["in_place_functions"].split()
    functions = {name: torch_in_place.calling(name) for name in names}
    vars(torch_in_place).update(functions)
    return functions


def install(target: Any = Tensor) -> None:
    """Attach everything to Tensor."""
    for module in list(DECLARED):
        for names in names_of(module):
            _attach(names)
    for module, kinds in LAZY.items():
        for name in kinds["methods"].split():
            setattr(Tensor, name, _late(module, name))
        for name in kinds["in_place"].split():
            setattr(Tensor, name, in_place_variants.in_place(getattr(Tensor, name[:-1])))
    for name, method in NAMED.items():
        method.__name__, method.__qualname__ = name, f"Tensor.{name}"
        setattr(Tensor, name, method)
    target.where = lambda self, condition, other: pointwise.where(condition, self, other)
    target.__torch_function__ = classmethod(protocol.default_torch_function)
    target.__init_subclass__ = classmethod(_init_subclass)
    target.T = property(lambda self: layout.permute(self, *reversed(range(self.dim()))))
    target.mT = property(lambda self: layout.swapped(self, "mT"))
    target.mH = property(lambda self: layout.swapped(self, "mH"))
    target.H = property(layout.hermitian)
    target.real = property(complex_numbers.real, _set_real)
    target.imag = property(complex_numbers.imag, _set_imag)
    _install_operators(target)


def _set_real(self: Tensor, value: Any) -> None:
    complex_numbers.real(self).copy_(_given(value, self))


def _set_imag(self: Tensor, value: Any) -> None:
    complex_numbers.imag(self).copy_(_given(value, self))


def _given(value: Any, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else creation.full((), value)


def _guarded(function: Any) -> Any:
    """A binary operator that leaves unknown right-hand sides to Python."""

    def method(self: Tensor, other: Any) -> Any:
        try:
            return function(self, other)
        except TypeError:
            if isinstance(other, Tensor | int | float | complex):
                raise
            return NotImplemented

    method.__name__ = method.__qualname__ = function.__name__
    return method


def _install_operators(target: Any) -> None:
    f, i = pointwise, in_place_variants.operator
    plain = {
        "add": f.add, "sub": f.sub, "mul": f.mul, "truediv": f.div, "floordiv": f.floor_divide,
        "mod": f.remainder, "pow": f.pow, "matmul": matrix.matmul,
        "and": logic.bitwise_and, "or": logic.bitwise_or, "xor": logic.bitwise_xor,
        "lshift": logic.bitwise_left_shift, "rshift": logic.bitwise_right_shift,
    }  # fmt: skip
    for name, function in plain.items():
        setattr(target, f"__{name}__", function)
        setattr(target, f"__r{name}__", _reflected(function, f"__r{name}__"))
        setattr(target, f"__i{name}__", i(function))
    for name in ("lt", "le", "gt", "ge"):
        setattr(target, f"__{name}__", getattr(logic, name))
    target.__rdiv__ = target.__rtruediv__
    target.__eq__ = _guarded(logic.eq)
    target.__ne__ = _guarded(logic.ne)
    target.__neg__ = unary.neg
    target.__pos__ = unary.positive
    target.__abs__ = unary.abs
    target.__invert__ = logic.invert
    target.__getitem__ = index.getitem
    target.__setitem__ = index.setitem


install()
