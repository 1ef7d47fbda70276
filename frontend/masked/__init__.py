"""`torch.masked`: reductions and normalizations over the elements for which a mask is True. What is
masked out counts as the neutral element of the reduction. Masks broadcast to the input, and may not
have more dimensions.

The functions stand in _ops, where PyTorch has them. Masked tensors as a class are not there: what
is named for them here says so.
"""

from frontend.masked._ops import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)
from frontend.namespace.stubs import stubs

__all__ = [
    "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize",
    "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip
globals().update(stubs("masked"))
