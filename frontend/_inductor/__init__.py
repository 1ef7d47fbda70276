"""`torch._inductor`: PyTorch's compiler, of which config names switches, and utils the cache on
disk."""

from __future__ import annotations

from frontend._inductor import config as config
from frontend._inductor import utils as utils
