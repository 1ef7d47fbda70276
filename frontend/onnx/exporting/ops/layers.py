"""Products, convolutions, pooling, norms, attention."""

from __future__ import annotations

import math
from typing import Any

from frontend.onnx.exporting.declarations import exports
from frontend.onnx.importing.errors import OnnxNotHere
from graphc.ir.types import DType


@exports("matmul")
def matmul(w: Any, node: Any, x: str, y: str) -> Any:
    return w.add("MatMul", [x, y])


@exports("addmm")
def addmm(w: Any, node: Any, c: str, a: str, b: str) -> Any:
    if all(w.type_of(value).rank == 2 for value in node.operands[1:]):
        return w.add("Gemm", [a, b, c])
    return w.add("Add", [w.add("MatMul", [a, b]), c])


@exports("conv")
def conv(
    w: Any, node: Any, x: str, weight: str, *, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    return w.add(
        "Conv", [x, weight], strides=list(stride), pads=[*padding, *padding],
        dilations=list(dilation), group=groups,
    )  # fmt: skip


@exports("conv_input_grad")
def conv_transpose(
    w: Any, node: Any, x: str, weight: str, *, size: Any, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    """A transposed convolution: what a result is larger by than its windows reach is padding."""
    have, kernel = (w.type_of(value).shape[2:] for value in node.operands)
    extra = [
        n - ((m - 1) * s - 2 * p + d * (k - 1) + 1)
        for n, m, s, p, d, k in zip(size, have, stride, padding, dilation, kernel)
    ]
    if not all(isinstance(n, int) and n >= 0 for n in extra):
        raise OnnxNotHere("a transposed convolution whose padding depends on an open size")
    return w.add(
        "ConvTranspose", [x, weight], strides=list(stride), pads=[*padding, *padding],
        dilations=list(dilation), group=groups, output_padding=extra,
    )  # fmt: skip


@exports("paired_conv")
def paired_conv(w: Any, node: Any, x: str, weight: str, **geometry: Any) -> Any:
    """Of operands widened ahead: the order of sums is ONNX Runtime's own."""
    return conv(w, node, *_widened(w, node, x, weight), **geometry)


@exports("paired_conv_input_grad")
def paired_conv_transpose(w: Any, node: Any, x: str, weight: str, **geometry: Any) -> Any:
    return conv_transpose(w, node, *_widened(w, node, x, weight), **geometry)


@exports("paired_matmul")
def paired_matmul(w: Any, node: Any, x: str, y: str) -> Any:
    return matmul(w, node, *_widened(w, node, x, y))


def _widened(w: Any, node: Any, *values: str) -> list[str]:
    return [w.cast(value, node.types[0].dtype) for value in values]


# -- pooling -------------------------------------------------------------------------------------


def _pooled(w: Any, node: Any, operator: str, x: str, count: int, **attributes: Any) -> Any:
    """Over the last axes, those before being batch and channels."""
    type = w.type_of(node.operands[0])
    lead = type.rank - count
    if lead == 1:
        x = w.reshaped(x, (1, *type.shape))
    elif lead != 2:
        raise OnnxNotHere(f"pooling of {type} over its last {count} axes")
    result = w.add(operator, [x], **attributes)
    return w.reshaped(result, node.types[0].shape) if lead == 1 else result


@exports("max_pool")
def max_pool(
    w: Any, node: Any, x: str, *, kernel: Any, stride: Any, padding: Any, dilation: Any,
    overhang: Any = (),
) -> Any:  # fmt: skip
    over = list(overhang) or [0] * len(kernel)
    ends = [*padding, *(p + o for p, o in zip(padding, over))]
    return _pooled(
        w, node, "MaxPool", x, len(kernel), kernel_shape=list(kernel), strides=list(stride),
        pads=ends, dilations=list(dilation),
    )  # fmt: skip


@exports("avg_pool")
def avg_pool(
    w: Any, node: Any, x: str, *, kernel: Any, stride: Any, padding: Any, overhang: Any = (),
    count_include_pad: bool, divisor: int | None,
) -> Any:  # fmt: skip
    if any(overhang):
        if w.opset < 19 or divisor is not None:
            raise OnnxNotHere("ceil_mode of a mean", hint="opset_version=19")
    elif divisor is not None:
        count_include_pad = True
    result = _pooled(
        w, node, "AveragePool", x, len(kernel), kernel_shape=list(kernel), strides=list(stride),
        pads=[*padding, *padding], count_include_pad=int(count_include_pad),
        ceil_mode=int(any(overhang)),
    )  # fmt: skip
    if divisor is None:
        return result
    return w.add("Mul", [result, w.scalar(math.prod(kernel) / divisor, node.types[0].dtype)])


# -- norms ---------------------------------------------------------------------------------------


@exports("layer_norm", since=17)
def layer_norm(w: Any, node: Any, x: str, weight: str, bias: str, *, eps: float) -> Any:
    axis = -w.type_of(node.operands[1]).rank
    return w.add("LayerNormalization", [x, weight, bias], axis=axis, epsilon=float(eps))


@exports("batch_norm_by", since=15)
def batch_norm(
    w: Any, node: Any, x: str, mean: str, variance: str, weight: str, bias: str, *, eps: float
) -> Any:
    return w.add("BatchNormalization", [x, weight, bias, mean, variance], epsilon=float(eps))


@exports("group_norm", since=21)
def group_norm(
    w: Any, node: Any, x: str, weight: str, bias: str, *, groups: int, eps: float
) -> Any:
    return w.add("GroupNormalization", [x, weight, bias], num_groups=groups, epsilon=float(eps))


@exports("rms_norm", since=23)
def rms_norm(w: Any, node: Any, x: str, weight: str, *, eps: float) -> Any:
    axis = -w.type_of(node.operands[1]).rank
    return w.add("RMSNormalization", [x, weight], axis=axis, epsilon=float(eps))


@exports("gelu", since=20)
def gelu(w: Any, node: Any, x: str, *, approximate: str) -> Any:
    return w.add("Gelu", [x], approximate=approximate)


@exports("embedding")
def embedding(w: Any, node: Any, table: str, index: str, **_: Any) -> Any:
    return w.add("Gather", [table, index], axis=0)


@exports("attention")
def attention(
    w: Any, node: Any, q: str, k: str, v: str, *mask: str, scale: float, causal: bool
) -> Any:
    """Written out: the operator Attention is one of operator set 23."""
    type = w.type_of(node.operands[0])
    rank, dtype = type.rank, type.dtype
    columns = w.add("Transpose", [k], perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = w.add("Mul", [w.add("MatMul", [q, columns]), w.scalar(scale, dtype)])
    if mask and w.type_of(node.operands[3]).dtype is DType.bool:
        scores = w.add("Where", [mask[0], scores, w.scalar(-math.inf, dtype)])
    elif mask:
        scores = w.add("Add", [scores, mask[0]])
    if causal:
        rows, keys = type.shape[-2], w.type_of(node.operands[1]).shape[-2]
        hidden = w.scalar(-math.inf, dtype)
        seen = w.add("GreaterOrEqual", [_places(w, rows, 0), _places(w, keys, 1)])
        scores = w.add("Where", [seen, scores, hidden])
    weights = w.add("Softmax", [scores], axis=-1)
    if mask:  # a row that sees nothing gives zeros
        nothing = w.add("IsNaN", [weights])
        weights = w.add("Where", [nothing, w.scalar(0, dtype), weights])
    return [w.add("MatMul", [weights, v])]


def _places(w: Any, size: Any, axis: int) -> str:
    """0, 1, 2 … as a column (axis 0) or a row."""
    count = w.add("Squeeze", [w.size(size), w.constant([0])])
    places = w.add("Range", [w.constant(0), count, w.constant(1)])
    return str(w.add("Unsqueeze", [places, w.constant([1 - axis])]))


@exports("linalg_det")
def det(w: Any, node: Any, x: str) -> Any:
    if w.type_of(node.operands[0]).dtype is DType.f64:
        raise OnnxNotHere("a determinant in float64", hint="convert it with .float()")
    return w.add("Det", [x])
