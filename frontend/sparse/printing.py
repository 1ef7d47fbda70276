"""How sparse tensors print: PyTorch's text."""

from __future__ import annotations

from frontend.engine.tensors.dtypes import complex_of
from frontend.engine.tensors.printing import _joined, current_options, numbers_text
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.sparse.tensor import CooTensor, SparseTensor
from graphc.ir.types import DType

NAMES = {
    "_indices_here": "indices", "_values_here": "values",
}  # fmt: skip
COMPRESSED = {
    False: ("crow_indices", "col_indices", "values"),
    True: ("ccol_indices", "row_indices", "values"),
}


def sparse_text(x: SparseTensor) -> str:
    """`tensor(indices=tensor([[0, 1]]),⏎ values=tensor([1., 2.]),⏎ size=(3,), nnz=2, …)`."""
    coo = isinstance(x, CooTensor)
    names = ("indices", "values") if coo else COMPRESSED[x._about]
    indent = len("tensor(")
    text = "tensor("
    parts = [getattr(x, name) for name in x.parts]
    for name, part in zip(names, parts):
        start = f"{name}=tensor("
        text += start + _part(part, indent + len(start))
        text += ")"
        if part is not parts[-1]:
            text += ",\n" + " " * indent
    suffixes = [f"size={_size(x)}", f"nnz={x._nnz()}"]
    default = STATE.default_dtype
    if x.dtype not in (default, complex_of(default), DType.i64, DType.bool):
        suffixes.append(f"dtype={x.dtype}")
    suffixes.append(f"layout={x.layout}")
    if x.grad_fn is not None:
        suffixes.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        suffixes.append("requires_grad=True")
    if coo:  # the size begins a line
        text += ",\n" + " " * indent + suffixes.pop(0)
    return _joined(text, suffixes, indent, current_options().linewidth) + ")"


def _part(part: Tensor, indent: int) -> str:
    with_numbers = part.detach()
    text = numbers_text(with_numbers, indent)
    return text if part.numel() else f"[], size={_size(part)}"


def _size(x: Tensor) -> str:
    return repr(tuple(x.shape))
