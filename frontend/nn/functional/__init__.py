"""`frontend.nn.functional`: layers as functions of tensors, a file per family."""

# ruff: noqa: F401, F403 (each file says in __all__ what is public)

from frontend.nn.functional.activation import *
from frontend.nn.functional.adaptive import *
from frontend.nn.functional.attention import *
from frontend.nn.functional.conv import *
from frontend.nn.functional.ctc import *
from frontend.nn.functional.distance import *
from frontend.nn.functional.dropout import *
from frontend.nn.functional.fractional import *
from frontend.nn.functional.grid import *
from frontend.nn.functional.grouped import *
from frontend.nn.functional.interpolation import *
from frontend.nn.functional.linear import *
from frontend.nn.functional.linear_cross_entropy import *
from frontend.nn.functional.loss import *
from frontend.nn.functional.loss_margins import *
from frontend.nn.functional.loss_pairs import *
from frontend.nn.functional.multi_head import *
from frontend.nn.functional.normalization import *
from frontend.nn.functional.padding import *
from frontend.nn.functional.patches import *
from frontend.nn.functional.pooling import *
from frontend.nn.functional.sparse import *
from frontend.nn.functional.vision import *
from frontend.overrides.protocol import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)
from frontend.tensors.tensor import Tensor
