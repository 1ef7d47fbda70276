"""`frontend.optim.lr_scheduler`: learning rates over time, named as PyTorch's.

A scheduler changes the `lr` (and some the momentum) of an optimizer's groups. A compiled step reads
both anew at each call, so a new value is no new trace. `step()` belongs outside compiled code.

base counts steps; decay, cosine, cyclic and plateau are the schedules, combined puts some together.
"""

from frontend.optim.lr_scheduler.base import LRScheduler, _LRScheduler
from frontend.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from frontend.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from frontend.optim.lr_scheduler.cyclic import CyclicLR, OneCycleLR
from frontend.optim.lr_scheduler.decay import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from frontend.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR",
    "StepLR", "_LRScheduler",
]  # fmt: skip
