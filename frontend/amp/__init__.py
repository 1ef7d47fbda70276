"""`torch.amp`: computing in shorter floats where that is safe enough.

autocast_mode chooses dtypes inside a block, grad_scaler scales losses.
"""

from frontend.amp.autocast_mode import (
    autocast,
    custom_bwd,
    custom_fwd,
    is_autocast_available,
)
from frontend.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
