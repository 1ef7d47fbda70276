"""What PyTorch calls the nodes of the tape: `AddBackward0`.

A node is an op that ran; where PyTorch has several for one, types and attributes tell which. Public
functions that are made of several ops here, and of one there, declare a name
(`public(node=…)`), and are wrapped in `naming`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_PLAIN = {
    "addmm": "Addmm", "avg_pool": "AvgPool2D", "batch_norm": "NativeBatchNorm",
    "broadcast": "Expand", "clamp": "ClampBackward1", "concat": "Cat", "conv": "Convolution",
    "conv_input_grad": "Convolution", "cross_entropy": "NllLoss", "diagonal_embed": "DiagEmbed",
    "erfcx": "SpecialErfcx", "group_norm": "NativeGroupNorm", "i0e": "SpecialI0E",
    "i1": "SpecialI1", "i1e": "SpecialI1E", "index_set": "IndexPut",
    "layer_norm": "NativeLayerNorm", "log1p": "Log1P", "log_ndtr": "SpecialLogNdtr",
    "mod": "Remainder", "ndtri": "SpecialNdtri", "norm": "LinalgVectorNorm",
    "pad": "ConstantPadNd", "prelu": "PreluKernel", "scatter_set": "Scatter", "slide": "Unfold",
    "take": "Index", "transpose": "Permute", "adaptive_max_pool": "AdaptiveMaxPool2D",
    "max_pool": "MaxPool2DWithIndices", "paired_conv": "Convolution",
    "paired_conv_input_grad": "Convolution",
}  # fmt: skip


_OWN = {
    "LinalgCholeskyBackward0": "LinalgCholeskyExBackward0",
    "LinalgInvBackward0": "LinalgInvExBackward0",
    "LinalgSolveBackward0": "LinalgSolveExBackward0",
    "LinalgSolve_triangularBackward0": "LinalgSolveTriangularBackward0",
}


def node_name(node: Any) -> str:
    """The name PyTorch gives such a node."""
    own = getattr(node.op, "node_name", None)
    if own is not None:
        return _OWN.get(own, str(own))
    label = node.label
    if label is None:
        chosen = _CHOSEN.get(node.op.name)
        label = chosen(node) if chosen is not None else _PLAIN.get(node.op.name)
    if label is None:
        label = "".join(map(str.capitalize, node.op.name.split("_")))
    return label if "Backward" in label else f"{label}Backward0"


def _cast(node: Any) -> str:
    return "Clone" if node.saves.types[0] is node.saves.result_types[0] else "ToCopy"


def _matmul(node: Any) -> str:
    return "Bmm" if len(node.saves.types[0].shape) > 2 else "Mm"


def _reshape(node: Any) -> str:
    """A movement of dimensions of 1 is mostly meant as that."""
    (before,), (after,) = node.saves.types, node.saves.result_types
    edge = node.edges[0]
    if len(after.shape) < len(before.shape) and getattr(edge[0], "op", None) is not None:
        if edge[0].op.name == "slice":
            return "Select"
        if [n for n in before.shape if n != 1] == [n for n in after.shape if n != 1]:
            return "SqueezeBackward1"
    if len(after.shape) == len(before.shape) + 1 and _inserted(before.shape, after.shape):
        return "Unsqueeze"
    return "View"


def _inserted(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    return any(after[:at] + after[at + 1 :] == before for at, size in enumerate(after) if size == 1)


def _reduction(all_of_it: str, part: str) -> Callable[[Any], str]:
    """Names of a reduction over all dimensions, and over some."""

    def name(node: Any) -> str:
        axes = node.attributes.get("axes", ())
        return all_of_it if len(axes) == len(node.saves.types[0].shape) else part

    return name


_CHOSEN: dict[str, Callable[[Any], str]] = {
    "cast": _cast,
    "matmul": _matmul,
    "paired_matmul": _matmul,
    "max": _reduction("MaxBackward1", "Amax"),
    "mean": _reduction("Mean", "MeanBackward1"),
    "min": _reduction("MinBackward1", "Amin"),
    "prod": _reduction("Prod", "ProdBackward1"),
    "reshape": _reshape,
    "sum": _reduction("Sum", "SumBackward1"),
}


_SEVERAL = (tuple, list)


def naming(function: Any, label: str | None, along: str | None) -> Any:
    """`function`, whose results' nodes have a name: `label`, or `along` where there are several."""

    by_tensors = label in {name for name, _ in _OF_TENSORS}
    positional = getattr(function, "positional", function)  # see `numpy_names`

    @functools.wraps(function)
    def naming(*arguments: Any, **keywords: Any) -> Any:
        result = function(*arguments, **keywords) if keywords else positional(*arguments)
        edge = getattr(result, "_edge", None)
        if edge is not None:
            if label is not None:
                name = _by_tensors(label, arguments) if by_tensors else label
                _name(result, edge, name, arguments)
        elif isinstance(result, _SEVERAL):
            for part in result:
                edge = getattr(part, "_edge", None)
                if edge is not None:
                    _name(part, edge, along, arguments)
        return result

    return naming


_OF_TENSORS = {
    ("Pow", (True, True)): "PowBackward1", ("Pow", (False, True)): "PowBackward2",
    ("Lerp", (True, True, True)): "LerpBackward1",
}  # fmt: skip
"""Where other arguments are tensors: another name."""


def _by_tensors(label: str, arguments: tuple[Any, ...]) -> str:
    tensors = tuple([hasattr(argument, "tensor_type") for argument in arguments])
    return _OF_TENSORS.get((label, tensors), label)


def _name(result: Any, edge: Any, label: str | None, arguments: tuple[Any, ...]) -> None:
    for argument in arguments:
        if argument is result:
            return
    edge[0].label = label
