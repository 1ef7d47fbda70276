"""Sparse tensors in files: PyTorch's `_rebuild_sparse_tensor`, of a layout and its parts."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.dtypes import Size, layout, sparse_coo, sparse_csc, sparse_csr
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.sparse_layouts import sparse_compressed_tensor, sparse_coo_tensor
from frontend.serialization.errors import Refused
from frontend.serialization.pickle_writer import Called, Named

LAYOUTS = {str(each): each for each in (sparse_coo, sparse_csr, sparse_csc)}


def layout_of(name: Any) -> layout:
    """PyTorch's `_get_layout`. Raises Refused."""
    if type(name) is not str or name not in LAYOUTS:
        raise Refused("a tensor of a layout that is not here")
    return LAYOUTS[name]


def rebuilt(kind: Any, about: Any) -> Tensor:
    """PyTorch's `_rebuild_sparse_tensor`. Raises Refused, also for indices outside."""
    parts = 2 if kind is sparse_coo else 3
    if kind not in LAYOUTS.values() or type(about) is not tuple or len(about) <= parts:
        raise Refused("a sparse tensor that is made in a strange way")
    tensors, size = about[:parts], about[parts]
    if not all(isinstance(x, Tensor) and x.layout not in LAYOUTS.values() for x in tensors):
        raise Refused("a sparse tensor of something else than tensors")
    if not isinstance(size, Size | tuple) or any(type(n) is not int or n < 0 for n in size):
        raise Refused("a sparse tensor with a strange size")
    try:
        if kind is sparse_coo:
            coalesced = about[3] if len(about) > 3 else None
            return sparse_coo_tensor(*tensors, size, is_coalesced=coalesced)
        ends, others, values = tensors
        return sparse_compressed_tensor(ends, others, values, size, layout=kind)
    except (RuntimeError, NotImplementedError) as error:
        raise Refused(f"a sparse tensor that cannot be: {error}") from None


def written(tensor: Any) -> Called:
    """The call that makes a sparse tensor again."""
    about = [getattr(tensor, name).detach() for name in tensor.parts]
    about.append(Size(tensor.shape))
    if tensor.layout is sparse_coo:
        about.append(tensor.is_coalesced())
    kind = Called(Named("torch.serialization", "_get_layout"), (str(tensor.layout),))
    return Called(Named("torch._utils", "_rebuild_sparse_tensor"), (kind, tuple(about)))
