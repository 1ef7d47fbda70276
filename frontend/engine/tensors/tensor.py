"""Tensor: a value with a type, a place on the tape, and PyTorch's names.

`_value` is a NumPy array (eager) or a graph variable (in a trace). This file holds what a tensor
is; what can be done with tensors stands in `frontend/functions`, and `methods.py` there attaches
it: also what makes a tensor, so that nothing here needs what is built on it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from frontend.engine.tensors.added_attributes import STATE_OF, ClassOfTensors, added_to
from frontend.engine.tensors.autograd_members import AutogradMembers
from frontend.engine.tensors.dtypes import (
    CPU,
    META,
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    strided,
)
from frontend.engine.tensors.dtypes import memory_format as MemoryFormat
from frontend.engine.tensors.epoch import changed
from frontend.engine.tensors.host_data import array_of
from frontend.engine.tensors.memory_tracking import (
    adopted_counter,
    count_write,
    expose,
    exposed_counter,
    own_counter,
)
from frontend.engine.tensors.no_value import NO_DATA, concrete
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.symbolic_numbers import shown
from graphc.errors import ShapeError
from graphc.ir.types import DType, TensorType, row_major_strides

FROZEN = "a frozen tensor cannot be changed; unfreeze() it first"
LEAF_IN_PLACE = "a leaf Variable that requires grad is being used in an in-place operation."

_INNERMOST_SECOND: dict[Any, int] = {channels_last: 4, channels_last_3d: 5}
"""The number of dimensions of formats in which the second one is the innermost."""


class Tensor(AutogradMembers, metaclass=ClassOfTensors):
    """An n-dimensional array of one dtype that may take part in differentiation.

    `Tensor(data)` makes a tensor of the default dtype from numbers, `Tensor(2, 3)` an
    uninitialised one of that shape; `frontend.tensor` is the usual way.
    """

    # Room of its own makes every subclass one by layout, also behind another base: `as_subclass`.
    __slots__ = ("_room",)
    _value: Any

    if TYPE_CHECKING:

        def __init__(self, *data: Any, **options: Any): ...
        def __getattr__(self, name: str) -> Any:
            """Methods come from `frontend.namespace.methods`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = object.__new__(cls)
        self._counter = [0]
        return self

    def _set(self, array: np.ndarray) -> None:
        self.tensor_type = TensorType.of(array)
        mode = STATE.mode
        self._value = array if mode is None else mode.constant(array, self.tensor_type)._value

    @staticmethod
    def _make_subclass(cls: Any, data: Tensor, requires_grad: bool = False) -> Any:
        """A `cls` over the value of `data`, off its tape. Shares memory and version."""
        self = Tensor.__new__(cls)  # a class whose own __new__ calls this would go in circles
        self._value = data._value
        self.tensor_type = data.tensor_type
        self._counter = data._counter
        if requires_grad:
            self.requires_grad = True
        return self

    _instance_state = property(STATE_OF.__get__, STATE_OF.__set__)
    """All that the instance holds, by attribute, as a dict."""

    # -- what it is --------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        kind = self.tensor_type
        dims = kind.shape if not kind.is_symbolic else map(shown, kind.shape)
        return tuple.__new__(Size, dims)

    @property
    def _sizes(self) -> tuple[int, ...]:
        """The shape as a tuple: for functions, which compare sizes that may be left open."""
        kind = self.tensor_type
        return kind.shape if not kind.is_symbolic else tuple(map(shown, kind.shape))

    @property
    def dtype(self) -> DType:
        return self.tensor_type.dtype

    @property
    def ndim(self) -> int:
        return len(self.tensor_type.shape)

    @property
    def device(self) -> device:
        return META if self._value is NO_DATA else CPU

    @property
    def is_cpu(self) -> bool:
        return self._value is not NO_DATA

    @property
    def is_meta(self) -> bool:
        return self._value is NO_DATA

    is_cuda = is_mps = is_xpu = is_mkldnn = False
    is_sparse = is_sparse_csr = is_quantized = is_nested = False
    layout = strided

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else shown(self.tensor_type.shape[dim])

    def dim(self) -> int:
        return len(self.tensor_type.shape)

    ndimension = dim

    def numel(self) -> int:
        return shown(self.tensor_type.numel)

    nelement = numel

    def element_size(self) -> int:
        return self.tensor_type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.tensor_type.nbytes

    @property
    def itemsize(self) -> int:
        return self.tensor_type.dtype.itemsize

    def is_floating_point(self) -> bool:
        dtype = self.tensor_type.dtype
        return dtype.is_float and not dtype.is_complex

    def is_complex(self) -> bool:
        return self.tensor_type.dtype.is_complex

    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements."""
        if self._value is NO_DATA:
            strides = row_major_strides(self.tensor_type.shape)
        else:
            array = self._array("stride()")
            strides = tuple(step // array.itemsize for step in array.strides)
        return strides if dim is None else strides[dim]

    def is_contiguous(self, *, memory_format: MemoryFormat = contiguous_format) -> bool:
        """Whether the elements lie one behind another in the order of the dimensions; of
        channels_last, with the second dimension as the innermost."""
        if memory_format is not contiguous_format:
            if not isinstance(memory_format, MemoryFormat):
                raise TypeError(
                    "is_contiguous(): argument 'memory_format' must be torch.memory_format, not "
                    f"{type(memory_format).__name__}"
                )
            if memory_format in _INNERMOST_SECOND:
                return self._has_second_innermost(_INNERMOST_SECOND[memory_format])
        if STATE.mode is not None:
            return STATE.mode.memory_order(self) is None
        return not isinstance(self._value, np.ndarray) or bool(self._value.flags.c_contiguous)

    def _has_second_innermost(self, rank: int) -> bool:
        if self.dim() != rank:
            return False
        each: Any = self
        if STATE.mode is not None:
            return STATE.mode.memory_order(each.permute(0, *range(2, rank), 1)) is None
        strides, behind = each.stride(), 1
        for axis in (1, *range(rank - 1, 1, -1), 0):
            if self.shape[axis] != 1:
                if strides[axis] != behind:
                    return False
                behind = behind * self.shape[axis]
        return True

    def data_ptr(self) -> int:
        """The address of the first element; 0 without memory."""
        if self._value is NO_DATA or not self.tensor_type.numel:
            return 0
        address = int(self._array("data_ptr()").ctypes.data)
        expose(self._counter)
        return address

    # -- memory shared with others ---------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The same memory, off the tape, and off its checks: what is changed through it counts as
        no change of this tensor."""
        result = self.detach()
        if STATE.mode is None:
            result._counter = own_counter(self._counter)
        return result

    @data.setter
    def data(self, new: Tensor) -> None:
        if not isinstance(new, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(new).__name__}")
        if self._requires_grad and not new.tensor_type.dtype.is_float:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex "
                "dtype"
            )
        if self._frozen is not None:
            raise RuntimeError(FROZEN)
        if STATE.mode is not None:
            with no_grad():
                self._assign(new.detach())
            return
        self._counter = adopted_counter(self._counter, new)
        self._value = new._value
        self.tensor_type = new.tensor_type
        changed()

    def detach(self) -> Tensor:
        """The same memory, off the tape."""
        result = make(self._value, self.tensor_type)
        result._counter = self._counter
        if STATE.mode is not None:
            STATE.mode.detach(result, self)
        return result

    def detach_(self) -> Tensor:
        if STATE.mode is not None:
            STATE.mode.capture(self)
        self._edge = None
        self._requires_grad = False
        changed()
        return self

    # -- changing the value ------------------------------------------------------------------

    def _assign(self, new: Tensor) -> Tensor:
        """Put the value of `new` (same type) in place of this one's: the one primitive under
        every in-place operation. With grad mode on, the history of `new` comes along."""
        if new.tensor_type != self.tensor_type:
            raise ShapeError(
                f"the new value {new.tensor_type} does not fit a tensor {self.tensor_type}"
            )
        if self._frozen is not None:
            raise RuntimeError(FROZEN)
        view = self._view
        recording = STATE.grad_enabled and (self.requires_grad or new.requires_grad)
        if STATE.grad_enabled and view is not None:
            view.check_writable(recording)
        if recording and self._requires_grad and self._edge is None and self.is_leaf:
            raise RuntimeError(LEAF_IN_PLACE)
        if STATE.mode is not None:
            STATE.mode.assign(self, new)
        elif self._value is NO_DATA:
            count_write(self._counter)
        else:
            target = self._array("an in-place operation")
            source = new._array("an in-place operation")
            if not target.flags.writeable:
                make_writable(target)
            counter = self._counter
            try:
                np.copyto(target, source)
            finally:  # an interrupt that comes behind the copy finds it counted
                counter[0] += 1
            if counter[-1] is not counter[0]:  # a `Memory` stands behind the count
                counter[-1].written()
        if recording and view is not None and view.tracked:
            view.write_history(self, new)
        elif recording:
            retains = self.retains_grad
            self._edge = new._edge
            self._requires_grad = new._requires_grad
            if retains:
                self.retain_grad()
        if recording:
            changed()
        return self

    # -- copying -----------------------------------------------------------------------------

    def _array(self, what: str) -> np.ndarray:
        """The NumPy array. Raises TraceError for a traced tensor, naming `what` asked for it."""
        value = self._value
        if isinstance(value, np.ndarray) and STATE.mode is None:
            return value
        return concrete(self, what)

    def __hash__(self) -> int:
        return id(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._edge is not None:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment."
            )
        if id(self) in memo:
            return memo[id(self)]
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        is_meta = self._value is NO_DATA
        copy._value = NO_DATA if is_meta else np.array(self._array("copy.deepcopy()"))
        copy.tensor_type = self.tensor_type
        copy._requires_grad = self._requires_grad
        if self._grad is not None:
            copy._grad = self._grad.__deepcopy__(memo)
        copy._instance_state.update(deepcopy(added_attributes(self), memo))
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        # None for a plain one, whose class goes by the name of what the frontend is installed as.
        kind = None if type(self) is Tensor else type(self)
        arguments = (kind, pickled_value(self), self._requires_grad)
        return _unpickled, arguments, added_attributes(self) or None


