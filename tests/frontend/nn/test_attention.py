"""Attention against its formula in NumPy and float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from tests.frontend.layer_cases.attention import (
    ATTENTION_MASKS,
    CAUSAL_SIZES,
    HEADS,
    MASKS,
    OPTIONS,
    SCALES,
    SHAPES,
    WEIGHTS,
    attention,
    heads,
    shapes_of,
)
from tests.frontend.layer_cases.refusals.attention import FUNCTION_REFUSALS, REFUSALS
from tests.frontend.layer_cases.refusals.refusal import Refusal

Array = np.ndarray
Check = Callable[..., None]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def drawn(*shapes: tuple[int, ...]) -> list[Array]:
    return [normal(*shape, seed=seed) for seed, shape in enumerate(shapes)]


# -- scaled_dot_product_attention -----------------------------------------------------------------


@pytest.mark.sampled(12)
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_masks(
    mask: Array | None, scale: float | None, check: Check, check_gradient: Check
) -> None:
    arrays = drawn((2, 2, 3, 5), (2, 2, 4, 5), (2, 2, 4, 6))
    hidden = None if mask is None else torch.tensor(mask)

    def attend(*qkv: Any) -> Any:
        return F.scaled_dot_product_attention(*qkv, hidden, scale=scale)

    check(attend(*map(torch.tensor, arrays)), attention(*arrays, mask, scale))
    check_gradient(attend, *arrays)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sizes", CAUSAL_SIZES, ids=str)
def test_causal(sizes: tuple[int, int], check: Check, check_gradient: Check) -> None:
    target, source = sizes
    arrays = drawn((2, target, 5), (2, source, 5), (2, source, 5))

    def attend(*qkv: Any) -> Any:
        return F.scaled_dot_product_attention(*qkv, is_causal=True)

    expected = attention(*arrays, np.tri(target, source, dtype=bool))
    check(attend(*map(torch.tensor, arrays)), expected)
    check_gradient(attend, *arrays)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_shapes(shapes: tuple[tuple[int, ...], ...], check: Check, check_gradient: Check) -> None:
    arrays = drawn(*shapes)
    check(F.scaled_dot_product_attention(*map(torch.tensor, arrays)), attention(*arrays))
    check_gradient(F.scaled_dot_product_attention, *arrays)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("counts", HEADS, ids=str)
def test_groups_of_heads_share_keys(
    counts: tuple[int, int, int], check: Check, check_gradient: Check
) -> None:
    q, k, v = drawn(*((2, n, m, d) for n, m, d in zip(counts, (3, 4, 4), (5, 5, 6))))

    def attend(*qkv: Any) -> Any:
        return F.scaled_dot_product_attention(*qkv, is_causal=True, enable_gqa=True)

    repeated = [x.repeat(counts[0] // x.shape[1], 1) for x in (k, v)]
    expected = attention(q, *repeated, np.tri(3, 4, dtype=bool))
    check(attend(*map(torch.tensor, (q, k, v))), expected)
    check_gradient(attend, q, k, v)


def test_heads_that_do_not_divide() -> None:
    attend = F.scaled_dot_product_attention
    with pytest.raises(IndexError, match="at least 3 dimensions"):
        attend(*(torch.zeros(2, 3) for _ in range(3)), enable_gqa=True)
    with pytest.raises(RuntimeError, match="must divide the number of heads in query"):
        attend(torch.zeros(2, 4, 3, 5), *(torch.zeros(2, 3, 3, 5),) * 2, enable_gqa=True)


def test_a_row_that_sees_nothing_is_zero() -> None:
    q = torch.tensor(normal(1, 2, 3), requires_grad=True)
    mask = torch.tensor([[True, False], [False, False]])
    result = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert (result[0, 1] == 0).all()
    result.sum().backward()
    assert np.isfinite(q.grad.numpy()).all()


def test_dropout_of_weights() -> None:
    x = torch.ones(1, 2, 3)
    assert (F.scaled_dot_product_attention(x, x, x, dropout_p=1.0) == 0).all()
    torch.manual_seed(0)
    some = F.scaled_dot_product_attention(*(torch.ones(1, 50, 3),) * 3, dropout_p=0.5)
    assert 0.8 < float(some.mean()) < 1.2 and float(some.std()) > 0
    with pytest.raises(RuntimeError, match="between 0 and 1, but got 2"):
        F.scaled_dot_product_attention(x, x, x, dropout_p=2.0)


@pytest.mark.parametrize("case", FUNCTION_REFUSALS, ids=str)
def test_refusals_of_the_function(case: Refusal) -> None:
    case.check(torch)


def test_refusals_of_the_function_of_our_own() -> None:
    x, wide = torch.zeros(1, 2, 3), torch.zeros(1, 2, 4)
    attend = F.scaled_dot_product_attention
    with pytest.raises(RuntimeError, match="query and key share their last size"):
        attend(x, wide, x)
    with pytest.raises(RuntimeError, match=r"to have the same dtype, but got query.dtype: float"):
        attend(x, x.double(), x)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Long"):
        attend(x.long(), x.long(), x.long())
    with pytest.raises(RuntimeError, match=r"expanded size of the tensor \(2\) must match"):
        attend(x, x, x, torch.zeros(2, 3))
    with pytest.raises(RuntimeError, match="leading sizes cannot be broadcast"):
        attend(torch.zeros(2, 2, 3), torch.zeros(3, 2, 3), torch.zeros(3, 2, 3))


# -- MultiheadAttention ---------------------------------------------------------------------------


def layer_in_f64(size: int = 6, **options: Any) -> Any:
    """Two heads, with parameters that are none of them 0."""
    layer = nn.MultiheadAttention(size, 2, **options).double()
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(torch.tensor(normal(*parameter.shape, seed=seed)))
    return layer


@pytest.mark.sampled(40)
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("masks", ATTENTION_MASKS.values(), ids=ATTENTION_MASKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_heads_are_their_formula(name: str, masks: Any, weights: Any, check: Check) -> None:
    options = OPTIONS[name]
    layer, arrays, hidden = layer_in_f64(8, **options), drawn(*shapes_of(options)), masks()
    tensors = {
        key: torch.tensor(mask if mask.dtype == bool else mask.astype(np.float64))
        for key, mask in hidden.items()
    }
    output, shares = layer(*map(torch.tensor, arrays), **tensors, **weights)
    expected, each = heads(layer, *arrays, **hidden)
    check(output, expected)
    if weights.get("need_weights", True):
        check(shares, each if "average_attn_weights" in weights else each.mean(1))
    else:
        assert shares is None


def test_one_tensor_as_all_is_the_same_as_three(check: Check) -> None:
    layer, x = layer_in_f64(batch_first=True), torch.tensor(normal(2, 3, 6))
    expected, _ = layer(x, x.clone(), x.clone())
    check(layer(x, x, x)[0], expected.detach().numpy())
    memory = x.clone()
    check(layer(x, memory, memory)[0], expected.detach().numpy())


def test_gradients_through_heads(check_gradient: Check) -> None:
    layer = layer_in_f64(add_bias_kv=True, add_zero_attn=True)
    mask = torch.tensor(~np.tri(3, 4, dtype=bool))
    check_gradient(
        lambda q, k, v: layer(q, k, v, attn_mask=mask)[0],
        normal(3, 2, 6), normal(4, 2, 6), normal(4, 2, 6),
    )  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("options", [{}, {"kdim": 3, "vdim": 5, "add_bias_kv": True}], ids=str)
def test_compiled_heads_agree(options: dict[str, Any], check: Check) -> None:
    layer = layer_in_f64(**options)
    q, k, v = (torch.tensor(normal(3, 2, size)) for size in (6, layer.kdim, layer.vdim))
    results = []
    for call in (layer, torch.compile(layer)):
        layer.zero_grad()
        output, shares = call(q, k, v)
        (output.sum() + (shares * shares).sum()).backward()
        results.append([output.detach(), shares.detach(), *(p.grad for p in layer.parameters())])
    for eager, compiled in zip(*results):
        check(compiled, eager.numpy(), 1e-10)


def test_names_and_initial_values() -> None:
    layer = nn.MultiheadAttention(64, 2, kdim=32, add_bias_kv=True)
    assert [*layer.state_dict()] == [
        "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k", "bias_v",
        "out_proj.weight", "out_proj.bias",
    ]  # fmt: skip
    assert layer.in_proj_weight is None and layer.k_proj_weight.shape == (64, 32)
    assert (layer.in_proj_bias == 0).all() and (layer.out_proj.bias == 0).all()
    bound = math.sqrt(6 / 96)
    assert 0.9 * bound < float(layer.k_proj_weight.abs().max()) <= bound
    assert float(layer.bias_k.std()) == pytest.approx(math.sqrt(2 / 128), rel=0.4)
    same = nn.MultiheadAttention(8, 2, bias=False)
    assert [*same.state_dict()] == ["in_proj_weight", "out_proj.weight"]


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusals(case: Refusal) -> None:
    case.check(torch)


def test_refusals_of_our_own() -> None:
    layer, x = nn.MultiheadAttention(8, 2), torch.zeros(3, 2, 8)
    with pytest.raises(ValueError, match="must be greater than 0, got embed_dim=0"):
        nn.MultiheadAttention(0, 2)
    with pytest.raises(RuntimeError, match="query has batch size 2, key and value 3"):
        layer(x, torch.zeros(3, 3, 8), torch.zeros(3, 3, 8))
    with pytest.raises(RuntimeError, match="attn_mask must be bool or of the query's dtype Float"):
        layer(x, x, x, attn_mask=torch.zeros(3, 3).double())
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask is deprecated"):
        layer(x, x, x, key_padding_mask=torch.zeros(2, 3), attn_mask=torch.zeros(3, 3).bool())
