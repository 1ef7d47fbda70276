"""Dtypes PyTorch has and there are none of here: names that can be compared, shown and put in
tables. A tensor of one cannot be made: functions raise TypeError for it."""

from __future__ import annotations

__all__ = [
    "bits16", "bits1x8", "bits2x4", "bits4x2", "bits8", "chalf", "complex32", "float4_e2m1fn_x2",
    "qint32", "qint8", "quint2x4", "quint4x2", "quint8",
]  # fmt: skip


class AbsentDType:
    """The name of a dtype that no tensor has."""

    def __init__(self, name: str, itemsize: int):
        self.name = name
        self.itemsize = itemsize
        self.is_complex = name.startswith("complex")
        self.is_floating_point = name.startswith("float")
        self.is_signed = not name.startswith(("uint", "quint", "bits"))

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


complex32 = chalf = AbsentDType("complex32", 4)
float4_e2m1fn_x2 = AbsentDType("float4_e2m1fn_x2", 1)
qint8, quint8, qint32 = AbsentDType("qint8", 1), AbsentDType("quint8", 1), AbsentDType("qint32", 4)
quint4x2, quint2x4 = AbsentDType("quint4x2", 1), AbsentDType("quint2x4", 1)
bits8, bits16 = AbsentDType("bits8", 1), AbsentDType("bits16", 2)
bits1x8, bits2x4, bits4x2 = (AbsentDType(f"bits{text}", 1) for text in ("1x8", "2x4", "4x2"))
