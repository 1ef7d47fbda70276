"""Transformer layers, stacks and the whole against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend
from tests.frontend.layer_cases.refusals.refusal import Refusal
from tests.frontend.layer_cases.refusals.transformer import REFUSALS
from tests.frontend.layer_cases.transformer import (
    CAUSAL,
    DECODER_MASKS,
    ENCODER_MASKS,
    MEMORY_PADDING,
    OPTIONS,
    PADDING,
    shapes_of,
)

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # PyTorch's


def sequences(peer: Any, options: dict[str, Any], *lengths: int) -> list[np.ndarray]:
    return [peer.normal(*shape) for shape in shapes_of(options, *lengths)]


@pytest.mark.parametrize("masks", ENCODER_MASKS.values(), ids=ENCODER_MASKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_encoder_layer(peer: Any, name: str, masks: dict[str, Any]) -> None:
    options = OPTIONS[name]
    both = name in ("plain", "large eps")
    peer.module(
        lambda nn: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, **options),
        *sequences(peer, options, 3), keywords=masks, training=(not both,),
        modes=("eager", "compiled") if both else ("eager",),
    )  # fmt: skip


@pytest.mark.parametrize("masks", DECODER_MASKS.values(), ids=DECODER_MASKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_decoder_layer(peer: Any, name: str, masks: dict[str, Any]) -> None:
    options = OPTIONS[name]
    both = name in ("plain", "large eps")
    peer.module(
        lambda nn: nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, **options),
        *sequences(peer, options, 3, 4), keywords=masks, training=(not both,),
        modes=("eager", "compiled") if both else ("eager",),
    )  # fmt: skip


@pytest.mark.parametrize("mask", [None, CAUSAL], ids=["no mask", "causal"])
def test_a_layer_without_a_batch(peer: Any, mask: Any) -> None:
    peer.module(
        lambda nn: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0),
        peer.normal(3, 8), keywords={} if mask is None else {"src_mask": mask}, training=(True,),
    )  # fmt: skip


def test_an_activation_that_is_a_function(peer: Any) -> None:
    def make(nn: Any) -> Any:
        t = frontend if nn is frontend.nn else peer.torch
        return nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, activation=t.tanh)

    peer.module(make, peer.normal(3, 2, 8), training=(True,))


@pytest.mark.parametrize("norm", [False, True], ids=["", "norm"])
def test_encoder(peer: Any, norm: bool) -> None:
    def make(nn: Any) -> Any:
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(
            layer, 2, nn.LayerNorm(8) if norm else None, enable_nested_tensor=False
        )

    peer.module(make, peer.normal(2, 3, 8), keywords={"mask": CAUSAL}, training=(True,))
    peer.module(
        make, peer.normal(2, 3, 8), keywords={"src_key_padding_mask": PADDING}, training=(False,),
        modes=("eager",),
    )  # fmt: skip


@pytest.mark.parametrize("norm", [False, True], ids=["", "norm"])
def test_decoder(peer: Any, norm: bool) -> None:
    def make(nn: Any) -> Any:
        layer = nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0)
        return nn.TransformerDecoder(layer, 2, nn.LayerNorm(8) if norm else None)

    peer.module(
        make, peer.normal(3, 2, 8), peer.normal(4, 2, 8), keywords={"tgt_mask": CAUSAL},
        training=(True,),
    )  # fmt: skip


@pytest.mark.parametrize("first", [False, True], ids=["", "batch first"])
def test_transformer(peer: Any, first: bool) -> None:
    def make(nn: Any) -> Any:
        return nn.Transformer(8, 2, 1, 2, 12, dropout=0.0, batch_first=first, norm_first=first)

    shapes = ((2, 4), (2, 3)) if first else ((4, 2), (3, 2))
    masks = {
        "tgt_mask": CAUSAL, "tgt_key_padding_mask": PADDING,
        "src_key_padding_mask": MEMORY_PADDING,
    }  # fmt: skip
    peer.module(
        make, *(peer.normal(*shape, 8) for shape in shapes), keywords=masks, training=(not first,)
    )


def test_causal_hints(peer: Any) -> None:
    """With a mask of the module's own making, as float, and the hints beside it."""

    def make(nn: Any) -> Any:
        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = nn.Transformer(8, 2, 1, 1, 12, dropout=0.0)

            def forward(self, source: Any, target: Any) -> Any:
                mask = nn.Transformer.generate_square_subsequent_mask(3)
                return self.inner(
                    source, target, src_mask=mask, tgt_mask=mask, src_is_causal=True,
                    tgt_is_causal=True,
                )  # fmt: skip

        return Model()

    peer.module(make, peer.normal(3, 2, 8), peer.normal(3, 2, 8), training=(True,))


def test_own_encoder_and_decoder(peer: Any) -> None:
    def make(nn: Any) -> Any:
        class Half(nn.Module):
            def forward(self, x: Any, *others: Any, **masks: Any) -> Any:
                return x * 0.5 + sum(others)

        return nn.Transformer(8, 2, custom_encoder=Half(), custom_decoder=Half())

    peer.module(make, peer.normal(3, 2, 8), peer.normal(3, 2, 8))


def test_copies_start_from_the_same_values(peer: Any) -> None:
    for t in (frontend, peer.torch):
        layer = t.nn.TransformerEncoderLayer(8, 2, 12)
        first, second = t.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).layers
        assert first is not layer and first is not second
        for one, other in zip(first.parameters(), second.parameters()):
            assert one is not other and bool((one == other).all())


TEXTS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda nn: nn.Transformer(8, 2, 2, 1, 12, 0.25, batch_first=True),
    "gelu": lambda nn: nn.TransformerEncoderLayer(8, 2, activation="gelu", bias=False),
    "function": lambda nn: nn.TransformerDecoderLayer(8, 2, 12),
}


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS)
def test_texts_and_names(peer: Any, make: Callable[[Any], Any]) -> None:
    ours, theirs = make(frontend.nn), make(peer.torch.nn)
    assert repr(ours) == repr(theirs)
    assert list(dict(ours.named_modules())) == list(dict(theirs.named_modules()))


def test_the_causal_mask(peer: Any) -> None:
    for size, dtype in ((3, "float32"), (1, "float64"), (0, "float32")):
        mine, theirs = (
            t.nn.Transformer.generate_square_subsequent_mask(size, dtype=getattr(t, dtype))
            for t in (frontend, peer.torch)
        )
        peer.agree(mine, theirs)


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusals(peer: Any, case: Refusal) -> None:
    peer.same_words(case)


def test_masks_of_two_kinds_warn(peer: Any) -> None:
    for t in (frontend, peer.torch):
        layer = t.nn.TransformerEncoderLayer(8, 2, 12)
        with pytest.warns(UserWarning, match="mismatched src_key_padding_mask and src_mask is dep"):
            layer(t.zeros(3, 2, 8), t.zeros(3, 3), t.zeros(2, 3).bool())
