"""The list of packages that `python -m tests.zoo --packages` runs: `package` declares one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Package(NamedTuple):
    """`modules`: what is imported. `light`: meant for .ci/run. `stops`: why it is known not to run
    to its end, "" where it does."""

    modules: tuple[str, ...]
    script: Callable[[Any], None]
    light: bool
    stops: str


PACKAGES: dict[str, Package] = {}


def package(*modules: str, light: bool = False, stops: str = "") -> Any:
    """Declare the script of the package that `modules` are of."""

    def declare(script: Callable[[Any], None]) -> Callable[[Any], None]:
        PACKAGES[script.__name__.rstrip("_")] = Package(modules, script, light, stops)
        return script

    return declare
