"""`frontend.nn.functional`: layers as functions of tensors, a file per family.

Layers: linear, conv, pooling, adaptive, fractional, normalization, activation, dropout, sparse
(tables), padding, patches, vision, attention and multi_head, grouped, short_time; images resized or
read at positions: interpolation, antialiasing, grid. Losses: loss (of classes), loss_pairs,
loss_margins, ctc, linear_cross_entropy, with reduction for all; distance. What PyTorch shows at the
top level or builds its layers of: torch_layers, torch_spatial, native_layers.
"""

# ruff: noqa: F401, F403 (what is public is said where it stands)

from typing import TYPE_CHECKING

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import namespace as _namespace
from frontend.overrides.protocol import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

if TYPE_CHECKING:
    from frontend.namespace.functional_names import *
else:
    from frontend.nn.functional import (
        activation,
        adaptive,
        attention,
        conv,
        ctc,
        distance,
        dropout,
        fractional,
        grid,
        grouped,
        interpolation,
        linear,
        linear_cross_entropy,
        loss,
        loss_margins,
        loss_pairs,
        multi_head,
        normalization,
        padding,
        patches,
        pooling,
        sparse,
        vision,
    )

    globals().update(_namespace("nn.functional"))
del TYPE_CHECKING, _namespace
