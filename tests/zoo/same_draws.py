"""`same_draws.py SCRIPT.py ARGS`: runs a script with random numbers that do not depend on whose
`torch` it imports: weights, samples, noise and the order of data come from NumPy, nothing is
dropped out. So what it prints can be compared, line by line.
"""

from __future__ import annotations

import random
import runpy
import sys
import types
import zlib
from pathlib import Path
from typing import Any

import numpy as np

if "frontend" not in sys.modules:  # see worker.py: torchvision's wheel beside another PyTorch
    _NAME = "torchvision._meta_registrations"
    sys.modules[_NAME] = types.ModuleType(_NAME)

import torch

RANDOM = np.random.default_rng(11)
_drawn: dict[int, Any] = {}


def redraw(parameters: Any) -> None:
    """Parameters that are not constant get numbers of their shape's own stream, once."""
    for parameter in parameters:
        if id(parameter) in _drawn:
            continue
        _drawn[id(parameter)] = parameter
        old = parameter.detach().numpy()
        if old.size == 0 or (
            (old == old.flat[0]).all() and (old.size > 1 or old.flat[0] in (0, 1))
        ):
            continue
        shape = old.shape
        seed = zlib.crc32(f"{shape} {len(_drawn)}".encode())
        draws = np.random.default_rng(seed).standard_normal(shape)
        if old.ndim == 1:
            values = np.round(old.mean()) + 0.02 * draws
        else:
            values = draws / np.sqrt(np.prod(shape[1:]))
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values.astype(old.dtype)))


def normal(*shape: Any, **options: Any) -> Any:
    """`torch.randn`."""
    sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    dtype = options.get("dtype") or torch.get_default_dtype()
    return torch.from_numpy(RANDOM.standard_normal(tuple(sizes))).to(dtype)


def integers(*arguments: Any, **options: Any) -> Any:
    """`torch.randint(low=0, high, size)`."""
    *bounds, size = (*arguments, options["size"]) if "size" in options else arguments
    return torch.from_numpy(RANDOM.integers(*bounds, size=tuple(size)))


def permutation(n: int, **options: Any) -> Any:
    """`torch.randperm`."""
    return torch.from_numpy(RANDOM.permutation(n))


def picked(probabilities: Any) -> Any:
    """One index for each row [..., N] of weights."""
    sums = probabilities.detach().double().cumsum(-1).numpy()
    limits = RANDOM.random((*sums.shape[:-1], 1)) * sums[..., -1:]
    return torch.tensor((sums <= limits).sum(-1).clip(max=sums.shape[-1] - 1))


def one_of(weights: Any, num_samples: int, **options: Any) -> Any:
    """`torch.multinomial` of one sample."""
    if num_samples != 1:
        raise NotImplementedError(f"{num_samples} samples")
    return picked(weights)[..., None]


def order(sampler: Any) -> Any:
    """The indices of a `RandomSampler`."""
    size = len(sampler.data_source)
    if sampler.replacement:
        return (int(RANDOM.integers(size)) for _ in range(sampler.num_samples))
    return iter(RANDOM.permutation(size).tolist())


def replace_draws() -> None:
    random.seed(11)
    np.random.seed(11)
    torch.randn, torch.randint, torch.multinomial = normal, integers, one_of
    torch.randperm = permutation
    torch.randn_like = lambda x, **options: normal(x.shape, dtype=x.dtype)
    torch.utils.data.RandomSampler.__iter__ = order
    torch.distributions.Categorical.sample = lambda self: picked(self.probs)
    for kind in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d"):
        getattr(torch.nn, kind).forward = lambda self, x: x
    optimizer_starts, trains = torch.optim.Optimizer.__init__, torch.nn.Module.train

    def start(self: Any, *arguments: Any, **options: Any) -> None:
        optimizer_starts(self, *arguments, **options)
        redraw(p for group in self.param_groups for p in group["params"])

    def train(self: Any, mode: bool = True) -> Any:
        if mode:
            redraw(self.parameters())
        for module in self.modules():
            if isinstance(module, torch.nn.MultiheadAttention):
                module.dropout = 0.0
        return trains(self, mode)

    torch.optim.Optimizer.__init__, torch.nn.Module.train = start, train


if __name__ == "__main__":
    import torch.distributions
    import torch.utils.data

    replace_draws()
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
