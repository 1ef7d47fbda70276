"""What reading one file may cost: bytes of memory and steps of work, in proportion to its size.

in : how large the file is and its pickles; then every opcode and every call, before or as it is run
out: Refused, where they come to more

A program of a few hundred kilobytes can call one function with one long argument a hundred
thousand times, or choose keys that all lie in one place of a dict. Whatever makes or walks
something pays for it here, so that no function of the table needs a bound of its own.
"""

from __future__ import annotations

import math
import secrets
import sys
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import Size, device
from frontend.engine.tensors.tensor import Tensor
from frontend.serialization.errors import Refused
from graphc.ir.types import DType

FREE_BYTES = 64 << 20
BYTES_OF_FILE = 4
BYTES_OF_PICKLES = 16  # a dict of two numbers is 14 bytes of a pickle, and 248 in memory
FREE_STEPS = 8_000_000  # a step is an opcode, or an item that is walked: about a third of a µs
STEPS_OF_FILE = 0.25  # 100 MB: 33 million, about ten seconds

_CALL = 8
_LEVELS = 4  # of tuples in tuples
_BYTES_OF_HASH = 150
_TENSOR = 1000  # bytes, with its array, type and state
_SMALL = 1 << 24  # numbers up to here are close together, and so are their places in a dict
_SAME_HASH = 8
_SECRET = secrets.randbits(61)

_TEXTS = (str, bytes, bytearray)
_CONTAINERS = (list, tuple, Size, dict, set, frozenset)
_SPREAD = (str, bytes, bool, type(None), DType, device)  # nobody can choose the hashes of these
_KEYS = (*_SPREAD, int, float, complex)


class Budget:
    """What is left for a file of `size` bytes, `pickles` of which are programs for the machine."""

    def __init__(self, size: float, pickles: float):
        self.size = size
        self.bytes = FREE_BYTES + BYTES_OF_FILE * size + BYTES_OF_PICKLES * pickles
        self.steps = self.all_steps = FREE_STEPS + STEPS_OF_FILE * size
        self._hashes: dict[int, dict[int, int]] = {}

    def program(self, size: int) -> None:
        """There are `size` more bytes of pickles."""
        self.bytes += BYTES_OF_PICKLES * size

    def spend(self, steps: float = 0, count: float = 0) -> None:
        """Pay for steps and a count of bytes. Raises Refused."""
        self.steps -= steps
        self.bytes -= count
        if self.steps < 0:
            raise self.refused("time")
        if self.bytes < 0:
            raise self.refused("memory")

    def refused(self, what: str) -> Refused:
        return Refused(
            f"its pickle takes more {what} than is in proportion to a file of {self.size:,} bytes "
            "(load(..., weights_only=False) takes what it takes: only for files you trust)"
        )

    def pay_for_arguments(self, arguments: tuple[Any, ...]) -> None:
        """Pay for what a function is given: all that one may walk, which are the arguments, those
        it hands on and what stands in these."""
        self.spend(_CALL)
        items: list[Any] = [arguments]
        for _ in range(_LEVELS):
            self.spend(sum(_length(item) for item in items))
            items = [part for item in items if type(item) in (tuple, Size) for part in item]

    def pay_for_result(self, value: Any) -> None:
        """Pay for what a function made."""
        if isinstance(value, Tensor):
            self.spend(0, _TENSOR + sys.getsizeof(value._instance_state))
        else:
            array = value.nbytes if isinstance(value, np.ndarray) else 0
            self.spend(0, sys.getsizeof(value) + array)

    def key(self, key: Any, target: Any) -> Any:
        """`key`, which comes into a dict or set: its hash is quick, and is not that of many others.
        Raises Refused."""
        kind = type(key)
        if kind in _SPREAD or (kind is int and -_SMALL < key < _SMALL) or self.steps == math.inf:
            return key
        # In the worst case each key that was put there before is looked at.
        self.spend(self._hashed(key) + (len(target) >> 8), _BYTES_OF_HASH)
        hashes = self._hashes.setdefault(id(target), {})
        own = hash(key) ^ _SECRET
        hashes[own] = hashes.get(own, 0) + 1
        if hashes[own] > _SAME_HASH:
            raise Refused(f"more than {_SAME_HASH} keys of a {type(target).__name__} have one hash")
        return key

    def _hashed(self, key: Any) -> int:
        """The places in a key, each of which may be in one."""
        places, todo = 0, [key]
        while todo:
            item = todo.pop()
            places += 1 + (item.bit_length() >> 8 if type(item) is int else 0)
            if places > self.steps:
                raise self.refused("time")
            if type(item) in (tuple, Size):
                todo.extend(item)
            elif type(item) not in _KEYS and not isinstance(item, Tensor | np.generic):
                raise Refused(f"a {type(item).__name__} is a key, or part of one")
        return places


def _length(item: Any) -> int:
    """The steps it takes to walk an item, or to copy its bytes."""
    if type(item) in _TEXTS:
        return len(item) >> 8
    return len(item) if type(item) in _CONTAINERS else 0


def without_bounds() -> Budget:
    """For a file that the user trusts."""
    return Budget(math.inf, math.inf)
