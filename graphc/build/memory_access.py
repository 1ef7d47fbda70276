"""Bytes and numbers at addresses, as `brought_along` reads and writes them where it runs as Python.
In an object each of these is one instruction."""

from __future__ import annotations

import ctypes


def load8(address: int) -> int:
    """The byte there."""
    return int(ctypes.c_uint8.from_address(address).value)


def load64(address: int) -> int:
    """The i64 there."""
    return int(ctypes.c_int64.from_address(address).value)


def store8(address: int, value: int) -> None:
    """Writes the lowest byte."""
    ctypes.c_uint8.from_address(address).value = value & 255


def store64(address: int, value: int) -> None:
    """Writes an i64."""
    ctypes.c_int64.from_address(address).value = value
