"""Names that stand for what is not here come from one table, and do what it says of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from frontend.namespace.stubs import TABLE


def home(module: str) -> Any:
    """The module, or the class in it, that the table has a row for."""
    if module.startswith("utils.tensorboard"):
        pytest.importorskip("tensorboard")
    path, _, last = module.rpartition(".")
    if last[0].isupper():
        return getattr(import_module(f"frontend.{path}"), last)
    return import_module(f"frontend.{module}")


@pytest.mark.parametrize("module", TABLE)
def test_stubs_do_what_the_table_says(module: str) -> None:
    there = home(module)
    seen: set[str] = set()
    for stub in TABLE[module]:
        assert len(stub.why) > 8 and not stub.why.endswith(".")
        for name in stub.names.split():
            assert name not in seen, f"{module}.{name} stands in the table twice"
            seen.add(name)
            used = getattr(there, name)
            if stub.kind == "raises":
                assert used.absent == stub.why
                with pytest.raises(NotImplementedError, match="is not here: "):
                    used(1)
            else:
                assert used.stub == stub.kind and stub.why in used.__doc__
                assert used() is stub.value or used(None) == stub.value
                assert (stub.kind == "constant") or stub.value is None


def test_an_absent_class_can_be_derived_from_and_asked_about() -> None:
    from frontend.distributed.fsdp import FullyShardedDataParallel

    class Ours(FullyShardedDataParallel):  # type: ignore[misc,valid-type]
        pass

    assert not isinstance(3, FullyShardedDataParallel)
    with pytest.raises(
        NotImplementedError, match=r"distributed\.fsdp\.Ours is not here: each rank"
    ):
        Ours()
