"""Classes whose instances stand in for ints or floats of Python: what `type(n)` tells of one.

`isinstance` asks an instance for its `__class__`; `type` does not. What code of the user's does
with the class it gets then goes as with the class that is stood in for: `==`, a use as a key, its
name, a call. Our own code still tells the two apart. (`is` cannot be told: see
frontend.engine.outside.bytecode.)
"""

from __future__ import annotations

import sys
from typing import Any

from graphc.ir.own_frames import is_own


class StandIn(type):
    """The class of such classes; `stands_for` is the class stood in for."""

    stands_for: type

    def __eq__(cls, other: object) -> bool:
        return cls is other or (other is cls.stands_for and not is_own(sys._getframe(1)))

    def __hash__(cls) -> int:
        return hash(cls.stands_for)

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        build = super().__call__ if is_own(sys._getframe(1)) else cls.stands_for
        return build(*arguments, **keywords)

    def __instancecheck__(cls, value: Any) -> bool:
        known = super().__instancecheck__(value)
        return known or (not is_own(sys._getframe(1)) and isinstance(value, cls.stands_for))

    def __repr__(cls) -> str:
        return repr(cls.stands_for)

    __name__ = property(lambda cls: cls.stands_for.__name__)
