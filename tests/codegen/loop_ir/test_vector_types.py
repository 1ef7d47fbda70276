"""Types of loop values: one object each, which cannot be changed."""

from __future__ import annotations

import pickle

import pytest

from graphc.codegen.loop_ir.opcodes import VectorType, result_type
from graphc.errors import VerifyError
from graphc.ir.types import DType


def test_equal_types_are_one_object_also_after_pickling() -> None:
    vector = VectorType(DType.f32, 8)
    assert vector is VectorType(DType.f32, 1).with_lanes(8)
    assert pickle.loads(pickle.dumps(vector)) is vector
    assert vector != VectorType(DType.f32, 4)
    assert (str(vector), str(vector.with_lanes(1))) == ("f32x8", "f32")


def test_a_type_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="lanes cannot be set"):
        VectorType(DType.f32).lanes = 4
    with pytest.raises(VerifyError, match="a vector of 0 lanes"):
        VectorType(DType.f32, 0)


def test_what_does_not_fit_is_refused_each_time() -> None:
    """Results are remembered, errors are not."""
    types = (VectorType(DType.f32), VectorType(DType.f64))
    for _ in range(2):
        with pytest.raises(VerifyError, match="operands differ in type"):
            result_type("add", types)
