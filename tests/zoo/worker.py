"""One side of a comparison: `worker.py SIDE FOLDER draws|own`, SIDE "oracle" (PyTorch) or
"frontend".

In, on standard input: a line for each model, its name of the catalogue, and "step" after it where a
training step is to be compared too. Out: a line of JSON for each, and in FOLDER the arrays: the
oracle writes `weights.npz` and what it computed, the frontend loads those weights. With "draws",
random numbers of both sides are NumPy's.
"""

from __future__ import annotations

import json
import random
import sys
import time
import traceback
import types
import zlib
from pathlib import Path
from typing import Any

import numpy as np

RATE = 0.1


def prepare(side: str) -> None:
    """Make `import torch` give what this side is about."""
    if side == "frontend":
        import frontend

        frontend.install_as("torch")
        return
    # torchvision's wheel registers shapes for operators of its C++ library, which does not load
    # beside another PyTorch than its own; models do not need them.
    name = "torchvision._meta_registrations"
    sys.modules[name] = types.ModuleType(name)


class Chance:
    """Where random numbers come from: torch's own generators, or NumPy's on both sides."""

    def __init__(self, shared: bool):
        self.draws = None
        if shared:  # before libraries are imported, which may take functions from torch by name
            import torch

            from tests.zoo.numpy_draws import Draws

            self.draws = Draws(torch)
            self.draws.install()

    def seed(self, number: int) -> None:
        """Begin anew, for Python's own random numbers too."""
        import torch

        torch.manual_seed(number)
        random.seed(number)
        if self.draws is not None:
            self.draws.seed(number)


def classes(model: Any) -> list[str]:
    """The classes of its modules, as `package.file.Class`."""
    kinds = {type(module) for module in model.modules()}
    return sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)


def tensors(value: Any) -> list[Any]:
    """The float tensors in what a model returned, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [tensor for each in value for tensor in tensors(each)]
    return []


def loss_of(value: Any) -> Any:
    """The sum of the mean squares of all outputs."""
    total: Any = 0
    for tensor in tensors(value):
        total = total + (tensor * tensor).mean()
    return total


CHANCES = (
    "p",
    "drop_prob",
    "drop_rate",
    "dropout",
    "attention_dropout",
    "attn_drop",
    "dropout_prob",
)
"""Attributes of layers that are probabilities of leaving something out."""


def without_chance(model: Any) -> None:
    """Training mode without dropout, so that both sides compute the same."""
    model.train()
    for module in model.modules():
        for name in CHANCES:
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def stepped(model: Any, inputs: dict[str, Any], compiled: bool) -> tuple[float, float]:
    """The loss of one step of training, and how far it moved the parameters."""
    import torch

    without_chance(model)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=RATE)

    def step() -> Any:
        loss = loss_of(model(**inputs))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = torch.compile(step, fullgraph=True)
    before = [parameter.detach().clone() for parameter in parameters]
    loss = float(step().detach())
    moved = [float(((new.detach() - old) ** 2).sum()) for new, old in zip(parameters, before)]
    return loss, float(sum(moved)) ** 0.5


def run(side: str, name: str, step: bool, folder: Path, chance: Chance) -> dict[str, Any]:
    """What this side computes of one model: seconds, and losses."""
    import torch

    from tests.zoo.catalogue import build

    seed = zlib.crc32(name.encode()) % 2**31
    chance.seed(seed)
    model, arrays = build(name)
    inputs = {key: torch.from_numpy(array) for key, array in arrays.items()}
    if side == "oracle":
        for parameter in model.parameters():  # a head of zeros would hide all before it
            if not parameter.any():
                torch.nn.init.normal_(parameter, std=0.02)
        state = {key: value.numpy() for key, value in model.state_dict().items()}
        np.savez(folder / "weights.npz", **state)
    else:
        with np.load(folder / "weights.npz") as weights:
            state = model.state_dict()  # with versions, that some models ask about
            assert state.keys() == set(weights.files), "state dicts have other names"
            state.update({key: torch.from_numpy(weights[key].copy()) for key in weights.files})
        model.load_state_dict(state, strict=True)
    model.eval()
    chance.seed(seed)
    start = time.perf_counter()
    with torch.no_grad():
        value = model(**inputs)
    seconds = time.perf_counter() - start
    outputs = {f"{i}": tensor.detach().numpy() for i, tensor in enumerate(tensors(value))}
    np.savez(folder / f"{side}.npz", **outputs)
    result: dict[str, Any] = {"seconds": round(seconds, 3), "loss": float(loss_of(value))}
    result["classes"] = classes(model)
    if step:
        start = time.perf_counter()
        result["step"] = stepped(model, inputs, compiled=side == "frontend")
        result["step_seconds"] = round(time.perf_counter() - start, 3)
    return result


def main() -> None:
    side, folder = sys.argv[1], Path(sys.argv[2])
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print
    prepare(side)
    chance = Chance(sys.argv[3] == "draws")
    for line in sys.stdin:
        name, *step = line.split()
        try:
            result = run(side, name, bool(step), folder / name, chance)
        except Exception as error:
            where = traceback.format_exc(limit=-3).splitlines()[-7:]
            result = {"error": f"{type(error).__name__}: {str(error)[:300]}", "where": where}
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
