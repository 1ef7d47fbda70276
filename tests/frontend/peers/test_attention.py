"""Attention against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend
from tests.frontend.layer_cases.attention import (
    ATTENTION_MASKS,
    CAUSAL_SIZES,
    HEADS,
    MASKS,
    OPTIONS,
    SCALES,
    SHAPES,
    WEIGHTS,
    shapes_of,
)
from tests.frontend.layer_cases.refusals.attention import FUNCTION_REFUSALS, REFUSALS, forward
from tests.frontend.layer_cases.refusals.refusal import Refusal

# -- scaled_dot_product_attention -----------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_masks(peer: Any, mask: np.ndarray | None, scale: float | None) -> None:
    arrays = peer.normal(2, 2, 3, 5), peer.normal(2, 2, 4, 5), peer.normal(2, 2, 4, 6)

    def call(t: Any, q: Any, k: Any, v: Any, *mask: Any) -> Any:
        first = mask[0] if mask else None
        return t.nn.functional.scaled_dot_product_attention(q, k, v, first, scale=scale)

    finite = mask is None or mask.dtype == bool or np.isfinite(mask).all()
    if not finite:  # the gradient of an infinite entry is of no use: it comes in as a constant
        constant = mask
        peer.function(lambda t, *qkv: call(t, *qkv, t.tensor(constant)), *arrays)
        return
    peer.function(call, *arrays, *(() if mask is None else (mask,)))


@pytest.mark.parametrize("sizes", CAUSAL_SIZES, ids=str)
def test_causal(peer: Any, sizes: tuple[int, int]) -> None:
    target, source = sizes
    peer.function(
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        peer.normal(2, target, 5), peer.normal(2, source, 5), peer.normal(2, source, 5),
    )  # fmt: skip


def test_a_query_that_sees_one_key_has_no_gradient_but_rounding(peer: Any) -> None:
    """PyTorch's is exactly 0 or rounding too, by which of its kernels runs."""
    arrays = peer.normal(2, 1, 5), peer.normal(2, 4, 5), peer.normal(2, 4, 6)
    results = []
    for t in (frontend, peer.torch):
        q, k, v = (t.tensor(array, requires_grad=True) for array in arrays)
        out = t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.sum().backward()
        results.append([x.detach().numpy() for x in (out, q.grad, k.grad, v.grad)])
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_shapes(peer: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
    peer.function(
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
        *(peer.normal(*shape) for shape in shapes),
    )


@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_fewer_heads_of_keys(peer: Any, heads: tuple[int, int, int]) -> None:
    q, k, v = heads
    peer.function(
        lambda t, *qkv: t.nn.functional.scaled_dot_product_attention(
            *qkv, is_causal=True, enable_gqa=True
        ),
        peer.normal(2, q, 3, 5), peer.normal(2, k, 4, 5), peer.normal(2, v, 4, 6),
    )  # fmt: skip


@pytest.mark.parametrize("case", FUNCTION_REFUSALS, ids=str)
def test_refusals_of_the_function(peer: Any, case: Refusal) -> None:
    peer.same_words(case)


# -- MultiheadAttention ---------------------------------------------------------------------------


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("masks", ATTENTION_MASKS.values(), ids=ATTENTION_MASKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_attention(peer: Any, name: str, masks: Any, weights: dict[str, Any]) -> None:
    options = OPTIONS[name]
    peer.module(
        lambda nn: with_options(nn, nn.MultiheadAttention(8, 2, **options), weights),
        *(peer.normal(*shape) for shape in shapes_of(options)),
        keywords=masks(),
        training=(bool(weights),),
        modes=("eager", "compiled") if name in ("plain", "added", "sizes") else ("eager",),
    )


def with_options(nn: Any, layer: Any, options: dict[str, Any]) -> Any:
    """A module that calls `layer` with options that are no tensors."""

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, *tensors: Any, **masks: Any) -> Any:
            return tuple(x for x in self.layer(*tensors, **masks, **options) if x is not None)

    return Named()


@pytest.mark.parametrize("first", [False, True], ids=["", "batch first"])
@pytest.mark.parametrize("weights", [True, False], ids=["weights", "none"])
def test_without_a_batch(peer: Any, weights: bool, first: bool) -> None:
    mask = np.array([False, True, False, False])
    peer.module(
        lambda nn: with_options(
            nn, nn.MultiheadAttention(8, 2, batch_first=first), {"need_weights": weights}
        ),
        peer.normal(3, 8), peer.normal(4, 8), peer.normal(4, 8),
        keywords={"key_padding_mask": mask, "attn_mask": np.zeros((2, 3, 4), bool)},
        training=(True,),
    )  # fmt: skip


@pytest.mark.parametrize("which", ["self", "memory"])
@pytest.mark.parametrize("first", [False, True], ids=["", "batch first"])
def test_shared_inputs(peer: Any, which: str, first: bool) -> None:
    """One tensor as query, key and value, or as key and value."""

    def make(nn: Any) -> Any:
        class Shared(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.attention = nn.MultiheadAttention(8, 2, batch_first=first)

            def forward(self, x: Any, memory: Any) -> Any:
                other = x if which == "self" else memory
                return self.attention(x, other, other)

        return Shared()

    peer.module(make, peer.normal(3, 2, 8), peer.normal(3, 2, 8), training=(True,))


@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("weights", [True, False], ids=["weights", "none"])
def test_the_causal_hint(peer: Any, weights: bool, padded: bool) -> None:
    masks = {"attn_mask": ~np.tri(3, dtype=bool)}
    if padded:
        masks["key_padding_mask"] = np.array([[False, False, True], [False] * 3])
    options = {"is_causal": True, "need_weights": weights}
    peer.module(
        lambda nn: with_options(nn, nn.MultiheadAttention(8, 2), options),
        *(peer.normal(3, 2, 8) for _ in range(3)), keywords=masks, training=(True,),
    )  # fmt: skip


def test_a_row_that_sees_nothing(peer: Any) -> None:
    """NaN with weights, zeros (before the last map) without."""
    mask = np.zeros((3, 3), bool)
    mask[1] = True
    for weights in (True, False):
        peer.module(
            lambda nn, weights=weights: with_options(
                nn, nn.MultiheadAttention(8, 2), {"need_weights": weights}
            ),
            *(peer.normal(3, 2, 8) for _ in range(3)), keywords={"attn_mask": mask},
            training=(True,), modes=("eager",),
        )  # fmt: skip


def test_dropout_is_for_training_only(peer: Any) -> None:
    qkv = [peer.normal(3, 2, 8) for _ in range(3)]
    make = lambda nn: nn.MultiheadAttention(8, 2, dropout=0.5)  # noqa: E731
    peer.module(make, *qkv, training=(False,), modes=("eager",))
    frontend.manual_seed(0)
    layer = make(frontend.nn)
    x = frontend.tensor(qkv[0])
    assert (layer(x, x, x)[0] != layer(x, x, x)[0]).any()


def test_the_function_with_keys_that_are_projected_already(peer: Any) -> None:
    def call(t: Any, x: Any, k: Any, v: Any) -> Any:
        return forward(t, x, x, x, static_k=k, static_v=v)

    peer.function(call, peer.normal(3, 2, 8), peer.normal(4, 5, 4), peer.normal(4, 5, 4))


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusals(peer: Any, case: Refusal) -> None:
    peer.same_words(case)


def test_texts(peer: Any) -> None:
    layers = [t.nn.MultiheadAttention(8, 2, bias=False) for t in (frontend, peer.torch)]
    assert repr(layers[0]) == repr(layers[1])
