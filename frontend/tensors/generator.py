"""Streams of random numbers: a Generator and its state; what is drawn stands in
`frontend.functions.random`. The state is a tensor (seed, counter) that each draw advances in place.
"""

from __future__ import annotations

import operator
import os
from typing import Any

import numpy as np

from frontend.tensors.dtypes import META, place_of
from frontend.tensors.memory_tracking import count_write
from frontend.tensors.state import STATE, tracing
from frontend.tensors.tensor import Tensor, from_data, make_writable, without_data
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.types import DType


class Generator:
    """A stream of random numbers, on the CPU; on "meta" one whose numbers have no data.

    `get_state()` is a tensor of 16 bytes, the seed and the counter; `set_state` takes one. Raises
    TypeError for another state, ValueError for a seed of more than 64 bits.
    """

    def __init__(self, device: Any = "cpu"):
        place = place_of(device)
        state = from_data([0, 0], DType.i64)
        self.state = without_data(state.tensor_type) if place is META else state
        self.manual_seed(67280421310721)

    @property
    def device(self) -> Any:
        return self.state.device

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
        self.state._assign(from_data([signed, 0], DType.i64))
        return self

    def seed(self) -> int:
        """Seed from the operating system; the seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed the stream began with."""
        return int(self.state._array("initial_seed()")[0]) % 2**64

    def advance(self, numbers: int) -> None:
        """Go on behind so many numbers of the stream, outside of a trace."""
        array = self.state._array("a random draw")
        if not array.flags.writeable:
            make_writable(array)
        try:
            array[1] += numbers
        finally:  # an interrupt that comes behind the write finds it counted
            count_write(self.state._counter)

    def get_state(self) -> Tensor:
        """A copy of the state, uint8[16]."""
        state = self.state._array("get_state()")
        return from_data(np.frombuffer(state.tobytes(), np.uint8))

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on from what `get_state` gave."""
        _outside_trace("set_state()")
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.dtype is not DType.u8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        taken = np.ascontiguousarray(new_state._array("set_state()"))
        if taken.shape != (16,):
            raise RuntimeError(f"RNG state is wrong size: {list(taken.shape)}, not [16]")
        self.state._assign(from_data(np.frombuffer(taken.tobytes(), np.int64)))
        return self

    def clone_state(self) -> Generator:
        """Another generator that goes on from here."""
        return Generator().set_state(self.get_state())


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
    drawn = place_of(place) is not META and (STATE.mode is None or STATE.mode.records)
    return generator if drawn else Generator(META)


default_generator = Generator()
