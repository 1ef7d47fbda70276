"""Tensors of GGUF files that stay integers of few bits, with the scales of their blocks.

in : blocks of a kind, and the shape of the tensor that they are
out: an object that `linear` and `embedding` take for a weight, and that gives the tensor in floats

A block has its scale ahead of its integers, an order that nothing reads fast. So what blocks hold
is kept apart, integers beside scales, bit for bit and in as many bytes: 6-bit scales alone come to
take 8, and the integers that IQ4_NL, IQ4_XS and MXFP4 name by 4 bits. Each such part lies in tiles
of 64 rows, neighbouring rows side by side, as products read it: of integers one of each row, or,
for activations in int8, four.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from frontend.engine.tensors.dtypes import CPU, Size
from frontend.engine.tensors.tensor import Tensor, make
from frontend.gguf.block_product import block_linear, in_quads, out_of_quads
from frontend.gguf.kinds import KINDS, Array, Kind, Parts
from frontend.nn import functional as F
from frontend.nn.modules.module import Module
from frontend.overrides.interception import intercept_functions
from frontend.overrides.protocol import DisableTorchFunctionSubclass
from graphc.ir.types import DType, TensorType
from graphc.ops.nn.quantization import unpack_bits

TILE = 64
"""Rows that lie side by side: four vectors of the widest target."""
FEWEST = 16
"""A tile of fewer is not made: then all rows lie side by side."""
BYTE = 8
SIGN = 128
"""What is added to integers of 8 bits, which have a sign, for activations in int8."""
ACTIVATIONS = ("float32", "int8")
INTEGERS = ("whole", "above")
"""The parts that hold integers of elements."""
QUANTIZED = {kind.name: kind for kind in KINDS.values() if kind.unpack is not None}


class QuantizedWeight(Module):
    """A tensor of a GGUF file, of this kind ("Q4_K") and shape, whose last axis is in blocks.

    `F.linear(x, weight)` and `F.embedding(ids, weight)` give the bits that `dequantize()`, the
    tensor in float32, would give them; compiled they compute elements where they read integers. So
    do `nn.Linear` and `nn.Embedding` that have it as their weight (`frontend.gguf.assign`). Other
    functions raise TypeError. It has no gradients, and hands them on. Its parts are buffers of a
    Module, so state dicts hold them; casts (`model.half()`) leave them as they are.

    With `activations="int8"` `linear` rounds its input to integers of 8 bits, a scale for each
    block of 32 (16 where a kind's scales are for 16), and multiplies integers: exact sums within a
    block, the blocks added in order in float32, as `graphc.ops.nn.block_products` says; results are
    in the input's dtype. It has no gradient then, and raises RuntimeError where one is asked for.
    All else is as it is without, but for the order of the parts in memory.

    Made from `blocks`, uint8 [blocks, bytes of one], or else of zeros, to be loaded. Raises
    ValueError for a kind that has no blocks, for other activations, and for a shape or blocks that
    do not fit.
    """

    above: Tensor | None
    scales: Tensor | None
    minimum: Tensor | None
    minimums: Tensor | None
    dtype: ClassVar[DType] = DType.f32
    device: ClassVar[Any] = CPU

    def __init__(
        self, kind: str, shape: Sequence[int], blocks: Array | None = None,
        activations: str = "float32",
    ) -> None:  # fmt: skip
        super().__init__()
        if kind not in QUANTIZED:
            raise ValueError(f"{kind!r} is no quantized kind: there are {', '.join(QUANTIZED)}")
        check_activations(activations)
        self.kind, self.shape, self.activations = kind, Size(shape), activations
        one, size = self._kind.elements, math.prod(shape)
        if not shape or size == 0 or shape[-1] % one:
            raise ValueError(
                f"a tensor of {kind} has rows of blocks of {one} elements: its shape is no "
                f"{list(shape)}"
            )
        expected = (size // one, self._kind.bytes)
        if blocks is None:
            blocks = np.zeros(expected, np.uint8)
        if blocks.dtype != np.uint8 or blocks.shape != expected:
            raise ValueError(
                f"{list(shape)} of {kind} is blocks of uint8 {list(expected)}, got "
                f"{blocks.dtype} {list(blocks.shape)}"
            )
        intercept_functions()
        rows = size // shape[-1]
        tile = math.gcd(rows, TILE)
        self.tile = rows if tile < FEWEST else tile
        quads = activations == "int8"
        for name, part in _parts_of(self._kind, blocks, rows, quads).items():
            together = (4,) if quads and name in INTEGERS else ()
            tiled = part.reshape(rows // self.tile, self.tile, -1, *together).swapaxes(1, 2)
            self.register_buffer(name, _tensor(np.ascontiguousarray(tiled)))
        for name in OPTIONAL:
            if name not in self._buffers:
                self.register_buffer(name, None)

    @property
    def _kind(self) -> Kind:
        return QUANTIZED[self.kind]

    # -- what it is --------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its parts."""
        return sum(part.nbytes for part in self.buffers())

    def extra_repr(self) -> str:
        how = "" if self.activations == "float32" else f", activations={self.activations!r}"
        return f"{self.kind}, {list(self.shape)}{how}"

    # -- what it stands for ------------------------------------------------------------------------

    def dequantize(self) -> Tensor:
        """The tensor, in float32: the bits of the package `gguf`."""
        return self._floats(self._rows).reshape(self.shape)

    def rows(self, indices: Any) -> Tensor:
        """Rows of a matrix, in float32: indices [*] to [*, columns]."""
        tile, place = indices // self.tile, indices % self.tile
        return self._floats(lambda part: part[tile, :, place].reshape(*indices.shape, -1))

    def _rows(self, part: Tensor) -> Tensor:
        """A part as it lies in rows."""
        rows: Tensor = part.transpose(1, 2).reshape(part.shape[0] * self.tile, -1)
        return rows

    def _floats(self, read: Callable[[Any], Tensor]) -> Any:
        """Rows in floats, by what `read` makes of each part."""
        whole = self._integers(read)
        scale = _product(read, self.scale, self.scales)
        *outer, columns = whole.shape
        numbers = whole.to(DType.f32).reshape(*outer, scale.shape[-1], -1)
        if self.zero:
            numbers = numbers - self.zero
        numbers = numbers * scale.unsqueeze(-1)
        if self.minimum is not None:
            minimum = _product(read, self.minimum, self.minimums).unsqueeze(-1)
            numbers = numbers + minimum if self.minimums is None else numbers - minimum
        return numbers.reshape(*outer, columns)

    @property
    def zero(self) -> int:
        """The integer that stands for zero."""
        of_bytes = self.activations == "int8" and self._kind.bits[0] == BYTE
        return SIGN if of_bytes else self._kind.offset

    def _integers(self, read: Callable[[Any], Tensor]) -> Any:
        """Rows of integers, by what `read` makes of each part."""
        bits, whole = self._kind.bits, read(self.whole)
        above = None if self.above is None else read(self.above)
        if self.activations == "int8":
            whole = out_of_quads(whole, bits[0])
            return whole if above is None else whole + out_of_quads(above, bits[1]) * 2 ** bits[0]
        if above is not None:
            return unpack_bits(whole, above, bits=bits[0], high_bits=bits[1])
        return whole if bits[0] == BYTE else unpack_bits(whole, bits=bits[0])

    # -- what reads it -----------------------------------------------------------------------------

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        reader = READERS.get(func.__name__)
        if reader is None:
            raise TypeError(
                f"{func.__name__} does not take a QuantizedWeight: linear and embedding do; "
                "weight.dequantize() is a tensor"
            )
        with DisableTorchFunctionSubclass():
            return reader(*args, **(kwargs or {}))

    # -- of a Module -------------------------------------------------------------------------------

    def forward(self) -> Tensor:
        return self.dequantize()

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        for name, part in self._buffers.items():
            if part is not None and (moved := fn(part)).dtype is part.dtype:
                self._buffers[name] = moved
        return self

    def __setstate__(self, state: Any) -> None:
        intercept_functions()
        super().__setstate__(state)


OPTIONAL = ("above", "scales", "minimum", "minimums")


def _product(read: Callable[[Any], Tensor], scale: Any, groups: Any) -> Any:
    """Scales, or minimums, of all groups."""
    wide = read(scale).to(DType.f32)
    if groups is None:
        return wide
    whole = read(groups)
    apart = whole.to(DType.f32).reshape(*wide.shape, -1)
    return (wide.unsqueeze(-1) * apart).reshape(whole.shape)


# -- functions that read one -----------------------------------------------------------------------


def _floats_of(name: str, weight: Any) -> QuantizedWeight:
    if not isinstance(weight, QuantizedWeight):
        raise TypeError(f"{name} takes a QuantizedWeight for its weight alone")
    if weight.ndim != 2:
        raise TypeError(f"{name} takes a matrix: this {weight.kind} is {list(weight.shape)}")
    return weight


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if _floats_of("linear", weight).activations == "int8":
        return block_linear(input, weight, weight._kind.bits, bias)
    wide = weight.dequantize()
    return F.linear(input, wide.to(input.dtype), bias)


def _embedding(
    input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    if max_norm is not None:
        raise TypeError("embedding with max_norm writes its weight: no QuantizedWeight can be")
    return _floats_of("embedding", weight).rows(input)


READERS: dict[str, Callable[..., Any]] = {"linear": _linear, "embedding": _embedding}


# -- making one ------------------------------------------------------------------------------------


def check_activations(activations: str) -> None:
    """Raises ValueError for a form of products that there is not."""
    if activations not in ACTIVATIONS:
        raise ValueError(f"activations are {' or '.join(ACTIVATIONS)}, not {activations!r}")


def _parts_of(kind: Kind, blocks: Array, rows: int, quads: bool) -> dict[str, Array]:
    """The parts of blocks, each [rows, bytes or numbers of a row]; `quads`: bytes are shared as
    `block_products` has them."""
    pieces: dict[str, list[Array]] = {}
    for parts in kind.parts(blocks):
        for name, part in _packed(kind, parts, quads):
            pieces.setdefault(name, []).append(part)
    return {name: np.concatenate(each).reshape(rows, -1) for name, each in pieces.items()}


def _packed(kind: Kind, parts: Parts, quads: bool) -> Iterable[tuple[str, Array]]:
    whole = parts.whole.reshape(len(parts.whole), kind.elements)
    low, *high = kind.bits
    joined = in_quads if quads else _joined
    if low == BYTE:
        yield "whole", whole.view(np.uint8) ^ np.uint8(SIGN) if quads else whole
    else:
        yield "whole", joined(whole, low)
    for bits in high:
        yield "above", joined(whole >> low, bits)
    for name in ("scale", "scales", "minimum", "minimums"):
        part = getattr(parts, name)
        if part is not None:
            yield name, part


def _joined(whole: Array, bits: int) -> Array:
    """Integers of few bits in shared bytes, as the op `pack_bits` has them."""
    low = (whole & np.uint8(2**bits - 1)).reshape(len(whole), -1, BYTE // bits)
    places = np.arange(0, BYTE, bits, dtype=np.uint8)
    joined: Array = np.bitwise_or.reduce(low << places, axis=-1)
    return joined


def _tensor(array: Array) -> Tensor:
    return make(array, TensorType.of(array))
