"""`torch.utils.weak`, and submodules of `torch.utils` as attributes."""

from __future__ import annotations

import gc

import pytest

import frontend as torch
from frontend.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakTensorKeyDictionary


def test_keys_are_told_apart_by_which_tensor_they_are() -> None:
    a, b = torch.ones(2), torch.ones(2)
    names = WeakTensorKeyDictionary({a: "a"})
    names[b] = "b"
    assert names[a] == "a" and names[b] == "b" and len(names) == 2
    assert a in names and torch.ones(2) not in names and 3 not in names
    assert [key is each for key, each in zip(names, (a, b), strict=True)] == [True, True]
    del names[a]
    with pytest.raises(KeyError, match="tensor"):
        names[a]
    assert list(names.copy().values()) == ["b"]


def test_an_entry_goes_with_its_key() -> None:
    a, b = torch.ones(2), torch.ones(3)
    names = WeakIdKeyDictionary({a: 1, b: 2})
    reference = TensorWeakRef(a)
    assert reference() is a
    del a
    gc.collect()
    assert reference() is None and list(names.values()) == [2] and len(names) == 1


def test_modules_that_pytorch_imports_itself_are_attributes() -> None:
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.utils.deterministic.fill_uninitialized_memory = True
    assert torch.utils.weak.WeakIdKeyDictionary is WeakIdKeyDictionary
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        torch.utils.nonsense  # noqa: B018
