"""`torch.testing`: comparing tensors, and making them. Files have the names of PyTorch's."""

from frontend.testing._comparison import assert_allclose, assert_close
from frontend.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
