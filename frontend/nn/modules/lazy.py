"""Lazy modules: layers that learn from their first input how many features it has. Until then their
parameters have no shape; the first call, made eagerly, gives them one and the layer its usual
class."""

from __future__ import annotations

import warnings
from typing import Any

from frontend.engine.tensors.state import no_grad, tracing
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import tensor
from frontend.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from frontend.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from frontend.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from frontend.nn.modules.linear import Linear
from frontend.nn.modules.module import Module
from frontend.nn.uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.types import DType

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
    "LazyModuleMixin",
]  # fmt: skip


class LazyModuleMixin(Module):
    """Before another Module among the bases: `initialize_parameters(*args, **kwargs)`, which a
    subclass defines, is called with the first input, and materializes what has no shape. Then the
    module is a `cls_to_become`."""

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )
        warnings.warn(
            "Lazy modules are a new feature under heavy development so changes to the API or "
            "functionality can happen at any moment.",
            UserWarning,
            stacklevel=3,
        )

    def _members(self) -> list[tuple[str, Any]]:
        members = [*self._parameters.items(), *self._buffers.items()]
        return [item for item in members if item[1] is not None]

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module alone has no shape yet."""
        return any(is_lazy(value) for _, value in self._members())

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize what has no shape, for this input."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        if tracing():
            raise TraceError(
                f"{type(self).__name__} met its first input in a trace, where parameters cannot "
                "be made",
                hint="call the model once eagerly, then compile it",
                location=user_location(),
            )
        self.initialize_parameters(*args, **(kwargs or {}))
        if self.has_uninitialized_params():
            raise RuntimeError(
                f"module {self._get_name()} has not been fully initialized by its "
                "initialize_parameters"
            )
        self._initialize_hook.remove()
        self._load_hook.remove()
        del self._initialize_hook, self._load_hook
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """What is loaded gives its shape to what has none."""
        for name, value in self._members():
            entry = state_dict.get(prefix + name)
            if entry is not None and is_lazy(value) and not is_lazy(entry):
                with no_grad():
                    value.materialize(entry.shape)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in self._members():
            if name not in self._non_persistent_buffers_set:
                whole = keep_vars or is_lazy(value)
                destination[prefix + name] = value if whole else value.detach()


def _reset(module: Any, cls: Any, known: int) -> None:
    """`reset_parameters` of the usual class, once there is something to reset."""
    if not module.has_uninitialized_params() and known:
        cls.reset_parameters(module)


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose `in_features` are those of the first input."""

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        _reset(self, Linear, self.in_features)

    def initialize_parameters(self, input: Tensor) -> None:
        self.in_features = input.shape[-1]
        if not self.has_uninitialized_params():  # loaded from a state dict
            return
        with no_grad():
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()


# -- convolutions ----------------------------------------------------------------------------------


class _LazyConv(LazyModuleMixin):
    """A convolution whose `in_channels` are those of the first input."""

    axes: int
    weight: Any
    bias: Any

    def _forget_shapes(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        _reset(self, self.cls_to_become, self.in_channels)

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        name, rank = type(self).__name__, self.axes + 2
        if input.dim() not in (rank - 1, rank):
            raise RuntimeError(
                f"Expected {rank - 1}D (unbatched) or {rank}D (batched) input to {name}, but got "
                f"input of size: {tuple(input.shape)}"
            )
        channels = input.shape[input.dim() - self.axes - 1]
        if channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        self.in_channels = channels
        if not self.has_uninitialized_params():
            return
        with no_grad():
            sides = (self.out_channels, channels // self.groups)
            if self.transposed:
                sides = (channels, self.out_channels // self.groups)
            self.weight.materialize((*sides, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


class _LazyPlainConv(_LazyConv):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        geometry = (kernel_size, stride, padding, dilation, groups, False, padding_mode)
        super().__init__(0, 0, *geometry, device, dtype)
        self._forget_shapes(out_channels, bias, device, dtype)


class LazyConv1d(_LazyPlainConv, Conv1d):
    """`Conv1d` whose `in_channels` are those of the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyPlainConv, Conv2d):
    """`Conv2d` whose `in_channels` are those of the first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyPlainConv, Conv3d):
    """`Conv3d` whose `in_channels` are those of the first input."""

    cls_to_become = Conv3d


class _LazyTransposedConv(_LazyConv):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        geometry = (kernel_size, stride, padding, output_padding, groups, False, dilation)
        super().__init__(0, 0, *geometry, padding_mode, device, dtype)
        self._forget_shapes(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyTransposedConv, ConvTranspose1d):
    """`ConvTranspose1d` whose `in_channels` are those of the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposedConv, ConvTranspose2d):
    """`ConvTranspose2d` whose `in_channels` are those of the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposedConv, ConvTranspose3d):
    """`ConvTranspose3d` whose `in_channels` are those of the first input."""

    cls_to_become = ConvTranspose3d


# -- normalisation ---------------------------------------------------------------------------------


class _LazyNorm(LazyModuleMixin):
    """A normalisation over as many channels as the first input has."""

    weight: Any
    bias: Any

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        # Made without parameters and buffers, which take their places.
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        options = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**options)
            self.bias = UninitializedParameter(**options)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = tensor(0, dtype=DType.i64)

    def reset_parameters(self) -> None:
        _reset(self, self.cls_to_become, self.num_features)

    def initialize_parameters(self, input: Tensor) -> None:
        self._check_input_dim(input)
        self.num_features = self._channels(input)
        if not self.has_uninitialized_params():
            return
        with no_grad():
            for _, value in self._members():
                if is_lazy(value):
                    value.materialize((self.num_features,))
            self.reset_parameters()

    def _channels(self, input: Tensor) -> int:
        return input.shape[1]


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """`BatchNorm1d` over as many channels as the first input has."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """`BatchNorm2d` over as many channels as the first input has."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """`BatchNorm3d` over as many channels as the first input has."""

    cls_to_become = BatchNorm3d


class _LazyInstanceNorm(_LazyNorm):
    rank: int

    def _channels(self, input: Tensor) -> int:
        return input.shape[input.dim() - self.rank + 1]


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """`InstanceNorm1d` over as many channels as the first input has."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """`InstanceNorm2d` over as many channels as the first input has."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """`InstanceNorm3d` over as many channels as the first input has."""

    cls_to_become = InstanceNorm3d
