"""`frontend.nn.utils`: what training loops do with parameters and their gradients, and sequences
of several lengths (`rnn`)."""

# ruff: noqa: F403

from __future__ import annotations

from frontend.nn.utils import clip_grad, convert_parameters, rnn
from frontend.nn.utils.clip_grad import *
from frontend.nn.utils.convert_parameters import *

__all__ = [*clip_grad.__all__, *convert_parameters.__all__, "rnn"]
