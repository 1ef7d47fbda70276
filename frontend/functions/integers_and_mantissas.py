"""Functions of whole numbers, and of floats as mantissa and exponent: greatest common divisors,
neighbours of floats, positions of flat indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.engine.eager.host_ops import HostOp
from frontend.engine.eager.promotion import aligned, casted, result_type
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import reduce, return_types
from frontend.functions.arguments import need_tensors, not_implemented, stored
from frontend.functions.control import while_loop
from frontend.functions.declarations import public
from frontend.functions.pointwise import floor_divide, pow, remainder, where
from frontend.functions.shape import reshape
from frontend.functions.unary import abs
from graphc.errors import AttributeValueError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops.scalar_functions import number_functions as ops


def _whole(name: str, input: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    need_tensors(name, input=input, other=other)
    kind = result_type(input, other)
    if not kind.is_integer or kind is DType.bool:
        raise not_implemented(f"{name}_cpu", kind)
    x, y = aligned((input, other), kind)
    return abs(x), abs(y)


def _euclid(x: Tensor, y: Tensor) -> Tensor:
    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        done = y == 0
        return where(done, x, y), where(done, y, remainder(x, where(done, 1, y)))

    return while_loop(lambda x, y: reduce.any(y != 0), step, (x, y))[0]


@public(method=True, in_place="torch")
def gcd(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The greatest common divisor of integers by Euclid's algorithm; of 0 and 0 it is 0."""
    return stored(_euclid(*_whole("gcd", input, other)), out)


@public(method=True, in_place="torch")
def lcm(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The least common multiple of integers; 0 where one is 0."""
    x, y = _whole("lcm", input, other)
    divisor = _euclid(x, y)
    product = floor_divide(x, where(divisor == 0, 1, divisor)) * y
    # One that wraps in 32 bits has its sign taken away then; in narrower ones it keeps it.
    return stored(product if x.dtype in (DType.i8, DType.i16) else abs(product), out)


# -- floats --------------------------------------------------------------------------------------


def _next_rule(g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    return where(x == y, 0.0, g), g * 0


_NEXT = HostOp("nextafter", ops.nextafter, _next_rule, ((0, 1), ()))


@public(method=True, in_place=True)
def nextafter(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The next float after input in the direction of other. Its gradient goes to
    input, where the two differ."""
    need_tensors("nextafter", input=input, other=other)
    kind = result_type(input, other)
    if not kind.is_float:
        raise not_implemented("nextafter_cpu", kind)
    x, y = aligned((input, other), kind)
    return stored(_NEXT(x, y), out)


def _frexp_rule(g: Any, out: Any, x: Any) -> tuple[Any]:
    return (None if g[0] is None else g[0] * pow(2.0, -out[1].to(g[0].dtype)),)


_FREXP = HostOp("frexp", ops.frexp, _frexp_rule, ((), (1,)))


@public(method=True)
def frexp(input: Tensor, *, out: Any = None) -> Any:
    """Mantissas from 1/2 to 1 (by magnitude) and whole exponents, as int32: input is mantissa ·
    2^exponent."""
    need_tensors("frexp", input=input)
    if not input.dtype.is_float:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    wide = input.to(DType.f32) if input.dtype.is_storage else input  # exact, as its mantissa is
    mantissa, exponent = _FREXP(wide)
    return stored(return_types.frexp(mantissa.to(input.dtype), exponent), out)


# -- indices -------------------------------------------------------------------------------------


@public()
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates in `shape` of positions in its elements in row-major order."""
    need_tensors("unravel_index", indices=indices)
    if not indices.dtype.is_integer or indices.dtype is DType.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = tuple(shape) if isinstance(shape, Sequence) else (int(shape),)
    if any(size < 0 for size in sizes):
        raise AttributeValueError(
            f"'shape' cannot have negative values, but got {sizes}", location=user_location()
        )
    coordinates, rest = [], indices
    for size in reversed(sizes):
        coordinates.append(remainder(rest, max(size, 1)))
        rest = floor_divide(rest, max(size, 1))
    if not math.prod(sizes) and indices.numel():
        raise AttributeValueError("shape has no elements", location=user_location())
    return tuple(reversed(coordinates))


# -- bits ----------------------------------------------------------------------------------------


_XOR = HostOp("hash_tensor", ops.xor_of_bits, lambda g, out, x, **_: (None,))


@public(method=True)
def hash_tensor(input: Tensor, dim: Any = None, *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """The exclusive or of the bits of all elements (along `dim`: one or several), as uint64:
    floats count as float64, integers and bools as int64."""
    need_tensors("hash_tensor", input=input)
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if input.dtype.is_complex or (input.dtype.is_storage and not input.dtype.is_compiled):
        raise not_implemented("xor_sum_cpu", input.dtype)
    axes = reduce.axes_of(dim, input.dim())
    for axis in axes if dim is not None and dim != () else ():
        if not input.shape[axis]:
            raise IndexError(f"hash_tensor: Expected reduction dim {axis} to have non-zero size.")
    wide = casted(input.detach(), DType.f64 if input.dtype.is_float else DType.i64)
    hashed: Tensor = _XOR(wide, axes=tuple(axes))
    if not keepdim:
        return hashed
    return reshape(hashed, [1 if i in axes else size for i, size in enumerate(input.shape)])
