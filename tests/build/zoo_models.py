"""Five models of the zoo's libraries, small: a ViT, a ResNet, a BERT, a GPT, and a MobileNet whose
BatchNorms have statistics of each batch. For a process in which the frontend is `torch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

CLASSES = 10
VOCABULARY, LENGTH = 61, 9
Draw = Callable[[int], tuple[Any, ...]]


def _integers(below: int, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(shape[0]).integers(0, below, shape))


def _images(side: int) -> Callable[[int], Any]:
    def draw(n: int) -> Any:
        drawn = np.random.default_rng(n).standard_normal((n, 3, side, side))
        return torch.from_numpy(drawn.astype(np.float32))

    return draw


def _tokens(n: int) -> Any:
    return _integers(VOCABULARY, n, LENGTH)


def _of_timm(name: str, side: int, **options: Any) -> tuple[Any, Any]:
    import timm

    return timm.create_model(name, num_classes=CLASSES, **options), _images(side)


def _vit() -> tuple[Any, Any]:
    small = {"img_size": 32, "depth": 2, "embed_dim": 48, "num_heads": 3}
    return _of_timm("vit_tiny_patch16_224", 32, **small)


def _bert() -> tuple[Any, Any]:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=32, num_labels=CLASSES,
    )  # fmt: skip
    return BertForSequenceClassification(config), _tokens


def _gpt() -> tuple[Any, Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=32, bos_token_id=0,
        eos_token_id=0, use_cache=False,
    )  # fmt: skip
    return GPT2LMHeadModel(config), _tokens


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "vit": _vit, "resnet": lambda: _of_timm("test_resnet", 64), "bert": _bert, "gpt": _gpt,
    "mobilenet": lambda: _of_timm("mobilenetv3_small_050", 64),
}  # fmt: skip
SEVEN = {"resnet": (4, 3, 9, 2, 5, 7, 6), "mobilenet": (4, 3, 9, 2, 5, 7, 6)}
"""Sizes of calls of training where one image is too few for a BatchNorm, as PyTorch says."""


def function(name: str, trains: bool) -> tuple[Any, Draw]:
    """A training step with its optimizer, or an inference, compiled with an open batch, and what
    draws its arguments."""
    torch.manual_seed(0)
    model, draw = MODELS[name]()

    def logits(x: Any) -> Any:
        result = model(x)
        return getattr(result, "logits", result)

    if not trains:
        model.eval()
        call = torch.compile(lambda x: logits(x), threads=1, dynamic={"x": {0: "batch"}})
        return call, lambda n: (draw(n),)
    model.train()
    if name in SEVEN:
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        scores = logits(x)
        loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def pair(n: int) -> tuple[Any, Any]:
        return draw(n), _tokens(n) if name == "gpt" else _integers(CLASSES, n)

    open_batch = {"x": {0: "batch"}, "y": {0: "batch"}}
    return torch.compile(step, threads=1, dynamic=open_batch), pair
