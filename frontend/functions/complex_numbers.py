"""Complex numbers: made of parts, and taken apart. `conj` computes at once, where PyTorch's waits;
`real`, `imag`, `view_as_real` and `view_as_complex` are views.

The gradient of a real result with respect to a complex number is, as in PyTorch, the conjugate
Wirtinger derivative: the direction of steepest ascent.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

from frontend.engine.eager import uncompiled
from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.promotion import common_shape, expanded, floating
from frontend.engine.eager.reinterpreting import VIEW_AS_COMPLEX, VIEW_AS_REAL
from frontend.engine.eager.uncompiled import Uncompiled
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors, stored, stored_exactly
from frontend.functions.declarations import public
from frontend.functions.logic import eq
from frontend.functions.pointwise import where
from frontend.functions.unary import cos, sin
from graphc.ir.types import DType


def _applied(op: Uncompiled, *operands: Tensor) -> Tensor:
    return CONTEXT.apply(op, operands, {})[0]


# -- parts ---------------------------------------------------------------------------------------


@public()
def real(input: Tensor) -> Tensor:
    """The real parts, as a view; a real tensor itself."""
    need_tensors("real", input=input)
    return _applied(uncompiled.REAL, input) if input.is_complex() else input


@public()
def imag(input: Tensor) -> Tensor:
    """The imaginary parts, as a view. Raises RuntimeError for a real tensor."""
    need_tensors("imag", input=input)
    if not input.is_complex():
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return _applied(uncompiled.IMAG, input)


@public()
def view_as_real(input: Tensor) -> Tensor:
    """[…] complex as […, 2] real, in the same memory. Raises RuntimeError for a real tensor."""
    need_tensors("view_as_real", input=input)
    if not input.is_complex():
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return _applied(VIEW_AS_REAL, input)


@public(autocast="float32")
def view_as_complex(input: Tensor) -> Tensor:
    """[…, 2] real as […] complex, in the same memory. Raises RuntimeError for another dtype, or
    where pairs do not lie side by side."""
    need_tensors("view_as_complex", input=input)
    if input.dtype not in (DType.f32, DType.f64):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {SCALAR_NAMES[input.dtype]}"
        )
    if not input.dim():
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    steps: list[int] = []
    if STATE.mode is None:
        *steps, last = input.stride()
    else:  # which axis lies innermost is known in a trace
        order = STATE.mode.memory_order(input)
        last = 1 if order is None or order[-1] == input.dim() - 1 else 0
    if last != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(step % 2 for step in steps):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return _applied(VIEW_AS_COMPLEX, input)


@public()
def view_as_real_copy(input: Tensor, *, out: Any = None) -> Tensor:
    """`view_as_real`, in memory of its own."""
    return stored(view_as_real(input).clone(), out)


@public()
def view_as_complex_copy(input: Tensor, *, out: Any = None) -> Tensor:
    """`view_as_complex`, in memory of its own."""
    return stored(view_as_complex(input).clone(), out)


# -- from parts ----------------------------------------------------------------------------------


def _parts(name: str, first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
    if first.dtype not in (DType.f32, DType.f64):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got "
            f"{SCALAR_NAMES[first.dtype]} and {SCALAR_NAMES[second.dtype]}"
        )
    if first.dtype is not second.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {SCALAR_NAMES[first.dtype]} but got scalar type "
            f"{SCALAR_NAMES[second.dtype]} for second argument"
        )
    shape = common_shape(first, second)
    return expanded(first, shape), expanded(second, shape)


@public()
def complex(real: Tensor, imag: Tensor, *, out: Any = None) -> Tensor:
    """real + imag · i, of two tensors of float32 or of float64."""
    need_tensors("complex", real=real, imag=imag)
    return stored_exactly(_applied(uncompiled.COMPLEX, *_parts("complex", real, imag)), out)


@public(autocast="float32")
def polar(abs: Tensor, angle: Tensor, *, out: Any = None) -> Tensor:
    """abs · (cos(angle) + sin(angle) · i), of two tensors of float32 or of float64."""
    need_tensors("polar", abs=abs, angle=angle)
    size, turn = _parts("polar", abs, angle)
    return stored_exactly(_applied(uncompiled.COMPLEX, size * cos(turn), size * sin(turn)), out)


# -- functions -----------------------------------------------------------------------------------


@public(method=True)
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; a real tensor itself."""
    need_tensors("conj", input=input)
    return _applied(uncompiled.CONJ, input) if input.is_complex() else input


@public(method=True, in_place="torch")
def conj_physical(input: Tensor, *, out: Any = None) -> Tensor:
    """The complex conjugate."""
    return stored(conj(input), out)


@public(method=True)
def angle(input: Tensor, *, out: Any = None) -> Tensor:
    """The angle in radians: of a negative real number π, of others 0, of NaN NaN."""
    need_tensors("angle", input=input)
    if input.is_complex():
        return stored(_applied(uncompiled.ANGLE, input), out)
    x = floating(input)
    angles = where(x < 0, filled(math.pi, x.dtype, ()), 0)
    return stored(where(x != x, x, angles), out)


@public(method=True)
def isreal(input: Tensor) -> Tensor:
    """Whether the imaginary part is 0, elementwise."""
    need_tensors("isreal", input=input)
    return eq(imag(input), 0) if input.is_complex() else eq(input, input).fill_(True)


@public()
def is_complex(input: Tensor) -> builtins.bool:
    """Whether the dtype is complex."""
    return input.is_complex()


@public(method=True)
def is_conj(input: Tensor) -> builtins.bool:
    """False: a conjugate is computed at once."""
    need_tensors("is_conj", input=input)
    return False


is_neg = is_conj


@public(method=True)
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: a conjugate is computed at once."""
    need_tensors("resolve_conj", input=input)
    return input


resolve_neg = resolve_conj


@public(at="", method=True)
def cfloat(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor in complex64; itself where it is."""
    return self.to(DType.c64)


@public(at="", method=True)
def cdouble(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor in complex128; itself where it is."""
    return self.to(DType.c128)
