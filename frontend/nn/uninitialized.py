"""Parameters and buffers whose shape is not known yet, as lazy modules have them before their first
call."""

from __future__ import annotations

from typing import Any, NoReturn

from frontend.engine.tensors.dtypes import as_dtype, on_cpu
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty
from frontend.nn.parameter import Parameter

__all__ = ["UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy"]

_USED = (
    "Attempted to use an uninitialized parameter. This error happens when you are using a "
    "`LazyModule` or explicitly manipulating `torch.nn.parameter.UninitializedParameter` objects. "
    "When using LazyModules Call `forward` with a dummy batch to initialize the parameters before "
    "calling torch functions"
)
_ASKED = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
    "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. "
    "Call `forward` to initialize the parameters before accessing their attributes."
)


class UninitializedTensorMixin(Tensor):
    """A tensor with a dtype and without a type: whatever asks for that, raises."""

    cls_to_become: type = Tensor
    _dtype: Any

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None):
        on_cpu(device)
        self._value = None
        self._dtype = STATE.default_dtype if dtype is None else as_dtype(dtype)
        self._requires_grad = requires_grad

    @property
    def tensor_type(self) -> Any:  # type: ignore[override]
        """Raises ValueError: all operations ask for it."""
        raise ValueError(_USED)

    @property
    def shape(self) -> Any:
        """Raises RuntimeError."""
        raise RuntimeError(_ASKED)

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def requires_grad(self) -> bool:
        return bool(self._requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._requires_grad = bool(value)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        self._requires_grad = requires_grad
        return self

    @property  # type: ignore[misc]
    def grad(self) -> None:
        return None

    @property
    def data(self) -> Any:
        return self

    @data.setter
    def data(self, new: Any) -> None:
        """Takes the dtype of another uninitialized tensor, or what another one holds."""
        if isinstance(new, UninitializedTensorMixin):
            self._dtype = new._dtype
            return
        self._become()
        plain: Any = self
        plain.data = new

    def _become(self) -> None:
        wanted = self._requires_grad
        with no_grad():
            blank = empty((0,), dtype=self._dtype)
        self.__class__ = type(self).cls_to_become
        plain: Any = self
        plain._value, plain.tensor_type, plain._counter = blank._value, blank.tensor_type, [0]
        plain._requires_grad = False
        plain.requires_grad = wanted

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of the class that was meant, of this shape, its content undefined."""
        kind = self._dtype if dtype is None else as_dtype(dtype)
        filled = empty(shape, device=device, dtype=kind)
        self._become()
        plain: Any = self
        plain.data = filled

    # -- what may be asked -------------------------------------------------------------------

    def is_floating_point(self) -> bool:
        return bool(self._dtype.is_float)

    def to(self, *args: Any, **keywords: Any) -> Any:
        """The same with another dtype."""
        kinds = [x for x in (*args, keywords.get("dtype")) if hasattr(x, "is_float")]
        return self._with(kinds[-1]) if kinds else self

    def _with(self, kind: Any) -> Any:
        return type(self)(self._requires_grad, None, kind)

    def half(self) -> Any:
        return self._with(as_dtype("float16"))

    def bfloat16(self) -> Any:
        return self._with(as_dtype("bfloat16"))

    def float(self) -> Any:
        return self._with(as_dtype("float32"))

    def double(self) -> Any:
        return self._with(as_dtype("float64"))

    def cpu(self) -> Any:
        return self

    def detach(self) -> NoReturn:
        raise ValueError(_USED)

    def share_memory_(self) -> NoReturn:
        """Raises RuntimeError."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self._with(self._dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self._requires_grad, None, self._dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter without a shape. `materialize(shape)` makes it one; operations on it raise
    ValueError."""

    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None):
        UninitializedTensorMixin.__init__(self, requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin):
    """A buffer without a shape."""

    persistent = True
    _is_buffer = True

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: Any = None,
        persistent: bool = True,
    ):  # fmt: skip
        super().__init__(requires_grad, device, dtype)
        self.persistent = persistent


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
