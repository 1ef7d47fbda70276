"""What every object brings along: the reader and writer of safetensors' bytes, and that of error
texts.

Functions of the subset that `translation` has; they run as Python too (tests/build). Addresses and
lengths are integers.

A record of a field of the state is eight numbers: where its key begins in `texts`, and its length;
the same of its dtype; where its shape begins in the numbers behind all records, and its rank; its
place in the struct, and its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphc.build.memory_access import load8, load64, store8, store64

# -- reading safetensors: JSON, and bytes behind it ------------------------------------------------


def space_end(text: int, at: int, end: int) -> int:
    """Where white space ends."""
    while at < end and (
        load8(text + at) == 32
        or load8(text + at) == 9
        or load8(text + at) == 10
        or load8(text + at) == 13
    ):
        at = at + 1
    return at


def string_end(text: int, at: int, end: int) -> int:
    """The closing quote of a string whose content begins at `at`; -1 where there is none."""
    while at < end:
        if load8(text + at) == 34:
            return at
        if load8(text + at) == 92:
            at = at + 1
        at = at + 1
    return -1


def value_end(text: int, at: int, end: int) -> int:
    """Behind the value that begins at `at`; -1 where it does not end."""
    depth = 0
    while at < end:
        byte = load8(text + at)
        if byte == 34:
            at = string_end(text, at + 1, end)
            if at < 0:
                return -1
        if byte == 123 or byte == 91:
            depth = depth + 1
        if byte == 125 or byte == 93:
            if depth == 0:
                return at
            depth = depth - 1
        if byte == 44 and depth == 0:
            return at
        at = at + 1
    return -1


def key_value(text: int, at: int, end: int) -> int:
    """Where the value begins of the key whose closing quote is at `at`; -1 where there is none."""
    at = space_end(text, at + 1, end)
    if at >= end or load8(text + at) != 58:
        return -1
    return space_end(text, at + 1, end)


def is_same(one: int, other: int, length: int) -> int:
    """Whether bytes are the same."""
    at = 0
    while at < length:
        if load8(one + at) != load8(other + at):
            return 0
        at = at + 1
    return 1


def member(text: int, at: int, end: int, key: int, length: int) -> int:
    """Where the value of a key begins in the object that begins at `at`; -1 for no object, -2 where
    it has no such key."""
    at = space_end(text, at, end)
    if at >= end or load8(text + at) != 123:
        return -1
    at = at + 1
    while at < end:
        at = space_end(text, at, end)
        if at >= end:
            return -1
        byte = load8(text + at)
        if byte == 125:
            return -2
        if byte == 44:
            at = at + 1
        else:
            if byte != 34:
                return -1
            start = at + 1
            at = string_end(text, start, end)
            if at < 0:
                return -1
            same = 0
            if at - start == length:
                same = is_same(text + start, key, length)
            at = key_value(text, at, end)
            if at < 0:
                return -1
            if same == 1:
                return at
            at = value_end(text, at, end)
            if at < 0:
                return -1
    return -1


def digits_end(text: int, at: int, end: int) -> int:
    """Behind the digits at `at`, of which there are at most 18."""
    last = at + 18
    while at < end and at < last and load8(text + at) >= 48 and load8(text + at) <= 57:
        at = at + 1
    return at


def number_at(text: int, at: int, end: int) -> int:
    """The number whose digits stand there."""
    value = 0
    while at < end:
        value = value * 10 + load8(text + at) - 48
        at = at + 1
    return value


def has_numbers(text: int, at: int, end: int, numbers: int, count: int) -> int:
    """Whether the list that begins at `at` has these numbers and no others; with `numbers` 0,
    whether it has `count` of them."""
    if at >= end or load8(text + at) != 91:
        return 0
    at = space_end(text, at + 1, end)
    seen = 0
    while at < end and load8(text + at) != 93:
        stop = digits_end(text, at, end)
        if stop == at or seen == count:
            return 0
        if numbers != 0:
            if load64(numbers + seen * 8) != number_at(text, at, stop):
                return 0
        seen = seen + 1
        at = space_end(text, stop, end)
        if at < end and load8(text + at) == 44:
            at = space_end(text, at + 1, end)
    if at >= end or seen != count:
        return 0
    return 1


def tensor_at(text: int, end: int, room: int, record: int, texts: int, numbers: int) -> int:
    """Where the bytes of a field begin behind the header, of which `room` follow it; -1 where the
    header is malformed, -2 where it has no such tensor, -3 where that is of another type."""
    entry = member(text, 0, end, texts + load64(record), load64(record + 8))
    if entry < 0:
        return entry
    kind = member(text, entry, end, texts, 5)
    shape = member(text, entry, end, texts + 5, 5)
    place = member(text, entry, end, texts + 10, 12)
    if kind < 0 or shape < 0 or place < 0:
        return -1
    length = load64(record + 24)
    if kind + length + 2 > end or load8(text + kind) != 34 or load8(text + kind + length + 1) != 34:
        return -3
    if is_same(text + kind + 1, texts + load64(record + 16), length) == 0:
        return -3
    if has_numbers(text, shape, end, numbers + load64(record + 32) * 8, load64(record + 40)) == 0:
        return -3
    if has_numbers(text, place, end, 0, 2) == 0:
        return -1
    at = space_end(text, place + 1, end)
    stop = digits_end(text, at, end)
    begin = number_at(text, at, stop)
    at = space_end(text, stop, end)
    at = space_end(text, at + 1, end)
    behind = number_at(text, at, digits_end(text, at, end))
    if behind > room or behind - begin != load64(record + 56):
        return -3
    return begin


def copy(to: int, source: int, count: int) -> int:
    """Copies bytes."""
    at = 0
    while at + 8 <= count:
        store64(to + at, load64(source + at))
        at = at + 8
    while at < count:
        store8(to + at, load8(source + at))
        at = at + 1
    return 0


def clear(to: int, count: int) -> int:
    """Zeros."""
    at = 0
    while at < count:
        store8(to + at, 0)
        at = at + 1
    return 0


def read_state(
    state: int, file: int, size: int, records: int, count: int, texts: int, numbers: int
) -> int:
    """Fills the fields of the state from the bytes of a file: 0, -1 for no such file, or -2 or -3
    as `tensor_at`, less the field's number times 4. Nothing is written where anything is wrong."""
    if size < 8:
        return -1
    header = load64(file)
    if header < 0 or header > size - 8:
        return -1
    room = size - 8 - header
    number = 0
    while number < count:
        begin = tensor_at(file + 8, header, room, records + number * 64, texts, numbers)
        if begin == -1:
            return -1
        if begin < 0:
            return begin - number * 4
        number = number + 1
    number = 0
    while number < count:
        record = records + number * 64
        begin = tensor_at(file + 8, header, room, record, texts, numbers)
        copy(state + load64(record + 48), file + 8 + header + begin, load64(record + 56))
        number = number + 1
    return 0


