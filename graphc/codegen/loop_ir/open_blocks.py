"""What stands open while a kernel is written: blocks, loops, branches.

Loops and branches of several blocks get `inside`, which opens a block in the current one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from graphc.codegen.loop_ir.nodes import LoopValue, Statement
from graphc.errors import VerifyError


class OpenBlock:
    """A block being written. `parent` is the block its loop or branch stands in."""

    __slots__ = ("depth", "is_open", "parent", "statements")

    def __init__(self, parent: OpenBlock | None) -> None:
        self.statements: list[Statement] = []
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.is_open = True

    def encloses(self, other: OpenBlock) -> bool:
        """Whether `other` is this block or lies inside it."""
        inner: OpenBlock | None = other
        while inner is not None:
            if inner is self:
                return True
            inner = inner.parent
        return False


OpensBlock = Callable[[], AbstractContextManager[OpenBlock]]


class OpenLoop:
    """A for loop being written: `variable`, `carried` inside, `results` after it."""

    def __init__(self, variable: LoopValue, carried: tuple[LoopValue, ...]) -> None:
        self.variable = variable
        self.carried = carried
        self.yields: tuple[LoopValue, ...] = ()
        self.results: tuple[LoopValue, ...] = ()

    def yield_(self, *values: LoopValue) -> None:
        """What the next iteration, or the result, gets for the carried values."""
        self.yields = values


class OpenBranch:
    """A branch being written: blocks `then()` and `otherwise()`, `results` after it."""

    def __init__(self, inside: OpensBlock) -> None:
        self._inside = inside
        self.blocks: list[tuple[OpenBlock, tuple[LoopValue, ...]]] = [(OpenBlock(None), ())] * 2
        self._yields: tuple[LoopValue, ...] = ()
        self.results: tuple[LoopValue, ...] = ()

    def yield_(self, *values: LoopValue) -> None:
        """The results of the branch when this block runs; in number and type as in the other."""
        self._yields = values

    def then(self) -> AbstractContextManager[None]:
        """Context manager: the block that runs when the condition holds."""
        return self._arm(0)

    def otherwise(self) -> AbstractContextManager[None]:
        """Context manager: the block that runs when the condition does not hold."""
        return self._arm(1)

    @contextmanager
    def _arm(self, arm: int) -> Iterator[None]:
        self._yields = ()
        with self._inside() as block:
            yield
        self.blocks[arm] = (block, self._yields)


class OpenWhile:
    """A while loop being written: blocks `condition()` and `body()`, `results` after it."""

    def __init__(self, inside: OpensBlock, carried: tuple[LoopValue, ...]) -> None:
        self._inside = inside
        self.condition_block = OpenBlock(None)
        self.body_block = OpenBlock(None)
        self.tested: LoopValue | None = None
        self.carried = carried
        self.yields: tuple[LoopValue, ...] = ()
        self.results: tuple[LoopValue, ...] = ()

    @contextmanager
    def condition(self) -> Iterator[None]:
        """The block that ends in `test(...)`."""
        with self._inside() as self.condition_block:
            yield

    @contextmanager
    def body(self) -> Iterator[None]:
        """The block that ends in `yield_(...)`."""
        with self._inside() as self.body_block:
            yield

    def test(self, condition: LoopValue) -> None:
        """The scalar bool that decides whether the body runs."""
        self.tested = condition

    def yield_(self, *values: LoopValue) -> None:
        """What the next test gets for the carried values."""
        self.yields = values


def check_yields(kind: str, wanted: Sequence[LoopValue], yields: Sequence[LoopValue]) -> None:
    """Raises VerifyError where a block yields other types than are wanted of it."""
    if [value.type for value in yields] == [value.type for value in wanted]:
        return
    have, want = (", ".join(str(value.type) for value in all) for all in (yields, wanted))
    raise VerifyError(f"the {kind} yields ({have}), not ({want})")
