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

Array = np.ndarray
Check = Callable[..., None]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


# -- scaled_dot_product_attention -----------------------------------------------------------------


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def attention(q: Array, k: Array, v: Array, seen: Array | None = None) -> Array:
    scores = q @ np.swapaxes(k, -2, -1) / math.sqrt(q.shape[-1])
    return softmax(scores if seen is None else np.where(seen, scores, -np.inf), -1) @ v


def test_attention(check: Check, check_gradient: Check) -> None:
    q, k, v = normal(2, 3, 4, 8), normal(2, 3, 5, 8, seed=1), normal(2, 3, 5, 6, seed=2)
    args = [torch.tensor(a) for a in (q, k, v)]
    attend = F.scaled_dot_product_attention
    check(attend(*args), attention(q, k, v))
    causal = np.tri(4, 5, dtype=bool)
    check(attend(*args, is_causal=True), attention(q, k, v, causal))
    check(attend(*args, attn_mask=torch.tensor(causal)), attention(q, k, v, causal))
    added = np.where(causal, 0.0, -np.inf)
    check(attend(*args, attn_mask=torch.tensor(added)), attention(q, k, v, causal))
    check(attend(*args, scale=0.5), attention(q * math.sqrt(8) * 0.5, k, v))
    check_gradient(lambda *a: attend(*a, is_causal=True), q, k, v)


def test_a_float32_mask_serves_float64(check: Check) -> None:
    q, mask = normal(2, 3, 4), np.where(np.tri(3), 0, -np.inf).astype(np.float32)
    x = torch.tensor(q)
    found = F.scaled_dot_product_attention(x, x, x, torch.tensor(mask))
    check(found, attention(q, q, q, np.tri(3, dtype=bool)))


def test_a_row_that_sees_nothing_is_zero() -> None:
    q = torch.tensor(normal(1, 2, 3), requires_grad=True)
    mask = torch.tensor([[True, False], [False, False]])
    made = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert (made[0, 1] == 0).all()
    made.sum().backward()
    assert np.isfinite(q.grad.numpy()).all()


def test_groups_of_heads_share_keys(check: Check, check_gradient: Check) -> None:
    q, k, v = normal(2, 4, 3, 5), normal(2, 2, 3, 5, seed=1), normal(2, 1, 3, 6, seed=2)
    attend = F.scaled_dot_product_attention
    found = attend(*map(torch.tensor, (q, k, v)), enable_gqa=True)
    check(found, attention(q, k.repeat(2, 1), v.repeat(4, 1)))
    check_gradient(lambda *a: attend(*a, enable_gqa=True), q, k, v)
    with pytest.raises(IndexError, match="at least 3 dimensions"):
        attend(*(torch.zeros(2, 3) for _ in range(3)), enable_gqa=True)
    with pytest.raises(RuntimeError, match="must divide the number of heads in query"):
        attend(torch.tensor(q), *(torch.zeros(2, 3, 3, 5).double(),) * 2, enable_gqa=True)


def test_dropout_of_weights() -> None:
    x = torch.ones(1, 2, 3)
    assert (F.scaled_dot_product_attention(x, x, x, dropout_p=1.0) == 0).all()
    torch.manual_seed(0)
    some = F.scaled_dot_product_attention(*(torch.ones(1, 50, 3),) * 3, dropout_p=0.5)
    assert 0.8 < float(some.mean()) < 1.2 and float(some.std()) > 0
    with pytest.raises(RuntimeError, match="between 0 and 1, but got 2"):
        F.scaled_dot_product_attention(x, x, x, dropout_p=2.0)


def test_attention_errors() -> None:
    x, wide = torch.zeros(1, 2, 3), torch.zeros(1, 2, 4)
    attend = F.scaled_dot_product_attention
    with pytest.raises(RuntimeError, match="attn_mask should not be set when is_causal=True"):
        attend(x, x, x, torch.zeros(2, 2), is_causal=True)
    with pytest.raises(RuntimeError, match="query and key share their last size"):
        attend(x, wide, x)
    with pytest.raises(RuntimeError, match=r"to have the same dtype, but got query.dtype: float"):
        attend(x, x.double(), x)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Long"):
        attend(x.long(), x.long(), x.long())
    with pytest.raises(RuntimeError, match="Expected attn_mask dtype to be bool or float"):
        attend(x, x, x, torch.zeros(2, 2).long())
    with pytest.raises(RuntimeError, match=r"expanded size of the tensor \(2\) must match"):
        attend(x, x, x, torch.zeros(2, 3))
    with pytest.raises(RuntimeError, match="leading sizes cannot be broadcast"):
        attend(torch.zeros(2, 2, 3), torch.zeros(3, 2, 3), torch.zeros(3, 2, 3))


