"""Whether the frontend's results are PyTorch's: structure, shapes, dtypes and numbers."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

import frontend
from tests.zoo.opdb_sides import array

BOUNDS = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 5e-5, "complex64": 5e-5}
"""The greatest difference over the greatest magnitude, by dtype; 1e-8 for others."""
LEAST = 1e-3
"""What that magnitude counts as, where it is less."""

CHANCE = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform",
    "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
}  # fmt: skip
"""Operators that draw: the streams differ, so shapes and dtypes are compared."""
UNSET = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    "resize_", "resize_as_",
}  # fmt: skip
"""Those that give whatever lies in memory."""


CHOICES = {"argsort", "kthvalue", "mode", "sort", "topk"}
"""Those whose indices may be any of equal elements: what stands there is compared."""


def drawn(op: Any, args: tuple, keywords: dict) -> bool:
    """Whether an operator's result is drawn, for these arguments."""
    if op.name in CHANCE or keywords.get("dropout_p"):
        return True
    if op.name == "svd_lowrank" and keywords.get("M") is not None:
        return True  # of full rank: an approximation by a drawn projection
    return op.name == "nn.functional.multi_head_attention_forward" and bool(
        args[10] and keywords.get("training", True)
    )


def compared(op: Any, actual: Any, expected: Any, args: tuple, keywords: dict) -> str | None:
    """How the frontend's result differs from PyTorch's; None where it does not."""
    known = not drawn(op, args, keywords) and op.name not in UNSET
    if op.name in CHOICES and not keywords.get("stable"):
        unlike = different(actual, expected, numbers_too=False)
        actual, expected = (_chosen(x, args, keywords) for x in (actual, expected))
        return unlike or different(actual, expected)
    if op.name == "linalg.eigvals":
        actual, expected = (_sorted(_arrays(x)) for x in (actual, expected))
    if known and op.name in FACTORS:
        unlike = different(actual, expected, numbers_too=False)
        actual, expected = FACTORS[op.name](_arrays(actual)), FACTORS[op.name](_arrays(expected))
        return unlike or different(actual, expected)
    return different(actual, expected, numbers_too=known, coarsest=coarsest(args, keywords))


def coarsest(*values: Any) -> float:
    """The greatest bound of the dtypes of tensors among arguments: f64 made of f32 that was rounded
    in another place is as far off as f32 is."""
    import torch

    leaves = torch.utils._pytree.tree_leaves(values)
    names = [str(x.dtype).removeprefix("torch.") for x in leaves if isinstance(x, torch.Tensor)]
    return max((BOUNDS.get(name, 0.0) for name in names), default=0.0)


def _chosen(result: Any, args: tuple, keywords: dict) -> list[np.ndarray]:
    """The values of a selection, and what its indices point at."""
    whole = array(args[0])
    parts = _arrays(result)
    values, at = (None, parts) if isinstance(parts, np.ndarray) else parts
    if not whole.ndim:
        return [x for x in (values, at) if x is not None]
    dims = [x for x in args[1:] if isinstance(x, int) and not isinstance(x, bool)]
    place = {"topk": 1, "kthvalue": 1}.get(type(result).__name__.rpartition(".")[2], 0)
    axis = keywords.get("dim", dims[place] if len(dims) > place else -1)
    wide = at if at.ndim == whole.ndim else np.expand_dims(at, axis)
    actual = np.take_along_axis(whole, wide, axis)
    return [x for x in (values, actual) if x is not None]


def different(
    actual: Any, expected: Any, numbers_too: bool = True, where: str = "", coarsest: float = 0.0
) -> str | None:
    """How a result differs, in nested sequences and dicts; by more than `coarsest` in any case."""
    import torch

    if isinstance(expected, torch.Tensor):
        if not isinstance(actual, frontend.Tensor):
            return f"{where}{type(actual).__name__}, not a tensor"
        if tuple(actual.shape) != tuple(expected.shape):
            return f"{where}shape {tuple(actual.shape)}, not {tuple(expected.shape)}"
        if str(actual.dtype) != str(expected.dtype):
            return f"{where}dtype {actual.dtype}, not {expected.dtype}"
        if not numbers_too:
            return None
        own = BOUNDS.get(str(expected.dtype).removeprefix("torch."), 0.0)  # bf16 comes as float32
        return _numbers(_ours(actual), array(expected), where, max(coarsest, own))
    if isinstance(expected, np.ndarray):
        return _numbers(actual, expected, where)
    if isinstance(expected, tuple | list):
        if not isinstance(actual, tuple | list) or len(actual) != len(expected):
            return f"{where}{type(actual).__name__}, not {len(expected)} values"
        pairs = enumerate(zip(actual, expected))
        unlike = (different(x, y, numbers_too, f"{where}[{i}] ", coarsest) for i, (x, y) in pairs)
        return next((text for text in unlike if text), None)
    if isinstance(expected, numbers.Number) and not isinstance(expected, bool):
        return _numbers(np.asarray(actual), np.asarray(expected), where) if numbers_too else None
    return None if str(actual) == str(expected) else f"{where}{actual!r}, not {expected!r}"


