"""`frontend.nn.functional`: layers as functions of tensors. Losses, convolution and pooling stand
in files of their own and are part of this namespace."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend import random
from frontend.nn.checks import dimension, fail, require_float, scalar_name, sizes
from frontend.nn.functional_loss import cross_entropy, mse_loss, nll_loss
from frontend.nn.functional_spatial import avg_pool2d, conv1d, conv2d, max_pool2d, pad
from frontend.tensor import Tensor
from graphc.errors import AttributeValueError, DTypeError, IndexRangeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType
from graphc.ops import composite, contract, elementwise, indexing, movement

__all__ = [
    "avg_pool2d", "conv1d", "conv2d", "cross_entropy", "dropout", "embedding", "gelu",
    "layer_norm", "linear", "log_softmax", "max_pool2d", "mse_loss", "nll_loss", "one_hot", "pad",
    "relu", "scaled_dot_product_attention", "sigmoid", "softmax", "tanh",
]  # fmt: skip

# -- linear --------------------------------------------------------------------------------------


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input [*, in] times weight [out, in] transposed, plus bias [out]: [*, out]. A weight [in]
    gives [*]. Raises ShapeError where sizes do not fit, DTypeError where dtypes differ."""
    if not input.ndim or not weight.ndim:
        raise fail(
            ShapeError,
            "both arguments to linear need to be at least 1D, "
            f"but they are {input.ndim}D and {weight.ndim}D",
        )
    columns = weight if weight.ndim == 2 else movement.reshape(weight, shape=(1, *weight.shape))
    *lead, features = input.shape
    rows = input if input.ndim == 2 else movement.reshape(
        input, shape=(math.prod(lead), features)
    )  # fmt: skip
    _check_linear(rows, columns, bias)
    out = contract.matmul(rows, movement.transpose(columns, permutation=(1, 0)))
    if bias is not None:
        out = out + bias
    shape = (*lead, *weight.shape[:-1])
    return out if tuple(out.shape) == shape else movement.reshape(out, shape=shape)


