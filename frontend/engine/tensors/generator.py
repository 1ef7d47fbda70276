"""Streams of random numbers: a Generator and its state; what is drawn stands in
`frontend.functions.random`.

A generator has three tensors, which draws change in place. `twister` i32[625] is PyTorch's
generator (`graphc.ops.mersenne_twister`), `spare` f64[2] whether there is a normal number left of a
pair, and that number: what scripts draw, they draw from these, as in PyTorch. `inside` i64[2] is
the (seed, counter) of what is drawn inside networks: dropout and its like.
"""

from __future__ import annotations

import functools
import operator
import os
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import CPU, META, place_of
from frontend.engine.tensors.generator_bytes import STATE_BYTES, GeneratorState, packed, unpacked
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.state import STATE, tracing
from frontend.engine.tensors.tensor import Tensor, from_data, make, make_writable, without_data
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.types import DType, TensorType
from graphc.ops.mersenne_twister import WORDS
from graphc.system import IMPORTING

_INSIDE = TensorType(DType.i64, (2,))
_TWISTER = TensorType(DType.i32, (WORDS + 1,))
_SPARE = TensorType(DType.f64, (2,))
BLOCK = 1 << 16
"""Numbers that are made by one call, during which no other thread of Python's runs."""


class Generator:
    """A stream of random numbers, on the CPU: PyTorch's for the same seed. On "meta" one whose
    numbers have no data.

    `get_state()` is a tensor of 5056 bytes in PyTorch's layout, and `set_state` takes one, also of
    PyTorch's. Raises TypeError for another state, ValueError for a seed of more than 64 bits.
    """

    def __init__(self, device: Any = "cpu"):
        meta = place_of(device) is META
        self.inside = _tensor(_INSIDE, meta)
        self.spare = _tensor(_SPARE, meta)
        self._twister: Tensor | None = _tensor(_TWISTER, meta) if meta else None
        self.manual_seed(67280421310721)

    @property
    def device(self) -> Any:
        return self.inside.device

    @property
    def twister(self) -> Tensor:
        """Its words. They are computed when they are wanted first: native code is loaded for it."""
        if self._twister is None:
            # A tensor from outside, also where a trace comes to it first.
            words = np.empty(_TWISTER.shape, np.int32)
            self._twister = make(_native().seed(words, int(self.inside._value[0])), _TWISTER)
        return self._twister

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that draws change."""
        return (self.inside, self.twister, self.spare)

    def name_of(self, tensor: Tensor) -> str | None:
        """What a tensor of the default generator is called in graphs; None for others."""
        names = {id(self.inside): "rng_state", id(self.spare): "rng_spare"}
        return "rng_words" if tensor is self._twister else names.get(id(tensor))

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning."""
        _outside_trace("manual_seed()")
        try:
            number = operator.index(seed)
        except TypeError:
            raise RuntimeError(
                f"manual_seed expected a long, but got {type(seed).__name__}"
            ) from None
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"Overflow when unpacking long long: {number} has more than 64 bits")
        # Seeds are 64-bit words; -1 and 2**64 - 1 are the same one.
        signed = number - 2**64 if number >= 2**63 else number
        if self._twister is not None and not self._twister.is_meta:
            words = np.empty(_TWISTER.shape, np.int32)
            self._twister._assign(make(_native().seed(words, signed), _TWISTER))
        self.spare._assign(from_data([0, 0], DType.f64))
        self.inside._assign(from_data([signed, 0], DType.i64))
        return self

    def seed(self) -> int:
        """Seed from the operating system; the seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed the stream began with."""
        return int(self.inside._array("initial_seed()")[0]) % 2**64

    def words(self, count: int) -> np.ndarray:
        """The next words of the stream as i64 from 0 to 2**32 - 1, outside of a trace."""
        return self.fill("words", np.empty(count, np.int64))

    def fill(self, name: str, array: np.ndarray, *numbers: int) -> np.ndarray:
        """A new array, filled by this function of `graphc.runtime.random_words`, outside of a
        trace."""
        twister = self._twister
        if twister is None:
            twister = self.twister
        fill, state = getattr(_native(), name), _to_write(twister)
        try:
            if array.size <= BLOCK:
                fill(state, array, *numbers)
            else:
                flat = array.reshape(-1)
                for start in range(0, flat.size, BLOCK):
                    fill(state, flat[start : start + BLOCK], *numbers)
        finally:  # an interrupt that comes behind the write finds it counted
            count_write(twister._counter)
        return array

    def order(self, count: int) -> np.ndarray:
        """A permutation of 0 … count-1, of 2 or more, in i64, outside of a trace."""
        twister = self.twister
        swap, state = _native().order, _to_write(twister)
        order, last = np.empty(count, np.int64), count - 1
        try:
            for start in range(0, last, BLOCK):
                swap(state, order, start, min(start + BLOCK, last))
        finally:
            count_write(twister._counter)
        return order

    def advance(self, numbers: int) -> None:
        """Go on behind so many numbers of what is drawn inside networks, outside of a trace."""
        array = _to_write(self.inside)
        try:
            array[1] += numbers
        finally:
            count_write(self.inside._counter)

    def get_state(self) -> Tensor:
        """A copy of the state, uint8[5056]."""
        return from_data(packed(self.state_arrays()))

    def state_arrays(self) -> GeneratorState:
        """Copies of its tensors' arrays."""
        return GeneratorState(*[each._array("get_state()").copy() for each in self.tensors])

    def put_arrays(self, state: GeneratorState) -> None:
        """Go on from such a state."""
        for tensor, array in zip(self.tensors, state, strict=True):
            if tensor._value.__class__ is not np.ndarray or STATE.mode is not None:
                tensor._assign(make(array, tensor.tensor_type))
                continue
            target = _to_write(tensor)
            try:
                np.copyto(target, array)
            finally:
                count_write(tensor._counter)

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on from what `get_state` gave, here or of a generator of PyTorch."""
        _outside_trace("set_state()")
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.dtype is not DType.u8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        taken = np.ascontiguousarray(new_state._array("set_state()"))
        if taken.shape != (STATE_BYTES,):
            raise RuntimeError(f"RNG state is wrong size: {list(taken.shape)}, not [{STATE_BYTES}]")
        self.put_arrays(unpacked(taken))
        return self

    def clone_state(self) -> Generator:
        """Another generator that goes on from here."""
        return Generator().set_state(self.get_state())


def _to_write(tensor: Tensor) -> np.ndarray:
    """The array of a tensor of a generator, which draws change."""
    array = tensor._value
    if array.__class__ is not np.ndarray or STATE.mode is not None:
        array = tensor._array("a random draw")
    if not array.flags.carray:
        make_writable(array)
    return array


def _tensor(type: TensorType, meta: bool) -> Tensor:
    return without_data(type) if meta else from_data(np.zeros(type.shape), type.dtype)


@functools.cache
def _native() -> Any:
    """`RandomWords`, loaded when numbers are drawn first."""
    with IMPORTING:
        from graphc.runtime.random_words import random_words
    return random_words()


def _outside_trace(what: str) -> None:
    if tracing():
        raise TraceError(
            f"{what} inside a trace would be frozen into the graph",
            hint="call it outside",
            location=user_location(),
        )


def drawn_on(place: Any, generator: Generator | None) -> Generator | None:
    """The generator to draw from where the numbers are wanted on a device: `generator`, but on
    meta, and where types alone are computed, where nothing is drawn, one of meta."""
    if place is CPU and STATE.mode is None:
        return generator
    drawn = place_of(place) is not META and (STATE.mode is None or STATE.mode.records)
    return generator if drawn else Generator(META)


default_generator = Generator()
