"""Transformer layers against their formulas in NumPy; stacks: how their parts go together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from tests.frontend.layer_cases import transformer as cases
from tests.frontend.layer_cases.refusals.refusal import Refusal
from tests.frontend.layer_cases.refusals.transformer import REFUSALS

Check = Callable[..., None]

CAUSAL = torch.tensor(cases.CAUSAL)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def encoder_layer(**options: Any) -> Any:
    return nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, **options).double()


def decoder_layer(**options: Any) -> Any:
    return nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, **options).double()


def randomized(layer: Any) -> Any:
    """The layer with parameters that are none of them 0."""
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(torch.tensor(normal(*parameter.shape, seed=seed)))
    return layer


def tensors(masks: dict[str, np.ndarray]) -> dict[str, Any]:
    """Float masks in float64."""
    return {
        name: torch.tensor(mask if mask.dtype == bool else mask.astype(np.float64))
        for name, mask in masks.items()
    }


@pytest.mark.sampled(10)
@pytest.mark.parametrize("masks", cases.ENCODER_MASKS.values(), ids=cases.ENCODER_MASKS)
@pytest.mark.parametrize("options", cases.OPTIONS.values(), ids=cases.OPTIONS)
def test_an_encoder_layer_is_its_formula(
    options: dict[str, Any], masks: dict[str, Any], check: Check
) -> None:
    layer = randomized(encoder_layer(**options))
    (x,) = (normal(*shape) for shape in cases.shapes_of(options, 3))
    expected = cases.encoder_layer(layer, x, options, **masks)
    check(layer(torch.tensor(x), **tensors(masks)), expected)
    if [*masks] == ["src_mask"] and masks["src_mask"].dtype == bool:
        check(layer(torch.tensor(x), **tensors(masks), is_causal=True), expected)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("masks", cases.DECODER_MASKS.values(), ids=cases.DECODER_MASKS)
@pytest.mark.parametrize("options", cases.OPTIONS.values(), ids=cases.OPTIONS)
def test_a_decoder_layer_is_its_formula(
    options: dict[str, Any], masks: dict[str, Any], check: Check
) -> None:
    layer = randomized(decoder_layer(**options))
    shapes = cases.shapes_of(options, 3, 4)
    x, memory = (normal(*shape, seed=seed) for seed, shape in enumerate(shapes))
    expected = cases.decoder_layer(layer, x, memory, options, **masks)
    check(layer(torch.tensor(x), torch.tensor(memory), **tensors(masks)), expected)


def test_gradients(check_gradient: Check) -> None:
    check_gradient(lambda x: encoder_layer_of_seed()(x, CAUSAL), normal(3, 2, 8))
    layer = decoder_layer(batch_first=True)
    check_gradient(lambda x, m: layer(x, m, CAUSAL), normal(2, 3, 8), normal(2, 4, 8))


def encoder_layer_of_seed() -> Any:
    torch.manual_seed(0)
    return encoder_layer(activation=torch.tanh)


def test_stacks_are_deep_copies_in_a_row(check: Check) -> None:
    layer = encoder_layer()
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8).double())
    x = torch.tensor(normal(3, 2, 8))
    expected = stack.norm(layer(layer(x, CAUSAL), CAUSAL))
    check(stack(x, CAUSAL), expected.detach().numpy())
    assert all(one is not layer for one in stack.layers) and len(stack.layers) == 2
    names = [name for name, _ in stack.named_parameters()]
    assert "layers.1.self_attn.in_proj_weight" in names and "norm.weight" in names
    both = nn.TransformerDecoder(decoder_layer(), 1)
    assert both.norm is None
    check(both(x, x), both.layers[0](x, x).detach().numpy())


def test_the_whole_is_an_encoder_and_a_decoder(check: Check) -> None:
    model = nn.Transformer(8, 2, 1, 1, 12, dropout=0.0, batch_first=True).double()
    source, target = torch.tensor(normal(2, 4, 8)), torch.tensor(normal(2, 3, 8, seed=1))
    padding = torch.tensor([[False] * 4, [False, False, True, True]])
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
    memory = model.encoder(source, src_key_padding_mask=padding)
    expected = model.decoder(target, memory, mask, memory_key_padding_mask=padding)
    actual = model(
        source, target, tgt_mask=mask, src_key_padding_mask=padding,
        memory_key_padding_mask=padding, tgt_is_causal=True,
    )  # fmt: skip
    check(actual, expected.detach().numpy())
    single = model(source[0], target[0], tgt_mask=mask)
    check(single, model(source[:1], target[:1], tgt_mask=mask)[0].detach().numpy())
    assert copy.deepcopy(model)(source, target).shape == (2, 3, 8)


def test_compiled_training_agrees() -> None:
    x, losses = torch.tensor(normal(2, 3, 8)), []
    for compiled in (False, True):
        model = encoder_layer_of_seed()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            loss = (model(x, CAUSAL_TWO) ** 2).mean() + model(x).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compiled else step
        losses.append([run(x).item() for _ in range(3)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-10)
    assert losses[0][2] < losses[0][0]


CAUSAL_TWO = nn.Transformer.generate_square_subsequent_mask(2, dtype=torch.float64)


def test_the_causal_mask() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.dtype == torch.float32
    np.testing.assert_array_equal(mask.numpy(), np.triu(np.full((3, 3), -np.inf), 1))


def test_matrices_start_by_xaviers_rule() -> None:
    model = nn.Transformer(32, 2, 1, 1, 96)
    weight = model.encoder.layers[0].linear1.weight
    bound = (6 / 128) ** 0.5
    assert 0.95 * bound < float(weight.abs().max()) <= bound
    biased = nn.TransformerDecoderLayer(8, 2, bias=False)
    assert not [name for name, _ in biased.named_parameters() if "bias" in name]


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusals(case: Refusal) -> None:
    case.check(torch)
