"""The part of the graphs' grammar that sizes known only at run time have: the clause that names
them, ` where 0 <= n, 1 <= m <= 8`, and extents, `2*n + ((n + 3) floordiv 4) - 1`."""

from __future__ import annotations

import operator
from contextlib import AbstractContextManager
from typing import Any

from graphc.ir.dims import FLOORDIV, Extent, dim


class SizeGrammar:
    """What a parser reads of sizes, from its tokens. The rest of the parser has what is declared
    here."""

    _sizes: dict[str, Extent]
    """The sizes of the graph under way, by name."""
    peek: Any
    accept: Any
    expect: Any
    here: Any
    _error: Any
    _guarded: Any
    _plain_number: Any

    def _nested(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    def _ahead(self, *wanted: str) -> AbstractContextManager[None]:
        raise NotImplementedError

    def _following(self) -> tuple[tuple[str, str], tuple[str, str]]:
        raise NotImplementedError

    def _read_sizes(self) -> dict[str, Extent]:
        """The sizes that stand behind the inputs: ` where 0 <= n, 1 <= m <= 8 {`. They are read
        ahead: types of inputs name them."""
        with self._ahead("where", "{"):
            return self._clause() if self.accept("where") else {}

    def _clause(self) -> dict[str, Extent]:
        own: dict[str, Extent] = {}
        while True:
            position = self.here()
            least = self._whole()
            self.expect("<=")
            name = self.expect("name")
            most = self._whole() if self.accept("<=") else None
            if name in own:
                raise self._error(f"size {name} is given twice", position)
            own[name] = self._guarded(position, dim, name, least, most)
            if not self.accept(","):
                break
        if not self.peek("{"):
            self.expect("{")
        return own

    def _whole(self) -> int:
        position = self.here()
        number = self._plain_number(self.expect("number"), position)
        if not isinstance(number, int):
            raise self._error("a bound of a size is an integer", position)
        return number

    def _stands_extent(self) -> bool:
        """Whether what follows is an extent that is no number."""
        (kind, text), (_, behind) = self._following()
        if kind == "number":
            return behind in ("*", "+", "-")
        return text in ("(", "-") or (kind == "name" and text in self._sizes)

    def _sum(self) -> Extent:
        with self._nested():
            total = self._product()
            while sign := self.accept("+") or self.accept("-"):
                term = self._product()
                total = total + term if sign == "+" else total - term
            return total

    def _product(self) -> Extent:
        position = self.here()
        value = self._factor()
        while sign := self.accept("*") or self.accept(FLOORDIV):
            by = self._factor()
            apply = operator.mul if sign == "*" else operator.floordiv
            value = self._guarded(position, apply, value, by)
        return value

    def _factor(self) -> Extent:
        position = self.here()
        if self.accept("-"):
            return -self._factor()
        if self.accept("("):
            value = self._sum()
            self.expect(")")
            return value
        if self.peek("number"):
            return self._whole()
        name = self.expect("name")
        if name not in self._sizes:
            raise self._error(f"size {name} is not defined", position)
        return self._sizes[name]
