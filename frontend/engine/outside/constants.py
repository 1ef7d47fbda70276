"""The objects that generated code names."""

from __future__ import annotations


class Constants:
    """`of(value)` is a name for an object, by which the code finds it: it is one of `names`."""

    def __init__(self) -> None:
        self._values: list[object] = []

    def of(self, value: object) -> str:
        self._values.append(value)
        return f"c{len(self._values) - 1}"

    @property
    def names(self) -> dict[str, object]:
        return {f"c{number}": value for number, value in enumerate(self._values)}
