"""`frontend.nn.utils`: what training loops do with parameters and their gradients, sequences of
several lengths (`rnn`), and weights that are computed (`parametrize`).

clip_grad keeps gradients small, convert_parameters makes parameters one vector, fusion joins layers
with their normalisation, init skips an initialisation, prune masks. Weights by direction and
length: parametrizations, and the former weight_norm and spectral_norm, with norms for all;
stateless is a former name, _named_member_accessor swaps a tensor.
"""

# ruff: noqa: F403

from __future__ import annotations

from typing import Any

from frontend.nn.utils import clip_grad, convert_parameters, rnn
from frontend.nn.utils.clip_grad import *
from frontend.nn.utils.convert_parameters import *

# Not when first asked for: these functions have the names of their modules.
from frontend.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from frontend.nn.utils.weight_norm import remove_weight_norm, weight_norm
from graphc.system import import_module

__all__ = [
    *clip_grad.__all__, *convert_parameters.__all__, "remove_spectral_norm", "remove_weight_norm",
    "rnn", "spectral_norm", "weight_norm",
]  # fmt: skip

# Imported when first asked for: `import frontend` stays fast.
_LAZY = {
    "fuse_conv_bn_eval": "fusion", "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion", "fuse_linear_bn_weights": "fusion", "skip_init": "init",
}  # fmt: skip
_MODULES = ("fusion", "init", "parametrizations", "parametrize", "prune", "stateless")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"frontend.nn.utils.{_LAZY[name]}"), name)
    if name in _MODULES:
        return import_module(f"frontend.nn.utils.{name}")
    raise AttributeError(f"module 'frontend.nn.utils' has no attribute {name!r}")