def _check_linear(rows: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for other in (weight,) if bias is None else (weight, bias):
        if rows.dtype is not other.dtype:
            raise fail(
                DTypeError,
                "mat1 and mat2 must have the same dtype, "
                f"but got {scalar_name(rows)} and {scalar_name(other)}",
            )
    if rows.shape[1] != weight.shape[1]:
        by = f"{rows.shape[0]}x{rows.shape[1]} and {weight.shape[1]}x{weight.shape[0]}"
        raise fail(ShapeError, f"mat1 and mat2 shapes cannot be multiplied ({by})")
    if bias is not None and tuple(bias.shape) not in ((weight.shape[0],), (1,), ()):
        raise fail(
            ShapeError,
            f"The expanded size of the tensor ({weight.shape[0]}) must match the existing size "
            f"({bias.shape[-1]}) at non-singleton dimension 1.  Target sizes: "
            f"{[rows.shape[0], weight.shape[0]]}.  Tensor sizes: {sizes(bias)}",
        )


# -- activations ---------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0); the gradient at 0 is 0. With `inplace` the result replaces the input."""
    out = elementwise.relu(input)
    return input.copy_(out) if inplace else out


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input · Φ(input), exactly or by PyTorch's `approximate='tanh'` formula."""
    require_float(input, "GeluKernelImpl")
    if approximate not in ("none", "tanh"):
        raise fail(AttributeValueError, "approximate argument must be either none or tanh.")
    return composite.gelu(input, approximate=approximate)


def tanh(input: Tensor) -> Tensor:
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    return input.sigmoid()


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(input) over its sum along `dim`; `dtype` casts the input first. Without `dim`: 0 for
    inputs of 0, 1 or 3 dimensions, else 1, with PyTorch's warning. Raises IndexError."""
    return _along(composite.softmax, "softmax", input, dim, _stacklevel, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """The logarithm of `softmax`, exact where softmax underflows; the same arguments."""
    return _along(composite.log_softmax, "log_softmax", input, dim, _stacklevel, dtype)


def _along(op: Any, name: str, x: Tensor, dim: int | None, stacklevel: int, dtype: Any) -> Tensor:
    if dim is None:
        warnings.warn(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
            "dim=X as an argument.",
            stacklevel=stacklevel,
        )
        dim = 0 if x.ndim in (0, 1, 3) else 1
    axis = dimension(dim, x.ndim)
    x = x if dtype is None else x.to(dtype)
    require_float(x, f"{name}_lastdim_kernel_impl")
    if x.ndim == 0:
        return movement.reshape(op(movement.reshape(x, shape=(1,)), axis=0), shape=())
    return op(x, axis=axis)


# -- normalisation, dropout ----------------------------------------------------------------------


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """input over its last axes (`normalized_shape`) with mean 0 and variance 1, times `weight`,
    plus `bias`, both of that shape. Raises ShapeError, DTypeError."""
    shape = tuple(normalized_shape)
    require_float(input, "LayerNormKernelImpl")
    if not shape:
        raise fail(
            ShapeError,
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []",
        )
    for name, part in (("weight", weight), ("bias", bias)):
        if part is not None and tuple(part.shape) != shape:
            raise fail(
                ShapeError,
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{sizes(part)} and normalized_shape = {list(shape)}",
            )
        if part is not None and part.dtype is not input.dtype:
            raise fail(DTypeError, "mixed dtype (CPU): all inputs must share same datatype.")
    if tuple(input.shape[-len(shape) :]) != shape:
        raise fail(
            ShapeError,
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{sizes(input)}",
        )
    scale = broadcast_to(lift(1, input), shape) if weight is None else weight
    shift = broadcast_to(lift(0, input), shape) if bias is None else bias
    return composite.layer_norm(input, scale, shift, eps=eps)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training each element is 0 with probability p, else scaled by 1/(1-p); otherwise the
    input. The mask is drawn from the default generator: the same stream eager and compiled."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if not input.dtype.is_float:
        raise fail(
            DTypeError,
            f"result type Float can't be cast to the desired output type {scalar_name(input)}",
        )
    kept = random.rand(tuple(input.shape)) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    out = input * (elementwise.cast(kept, dtype=input.dtype) * scale)
    return input.copy_(out) if inplace else out


# -- lookup --------------------------------------------------------------------------------------


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


# -- attention -----------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query keyᵀ · scale + mask) value: query [*, L, E], key [*, S, E] and value [*, S, V]
    give [*, L, V]; `scale` is 1/√E by default.

    A bool `attn_mask` [*, L, S] says what takes part, a float one is added; `is_causal` lets
    position i see j <= i. A row that sees nothing gives zeros. `dropout_p` always applies.
    """
    _check_attention(query, key, value, attn_mask, is_causal)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    mask = _causal(scores) if is_causal else attn_mask
    if mask is None:
        weights = softmax(scores, dim=-1)
    else:
        weights = _masked_softmax(scores, mask)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return weights @ value


def _causal(scores: Tensor) -> Tensor:
    length, source = scores.shape[-2:]
    return scores.context.constant(np.tri(length, source, dtype=bool))


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    hidden = broadcast_to(lift(-math.inf, scores), scores.shape)
    if mask.dtype is DType.bool:
        seen = broadcast_to(mask, scores.shape)
    else:
        added = broadcast_to(mask, scores.shape)
        seen = elementwise.ne(added, hidden)
        scores = scores + added
    weights = composite.softmax(elementwise.where(seen, scores, hidden), axis=scores.ndim - 1)
    return elementwise.where(seen, weights, broadcast_to(lift(0, scores), scores.shape))


def _check_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
) -> None:
    if mask is not None and is_causal:
        raise fail(
            AttributeValueError,
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True",
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise fail(
            ShapeError,
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead.",
        )
    if not query.dtype is key.dtype is value.dtype:
        raise fail(
            DTypeError,
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{scalar_name(query)} key.dtype: {scalar_name(key)} and value.dtype: "
            f"{scalar_name(value)} instead.",
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise fail(
            ShapeError,
            f"attention of query {sizes(query)}, key {sizes(key)}, value {sizes(value)}: query and "
            "key share their last size, key and value their second-last",
        )
