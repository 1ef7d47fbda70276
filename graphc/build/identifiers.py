"""Names of graphs and state as identifiers that C11 and C++17 take, each once."""

from __future__ import annotations

import re

_C = """auto break case char const continue default do double else enum extern float for goto if
inline int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while"""
_CPP = """alignas alignof and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class
co_await co_return co_yield compl concept const_cast consteval constexpr constinit decltype delete
dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr operator
or or_eq private protected public reinterpret_cast requires static_assert static_cast template this
thread_local throw true try typeid typename using virtual wchar_t xor xor_eq"""
_MACROS = """NULL EOF I assert errno stdin stdout stderr linux unix i386 main offsetof INFINITY NAN
complex imaginary noreturn generic typeof typeof_unqual int8_t int16_t int32_t int64_t uint8_t
uint16_t uint32_t uint64_t size_t ptrdiff_t intptr_t uintptr_t"""
TAKEN = frozenset(f"{_C} {_CPP} {_MACROS}".split())
"""Keywords of either language, and names that headers or compilers make macros or types of."""


class Identifiers:
    """Identifiers of one scope. `taken` are there from the start."""

    def __init__(self, taken: frozenset[str] = frozenset()):
        self._taken = set(TAKEN | taken)

    def of(self, name: str) -> str:
        """An identifier like `name` that this scope does not have yet."""
        base = identifier(name)
        result, count = base, 1
        while result in self._taken:
            result, count = f"{base}_{count}", count + 1
        self._taken.add(result)
        return result


def identifier(name: str) -> str:
    """`name` with letters, digits and single underscores alone, none of them at its beginning (such
    names are the language's): a letter stands there."""
    plain = re.sub(r"[^A-Za-z0-9]+|__+", "_", name).replace("__", "_").strip("_")
    return plain if plain[:1].isalpha() else f"n{plain}"
