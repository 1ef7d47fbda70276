"""Compiled graphs give the same bits on every target this machine runs: the op table's samples,
and drawn graphs."""

from __future__ import annotations
