"""`torch.utils.benchmark`: not here; each name raises NotImplementedError when used."""

from frontend.namespace.stubs import stubs

_ABSENT = stubs("utils.benchmark")
globals().update(_ABSENT)
__all__ = list(_ABSENT)
