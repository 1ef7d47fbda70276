"""Compiled graphs give the same bits on every target this machine runs: the op table's samples,
and drawn graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.target import executable

