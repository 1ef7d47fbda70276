"""Attention in traced and compiled functions: one op where the function is called, recognised at
level relaxed where it is written out, in a training step and between a forward and a backward."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from graphc.ir.nodes import Graph
from graphc.passes.dead_code import dead_code
from graphc.passes.recognize_attention import recognize_attention


def ops_of(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


def normal(*shape: int, seed: int = 0) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


class WrittenOut(nn.Module):
    """Causal self-attention as tutorials write it."""

    def __init__(self, size: int = 12, heads: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x: Any) -> Any:
        batch, length, size = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, size // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(size, dim=2)
        )
        weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        weights = weights.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
        weights = self.drop(F.softmax(weights, dim=-1))
        return self.out((weights @ v).transpose(1, 2).contiguous().view(batch, length, size))


class Called(WrittenOut):
    """The same by the function."""

    def forward(self, x: Any) -> Any:
        batch, length, size = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, size // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(size, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, size))


def module_and_step(kind: type[nn.Module], **options: Any) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = kind(**options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


# -- the function ---------------------------------------------------------------------------------


def test_the_function_is_one_op_and_its_gradient_another() -> None:
    _, step = module_and_step(Called)
    ops = ops_of(dead_code(torch.trace(step, normal(2, 5, 12), normal(2, 5, 12, seed=1))))
    assert (ops["attention"], ops["attention_grad"]) == (1, 1)
    assert not ops["softmax"]


@pytest.mark.parametrize("shape", [(4, 5), (1, 5)], ids=str)
def test_a_mask_for_all_heads_is_not_repeated(shape: tuple[int, ...]) -> None:
    mask = torch.ones(*shape, dtype=torch.bool)
    graph = torch.trace(
        F.scaled_dot_product_attention, normal(2, 3, 4, 6), normal(2, 3, 5, 6), normal(2, 3, 5, 6),
        mask,
    )  # fmt: skip
    (node,) = (node for node in graph.nodes if node.op == "attention")
    assert graph.type_of(node.operands[3]).shape == (4, 5)


def test_dropout_keeps_the_weights() -> None:
    graph = torch.trace(
        lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), normal(2, 4, 6)
    )
    assert not ops_of(graph)["attention"]


@pytest.mark.parametrize("layer", ["encoder", "decoder"])
def test_transformer_layers_use_the_op(layer: str) -> None:
    kind = nn.TransformerEncoderLayer if layer == "encoder" else nn.TransformerDecoderLayer
    model = kind(12, 3, 16, dropout=0.1)
    x = normal(4, 2, 12)
    inputs = (x,) if layer == "encoder" else (x, x)
    for training in (True, False):
        ops = ops_of(torch.trace(model.train(training), *inputs))
        assert ops["attention"] == (0 if training else len(inputs))


def test_second_derivatives() -> None:
    def penalty(q: Any, k: Any, v: Any) -> Any:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).pow(2).sum()
        (by_q,) = torch.autograd.grad(y, q, create_graph=True)
        return by_q.pow(2).sum()

    arrays = [np.random.default_rng(i).standard_normal((2, 3, 4)) for i in range(3)]
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    penalty(*tensors).backward()
    step = 1e-6
    for position, tensor in enumerate(tensors):
        for at in ((0, 0, 0), (1, 2, 3), (0, 1, 2)):
            around = []
            for sign in (1, -1):
                moved = [array.copy() for array in arrays]
                moved[position][at] += sign * step
                around.append(penalty(*(torch.tensor(x, requires_grad=True) for x in moved)).item())
            want = (around[0] - around[1]) / (2 * step)
            np.testing.assert_allclose(tensor.grad.numpy()[at], want, rtol=1e-4, atol=1e-6)


# -- written out, at level relaxed ----------------------------------------------------------------


def test_a_training_step_is_recognised() -> None:
    _, step = module_and_step(WrittenOut)
    graph = dead_code(torch.trace(step, normal(2, 5, 12), normal(2, 5, 12, seed=1)))
    ops = ops_of(recognize_attention(graph))
    assert (ops["attention"], ops["attention_grad"], ops["softmax"]) == (1, 1, 0)


def test_a_relaxed_training_step_learns_as_the_eager_one() -> None:
    x, y = normal(2, 5, 12), normal(2, 5, 12, seed=1)
    eager, relaxed = module_and_step(WrittenOut), module_and_step(WrittenOut)
    compiled = torch.compile(relaxed[1], level="relaxed")
    for _ in range(3):
        np.testing.assert_allclose(compiled(x, y).item(), eager[1](x, y).item(), rtol=1e-5)
    for ours, theirs in zip(relaxed[0].parameters(), eager[0].parameters(), strict=True):
        np.testing.assert_allclose(
            ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-5
        )


def test_forward_and_backward_apart_are_recognised_together() -> None:
    """No weights pass from one to the other."""
    torch.manual_seed(0)
    model = WrittenOut()
    compiled = torch.compile(model, level="relaxed")
    x = normal(2, 5, 12)
    compiled(x).pow(2).sum().backward()
    grads = [p.grad.numpy().copy() for p in model.parameters()]
    (specialization,) = compiled.specializations
    pair = specialization.function.pair
    assert ops_of(pair.split.forward_graph)["attention"] == 1
    assert ops_of(pair.split.backward_graph)["attention_grad"] == 1
    assert (2, 3, 5, 5) not in [type.shape for type in pair.split.forward_graph.output_types]
    model.zero_grad()
    model(x).pow(2).sum().backward()
    for got, parameter in zip(grads, model.parameters(), strict=True):
        np.testing.assert_allclose(got, parameter.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_exact_leaves_what_was_written() -> None:
    torch.manual_seed(0)
    compiled = torch.compile(WrittenOut())
    compiled(normal(2, 5, 12)).sum().backward()
    (specialization,) = compiled.specializations
    assert not ops_of(specialization.function.pair.split.forward_graph)["attention"]


def test_dropout_between_softmax_and_product_is_not_recognised() -> None:
    _, step = module_and_step(WrittenOut, dropout=0.5)
    graph = dead_code(torch.trace(step, normal(2, 5, 12), normal(2, 5, 12, seed=1)))
    assert not ops_of(recognize_attention(graph))["attention"]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("queries, keys", [(1, 1), (1, 2), (2, 1)])
def test_one_query_or_one_key_with_a_mask(dtype: torch.dtype, queries: int, keys: int) -> None:
    """The mask's cast has fewer axes than the scores it is added to."""

    def slopes(x: Any, y: Any, z: Any, mask: Any) -> Any:
        out = F.scaled_dot_product_attention(x, y, z, attn_mask=mask)
        return torch.autograd.grad(out.float().square().sum(), [x, y, z])

    shapes = ((2, 3, queries, 4), (2, 3, keys, 4), (2, 3, keys, 4))
    operands = [normal(*s, seed=i).to(dtype).requires_grad_() for i, s in enumerate(shapes)]
    mask = normal(2, 3, queries, keys, seed=3).to(dtype)
    error = max(1e-5, torch.finfo(dtype).eps)
    for actual, wanted in zip(
        torch.compile(slopes)(*operands, mask), slopes(*operands, mask), strict=True
    ):
        np.testing.assert_allclose(actual.float().numpy(), wanted.float().numpy(), error, error)
