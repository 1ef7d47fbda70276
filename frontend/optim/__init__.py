"""`frontend.optim`: optimizers, named as PyTorch's; schedules in `frontend.optim.lr_scheduler`.

optimizer is what all share, with groups (their options and state), options (what is checked) and
saving (state dicts). sgd, adam, adam_variants, adagrad, rmsprop, rprop, asgd, adafactor, muon,
sparse_adam and lbfgs (by line_search) are the rules; adadelta, adamax, adamw, nadam and radam are
PyTorch's modules of one class. swa_utils averages weights.
"""

from __future__ import annotations

from typing import Any

from frontend.optim.adam import Adam, AdamW
from frontend.optim.lbfgs import LBFGS  # Pyro asks for it as it goes over the names here
from frontend.optim.optimizer import Optimizer
from frontend.optim.sgd import SGD
from graphc.system import import_module

# Imported when first asked for: `import frontend` stays fast.
_LAZY = {
    "ASGD": "asgd", "Adadelta": "adagrad", "Adafactor": "adafactor", "Adagrad": "adagrad",
    "Adamax": "adam_variants", "Muon": "muon", "NAdam": "adam_variants",
    "RAdam": "adam_variants", "RMSprop": "rmsprop", "Rprop": "rprop", "SparseAdam": "sparse_adam",
}  # fmt: skip

__all__ = ["LBFGS", "SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler", "swa_utils"]
__all__ += sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name in ("lr_scheduler", "swa_utils"):
        return import_module(f"frontend.optim.{name}")
    if name in _LAZY:
        return getattr(import_module(f"frontend.optim.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'frontend.optim' has no attribute {name!r}")
