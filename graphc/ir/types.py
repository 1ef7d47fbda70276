"""Tensor types: dtype and shape, and their text form (`f32[32,64]`).

Dimensions are looked up here and nowhere assumed: `TensorType.shape` is the one place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from graphc.errors import DTypeError, ParseError, ShapeError
from graphc.ir.dims import Dim, Extent, is_symbolic
from graphc.ir.extent_text import parse_extent
from graphc.references import other_references


class DType(Enum):
    """Element types. `value` is the name used in every text form.

    f16, bf16, u8, i8, i16, u16, u32 and u64 are storage types: ops move them and cast them, and
    compute in the type `computes_as` names, which holds all their values, but for u64: i64 has its
    bits. `is_computed` is False for the last three: a frontend has no arithmetic on them but where
    it casts, or asks for their bits.

    What stands below u32 has no compiled form (`is_compiled`): graphs hold no values of it, and
    eager mode says what ops mean on it. `computes_as` is then the type whose rules of inference
    hold. A complex dtype counts as float, since it is differentiated; `is_complex` tells them
    apart.
    """

    f32 = "f32"
    f64 = "f64"
    i32 = "i32"
    i64 = "i64"
    bool = "bool"
    f16 = "f16"
    bf16 = "bf16"
    u8 = "u8"
    i8 = "i8"
    i16 = "i16"
    u64 = "u64"
    u16 = "u16"
    u32 = "u32"
    c64 = "c64"
    c128 = "c128"
    f8_e4m3 = "f8_e4m3"
    f8_e5m2 = "f8_e5m2"
    f8_e4m3fnuz = "f8_e4m3fnuz"
    f8_e5m2fnuz = "f8_e5m2fnuz"
    f8_e8m0 = "f8_e8m0"

    # Plain attributes rather than properties: they stand in the path of every eager op.
    numpy: np.dtype[Any]
    itemsize: int
    is_float: bool  # type: ignore[valid-type]
    is_integer: bool  # type: ignore[valid-type]
    is_storage: bool  # type: ignore[valid-type]
    is_complex: bool  # type: ignore[valid-type]
    is_compiled: bool  # type: ignore[valid-type]
    is_computed: bool  # type: ignore[valid-type]
    computes_as: DType  # the type itself unless it is a storage type
    shown: str  # what `str` gives: a frontend puts its own names here; texts of graphc use `value`

    def __repr__(self) -> str:
        return self.shown

    def __str__(self) -> str:
        return self.shown

    # Enum's own __hash__ hashes the name in Python code; members are singletons.
    __hash__ = object.__hash__

    @staticmethod
    def of(dtype: Any) -> DType:
        """The DType of anything NumPy takes as a dtype. Raises DTypeError for unsupported ones."""
        if isinstance(dtype, DType):
            return dtype
        known = _BY_NUMPY.get(dtype if isinstance(dtype, np.dtype) else np.dtype(dtype))
        if known is None:
            raise DTypeError(
                f"dtype {np.dtype(dtype)} is not supported",
                hint=f"one of {', '.join(member.numpy.name for member in DType)}",
            )
        return known


for _member, _numpy, _computes_as in (
    (DType.f32, np.float32, DType.f32),
    (DType.f64, np.float64, DType.f64),
    (DType.i32, np.int32, DType.i32),
    (DType.i64, np.int64, DType.i64),
    (DType.bool, np.bool_, DType.bool),
    (DType.f16, np.float16, DType.f32),
    (DType.bf16, ml_dtypes.bfloat16, DType.f32),
    (DType.u8, np.uint8, DType.i32),
    (DType.i8, np.int8, DType.i32),
    (DType.i16, np.int16, DType.i32),
    (DType.u64, np.uint64, DType.i64),
    (DType.u16, np.uint16, DType.i32),
    (DType.u32, np.uint32, DType.i64),
    (DType.c64, np.complex64, DType.f32),
    (DType.c128, np.complex128, DType.f64),
    (DType.f8_e4m3, ml_dtypes.float8_e4m3fn, DType.f32),
    (DType.f8_e5m2, ml_dtypes.float8_e5m2, DType.f32),
    (DType.f8_e4m3fnuz, ml_dtypes.float8_e4m3fnuz, DType.f32),
    (DType.f8_e5m2fnuz, ml_dtypes.float8_e5m2fnuz, DType.f32),
    (DType.f8_e8m0, ml_dtypes.float8_e8m0fnu, DType.f32),
):
    _member.numpy = np.dtype(_numpy)
    _member.itemsize = _member.numpy.itemsize
    _member.is_float = _computes_as in (DType.f32, DType.f64)
    _member.is_integer = _computes_as in (DType.i32, DType.i64)
    _member.is_complex = _member.numpy.kind == "c"
    _member.is_storage = _computes_as is not _member and not _member.is_complex
    _member.computes_as = _computes_as
    _member.shown = _member.value

COMPILED = tuple(DType)[:13]
"""The dtypes that graphs have values of, f32 to u32."""
UNSIGNED = (DType.u16, DType.u32, DType.u64)
"""Those whose floats beyond what i64 holds are counted from 2^63 on."""
for _member in DType:
    _member.is_compiled = _member in COMPILED
    _member.is_computed = _member.is_compiled and _member not in UNSIGNED

_BY_NUMPY: dict[np.dtype[Any], DType] = {member.numpy: member for member in DType}

Shape = tuple[int, ...]
"""In bodies of kernels there may be sizes among them that are known only at run time, of type
`graphc.ir.dims.Dim`; all else still takes numbers, and is annotated so."""


class TensorType:
    """dtype and shape of one value. Text: `f32[32,64]`, a 0-d value is `f32[]`.

    Equal types are one object, so comparing and hashing them costs what it costs for an object.
    """

    __slots__ = ("dtype", "is_symbolic", "nbytes", "numel", "shape", "text")

    dtype: DType
    shape: Shape
    numel: int
    nbytes: int
    text: str
    is_symbolic: bool  # whether a dimension is known only when the program runs

    def __new__(cls, dtype: DType, shape: Shape) -> TensorType:
        known = INTERNED.get((dtype, shape))
        # Whether a size can be negative is asked each time: the answer may be an example's.
        if known is not None and not known.is_symbolic:
            return known
        if any(dim < 0 for dim in shape):
            raise ShapeError(f"negative dimension in shape {list(shape)}")
        return known if known is not None else cls._made(dtype, shape)

    @classmethod
    def _made(cls, dtype: DType, shape: Shape) -> TensorType:
        """The type of a shape that was checked."""
        type = super().__new__(cls)
        put = partial(object.__setattr__, type)
        put("dtype", dtype)
        put("shape", tuple([dim if isinstance(dim, Dim) else int(dim) for dim in shape]))
        put("is_symbolic", is_symbolic(type.shape))
        put("numel", math.prod(type.shape))
        put("nbytes", type.numel * dtype.itemsize)
        put("text", f"{dtype.value}[{','.join(map(str, type.shape))}]")
        if len(INTERNED) >= _LIMIT[0]:
            _forget_unused()
        return INTERNED.setdefault((dtype, type.shape), type)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a TensorType is fixed: {name} cannot be set")

    def __reduce__(self) -> Any:
        # What an example answered is not asked again where there is none.
        return TensorType._made, (self.dtype, self.shape)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, TensorType):
            return self is other
        # Of sizes known at run time it is an answer that they are others: extents note it.
        return self.dtype is other.dtype and self.shape == other.shape

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"TensorType({self})"

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return self.text

    def with_shape(self, shape: Shape) -> TensorType:
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape)

    @staticmethod
    def of(array: Any) -> TensorType:
        """The type of a NumPy array (or anything with dtype and shape)."""
        dtype, shape = DType.of(array.dtype), tuple(array.shape)
        return INTERNED.get((dtype, shape)) or TensorType(dtype, shape)

    @staticmethod
    def parse(text: str, sizes: Mapping[str, Extent] | None = None) -> TensorType:
        """The type written as `f32[32,64]`, or `f32[n,2*n + 1]` with `sizes` for its names. Raises
        ParseError."""
        match = _TYPE_TEXT.fullmatch(text.strip())
        if match is None or match[1] not in _COMPILED_NAMES:
            raise ParseError(f"{text!r} is not a tensor type", hint="write it like f32[32,64]")
        parts = [part.strip() for part in match[2].split(",")]
        if parts[-1] == "":
            parts.pop()  # f32[], and a comma behind the last
        try:
            dims = [
                int(p) if p.isascii() and p.isdigit() else parse_extent(p, sizes or {})
                for p in parts
            ]
        except ParseError as error:
            raise ParseError(f"{text!r} is not a tensor type: {error}") from None
        return TensorType(DType[match[1]], tuple(dims))  # type: ignore[arg-type]


_COMPILED_NAMES = {dtype.value for dtype in COMPILED}
INTERNED: dict[tuple[DType, Shape], TensorType] = {}
"""The types there are. Whoever has a shape of numbers may look here first."""
_LEAST_LIMIT = 8192
_LIMIT = [_LEAST_LIMIT]
"""Types that are kept before those that nobody holds are forgotten: sizes may go on for ever."""


def _forget_unused() -> None:
    for key in list(INTERNED):
        if not other_references(INTERNED, key):
            del INTERNED[key]
    _LIMIT[0] = max(_LEAST_LIMIT, 2 * len(INTERNED))


_TYPE_TEXT = re.compile(r"([a-z][a-z0-9]*+)\[([^][]*+)\]", re.ASCII)


def row_major_strides(shape: Shape) -> Shape:
    """Strides in elements of a contiguous row-major array."""
    strides = []
    step = 1
    for dim in reversed(shape):
        strides.append(step)
        step *= dim
    return tuple(reversed(strides))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape under NumPy's broadcasting. Raises ShapeError naming the shapes."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, rank - len(shape)):
            if dim == result[axis] or dim == 1:
                continue
            if result[axis] != 1:
                listed = " and ".join(str(list(shape)) for shape in shapes)
                raise ShapeError(f"shapes {listed} do not broadcast (axis {axis - rank})")
            result[axis] = dim
    return tuple(result)