def make_writable(array: np.ndarray) -> None:
    """Let an array be written that is read-only for being part of one that repeats elements. Raises
    RuntimeError where it repeats some itself, or nothing may write its memory."""
    if _repeats(array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    try:
        array.flags.writeable = True
    except ValueError:
        raise RuntimeError(
            "the memory of this tensor is read-only: it was made from a read-only array, or is a "
            "view of a frozen tensor"
        ) from None


def _repeats(array: np.ndarray) -> bool:
    """Whether elements of an array may be one another: a step within the reach of shorter ones."""
    reach = array.itemsize
    for step, count in sorted((abs(s), n) for s, n in zip(array.strides, array.shape) if n > 1):
        if step < reach:
            return True
        reach += step * (count - 1)
    return False


def added_attributes(tensor: Tensor) -> dict[str, Any]:
    """What the user put on a tensor: copies and pickles have it too."""
    return added_to(tensor._instance_state)


def pickled_value(tensor: Tensor) -> np.ndarray | TensorType:
    """What is pickled of a tensor's value: a copy of the array; the type of one on "meta"."""
    if tensor._value is NO_DATA:
        return tensor.tensor_type
    return np.array(tensor._array("pickling"))


def unpickled_value(value: np.ndarray | TensorType) -> Tensor:
    """The plain tensor of what `pickled_value` gave."""
    if isinstance(value, TensorType):
        return without_data(value)
    return make(value, TensorType.of(value))


def _unpickled(cls: type | None, value: Any, requires_grad: bool) -> Any:
    return Tensor._make_subclass(cls or Tensor, unpickled_value(value), requires_grad)


def make(value: Any, type: TensorType) -> Tensor:
    """A tensor over a value of this type, without history."""
    tensor = _new(Tensor)
    tensor._value = value
    tensor.tensor_type = type
    tensor._counter = [0]
    return tensor


def without_data(type: TensorType) -> Tensor:
    """A tensor of this type on the device "meta"."""
    return make(NO_DATA, type)


_new = object.__new__


def from_data(data: Any, dtype: Any = None, *, copy: bool = True) -> Tensor:
    """A tensor from numbers, nested lists, arrays or tensors. Raises TypeError, ValueError."""
    tensor = object.__new__(Tensor)
    tensor._counter = [0] if copy else exposed_counter()
    tensor._set(array_of(data, dtype, STATE.default_dtype, copy))
    return tensor
