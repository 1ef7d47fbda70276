"""`torch.UntypedStorage` and the typed storages: see `frontend.engine.tensors.storages`."""

from __future__ import annotations

from frontend.engine.tensors.storages import TYPED, TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

globals().update({kind.__name__: kind for kind in TYPED.values()})
