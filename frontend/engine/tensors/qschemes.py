"""How scales and zero points are chosen and for what: names that observers take."""

from __future__ import annotations

__all__ = [
    "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric",
    "per_tensor_affine", "per_tensor_symmetric", "qscheme",
]  # fmt: skip


class qscheme:
    """One scale and zero point for a tensor, or for each of its channels; symmetric around 0 or by
    the range of numbers."""

    def __init__(self, name: str):
        self.name = name
        self.is_per_channel = name.startswith("per_channel")
        self.is_symmetric = name.endswith("symmetric")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


per_tensor_affine, per_tensor_symmetric = (
    qscheme("per_tensor_affine"),
    qscheme("per_tensor_symmetric"),
)
per_channel_affine = qscheme("per_channel_affine")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")
