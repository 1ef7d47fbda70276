"""The layers, a file per family. Each says in `__all__` what `frontend.nn` shows."""

# ruff: noqa: F403

from frontend.nn.modules.activation import *
from frontend.nn.modules.container import *
from frontend.nn.modules.conv import *
from frontend.nn.modules.dropout import *
from frontend.nn.modules.flatten import *
from frontend.nn.modules.linear import *
from frontend.nn.modules.loss import *
from frontend.nn.modules.module import *
from frontend.nn.modules.normalization import *
from frontend.nn.modules.pooling import *
from frontend.nn.modules.sparse import *
