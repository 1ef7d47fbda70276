"""`torch.UntypedStorage` and the typed storages: see `frontend.tensors.storages`."""

from __future__ import annotations

from frontend.tensors.storages import TYPED, TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

globals().update({kind.__name__: kind for kind in TYPED.values()})
