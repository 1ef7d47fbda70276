"""The list of what `python -m tests.zoo --packages` runs, packages and repositories: `package` and
`repository` declare one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Package(NamedTuple):
    """`modules`: what is imported. `light`: meant for .ci/run. `stops`: why it is known not to run
    to its end, "" where it does. `checkout`: a repository's folder, "" for what is installed;
    `path`: the folder in it that its scripts lie in."""

    modules: tuple[str, ...]
    script: Callable[[Any], None]
    light: bool
    stops: str
    checkout: str = ""
    path: str = ""


PACKAGES: dict[str, Package] = {}


def package(*modules: str, light: bool = False, stops: str = "") -> Any:
    """Declare the script of the package that `modules` are of."""

    def declare(script: Callable[[Any], None]) -> Callable[[Any], None]:
        PACKAGES[script.__name__.rstrip("_")] = Package(modules, script, light, stops)
        return script

    return declare


def repository(checkout: str, path: str = "") -> Any:
    """Declare the script of a repository that lies in a folder of this name among the checkouts."""

    def declare(script: Callable[[Any], None]) -> Callable[[Any], None]:
        PACKAGES[script.__name__] = Package((), script, False, "", checkout, path)
        return script

    return declare
