"""`torch._subclasses`: the mode in which ops compute types alone."""

from frontend._subclasses.fake_tensor import FakeTensor as FakeTensor  # type: ignore[attr-defined]
from frontend._subclasses.fake_tensor import FakeTensorMode

__all__ = ["FakeTensorMode"]
