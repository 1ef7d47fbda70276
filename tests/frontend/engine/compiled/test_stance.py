"""`set_stance`: whether compiled functions compile, in a block, in a decorated function, from now
on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import frontend as torch
from frontend.compiler import set_stance


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    set_stance("default")


def sign() -> Any:
    """A compiled function that tells how it ran: 1 compiled, -1 eagerly."""

    @torch.compile
    def told(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_compiling() else x - 1

    return told


def of(function: Any, size: int = 3) -> float:
    return float(function(torch.zeros(size))[0])


def test_force_eager_in_all_its_forms() -> None:
    function = sign()
    decorated = set_stance("force_eager")(lambda: of(function))
    assert (of(function), decorated(), of(function)) == (1, -1, 1)
    with set_stance("force_eager"):
        assert of(function) == -1
        with set_stance("default"):
            assert of(function) == 1
        assert of(function) == -1
    assert of(function) == 1
    set_stance("force_eager")
    assert of(function) == -1 == of(sign())
    set_stance("default")
    assert of(function) == 1


def test_a_block_that_raises_gives_the_stance_back() -> None:
    function = sign()
    with pytest.raises(ValueError, match="own"), set_stance("force_eager"):
        raise ValueError("own")
    assert of(function) == 1


def test_what_would_be_compiled_runs_eagerly_or_raises() -> None:
    function, other = sign(), sign()
    assert of(function) == 1
    with set_stance("eager_on_recompile"):
        assert (of(function), of(function, 4), of(function), of(other)) == (1, -1, 1, -1)
    with set_stance("fail_on_recompile"):
        assert of(function) == 1
        with pytest.raises(RuntimeError, match="would be compiled for this call"):
            of(function, 4)
        with pytest.raises(RuntimeError, match="would be compiled for this call"):
            of(other)
    assert of(function, 4) == 1


def test_a_program_for_other_sizes_is_no_new_one() -> None:
    function = sign()
    for size in (3, 4, 5):
        of(function, size)
    programs = len(function.trace_reasons)
    with set_stance("fail_on_recompile"):
        assert of(function, 11) == 1
    assert programs == len(function.trace_reasons)


def test_what_is_known_not_to_trace_runs_as_before() -> None:
    @torch.compile
    def branching(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.warns(UserWarning, match="runs eagerly"):
        of(branching)
    with set_stance("fail_on_recompile"):
        assert of(branching) == -1


def test_inside_a_compiled_function_it_raises() -> None:
    @torch.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        with set_stance("force_eager"):
            return x + 1

    with pytest.raises(RuntimeError, match="inside a compiled function"):
        function(torch.zeros(3))


def test_other_stances() -> None:
    with pytest.raises(RuntimeError, match=r"invalid torch\.compile stance 'lazy'"):
        set_stance("lazy")
    with pytest.raises(NotImplementedError, match="the stances here are default, force_eager"):
        set_stance("eager_then_compile")
    with pytest.raises(RuntimeError, match="force_backend is for the stance 'default'"):
        set_stance("force_eager", force_backend="eager")
    set_stance("default", force_backend="eager", skip_guard_eval_unsafe=True)
