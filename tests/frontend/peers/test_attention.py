"""Attention against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend

# -- scaled_dot_product_attention -----------------------------------------------------------------


def hidden_row(*shape: int) -> np.ndarray:
    """A mask in which row 1 sees nothing and the others something."""
    mask = np.random.default_rng(3).random(shape) < 0.7
    mask[..., 0] = True
    mask[..., 1, :] = False
    return mask


def added(mask: np.ndarray) -> np.ndarray:
    return np.where(mask, np.float32(0.25), np.float32(-np.inf))


MASKS: dict[str, np.ndarray | None] = {
    "none": None,
    "bool": hidden_row(3, 4),
    "bool per head": hidden_row(2, 1, 3, 4),
    "bool of a row": np.array([[True, False, True, True]]),
    "float": added(hidden_row(3, 4)),
    "float of a row": np.array([[0.5, 1.0, -2.0, 0.0]], np.float32),
}


@pytest.mark.parametrize("scale", [None, 0.3], ids=["default", "scale"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_masks(peer: Any, mask: np.ndarray | None, scale: float | None) -> None:
    arrays = peer.normal(2, 2, 3, 5), peer.normal(2, 2, 4, 5), peer.normal(2, 2, 4, 6)

    def call(t: Any, q: Any, k: Any, v: Any, *mask: Any) -> Any:
        given = mask[0] if mask else None
        return t.nn.functional.scaled_dot_product_attention(q, k, v, given, scale=scale)

    finite = mask is None or mask.dtype == bool or np.isfinite(mask).all()
    if not finite:  # the gradient of an infinite entry is of no use: it comes in as a constant
        constant = mask
        peer.function(lambda t, *qkv: call(t, *qkv, t.tensor(constant)), *arrays)
        return
    peer.function(call, *arrays, *(() if mask is None else (mask,)))


@pytest.mark.parametrize("sizes", [(3, 4), (4, 3), (3, 3), (2, 9)], ids=str)
def test_causal(peer: Any, sizes: tuple[int, int]) -> None:
    target, source = sizes
    peer.function(
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        peer.normal(2, target, 5), peer.normal(2, source, 5), peer.normal(2, source, 5),
    )  # fmt: skip


def test_a_query_that_sees_one_key_has_no_gradient_but_rounding(peer: Any) -> None:
    """PyTorch's is exactly 0 or rounding too, by which of its kernels runs."""
    arrays = peer.normal(2, 1, 5), peer.normal(2, 4, 5), peer.normal(2, 4, 6)
    found = []
    for t in (frontend, peer.torch):
        q, k, v = (t.tensor(array, requires_grad=True) for array in arrays)
        out = t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.sum().backward()
        found.append([x.detach().numpy() for x in (out, q.grad, k.grad, v.grad)])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "no batch": ((3, 5), (4, 5), (4, 6)),
    "broadcast": ((1, 2, 3, 5), (2, 1, 4, 5), (2, 1, 4, 6)),
    "no keys": ((2, 3, 5), (2, 0, 5), (2, 0, 6)),
    "no queries": ((2, 0, 5), (2, 4, 5), (2, 4, 6)),
    "one": ((1, 1), (1, 1), (1, 1)),
}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_shapes(peer: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
    peer.function(
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
        *(peer.normal(*shape) for shape in shapes),
    )


@pytest.mark.parametrize("heads", [(4, 2, 2), (4, 1, 2), (3, 1, 1)], ids=str)
def test_fewer_heads_of_keys(peer: Any, heads: tuple[int, int, int]) -> None:
    q, k, v = heads
    peer.function(
        lambda t, *qkv: t.nn.functional.scaled_dot_product_attention(
            *qkv, is_causal=True, enable_gqa=True
        ),
        peer.normal(2, q, 3, 5), peer.normal(2, k, 4, 5), peer.normal(2, v, 4, 6),
    )  # fmt: skip


def attend(t: Any, *shapes: tuple[int, ...], **options: Any) -> Any:
    return t.nn.functional.scaled_dot_product_attention(*map(t.zeros, shapes), **options)


SQUARE = ((1, 2, 3),) * 3
SDPA_ERRORS: dict[str, Callable[[Any], Any]] = {
    "rank": lambda t: attend(t, (3,), (3,), (3,)),
    "mask and causal": lambda t: attend(t, *SQUARE, attn_mask=t.zeros(2, 2), is_causal=True),
    "mask of integers": lambda t: attend(t, *SQUARE, attn_mask=t.zeros(2, 2).long()),
    "mask of doubles": lambda t: attend(t, *SQUARE, attn_mask=t.zeros(2, 2).double()),
    "heads": lambda t: attend(t, (1, 4, 2, 3), (1, 3, 2, 3), (1, 3, 2, 3), enable_gqa=True),
}


@pytest.mark.parametrize("wrong", SDPA_ERRORS.values(), ids=SDPA_ERRORS)
def test_sdpa_errors(peer: Any, wrong: Callable[[Any], Any]) -> None:
    same_error(peer, wrong)


def same_error(peer: Any, wrong: Callable[[Any], Any]) -> None:
    """The same exception type and, at the start, the same words."""
    with pytest.raises(Exception) as theirs:
        wrong(peer.torch)
    with pytest.raises(theirs.type) as ours:
        wrong(frontend)
    assert str(ours.value).startswith(str(theirs.value).strip())


# -- MultiheadAttention ---------------------------------------------------------------------------

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "batch first": {"batch_first": True},
    "sizes": {"kdim": 3, "vdim": 5},
    "added": {"add_bias_kv": True, "add_zero_attn": True},
    "sizes added": {"kdim": 3, "vdim": 5, "add_bias_kv": True, "bias": False},
    "zero": {"add_zero_attn": True, "batch_first": True},
}
ATTENTION_MASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "no mask": lambda: {},
    "bool": lambda: {"attn_mask": ~np.tri(3, 4, dtype=bool)},
    "float": lambda: {"attn_mask": np.random.default_rng(1).random((3, 4), np.float32)},
    "per head": lambda: {"attn_mask": ~np.tri(3, 4, dtype=bool)[None].repeat(4, 0)},
    "padding": lambda: {"key_padding_mask": np.array([[False] * 4, [False, False, True, True]])},
    "both": lambda: {
        "attn_mask": ~np.tri(3, 4, dtype=bool),
        "key_padding_mask": np.array([[False] * 4, [False, False, True, True]]),
    },
}


