"""The fourteen workloads of the performance table: what is computed, on what, at which size.

In: the name of a workload, its size (`full`, or `small` for tests), and the namespace of a
framework. Out: `Prepared`, a step that can be called over and over. Models, losses and optimizers
are written once; PyTorch and the frontend run the same lines. Initial weights and inputs are NumPy
arrays, equal for every framework.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import workload_models as models

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

SEED = 7


@dataclass(frozen=True)
class Optimizer:
    """`name` of the class, and its options in PyTorch's spelling."""

    name: str
    options: Mapping[str, float]


SGD = Optimizer("SGD", {"lr": 0.01, "momentum": 0.9})
ADAM = Optimizer("Adam", {"lr": 1e-3})
ADAMW = Optimizer("AdamW", {"lr": 3e-4, "weight_decay": 0.01})


@dataclass(frozen=True)
class Workload:
    """One row. `model` takes a framework and the sizes that are not of the data. `inputs` is the
    shape behind the batch of the first input, or what its elements are. Without an `optimizer` it
    is inference. `target` is how many times the best peer it should be, by level."""

    name: str
    title: str
    model: Callable[..., Any]
    data: Callable[..., tuple[Array, ...]]
    batch: Mapping[str, int]
    optimizer: Optimizer | None = None
    target: Mapping[str, float] = field(default_factory=dict)
    images: bool = False
    small: Mapping[str, Any] = field(default_factory=dict)
    small_batch: Mapping[str, int] = field(default_factory=dict)

    @property
    def trains(self) -> bool:
        return self.optimizer is not None

    @property
    def has_model(self) -> bool:
        return self.model not in (models.chain, models.softmax, models.layer_norm)

    def sizes(self, size: str) -> Mapping[str, Any]:
        return self.small if size == "small" else {}

    def inputs(self, size: str = "full") -> tuple[Array, ...]:
        """The arrays of a batch, always the same: inputs, then labels where it trains."""
        batch = {**self.batch, **(self.small_batch if size == "small" else {})}
        arrays = self.data(np.random.default_rng(SEED), **batch)
        return arrays if self.trains else arrays[:1]


# -- data -----------------------------------------------------------------------------------------


def vectors(rng: np.random.Generator, rows: int, width: int = 784) -> tuple[Array, ...]:
    return rng.standard_normal((rows, width), np.float32), rng.integers(0, 10, rows)


def images(rng: np.random.Generator, rows: int, side: int = 32) -> tuple[Array, ...]:
    return rng.standard_normal((rows, 3, side, side), np.float32), rng.integers(0, 10, rows)


def tokens(
    rng: np.random.Generator, rows: int, length: int = 128, vocabulary: int = 65
) -> tuple[Array, ...]:
    text = rng.integers(0, vocabulary, (rows, length + 1))
    return np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:])


def sequences(
    rng: np.random.Generator, rows: int, steps: int = 50, width: int = 64
) -> tuple[Array, ...]:
    return rng.standard_normal((rows, steps, width), np.float32), rng.integers(0, 10, rows)


def block(rng: np.random.Generator, rows: int, width: int) -> tuple[Array, ...]:
    return (rng.standard_normal((rows, width), np.float32),)


# -- the table ------------------------------------------------------------------------------------

_MLP: dict[str, Any] = {
    "model": models.mlp, "data": vectors,
    "small": {"inputs": 20, "hidden": 24}, "small_batch": {"rows": 6, "width": 20},
}  # fmt: skip
_LENET: dict[str, Any] = {
    "model": models.lenet, "data": images, "images": True,
    "small": {"side": 16}, "small_batch": {"rows": 3, "side": 16},
}  # fmt: skip
_RESNET: dict[str, Any] = {
    "model": models.resnet18, "data": images, "images": True,
    "small": {"widths": (4, 6), "blocks": 1}, "small_batch": {"rows": 3, "side": 8},
}  # fmt: skip
_GPT: dict[str, Any] = {
    "model": models.gpt, "data": tokens,
    "small": {"vocabulary": 11, "length": 10, "width": 16, "heads": 2, "layers": 2},
    "small_batch": {"rows": 2, "length": 10, "vocabulary": 11},
}  # fmt: skip