# -- MultiheadAttention ---------------------------------------------------------------------------


def heads(
    layer: Any, q: Array, k: Array, v: Array, seen: Array | None = None
) -> tuple[Array, Array]:
    """Output and weights of self-attention's formula over [length, batch, size]."""
    size, count = layer.embed_dim, layer.num_heads
    weight, bias = layer.in_proj_weight.detach().numpy(), layer.in_proj_bias.detach().numpy()
    parts = []
    for i, x in enumerate((q, k, v)):
        rows = slice(i * size, (i + 1) * size)
        y = x @ weight[rows].T + bias[rows]
        parts.append(y.reshape(*y.shape[:2], count, size // count).transpose(1, 2, 0, 3))
    scores = parts[0] @ np.swapaxes(parts[1], -1, -2) / math.sqrt(size // count)
    shares = softmax(scores if seen is None else np.where(seen, scores, -np.inf), -1)
    out = (shares @ parts[2]).transpose(2, 0, 1, 3).reshape(q.shape)
    return out @ layer.out_proj.weight.detach().numpy().T, shares


def made(**options: Any) -> Any:
    layer = nn.MultiheadAttention(6, 2, **options).double()
    with torch.no_grad():
        if layer.in_proj_bias is not None:
            layer.in_proj_bias.copy_(torch.tensor(normal(18)))
    return layer


def test_heads_are_their_formula(check: Check) -> None:
    layer, q, k, v = made(), normal(3, 2, 6), normal(4, 2, 6, seed=1), normal(4, 2, 6, seed=2)
    given = [torch.tensor(x) for x in (q, k, v)]
    output, shares = layer(*given)
    expected, each = heads(layer, q, k, v)
    check(output, expected)
    check(shares, each.mean(1))
    check(layer(*given, average_attn_weights=False)[1], each)
    lean, none = layer(*given, need_weights=False)
    check(lean, expected)
    assert none is None


def test_masks_hide(check: Check) -> None:
    layer, x = made(), normal(3, 2, 6)
    causal = np.tri(3, dtype=bool)
    padding = np.array([[False, False, True], [False, False, False]])
    expected, _ = heads(layer, x, x, x, causal & ~padding[:, None, None])
    given = torch.tensor(x)
    for need in (True, False):
        output, _ = layer(
            given, given, given, attn_mask=torch.tensor(~causal),
            key_padding_mask=torch.tensor(padding), need_weights=need,
        )  # fmt: skip
        check(output, expected)


def test_one_tensor_as_all_is_the_same_as_three(check: Check) -> None:
    layer, x = made(batch_first=True), torch.tensor(normal(2, 3, 6))
    expected, _ = layer(x, x.clone(), x.clone())
    check(layer(x, x, x)[0], expected.detach().numpy())
    memory = x.clone()
    check(layer(x, memory, memory)[0], expected.detach().numpy())


def test_gradients_through_heads(check_gradient: Check) -> None:
    layer = made(add_bias_kv=True, add_zero_attn=True)
    mask = torch.tensor(~np.tri(3, 4, dtype=bool))
    check_gradient(
        lambda q, k, v: layer(q, k, v, attn_mask=mask)[0],
        normal(3, 2, 6), normal(4, 2, 6), normal(4, 2, 6),
    )  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"kdim": 3, "vdim": 5, "add_bias_kv": True}], ids=str)
def test_compiled_heads_agree(options: dict[str, Any], check: Check) -> None:
    layer = made(**options)
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


def test_errors() -> None:
    layer, x = nn.MultiheadAttention(8, 2), torch.zeros(3, 2, 8)
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(7, 2)
    with pytest.raises(ValueError, match="must be greater than 0, got embed_dim=0"):
        nn.MultiheadAttention(0, 2)
    with pytest.raises(RuntimeError, match=r"attn_mask is torch.Size\(\[3, 2\]\), but should be"):
        layer(x, x, x, attn_mask=torch.zeros(3, 2))
    with pytest.raises(RuntimeError, match="query has batch size 2, key and value 3"):
        layer(x, torch.zeros(3, 3, 8), torch.zeros(3, 3, 8))
    with pytest.raises(RuntimeError, match="attn_mask must be bool or of the query's dtype Float"):
        layer(x, x, x, attn_mask=torch.zeros(3, 3).double())
    with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
        layer(x, x, x, is_causal=True)
    with pytest.raises(AssertionError, match="only bool and floating types of key_padding_mask"):
        layer(x, x, x, key_padding_mask=torch.zeros(2, 3).long())
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask is deprecated"):
        layer(x, x, x, key_padding_mask=torch.zeros(2, 3), attn_mask=torch.zeros(3, 3).bool())