def _ours(tensor: Any) -> np.ndarray:
    value = tensor.detach().resolve_conj() if hasattr(tensor, "resolve_conj") else tensor.detach()
    value = value.float() if value.dtype == frontend.bfloat16 else value
    return np.asarray(value.numpy())


def _arrays(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_arrays(item) for item in value]
    return _ours(value) if isinstance(value, frontend.Tensor) else array(value)


def _numbers(
    actual: np.ndarray, expected: np.ndarray, where: str, coarsest: float = 0.0
) -> str | None:
    if actual.shape != expected.shape:
        return f"{where}shape {actual.shape}, not {expected.shape}"
    if expected.dtype.kind in "bui":
        wrong = int((actual != expected).sum())
        return f"{where}{wrong} of {expected.size} wrong" if wrong else None
    if expected.dtype.kind == "c":
        parts = ((actual.real, expected.real), (actual.imag, expected.imag))
        unlike = (_floats(x, y, expected, where, coarsest) for x, y in parts)
        return next((text for text in unlike if text), None)
    return _floats(actual, expected, expected, where, coarsest)


def _floats(
    x: np.ndarray, y: np.ndarray, whole: np.ndarray, where: str, coarsest: float
) -> str | None:
    bound = max(BOUNDS.get(whole.dtype.name, 1e-8), coarsest)
    if (np.isnan(x) != np.isnan(y)).any():
        return f"{where}NaN in other places"
    infinite = np.isinf(y)
    if (x[infinite] != y[infinite]).any() or np.isinf(x[~infinite]).any():
        return f"{where}infinite in other places"
    finite = np.isfinite(y)
    sizes = np.abs(whole[np.isfinite(whole)])
    greatest = max(float(sizes.max(initial=0.0)), LEAST)
    worst = float(np.abs(x[finite].astype(np.float64) - y[finite]).max(initial=0.0))
    return None if worst <= bound * greatest else f"{where}off by {worst / greatest:.1e}"


# -- factorizations, whose factors are not unique --------------------------------------------------


def _adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def _svd(parts: Any) -> Any:
    u, s, vh = parts
    k = s.shape[-1]
    return [s, (u[..., :k] * s[..., None, :].astype(u.dtype)) @ vh[..., :k, :]]


def _svd_former(parts: Any) -> Any:
    u, s, v = parts
    k = s.shape[-1]
    return [s, (u[..., :k] * s[..., None, :].astype(u.dtype)) @ _adjoint(v[..., :k])]


def _eigh(parts: Any) -> Any:
    values, vectors = parts
    return [values, (vectors * values[..., None, :]) @ _adjoint(vectors)]


def _sorted(values: np.ndarray) -> np.ndarray:
    return np.sort_complex(values)


def _eig(parts: Any) -> Any:
    values, vectors = parts
    inverse = np.linalg.inv(vectors) if vectors.size else vectors
    return [_sorted(values), (vectors * values[..., None, :]) @ inverse]


def _qr(parts: Any) -> Any:
    q, r = parts
    return [np.abs(r), q @ r if q.size else np.zeros(0)]


FACTORS: dict[str, Any] = {
    "linalg.svd": _svd, "svd": _svd_former, "linalg.eigh": _eigh, "linalg.eig": _eig,
    "linalg.qr": _qr, "qr": _qr, "svd_lowrank": _svd_former,
    "pca_lowrank": _svd_former,
}  # fmt: skip
"""By operator: what of its factors is unique."""


# -- gradients -------------------------------------------------------------------------------------


def gradients_compared(actual: Any, expected: Any, ours: Any, theirs: Any) -> str | None:
    """How the gradients of the float arguments differ; None where they do not."""
    import torch

    outputs = [(x, y) for x, y in zip(_tensors(actual), _tensors(expected)) if y.requires_grad]
    leaves = [(x, y) for x, y in zip(_tensors(ours), _tensors(theirs)) if y.requires_grad]
    if not outputs or not leaves:
        return None
    weights = [torch.randn_like(y, requires_grad=False).detach() for _, y in outputs]
    options = {"allow_unused": True}
    try:
        wanted = torch.autograd.grad(
            [y for _, y in outputs], [y for _, y in leaves], weights, **options
        )
    except (RuntimeError, NotImplementedError):
        return None  # PyTorch has none
    if any(not x.requires_grad for x, _ in outputs):
        return "gradient: a result does not require one"
    tensors = [frontend.tensor(array(w)) for w in weights]
    gradients = frontend.autograd.grad(
        [x for x, _ in outputs], [x for x, _ in leaves], tensors, **options
    )
    for i, (x, y) in enumerate(zip(gradients, wanted)):
        y = None if y is not None and not y.any() and x is None else y
        x = None if x is not None and y is None and not x.any() else x
        if (x is None) != (y is None):
            return f"gradient {i} is {'None' if x is None else 'not None'}"
        unlike = None if y is None else different(x, y, where=f"gradient {i} ")
        if unlike:
            return unlike
    return None


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [each for item in value for each in _tensors(item)]
    return [value] if hasattr(value, "requires_grad") else []
