"""`frontend.optim`: optimizers, named as PyTorch's."""

from frontend.optim.adam import Adam, AdamW
from frontend.optim.optimizer import Optimizer
from frontend.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
