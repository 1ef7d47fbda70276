"""`torch.utils.weak`: weak references to tensors, and a mapping that holds its keys weakly
and tells them apart by which object they are, as `==` of tensors is elementwise."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]

_Entries = dict[Any, Any]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that is equal to those to the same object, while that lives."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None):
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        key = self()
        if key is None or not isinstance(other, WeakIdRef):
            return self is other
        return key is other()


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A mapping from objects, of which an entry goes when its key does."""

    def __init__(self, dict: Mapping[Any, Any] | None = None, ref_type: type = WeakIdRef):
        self.data: _Entries = {}
        self.ref_type = ref_type
        this = weakref.ref(self)

        def remove(key: Any) -> None:
            if (mapping := this()) is not None:
                mapping.data.pop(key, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.data[self.ref_type(key)]
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # there are no weak references to such
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            if (key := reference()) is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Another one of the same entries."""
        return type(self)(self, self.ref_type)


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Any):
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()
