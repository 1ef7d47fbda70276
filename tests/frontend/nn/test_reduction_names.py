"""`torch.nn._reduction`, by which packages derive losses from PyTorch's base class of them."""

from __future__ import annotations

import warnings

import pytest

from frontend.nn import _reduction


def test_reductions_by_number_and_by_their_former_arguments() -> None:
    assert [_reduction.get_enum(name) for name in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        _reduction.get_enum("most")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _reduction.legacy_get_string(False, None, emit_warning=False) == "sum"
        assert _reduction.legacy_get_enum(None, False, emit_warning=False) == 0
    with pytest.warns(UserWarning, match="will be deprecated"):
        assert _reduction.legacy_get_string(True, True) == "mean"
