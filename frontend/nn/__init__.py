"""`frontend.nn`: modules, layers, losses and their functional forms, named as PyTorch's."""

from frontend.nn import functional, init
from frontend.nn.activation import GELU, LogSoftmax, ReLU, Sigmoid, Softmax, Tanh
from frontend.nn.container import ModuleList, Sequential
from frontend.nn.conv import Conv1d, Conv2d
from frontend.nn.dropout import Dropout
from frontend.nn.flatten import Flatten
from frontend.nn.linear import Identity, Linear
from frontend.nn.loss import CrossEntropyLoss, MSELoss, NLLLoss
from frontend.nn.module import Module
from frontend.nn.normalization import LayerNorm
from frontend.nn.parameter import Parameter
from frontend.nn.pooling import AvgPool2d, MaxPool2d
from frontend.nn.sparse import Embedding

__all__ = [
    "AvgPool2d", "Conv1d", "Conv2d", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten", "GELU",
    "Identity", "LayerNorm", "Linear", "LogSoftmax", "MSELoss", "MaxPool2d", "Module",
    "ModuleList", "NLLLoss", "Parameter", "ReLU", "Sequential", "Sigmoid", "Softmax", "Tanh",
    "functional", "init",
]  # fmt: skip