@pytest.mark.parametrize("weights", [{}, {"need_weights": False}, {"average_attn_weights": False}],
                         ids=["average", "none", "per head"])  # fmt: skip
@pytest.mark.parametrize("masks", ATTENTION_MASKS.values(), ids=ATTENTION_MASKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_attention(peer: Any, name: str, masks: Any, weights: dict[str, Any]) -> None:
    options = OPTIONS[name]
    first = "batch_first" in options
    sizes = ((3, 8), (4, options.get("kdim", 8)), (4, options.get("vdim", 8)))
    shapes = [(2, n, size) if first else (n, 2, size) for n, size in sizes]
    peer.module(
        lambda nn: with_options(nn, nn.MultiheadAttention(8, 2, **options), weights),
        *(peer.normal(*shape) for shape in shapes),
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


def forward(t: Any, *qkv: Any, **options: Any) -> Any:
    x = t.ones(3, 2, 8)
    given: dict[str, Any] = {
        "embed_dim_to_check": 8, "num_heads": 2, "in_proj_weight": t.ones(24, 8) / 8,
        "in_proj_bias": t.ones(24), "bias_k": None, "bias_v": None, "add_zero_attn": False,
        "dropout_p": 0.0, "out_proj_weight": t.ones(8, 8) / 8, "out_proj_bias": None,
    }  # fmt: skip
    return t.nn.functional.multi_head_attention_forward(*(qkv or (x, x, x)), **(given | options))


def test_the_function_with_keys_that_are_projected_already(peer: Any) -> None:
    def call(t: Any, x: Any, k: Any, v: Any) -> Any:
        return forward(t, x, x, x, static_k=k, static_v=v)

    peer.function(call, peer.normal(3, 2, 8), peer.normal(4, 5, 4), peer.normal(4, 5, 4))


ERRORS: dict[str, Callable[[Any], Any]] = {
    "heads": lambda t: t.nn.MultiheadAttention(7, 2),
    "no heads": lambda t: t.nn.MultiheadAttention(4, 0),
    "rank": lambda t: layer(t, (1, 1, 3, 8)),
    "ranks": lambda t: layer(t, (3, 2, 8), (3, 8), (3, 8)),
    "ranks without a batch": lambda t: layer(t, (3, 8), (3, 2, 8), (3, 2, 8)),
    "size": lambda t: layer(t, (3, 2, 7)),
    "key size": lambda t: layer(t, (3, 2, 8), (3, 2, 7), (3, 2, 8)),
    "lengths": lambda t: layer(t, (3, 2, 8), (3, 2, 8), (4, 2, 8)),
    "padding rank": lambda t: layer(t, (3, 2, 8), key_padding_mask=t.zeros(3).bool()),
    "padding rank 2": lambda t: layer(t, (3, 8), key_padding_mask=t.zeros(2, 3).bool()),
    "padding size": lambda t: layer(t, (3, 2, 8), key_padding_mask=t.zeros(3, 3).bool()),
    "padding dtype": lambda t: layer(t, (3, 2, 8), key_padding_mask=t.zeros(2, 3).long()),
    "mask rank": lambda t: layer(t, (3, 2, 8), attn_mask=t.zeros(1, 1, 3, 3)),
    "mask size": lambda t: layer(t, (3, 2, 8), attn_mask=t.zeros(3, 2)),
    "mask heads": lambda t: layer(t, (3, 2, 8), attn_mask=t.zeros(2, 3, 3)),
    "mask heads without a batch": lambda t: layer(t, (3, 8), attn_mask=t.zeros(4, 3, 3)),
    "mask dtype": lambda t: layer(t, (3, 2, 8), attn_mask=t.zeros(3, 3).long()),
    "hint without a mask": lambda t: layer(t, (3, 2, 8), is_causal=True),
    "function size": lambda t: forward(t, embed_dim_to_check=7),
    "function heads": lambda t: forward(t, num_heads=3),
    "one bias": lambda t: forward(t, bias_k=t.zeros(1, 1, 8)),
    "no weight": lambda t: forward(t, in_proj_weight=None),
    "no separate weight": lambda t: forward(t, use_separate_proj_weight=True),
    "static size": lambda t: forward(t, static_k=t.zeros(4, 3, 3)),
    "static heads": lambda t: forward(t, static_v=t.zeros(3, 3, 4)),
    "apart": lambda t: t.nn.MultiheadAttention(8, 2, kdim=3)(
        t.zeros(3, 2, 8), t.zeros(3, 2, 4), t.zeros(3, 2, 8)
    ),
}


def layer(t: Any, *shapes: tuple[int, ...], **options: Any) -> Any:
    made = [t.zeros(shape) for shape in shapes] * (1 if len(shapes) == 3 else 3)
    return t.nn.MultiheadAttention(8, 2)(*made, **options)


@pytest.mark.parametrize("wrong", ERRORS.values(), ids=ERRORS)
def test_errors(peer: Any, wrong: Callable[[Any], Any]) -> None:
    same_error(peer, wrong)


def test_texts(peer: Any) -> None:
    made = [t.nn.MultiheadAttention(8, 2, bias=False) for t in (frontend, peer.torch)]
    assert repr(made[0]) == repr(made[1])
