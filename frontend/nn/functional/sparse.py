"""Rows of a table by index."""

from __future__ import annotations

from frontend.nn.checks import fail, scalar_name, sizes
from frontend.tensor import Tensor
from graphc.errors import AttributeValueError, DTypeError, IndexRangeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType
from graphc.ops import composite, elementwise, indexing, movement

__all__ = ["embedding", "one_hot"]


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of weight [rows, features] at the indices `input` [*]: [*, features]. The row at
    `padding_idx` takes no gradient. Raises IndexRangeError for an index out of range."""
    if not input.dtype.is_integer:
        raise fail(
            DTypeError,
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got torch.{scalar_name(input)}Tensor instead (while checking "
            "arguments for embedding)",
        )
    if weight.ndim != 2:
        raise fail(ShapeError, f"'weight' must be 2-D, got size {sizes(weight)}")
    rows = indexing.take(weight, input, axis=0)
    if padding_idx is None:
        return rows
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    row = padding_idx % weight.shape[0]
    padded = elementwise.eq(input, broadcast_to(lift(row, input), input.shape))
    column = movement.reshape(padded, shape=(*input.shape, 1))
    return elementwise.where(broadcast_to(column, rows.shape), rows.detach(), rows)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Classes [*] of int64 as int64 [*, num_classes] with a 1 at each class.

    `num_classes=-1` reads the greatest class from the data, so it is an error while tracing.
    Raises DTypeError, and IndexRangeError for a class out of range.
    """
    if tensor.dtype is not DType.i64:
        raise fail(DTypeError, "one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        if not tensor.numel():
            raise fail(ShapeError, "Can not infer total number of classes from empty tensor.")
        if int(tensor.min()) < 0:
            raise fail(IndexRangeError, "Class values must be non-negative.")
        num_classes = int(tensor.max()) + 1
    if num_classes < 1:
        raise fail(AttributeValueError, "Class values must be smaller than num_classes.")
    return composite.one_hot(tensor, classes=num_classes)
