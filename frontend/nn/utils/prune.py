"""`torch.nn.utils.prune`: parameters multiplied by masks of ones and zeros.

A pruned parameter `weight` stands in its Module as the parameter `weight_orig` and the buffer
`weight_mask`; a hook computes `weight`, their product, before each forward. Pruning again prunes
what the mask left. `remove` leaves the product as the parameter. What is chosen depends on values:
masks are made eagerly; a pruned Module compiles as any other.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros_like
from frontend.functions.order import kthvalue, topk
from frontend.functions.random import rand, rand_like
from frontend.nn.modules.module import Module
from frontend.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """A way to choose what is pruned, and the hook that prunes it. A subclass says by
    `PRUNING_TYPE` what it chooses among ("unstructured": elements, "structured": the slices along
    its `dim`, "global": all at once), and by `compute_mask` what it chooses."""

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for a tensor whose values say what matters, on top of the mask there is."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask. Raises AssertionError where it is not pruned."""
        name = getattr(self, "_tensor_name", None)
        assert name is not None, f"Module {module} has to be pruned"
        original = getattr(module, f"{name}_orig")
        product: Tensor = getattr(module, f"{name}_mask").to(dtype=original.dtype) * original
        return product

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune `module.name` by `cls(*args, **kwargs)` and register the hook; on top of what it is
        pruned by, if it is. `importance_scores`, of the parameter's shape, say what matters in
        place of its values. Where the mask cannot be made the module is as it was."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = _hook_of(module, name)
        parameter = getattr(module, name)
        scores = parameter if importance_scores is None else importance_scores
        assert scores.shape == parameter.shape, (
            f"importance_scores should have the same shape as parameter {name} of {module}"
        )
        if before is None:
            hook: BasePruningMethod = method
            mask = method.compute_mask(scores, zeros_like(parameter) + 1)
            module.register_parameter(f"{name}_orig", parameter)
            del module._parameters[name]
        else:
            key, former = before
            hook = PruningContainer(former) if not isinstance(former, PruningContainer) else former
            masks = getattr(module, f"{name}_mask").detach().clone()
            mask = _masked_by(method, scores, masks)
            hook.add_pruning_method(method)
            del module._forward_pre_hooks[key]
        module.register_buffer(f"{name}_mask", mask.detach())
        setattr(module, name, hook.apply_mask(module))
        module.register_forward_pre_hook(hook)
        return hook

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """`t` times a mask, without a Module."""
        scores = t if importance_scores is None else importance_scores
        assert scores.shape == t.shape, "importance_scores should have the same shape as tensor t"
        mask = zeros_like(t) + 1 if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask)

    def remove(self, module: Module) -> None:
        """The pruned values as an ordinary parameter; the hook stays, see the function `remove`."""
        name = self._tensor_name
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        parameter: Any = module._parameters[f"{name}_orig"]
        parameter.data = pruned.detach()
        del module._parameters[f"{name}_orig"], module._buffers[f"{name}_mask"]
        setattr(module, name, parameter)


class PruningContainer(BasePruningMethod):
    """Several methods for one parameter, one after another."""

    def __init__(self, *args: Any):
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method; None is none. Raises TypeError for anything else, and ValueError for one of
        another parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        own = getattr(self, "_tensor_name", None)
        if method is not None and own != getattr(method, "_tensor_name", None):
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{own}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """What the method added last leaves of `default_mask`."""
        return _masked_by(self._pruning_methods[-1], t, default_mask)


def _masked_by(method: BasePruningMethod, t: Any, mask: Any) -> Any:
    """`mask`, and what `method` prunes of what it left. Raises AttributeError for a PRUNING_TYPE
    that is none."""
    kind = method.PRUNING_TYPE
    if kind == "unstructured":
        left: Any = mask == 1
    elif kind == "structured":
        assert hasattr(method, "dim")
        dim = range(mask.ndim)[method.dim]
        others = [axis for axis in range(mask.ndim) if axis != dim]
        left = [slice(None)] * mask.ndim
        left[dim] = mask.sum(dim=others) != 0
        left = tuple(left)
    elif kind == "global":
        left = (slice(None),) * mask.ndim
    else:
        raise AttributeError(f"Unrecognized PRUNING_TYPE {kind}")
    new = mask.clone().to(dtype=t.dtype)
    new[left] = method.compute_mask(t[left].detach(), mask[left]).to(dtype=t.dtype)
    return new


