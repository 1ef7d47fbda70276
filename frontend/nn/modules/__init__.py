"""The layers, a file per family. Each says in `__all__` what `frontend.nn` shows.

module is `Module`, built on tree (walking), own_state, state_dict and loading (what is saved),
hooks, backward_hooks and global_hooks, conversion (dtypes and modes); container and
parameter_container hold others, lazy learns sizes from its first input.

linear, conv, pooling, fractional, padding, fold, flatten, pixelshuffle, channelshuffle, upsampling,
activation, adaptive_softmax, dropout, sparse, distance; batchnorm, instancenorm, normalization and
synchronized; rnn and rnn_cells; attention and transformer; loss, loss_pairs, loss_margins,
loss_sequences and linear_cross_entropy. former has older names, elsewhere those that PyTorch
defines in another file, utils PyTorch's helper.
"""

# ruff: noqa: F403

from typing import Any as _Any

from frontend.nn.modules.activation import *
from frontend.nn.modules.attention import *
from frontend.nn.modules.batchnorm import *
from frontend.nn.modules.container import *
from frontend.nn.modules.conv import *
from frontend.nn.modules.distance import *
from frontend.nn.modules.dropout import *
from frontend.nn.modules.flatten import *
from frontend.nn.modules.fold import *
from frontend.nn.modules.instancenorm import *
from frontend.nn.modules.linear import *
from frontend.nn.modules.loss import *
from frontend.nn.modules.loss_margins import *
from frontend.nn.modules.loss_pairs import *
from frontend.nn.modules.loss_sequences import *
from frontend.nn.modules.module import *
from frontend.nn.modules.normalization import *
from frontend.nn.modules.padding import *
from frontend.nn.modules.parameter_container import *
from frontend.nn.modules.pixelshuffle import *
from frontend.nn.modules.pooling import *
from frontend.nn.modules.rnn import *
from frontend.nn.modules.rnn_cells import *
from frontend.nn.modules.sparse import *
from frontend.nn.modules.transformer import *
from frontend.nn.modules.upsampling import *
from graphc.system import import_module as _import_module

_FILES = {
    "frontend.nn.modules.adaptive_softmax": "AdaptiveLogSoftmaxWithLoss",
    "frontend.nn.modules.fractional": "FractionalMaxPool2d FractionalMaxPool3d",
    "frontend.nn.modules.former": "Container CrossMapLRN2d",
    "frontend.nn.modules.lazy": (
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d "
        "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d "
        "LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LazyModuleMixin"
    ),
    "frontend.nn.modules.linear_cross_entropy": (
        "LinearCrossEntropyLoss LinearCrossEntropyOptions"
    ),
    "frontend.nn.uninitialized": "UninitializedBuffer UninitializedParameter",
}
RARE = {name: file for file, names in _FILES.items() for name in names.split()}
"""Layers that few programs have, by the file that is imported when one is asked for."""


def __getattr__(name: str) -> _Any:
    """A rare layer; or `utils`, which must not be one of the names that `frontend.nn` takes from
    here."""
    if name in RARE:
        return getattr(_import_module(RARE[name]), name)
    if name == "utils":
        return _import_module("frontend.nn.modules.utils")
    raise AttributeError(f"module 'frontend.nn.modules' has no attribute {name!r}")
