"""The state of a generator as bytes, in PyTorch's layout.

in : the three arrays of a generator's state
out: uint8[5056], and back; states of PyTorch too

| bytes | what |
|---|---|
| 0 | the seed, 64 bits |
| 8 | how many words are left until new ones are made, counting the next; 1 as seeded; 32 bits |
| 12 | 1: seeded, 32 bits |
| 16 | the place of the next word, 64 bits; 0 as seeded |
| 24 | 624 words, 64 bits each |
| 5016 | of PyTorch nothing; here the counter of what is drawn inside networks, 64 bits |
| 5024 | the normal number that is left of a pair, f64 |
| 5040 | whether there is one, 32 bits |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphc.ops.mersenne_twister import AS_SEEDED, WORDS

STATE_BYTES = 5056
_LAYOUT = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "words", "counter", "spare", "has_spare"],
        "formats": ["<i8", "<i4", "<i4", "<u8", ("<u8", WORDS), "<i8", "<f8", "<i4"],
        "offsets": [0, 8, 12, 16, 24, 5016, 5024, 5040],
        "itemsize": STATE_BYTES,
    }
)


class GeneratorState(NamedTuple):
    """The arrays of the tensors of those names."""

    inside: np.ndarray
    twister: np.ndarray
    spare: np.ndarray


def packed(state: GeneratorState) -> np.ndarray:
    """uint8[5056]."""
    record = np.zeros((), _LAYOUT)
    record["seed"], record["counter"] = state.inside
    used = int(state.twister[WORDS])
    fresh = not 0 <= used <= WORDS
    record["left"] = 1 if fresh else WORDS + 1 - used
    record["seeded"] = 1
    record["next"] = 0 if fresh else used
    record["words"] = state.twister[:WORDS].view(np.uint32)
    record["has_spare"], record["spare"] = state.spare
    return np.frombuffer(record.tobytes(), np.uint8)


def unpacked(taken: np.ndarray) -> GeneratorState:
    """The arrays of bytes of this layout. Raises RuntimeError for others."""
    record = np.frombuffer(taken.tobytes(), _LAYOUT)[0]
    left, place = int(record["left"]), int(record["next"])
    fresh = left == 1 and place == 0
    if record["seeded"] != 1 or not (fresh or (place <= WORDS and left == WORDS + 1 - place)):
        raise RuntimeError("Invalid mt19937 state")
    twister = np.empty(WORDS + 1, np.int32)
    twister[:WORDS] = record["words"].astype(np.uint32).view(np.int32)
    twister[WORDS] = AS_SEEDED if fresh else place
    has_spare = bool(record["has_spare"])
    return GeneratorState(
        np.array([record["seed"], record["counter"]], np.int64),
        twister,
        np.array([has_spare, record["spare"] if has_spare else 0.0]),
    )
