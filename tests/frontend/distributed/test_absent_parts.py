"""Parts of torch.distributed that are not here: libraries import them wherever torch.distributed is
available, so they can be imported, and say so when they are used."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import frontend.distributed as dist
from frontend.distributed.tensor import Partial, Replicate, Shard

NAMES = {
    "_composable.fsdp": "fully_shard",
    "_functional_collectives": "all_to_all_single_autograd wait_tensor",
    "checkpoint": "load save",
    "checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "checkpoint.state_dict": "get_model_state_dict set_model_state_dict StateDictOptions",
    "device_mesh": "DeviceMesh init_device_mesh",
    "fsdp": "CPUOffloadPolicy FullyShardedDataParallel MixedPrecisionPolicy",
    "tensor": "DTensor distribute_tensor",
    "tensor._utils": "compute_local_shape_and_global_offset",
}


@pytest.mark.parametrize("module", NAMES)
def test_they_say_so(module: str) -> None:
    assert dist.is_available()
    for name in NAMES[module].split():
        part = getattr(importlib.import_module(f"frontend.distributed.{module}"), name)
        assert not isinstance(1, part)
        with pytest.raises(NotImplementedError, match=f"{name} is not here: .+"):
            part()


def test_one_name_is_one_class() -> None:
    from frontend.distributed import _composable, device_mesh, fsdp, tensor
    from frontend.distributed._composable import fsdp as former

    assert _composable.__name__.endswith("_composable")
    pairs: list[tuple[Any, Any, str]] = [
        (tensor, device_mesh, "DeviceMesh"), (former, fsdp, "fully_shard"),
    ]  # fmt: skip
    assert all(getattr(a, name) is getattr(b, name) for a, b, name in pairs)


def test_placements_are_values() -> None:
    placed = [Replicate(), Shard(0), Shard(1), Partial(), Partial("max")]
    assert len({Replicate(), *placed, Shard(1)}) == 5
    assert [each.is_replicate() for each in placed] == [True, False, False, False, False]
    assert [each.is_shard() for each in placed] == [False, True, True, False, False]
    assert [each.is_shard(1) for each in placed] == [False, False, True, False, False]
    assert [each.is_partial("sum") for each in placed] == [False, False, False, True, False]
