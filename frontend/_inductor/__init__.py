"""`torch._inductor`: PyTorch's compiler, of which only the switches are named."""

from __future__ import annotations

from frontend._inductor import config as config