WORKLOADS: tuple[Workload, ...] = (
    Workload("mlp-sgd", "MLP 784-512-512-10, train, batch 64, SGD with momentum",
             batch={"rows": 64}, optimizer=SGD, target={"exact": 1.12}, **_MLP),
    Workload("mlp-adam", "MLP 784-512-512-10, train, batch 64, Adam",
             batch={"rows": 64}, optimizer=ADAM, target={"exact": 1.2}, **_MLP),
    Workload("mlp-1", "MLP 784-512-512-10, inference, batch 1",
             batch={"rows": 1}, target={"exact": 1.1}, **_MLP),
    Workload("mlp-64", "MLP 784-512-512-10, inference, batch 64",
             batch={"rows": 64}, target={"exact": 1.0}, **_MLP),
    Workload("lenet-sgd", "LeNet 3x32x32, train, batch 32, SGD with momentum",
             batch={"rows": 32}, optimizer=SGD, target={"exact": 2.5}, **_LENET),
    Workload("lenet-1", "LeNet 3x32x32, inference, batch 1",
             batch={"rows": 1}, target={"exact": 1.6}, **_LENET),
    Workload("resnet18-sgd", "ResNet-18 32x32, train, batch 16, SGD with momentum",
             batch={"rows": 16}, optimizer=SGD, target={"exact": 1.1, "relaxed": 1.3}, **_RESNET),
    Workload("resnet18-1", "ResNet-18 32x32, inference, batch 1",
             batch={"rows": 1}, target={"exact": 1.08}, **_RESNET),
    Workload("gpt-adamw", "GPT 4x256, 4 heads, T 128, V 65, train, batch 8, AdamW",
             batch={"rows": 8}, optimizer=ADAMW, target={"exact": 2.2}, **_GPT),
    Workload("gpt-1", "GPT 4x256, 4 heads, T 128, V 65, inference, batch 1",
             batch={"rows": 1}, target={"exact": 1.15}, **_GPT),
    Workload("lstm-adam", "LSTM 64-128 over 50 steps, Linear, train, batch 32, Adam",
             models.lstm, sequences, {"rows": 32}, ADAM, {"exact": 1.3},
             small={"inputs": 5, "hidden": 8}, small_batch={"rows": 3, "steps": 4, "width": 5}),
    Workload("chain", "min(exp(x sigmoid(x) + tanh(x)/2), 10) - x**2/3 of 1 M floats",
             models.chain, block, {"rows": 1000, "width": 1000}, target={"exact": 2.0},
             small_batch={"rows": 7, "width": 33}),
    Workload("softmax", "softmax over rows, 4096x1024",
             models.softmax, block, {"rows": 4096, "width": 1024}, target={"exact": 1.3},
             small_batch={"rows": 7, "width": 33}),
    Workload("layer_norm", "layer_norm over rows, 4096x1024",
             models.layer_norm, block, {"rows": 4096, "width": 1024}, target={"exact": 1.5},
             small_batch={"rows": 7, "width": 33}),
)  # fmt: skip
BY_NAME = {workload.name: workload for workload in WORKLOADS}


def chosen(pattern: str) -> list[Workload]:
    """The workloads whose name contains `pattern`, or matches it as a shell pattern."""
    import fnmatch

    return [w for w in WORKLOADS if pattern in w.name or fnmatch.fnmatchcase(w.name, pattern)]


# -- weights --------------------------------------------------------------------------------------


def initial_state(workload: Workload, size: str = "full") -> Arrays:
    """The model's parameters and buffers by name, made by the frontend once for all frameworks."""
    if not workload.has_model:
        return {}
    import frontend

    frontend.manual_seed(SEED)
    model = workload.model(frontend, **workload.sizes(size))
    state = {name: np.array(tensor.detach().numpy()) for name, tensor in model.named_parameters()}
    state.update({name: np.array(tensor.numpy()) for name, tensor in model.named_buffers()})
    if "position" in state:  # zeros would leave a gradient path untested
        rng = np.random.default_rng(SEED)
        state["position"] += 0.02 * rng.standard_normal(state["position"].shape, np.float32)
    return state


# -- a step in PyTorch's spelling -----------------------------------------------------------------


@dataclass
class Prepared:
    """`step()` does the work once and returns the loss, or the output, as the framework's tensor.
    `parts` are what it is made of."""

    step: Callable[[], Any]
    model: Any
    optimizer: Any
    batch: Sequence[Any]


def loss_of(torch: ModuleType, output: Any, labels: Any) -> Any:
    """Cross-entropy, over all positions of a sequence."""
    return torch.nn.functional.cross_entropy(output.flatten(0, -2), labels.flatten())


def prepare(
    torch: ModuleType,
    workload: Workload,
    state: Arrays,
    *,
    size: str = "full",
    compile: Callable[[Any], Any] = lambda function: function,
    whole: bool = True,
    separate_optimizer: Callable[[Any], Any] = lambda function: function,
    memory_format: Any = None,
    **options: Any,
) -> Prepared:
    """The workload in `torch` or the frontend. `compile` is put around the whole training step; or,
    with `whole` false, around the model with its loss, and `separate_optimizer` around the update;
    around the model for inference. `options` go to the optimizer."""
    model = workload.model(torch, **workload.sizes(size))
    if state:
        load(torch, model, state)
    batch = [torch.tensor(array) for array in workload.inputs(size)]
    if memory_format is not None:
        model = model.to(memory_format=memory_format)
        batch[0] = batch[0].contiguous(memory_format=memory_format)
    if workload.optimizer is None:
        return _inference(torch, workload, model, batch, compile)
    make = getattr(torch.optim, workload.optimizer.name)
    optimizer = make(model.parameters(), **workload.optimizer.options, **options)

    def forward(*batch: Any) -> Any:
        return loss_of(torch, model(batch[0]), batch[1])

    part = forward if whole else compile(forward)
    # A function of its own: an optimizer's bound method is not one that can be wrapped everywhere.
    update = optimizer.step if whole else separate_optimizer(lambda: optimizer.step())

    def train(*batch: Any) -> Any:
        loss = part(*batch)
        optimizer.zero_grad()
        loss.backward()
        update()
        return loss

    step = compile(train) if whole else train
    return Prepared(lambda: step(*batch), model, optimizer, batch)


def _inference(
    torch: ModuleType, workload: Workload, model: Any, batch: list[Any], compile: Any
) -> Prepared:
    if workload.has_model:
        model.eval()
    run = compile(model)

    def infer() -> Any:
        with torch.inference_mode():
            return run(*batch)

    return Prepared(infer, model, None, batch)


def load(torch: ModuleType, model: Any, state: Arrays) -> None:
    """Copies the arrays into parameters and buffers of the same names."""
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    if named.keys() != state.keys():
        raise ValueError(f"other parameters: {sorted(named.keys() ^ state.keys())}")
    with torch.no_grad():
        for name, tensor in named.items():
            tensor.copy_(torch.tensor(state[name]))


def checksum(result: Any) -> float:
    """One number that shows what came out: a loss itself, the root mean square of an output."""
    array = np.asarray(result, np.float64)
    return float(array) if array.ndim == 0 else math.sqrt(float(np.mean(array**2)))