def save_state(
    state: int, file: int, size: int, head: int, length: int, records: int, count: int
) -> int:
    """Writes the bytes of a file: its head, and the fields behind it. How many there are; where
    `size` is less, nothing is written."""
    total = length
    number = 0
    while number < count:
        total = total + load64(records + number * 64 + 56)
        number = number + 1
    if size < total:
        return total
    copy(file, head, length)
    at = file + length
    number = 0
    while number < count:
        record = records + number * 64
        copy(at, state + load64(record + 48), load64(record + 56))
        at = at + load64(record + 56)
        number = number + 1
    return total


# -- writing an error's text -----------------------------------------------------------------------


def put_byte(buffer: int, size: int, at: int, byte: int) -> int:
    """A byte, where there is room for it and a 0 behind; the place of the next."""
    if at + 1 < size:
        store8(buffer + at, byte)
    return at + 1


def put_number(buffer: int, size: int, at: int, number: int) -> int:
    """A number in decimal digits. (The least of all has no positive; it is one more.)"""
    if number < 0:
        at = put_byte(buffer, size, at, 45)
        if number + number == 0:
            number = number + 1
        number = -number
    unit = 1
    while number // unit > 9:
        unit = unit * 10
    while unit > 0:
        at = put_byte(buffer, size, at, 48 + number // unit % 10)
        unit = unit // 10
    return at


def put_text(buffer: int, size: int, at: int, text: int, length: int) -> int:
    """Bytes of a text."""
    position = 0
    while position < length:
        at = put_byte(buffer, size, at, load8(text + position))
        position = position + 1
    return at


def put_message(
    buffer: int, size: int, message: int, length: int, value: int, work: int, records: int,
    texts: int,
) -> int:  # fmt: skip
    """The text of an error with its numbers (error_texts has the marks), and a 0 behind it; its
    length, whether or not there was room."""
    at = 0
    position = 0
    while position < length:
        byte = load8(message + position)
        if byte == 1:
            at = put_number(buffer, size, at, value)
        if byte == 2 or byte == 3:
            seen = 0
            if work != 0:
                seen = load64(work + (byte - 2) * 8)
            at = put_number(buffer, size, at, seen)
        if byte == 4:
            record = records + value * 64
            at = put_text(buffer, size, at, texts + load64(record), load64(record + 8))
        if byte > 4:
            at = put_byte(buffer, size, at, byte)
        position = position + 1
    if size > 0:
        last = at
        if last > size - 1:
            last = size - 1
        store8(buffer + last, 0)
    return at


FUNCTIONS: tuple[Callable[..., Any], ...] = (
    space_end, string_end, value_end, key_value, is_same, member, digits_end, number_at,
    has_numbers, tensor_at, copy, clear, read_state, save_state, put_byte, put_number, put_text,
    put_message,
)  # fmt: skip
FIXED_TEXTS = b"dtypeshapedata_offsets"
"""What `texts` begins with: the keys of a tensor's entry."""
