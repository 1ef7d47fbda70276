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

from tests.zoo.numpy_draws import Draws

DRAWS = Draws(torch)
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


def order(sampler: Any) -> Any:
    """The indices of a `RandomSampler`."""
    size = len(sampler.data_source)
    if sampler.replacement:
        return (int(DRAWS.random.integers(size)) for _ in range(sampler.num_samples))
    return iter(DRAWS.random.permutation(size).tolist())


def replace_draws() -> None:
    random.seed(11)
    np.random.seed(11)
    for name in ("randn", "randn_like", "randint", "randperm", "multinomial"):
        setattr(torch, name, getattr(DRAWS, name))
    torch.utils.data.RandomSampler.__iter__ = order
    torch.distributions.Categorical.sample = lambda self: DRAWS.picked(self.probs)
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