class Identity(BasePruningMethod):
    """Prunes nothing: the parameter has a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask


class _OfElements(BasePruningMethod):
    """Prunes `amount` elements: a number of them, or a fraction."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any):
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = _count(self.amount, t.nelement())
        _check_count(count, t.nelement())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[self._chosen(t, count)] = 0
        return mask

    def _chosen(self, t: Any, count: int) -> Any:
        """Which elements of the flat tensor are pruned."""
        raise NotImplementedError


class RandomUnstructured(_OfElements):
    """Prunes elements drawn at random."""

    def _chosen(self, t: Any, count: int) -> Any:
        return topk(rand_like(t).view(-1), k=count).indices


class L1Unstructured(_OfElements):
    """Prunes the elements of the least magnitude."""

    def _chosen(self, t: Any, count: int) -> Any:
        return topk(t.abs().view(-1), k=count, largest=False).indices


class RandomStructured(BasePruningMethod):
    """Prunes `amount` slices along `dim`, drawn at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1):
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = _count_of_slices(self.amount, t, self.dim)
        if not count:
            return default_mask
        drawn = rand(t.shape[self.dim])
        mask = _of_slices(t, self.dim, drawn > kthvalue(drawn, k=count).values)
        return mask * default_mask.to(dtype=mask.dtype)


class LnStructured(BasePruningMethod):
    """Prunes `amount` slices along `dim`, those of the least norm (`n`: as `p` of `norm`)."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1):
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = _count_of_slices(self.amount, t, self.dim)
        if not count:
            return default_mask
        others = [axis for axis in range(t.ndim) if axis != range(t.ndim)[self.dim]]
        kept = topk(t.norm(p=self.n, dim=others), k=t.shape[self.dim] - count).indices
        mask = _of_slices(t, self.dim, kept)
        return mask * default_mask.to(dtype=mask.dtype)


class CustomFromMask(BasePruningMethod):
    """Prunes where a mask that is given says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any):
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        assert default_mask.shape == self.mask.shape, "the mask has the shape of the parameter"
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# -- functions -----------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Give `module.name` a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune `amount` elements (a number, or a fraction) of `module.name`, drawn at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: Any, importance_scores: Any = None
) -> Module:
    """Prune the `amount` elements of the least magnitude."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune `amount` slices along `dim`, drawn at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Prune the `amount` slices along `dim` of the least norm of order `n`."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Any) -> Module:
    """Prune `module.name` where `mask`, of its shape, is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune the parameters, pairs of a Module and a name, as if they were one, by
    `pruning_method(**kwargs)`. `importance_scores` by such pairs say what matters. Raises TypeError
    for a method that is not unstructured."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    tensors = [getattr(module, name) for module, name in pairs]
    relevant = parameters_to_vector([scores.get(key, t) for key, t in zip(pairs, tensors)])
    masks = [
        getattr(module, f"{name}_mask", zeros_like(tensor) + 1)
        for (module, name), tensor in zip(pairs, tensors)
    ]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    mask, start = _masked_by(method, relevant, parameters_to_vector(masks)), 0
    for (module, name), tensor in zip(pairs, tensors):
        part = mask[start : start + tensor.numel()]
        custom_from_mask(module, name, mask=part.view_as(tensor))
        start += tensor.numel()


def remove(module: Module, name: str) -> Module:
    """Leave the pruned values of `module.name` as an ordinary parameter. Raises ValueError where it
    is not pruned."""
    numbered = _hook_of(module, name)
    if numbered is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    key, hook = numbered
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of it, or of a Module in it, is pruned."""
    modules: list[Any] = [*module.modules()]
    return any(
        isinstance(hook, BasePruningMethod)
        for each in modules
        for hook in each._forward_pre_hooks.values()
    )


def _hook_of(module: Module, name: str) -> tuple[Any, Any] | None:
    """Number and hook of what prunes a parameter."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


# -- amounts -------------------------------------------------------------------------------------


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if amount < 0 or (not whole and float(amount) > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _count(amount: Any, size: int) -> int:
    """How many of `size` are pruned."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * size)


def _check_count(count: int, size: int) -> None:
    if count > size:
        raise ValueError(
            f"amount={count} should be smaller than the number of parameters to prune={size}"
        )


def _count_of_slices(amount: Any, t: Any, dim: int) -> int:
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.ndim} dims"
        )
    if dim >= t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    count = _count(amount, t.shape[dim])
    _check_count(count, t.shape[dim])
    return count


def _of_slices(t: Any, dim: int, kept: Any) -> Any:
    """Ones in the slices that are kept, zeros in others."""
    mask = zeros_like(t)
    mask[(slice(None),) * range(t.ndim)[dim] + (kept,)] = 1
    return mask
