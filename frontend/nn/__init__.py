"""`frontend.nn`: modules, layers, losses and their functional forms, named as PyTorch's."""

# ruff: noqa: F401, F403

from frontend.nn import functional, init, modules, parameter, utils
from frontend.nn.modules import *
from frontend.nn.parameter import Buffer, Parameter
