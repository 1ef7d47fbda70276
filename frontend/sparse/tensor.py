"""Sparse tensors: indices and values, dense tensors both, under the name of one tensor.

What a sparse tensor has of a tape is that of its values: it requires gradients where they do, and
its gradient is theirs, at the same places. Functions of tensors come here by `__torch_function__`,
which looks up what they do to sparse ones in `rules.py`; a compiled function sees indices and
values (`frontend.engine.tensors.tree`), with sizes of the shape as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np

from frontend.engine.tensors.dtypes import CPU, Size, sparse_coo, sparse_csc, sparse_csr
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.overrides.protocol import DisableTorchFunctionSubclass
from graphc.ir.types import DType, TensorType

RULES: dict[str, Callable[..., Any]] = {}
"""What functions do where an argument is sparse, by their names: filled by `rules.py`."""
OWN: dict[str, Callable[..., Any]] = {}
"""Of methods here, what they need that is made of sparse tensors: filled by `rules.py`, which
`creation.py` brings, so that no tensor is without it."""
AS_THEY_ARE = frozenset(("is_floating_point", "is_complex", "element_size", "is_tensor"))
"""Functions that look only at members which sparse tensors have."""


class SparseTensor(Tensor):
    """A tensor of which the elements at `_where` are `_values_here`, and all others 0."""

    _values_here: Tensor
    _size_here: Size
    layout: Any
    is_sparse_csr: bool = False
    parts: ClassVar[tuple[str, ...]]
    """The names of the tensors it is made of, the values last."""

    def __init__(self, *_: Any):
        """Made by `of_parts`: nothing is left to be done."""

    @classmethod
    def of_parts(cls, where: tuple[Tensor, ...], values: Tensor, size: Any, *about: Any) -> Self:
        """One over these tensors, which are not looked at."""
        self = cls.__new__(cls)
        for name, part in zip(cls.parts, (*where, values)):
            setattr(self, name, part)
        self._size_here = Size(size)
        self._counter = values._counter
        self._describe(*about)
        return self

    def _describe(self, about: Any) -> None:
        raise NotImplementedError

    @property
    def _where(self) -> tuple[Tensor, ...]:
        return tuple(getattr(self, name) for name in self.parts[:-1])

    @property
    def _about(self) -> Any:
        raise NotImplementedError

    def _with(self, values: Tensor) -> Self:
        """The same places with other values."""
        return type(self).of_parts(self._where, values, self._size_here, self._about)

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return list(self.parts), (tuple(self._size_here), self._about)

    @classmethod
    def __tensor_unflatten__(cls, parts: Any, context: Any, size: Any, stride: Any) -> Self:
        shape, about = context
        *where, values = (parts[name] for name in cls.parts)
        return cls.of_parts(tuple(where), values, shape, about)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__
        if name in AS_THEY_ARE:
            with DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        rule = RULES.get(name)
        if rule is None and name in ("__get__", "__set__"):
            name = getattr(getattr(func, "__self__", None), "fget", func).__name__
        if rule is None:
            raise not_here(name, (*args, *(kwargs or {}).values()))
        return rule(func, *args, **(kwargs or {}))

    # -- what it is --------------------------------------------------------------------------

    is_cuda = is_mps = is_xpu = is_mkldnn = is_quantized = is_nested = is_meta = False
    is_cpu = True
    device = CPU

    @property
    def shape(self) -> Size:
        return self._size_here

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(self._size_here)

    @property
    def dtype(self) -> DType:
        return self._values_here.dtype

    @property
    def tensor_type(self) -> TensorType:  # type: ignore[override]
        return TensorType(self.dtype, tuple(self._size_here))

    @property
    def ndim(self) -> int:
        return len(self._size_here)

    @property
    def _value(self) -> Any:
        raise NotImplementedError(
            f"a tensor of layout {self.layout} has no elements in memory that this could work on: "
            "to_dense() has"
        )

    def size(self, dim: int | None = None) -> Any:
        return self._size_here if dim is None else self._size_here[dim]

    def dim(self) -> int:
        return len(self._size_here)

    ndimension = dim

    def numel(self) -> int:
        count = 1
        for extent in self._size_here:
            count = count * extent
        return count

    nelement = numel

    def __len__(self) -> int:
        if not self._size_here:
            raise TypeError("len() of a 0-d tensor")
        return self._size_here[0]

    def __hash__(self) -> int:
        return id(self)

    def sparse_dim(self) -> int:
        raise NotImplementedError

    def dense_dim(self) -> int:
        return self.dim() - self.sparse_dim()

    def _nnz(self) -> int:
        """How many elements are stored."""
        return self._values_here.shape[0]

    def is_contiguous(self, *_: Any, **__: Any) -> bool:
        return False

    # -- differentiation: that of the values --------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        return self._values_here.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._values_here.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        self.requires_grad = requires_grad
        return self

    @property
    def _requires_grad(self) -> bool:  # type: ignore[override]
        return self._values_here._requires_grad

    @property
    def _edge(self) -> Any:
        return self._values_here._edge

    @property
    def is_leaf(self) -> bool:
        return self._values_here.is_leaf

    @property
    def grad_fn(self) -> Any:
        return self._values_here.grad_fn

    @property
    def grad(self) -> Any:
        """Its gradient: a sparse tensor with the same places."""
        gradient = self._values_here.grad
        return None if gradient is None else self._with(gradient)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            self._values_here.grad = None
            return
        if not isinstance(value, type(self)) or value._size_here != self._size_here:
            raise RuntimeError(
                f"the gradient of a tensor of layout {self.layout} and size "
                f"{list(self._size_here)} is one of the same layout and size"
            )
        self._values_here.grad = self._aligned(value)

    def _aligned(self, other: Any) -> Tensor:
        """The values of another, which has the same places. Raises RuntimeError where not."""
        for mine, its in zip(self._where, other._where):
            if mine is its:
                continue
            left, right = mine._array("comparing indices"), its._array("comparing indices")
            if not np.array_equal(left, right):
                raise RuntimeError("the gradient of a sparse tensor has elements where it has")
        return other._values_here

    @property
    def _differentiated(self) -> Tensor:
        """What stands on the tape for it."""
        return self._values_here

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
        inputs: Any = None,
    ) -> None:  # fmt: skip
        if not isinstance(gradient, type(self)):
            raise RuntimeError("backward() of a sparse tensor takes a sparse gradient")
        values = self._aligned(gradient)
        self._values_here.backward(values, retain_graph, create_graph, inputs)

    def detach(self) -> Self:
        return self._with(self._values_here.detach())

    @property
    def data(self) -> Tensor:
        return self._with(self._values_here.data)

    @data.setter
    def data(self, new: Any) -> None:
        raise NotImplementedError("assigning .data of a sparse tensor is not here: make a new one")

    @property
    def T(self) -> Any:
        if self.dim() < 2:
            return self
        return self.permute(*reversed(range(self.dim())))

    mT = T

    # -- its parts ----------------------------------------------------------------------------

    def values(self) -> Tensor:
        """The values [nnz, …], on the tape; they share memory."""
        result: Tensor = self._values_here.view_as(self._values_here)
        return result

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """The same as a strided tensor. Its gradient goes to the elements that are stored."""
        dense: Tensor = OWN["dense"](self)
        return dense if dtype is None else dense.to(dtype)

    def clone(self, *, memory_format: Any = None) -> Self:
        where = tuple(part.clone() for part in self._where)
        return type(self).of_parts(where, self._values_here.clone(), self._size_here, self._about)

    # -- copies -------------------------------------------------------------------------------

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        text: str = OWN["text"](self)
        return text

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            parts = [getattr(self, name).__deepcopy__(memo) for name in self.parts]
            memo[id(self)] = self.of_parts(
                tuple(parts[:-1]), parts[-1], self._size_here, self._about
            )
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = tuple(getattr(self, name) for name in self.parts)
        return OWN["unpickled"], (type(self), parts, tuple(self._size_here), self._about)


class CooTensor(SparseTensor):
    """`values` [nnz, …dense sizes] at `indices` i64 [sparse dimensions, nnz]. Coalesced: each place
    stands there once, in row-major order."""

    layout = sparse_coo
    is_sparse = True
    parts = ("_indices_here", "_values_here")
    _indices_here: Tensor
    _coalesced: bool

    def _describe(self, about: Any) -> None:
        self._coalesced = bool(about)

    @property
    def _about(self) -> bool:
        return self._coalesced

    def is_coalesced(self) -> bool:
        return self._coalesced

    def _coalesced_(self, coalesced: bool) -> Self:
        self._coalesced = coalesced
        return self

    def sparse_dim(self) -> int:
        return int(self._indices_here.shape[0])

    def coalesce(self) -> CooTensor:
        """The same with the values of each place added up, places in row-major order. Itself where
        it is so already. Raises TraceError in a trace: how many there are depends on data."""
        unique: CooTensor = self if self._coalesced else OWN["coalesced"](self)
        return unique

    @staticmethod
    def added(left: Any, right: Any) -> Any:
        """The sum of two gradients of which one or both are sparse: sparse where both are."""
        return right + left if left.is_sparse and not right.is_sparse else left + right

    @classmethod
    def added_in_place(cls, present: Any, gradient: Any) -> Any:
        """The same, in the tensor that is `present` where that can hold it, as in PyTorch."""
        total = cls.added(present, gradient)
        if present.is_sparse != total.is_sparse:
            return total
        return present.become(total) if present.is_sparse else present._assign(total)

    def become(self, other: CooTensor) -> Self:
        """Take the elements of another of the same size, off the tape: what it had is dropped."""
        for name, part in zip(self.parts, (*other._where, other._values_here)):
            setattr(self, name, part.detach())
        self._coalesced = other._coalesced
        self._counter = self._values_here._counter
        return self

    def indices(self) -> Tensor:
        self._need_coalesced("indices")
        return self._indices_here

    def values(self) -> Tensor:
        self._need_coalesced("values")
        return super().values()

    def _indices(self) -> Tensor:
        return self._indices_here

    def _values(self) -> Tensor:
        with no_grad():
            return self._values_here.detach()

    def _need_coalesced(self, what: str) -> None:
        if not self._coalesced:
            raise RuntimeError(
                f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first"
            )


class CompressedTensor(SparseTensor):
    """A matrix by rows (`layout` sparse_csr) or columns (sparse_csc): `ends` [rows + 1] say where
    the elements of each begin and end, `others` [nnz] in which column each stands."""

    layout = sparse_csr
    is_sparse = False
    parts = ("_ends_here", "_others_here", "_values_here")
    _ends_here: Tensor
    _others_here: Tensor
    _rows_known: Any = None

    def _describe(self, about: Any) -> None:
        self.layout = sparse_csc if about else sparse_csr
        self.is_sparse_csr = not about

    @property
    def _about(self) -> bool:
        return self.layout is sparse_csc

    def sparse_dim(self) -> int:
        return 2

    def _major(self) -> Tensor:
        """The row of each element (of columns: the column), i64 [nnz]."""
        known, version = self._rows_known, self._ends_here._version
        if STATE.mode is not None or known is None or known[0] != version:
            known = version, OWN["row_of_each"](self._ends_here, self._others_here)
        if STATE.mode is None:
            self._rows_known = known
        kept: Tensor = known[1]
        return kept

    def crow_indices(self) -> Tensor:
        return self._of_layout(sparse_csr, "crow_indices", "row", self._ends_here)

    def col_indices(self) -> Tensor:
        return self._of_layout(sparse_csr, "col_indices", "row", self._others_here)

    def ccol_indices(self) -> Tensor:
        return self._of_layout(sparse_csc, "ccol_indices", "column", self._ends_here)

    def row_indices(self) -> Tensor:
        return self._of_layout(sparse_csc, "row_indices", "column", self._others_here)

    def _of_layout(self, layout: Any, name: str, kind: str, part: Tensor) -> Tensor:
        if self.layout is not layout:
            raise RuntimeError(
                f"{name} expected sparse {kind} compressed tensor layout but got "
                f"{LAYOUT_NAMES[self.layout]}"
            )
        return part


LAYOUT_NAMES = {sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc"}
"""What PyTorch's errors call layouts."""


def not_here(name: str, args: Iterable[Any]) -> NotImplementedError:
    """What a function without a rule raises."""
    sparse = [x for x in args if isinstance(x, SparseTensor)]
    layout = LAYOUT_NAMES[sparse[0].layout] if sparse else "Sparse"
    return NotImplementedError(
        f"{name}() of tensors of layout {layout} is not here: to_dense() gives strided ones"
    )
