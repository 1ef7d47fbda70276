"""`torch.nested`: not here; each name raises NotImplementedError when used."""

from frontend.namespace.stubs import stubs

_ABSENT = stubs("nested")
globals().update(_ABSENT)
__all__ = list(_ABSENT)
