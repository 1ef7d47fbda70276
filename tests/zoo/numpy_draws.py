"""Random numbers of NumPy in the place of torch's, so that a program draws the same whatever
`torch` it imports."""

from __future__ import annotations

from typing import Any

import numpy as np


class Draws:
    """Replacements for the functions of a `torch` that draw, over one stream of numbers.

    Shapes and bounds are torch's; the numbers are drawn in float64 and cast.
    """

    def __init__(self, torch: Any, seed: int = 11):
        self.torch = torch
        self.random = np.random.default_rng(seed)

    def seed(self, seed: int) -> None:
        """Begin the stream anew."""
        self.random = np.random.default_rng(seed)

    def tensor(self, array: Any, dtype: Any = None) -> Any:
        """Numbers as a tensor of `dtype`; by itself the default dtype for floats."""
        tensor = self.torch.from_numpy(np.asarray(array))
        if dtype is None and tensor.is_floating_point():
            dtype = self.torch.get_default_dtype()
        return tensor if dtype is None else tensor.to(dtype)

    def rand(self, *shape: Any, **options: Any) -> Any:
        """`torch.rand`."""
        drawn = self.tensor(self.random.random(_sizes(shape, options)), options.get("dtype"))
        return drawn.requires_grad_(options.get("requires_grad", False))

    def randn(self, *shape: Any, **options: Any) -> Any:
        """`torch.randn`."""
        drawn = self.random.standard_normal(_sizes(shape, options))
        tensor = self.tensor(drawn, options.get("dtype"))
        return tensor.requires_grad_(options.get("requires_grad", False))

    def rand_like(self, x: Any, **options: Any) -> Any:
        """`torch.rand_like`."""
        return self.rand(x.shape, dtype=options.get("dtype") or x.dtype)

    def randn_like(self, x: Any, **options: Any) -> Any:
        """`torch.randn_like`."""
        return self.randn(x.shape, dtype=options.get("dtype") or x.dtype)

    def randint(self, *arguments: Any, **options: Any) -> Any:
        """`torch.randint(low=0, high, size)`."""
        *bounds, size = (*arguments, options["size"]) if "size" in options else arguments
        return self.tensor(self.random.integers(*bounds, size=tuple(size)), options.get("dtype"))

    def randperm(self, n: int, **options: Any) -> Any:
        """`torch.randperm`."""
        return self.tensor(self.random.permutation(n))

    def picked(self, probabilities: Any) -> Any:
        """One index for each row [..., N] of weights."""
        sums = probabilities.detach().double().cumsum(-1).numpy()
        limits = self.random.random((*sums.shape[:-1], 1)) * sums[..., -1:]
        return self.torch.tensor((sums <= limits).sum(-1).clip(max=sums.shape[-1] - 1))

    def multinomial(self, weights: Any, num_samples: int, **options: Any) -> Any:
        """`torch.multinomial` of one sample."""
        if num_samples != 1:
            raise NotImplementedError(f"{num_samples} samples")
        return self.picked(weights)[..., None]

    def bernoulli(self, probabilities: Any, **options: Any) -> Any:
        """`torch.bernoulli`."""
        return (self.rand_like(probabilities) < probabilities).to(probabilities.dtype)

    def uniform_(self, x: Any, low: float = 0.0, high: float = 1.0, **options: Any) -> Any:
        """`Tensor.uniform_`."""
        with self.torch.no_grad():
            return x.copy_(self.tensor(self.random.uniform(low, high, tuple(x.shape)), x.dtype))

    def normal_(self, x: Any, mean: float = 0.0, std: float = 1.0, **options: Any) -> Any:
        """`Tensor.normal_`."""
        with self.torch.no_grad():
            return x.copy_(self.tensor(self.random.normal(mean, std, tuple(x.shape)), x.dtype))

    FUNCTIONS = (
        "rand", "randn", "rand_like", "randn_like", "randint", "randperm", "multinomial",
        "bernoulli",
    )  # fmt: skip
    METHODS = ("uniform_", "normal_")

    def install(self) -> None:
        """Put these in the places of torch's own."""
        for name in self.FUNCTIONS:
            setattr(self.torch, name, getattr(self, name))
        for name in self.METHODS:
            setattr(self.torch.Tensor, name, _method(getattr(self, name)))
        self.torch.compile = _eager  # no trace can hold NumPy's numbers


def _method(function: Any) -> Any:
    return lambda x, *arguments, **options: function(x, *arguments, **options)


def _eager(function: Any = None, **options: Any) -> Any:
    """`torch.compile`, which leaves the function as it is."""
    return _eager if function is None else function


def _sizes(shape: Any, options: Any) -> tuple[int, ...]:
    if "size" in options:
        return tuple(options["size"])
    return tuple(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
