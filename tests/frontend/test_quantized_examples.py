"""The two examples quantized by the public names: what that costs in accuracy and in loss."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.ao import quantization as ao

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GROUP = 32


def loaded(name: str) -> Iterator[Any]:
    spec = spec_from_file_location(f"quantized_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def digits() -> Iterator[Any]:
    yield from loaded("digits")


@pytest.fixture(scope="module")
def transformer() -> Iterator[Any]:
    yield from loaded("transformer")


def weights_alone(config: Any) -> Callable[[Any, Any], Any]:
    def quantized(model: Any, calibrate: Any) -> Any:
        model = copy.deepcopy(model)
        ao.quantize_(model, config)
        return model

    return quantized


def dynamic(model: Any, calibrate: Any) -> Any:
    return ao.quantize_dynamic(model, {nn.Linear})


def static(model: Any, calibrate: Callable[[Any], None]) -> Any:
    """Each layer that has integers between stubs of its own, the others in floats."""
    model = copy.deepcopy(model).eval()
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            layer.qconfig = ao.get_default_qconfig("x86")
    model = ao.prepare(ao.add_quant_dequant(model))
    calibrate(model)
    return ao.convert(model)


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "int8 weights": weights_alone(ao.Int8WeightOnlyConfig()),
    "int4 weights": weights_alone(ao.Int4WeightOnlyConfig(group_size=GROUP)),
    "int8 by rows": weights_alone(ao.Int8DynamicActivationInt8WeightConfig()),
    "dynamic": dynamic,
    "static": static,
}


# -- digits ----------------------------------------------------------------------------------------

MORE_WRONG = {
    "int8 weights": 1, "int4 weights": 4, "int8 by rows": 2, "dynamic": 2, "static": 3,
    "trained": 3,
}  # fmt: skip
"""Of 360 images held out, how many more may be taken for another digit."""


def images(digits: Any, job: Any) -> tuple[Any, Any]:
    train, held_out = digits.read_digits(job.image)
    return train, held_out


def right(digits: Any, model: Any, held_out: Any) -> int:
    """How many digits a model names, eagerly and compiled."""
    x, _ = held_out.tensors
    with torch.no_grad():
        eager, compiled = model(x), torch.compile(model)(x)
    np.testing.assert_array_equal(compiled.numpy(), eager.numpy())
    return round(digits.accuracy(model, held_out) * len(x))


def check_digits(digits: Any, model: Any, job: Any) -> None:
    train, held_out = images(digits, job)
    most = right_in_floats(digits, model, held_out)

    def calibrate(prepared: Any) -> None:
        with torch.no_grad():
            for start in range(0, 512, 64):
                prepared(train.tensors[0][start : start + 64])

    for name, quantized in KINDS.items():
        now = quantized(model, calibrate)
        assert type(now) is not type(model) or str(now) != str(model), name
        lost = most - right(digits, now, held_out)
        assert lost <= MORE_WRONG[name], name


def right_in_floats(digits: Any, model: Any, held_out: Any) -> int:
    return round(digits.accuracy(model.eval(), held_out) * len(held_out.tensors[0]))


def test_the_digits_of_the_first_network_are_still_read(digits: Any) -> None:
    job = digits.JOBS[0]
    job = digits.Job(job.name, job.make, job.image, job.optimizer, epochs=8)
    run = digits.train(job, True, lambda: None)
    assert run.accuracy > 0.9
    check_digits(digits, run.model, job)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1], ids=["mlp", "cnn"])
def test_the_digits_of_the_example_are_still_read(digits: Any, number: int) -> None:
    job = digits.JOBS[number]
    run = digits.train(job, True, lambda: None)
    assert run.accuracy > 0.97
    check_digits(digits, run.model, job)


@pytest.mark.slow
@pytest.mark.parametrize("number, epochs", [(0, 2), (1, 3)], ids=["mlp", "cnn"])
def test_digits_are_learned_by_integers(digits: Any, number: int, epochs: int) -> None:
    """A network that was trained is trained on, rounded, and converted."""
    job = digits.JOBS[number]
    short = digits.Job(job.name, job.make, job.image, job.optimizer, epochs=8, warmup=job.warmup)
    model = digits.train(short, True, lambda: None).model
    held_out = digits.read_digits(job.image)[1]
    most = right_in_floats(digits, model, held_out)
    wrapped = ao.QuantWrapper(copy.deepcopy(model)).train()
    wrapped.qconfig = ao.get_default_qat_qconfig("x86")
    prepared = ao.prepare_qat(wrapped)
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.01)
    step = torch.compile(lambda x, y: digits.step_of(prepared, optimizer, x, y))
    losses = [
        step(x, y).item()
        for _ in range(epochs)
        for x, y in digits.batches_of(digits.read_digits(job.image)[0])
    ]
    assert np.isfinite(losses).all() and losses[-1] < 1
    converted = ao.convert(prepared.eval())
    lost = most - right(digits, converted, held_out)
    assert lost <= MORE_WRONG["trained"]


# -- the transformer -------------------------------------------------------------------------------

MORE_LOSS = {
    "int8 weights": 0.004, "int4 weights": 0.04, "int8 by rows": 0.01, "dynamic": 0.03,
    "static": 0.06,
}  # fmt: skip
"""By how many nats per character the loss may grow on the text held out."""


def check_losses(transformer: Any, text: Any, steps: int) -> None:
    torch.manual_seed(0)
    model = transformer.Transformer(len(text.alphabet))

    def compile(function: Any) -> Any:
        return torch.compile(function, threads=1, keep_grads=False)

    transformer.train(model, text, steps, compile, lambda loss: None)
    floats = transformer.held_out_loss(model, text, compile)
    assert floats < text.bounds()[transformer.bound_after(steps)]
    windows = text.train[: transformer.BATCH * transformer.CONTEXT]
    batch = torch.from_numpy(windows.reshape(transformer.BATCH, -1).copy())

    def calibrate(prepared: Any) -> None:
        with torch.no_grad():
            prepared(batch)

    for name, quantized in KINDS.items():
        now = quantized(model, calibrate)
        more = transformer.held_out_loss(now, text, compile) - floats
        assert more <= MORE_LOSS[name], name
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert abs(transformer.held_out_loss(model, text, compile) - floats) < 0.01


@pytest.fixture(scope="module")
def text(transformer: Any) -> Any:
    return transformer.read_text()


@pytest.mark.slow
def test_what_the_transformer_knows_is_kept(transformer: Any, text: Any) -> None:
    check_losses(transformer, text, transformer.STEPS)


@pytest.mark.slow
def test_what_a_small_transformer_knows_is_kept(
    transformer: Any, text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"CONTEXT": 16, "BATCH": 8, "WIDTH": GROUP, "HEADS": 2, "LAYERS": 1, "PEAK": 0.02}
    for name, size in sizes.items():
        monkeypatch.setattr(transformer, name, size)
    few = transformer.Text(text.alphabet, text.train, text.held_out[:4000])
    check_losses(transformer, few, 60)
