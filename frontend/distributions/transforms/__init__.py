"""Invertible maps with the logarithm of their volume, named as PyTorch's.

transform is what all share; elementwise, simplex, matrices and shapes make one each, joined and
composed put several together.
"""

from frontend.distributions.transforms.composed import ComposeTransform, identity_transform
from frontend.distributions.transforms.elementwise import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    _clipped_sigmoid,  # noqa: F401
)
from frontend.distributions.transforms.joined import CatTransform, StackTransform
from frontend.distributions.transforms.matrices import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
)
from frontend.distributions.transforms.shapes import IndependentTransform, ReshapeTransform
from frontend.distributions.transforms.simplex import SoftmaxTransform, StickBreakingTransform
from frontend.distributions.transforms.transform import Transform, _InverseTransform  # noqa: F401

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip
