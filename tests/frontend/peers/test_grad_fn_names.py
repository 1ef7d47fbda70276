"""`type(y.grad_fn).__name__` is PyTorch's name, of functions that are one op there."""

from __future__ import annotations

from typing import Any

import pytest

import frontend

torch = pytest.importorskip("torch")

CALLS = """
x + x; x + 1; x - x; x * x; x * 2; x / x; x / 2; x ** 2; x ** x; 2 ** x; -x; x @ x.t(); x % 2
x[0]; x[:, 0]; x[:1]; x[None]; x[i]; x[x > 0]; x.t(); x.T; x.transpose(0, 1); x.permute(1, 0)
x.view(3, 2); x.unsqueeze(0); x[None].squeeze(0); x.expand(2, 2, 3); x.repeat(2, 1); x.flip(0)
x.select(0, 0); x.unbind(0)[0]; x.chunk(2)[0]; x.split(1)[0]; x.diagonal(); x.unfold(1, 2, 1)
T.cat([x, x]); T.stack([x, x]); T.where(x > 0, x, x); T.maximum(x, x * 2); T.clamp(x, -1, 1)
x.clamp_min(0); T.atan2(x, x); T.lerp(x, x, .3); T.lerp(x, x, x); T.addcmul(x, x, x)
x.sum(); x.sum(0); x.mean(); x.mean(0); x.prod(); x.prod(0); x.amax(0); x.max(); x.max(0)[0]
x.min(0)[0]; x.median(0)[0]; x.topk(1)[0]; x.sort()[0]; x.std(); x.var(0); x.logsumexp(0)
x.cumsum(0); x.norm(); T.dist(x, x * 2); T.softmax(x, 0); F.log_softmax(x, 0); x.tanh(); x.exp()
x.relu(); x.sigmoid(); x.abs(); x.square(); x.reciprocal(); x.rsqrt(); x.log1p(); x.clone()
x.double(); x.tril(); x.trace(); x.roll(1, 0); x.gather(1, i[:, None]); x.index_select(0, i)
x.masked_fill(x > 0, 1.); x.masked_select(x > 0); x.scatter(1, i[:, None], x); x.nan_to_num()
T.mm(x, x.t()); T.bmm(x[None], x.t()[None]); T.mv(x, v); T.dot(v, v); T.addmm(s, x, x.t())
T.baddbmm(s[None], x[None], x.t()[None]); F.linear(x, x); F.linear(x, x, v[:2]); T.linalg.inv(s)
F.gelu(x); F.silu(x); F.softplus(x); F.elu(x); F.leaky_relu(x); F.hardtanh(x); F.glu(x[:, :2])
F.layer_norm(x, (3,)); F.batch_norm(x, None, None, training=True); F.group_norm(x[None], 1)
F.conv2d(x[None, None], w); F.max_pool2d(x[None, None], 2); F.avg_pool2d(x[None, None], 2)
F.mse_loss(x, x * 2); F.cross_entropy(x, i); F.nll_loss(x, i); F.smooth_l1_loss(x, x * 2)
F.binary_cross_entropy_with_logits(x, x.detach()); F.embedding(i, x); F.pad(x, (1, 1))
(x * 1).add_(1); (x * 1).mul_(x); (x * 1).relu_()
"""


def _name(T: Any, call: str) -> str:
    x = T.tensor([[1.0, -1.0, 0.3], [0.2, 0.5, -0.4]], requires_grad=True)
    names = {"T": T, "F": T.nn.functional, "x": x, "i": T.tensor([0, 1]), "w": T.ones(1, 1, 1, 1)}
    names |= {"v": x[0].detach().requires_grad_(), "s": T.eye(2, requires_grad=True)}
    return str(type(eval(call, names).grad_fn).__name__)


@pytest.mark.parametrize("line", CALLS.strip().splitlines())
def test_names(line: str) -> None:
    for call in line.split(";"):
        assert _name(frontend, call.strip()) == _name(torch, call.strip()), call


def test_custom_functions_and_edges() -> None:
    x = frontend.ones(2, requires_grad=True)
    y = (x * 2).sum()
    assert repr(y.grad_fn).startswith("<SumBackward0 object")
    (before, index), *_ = y.grad_fn.next_functions
    assert type(before).__name__ == "MulBackward0" and index == 0
    assert isinstance(before, frontend.autograd.graph.Node)
    assert y.grad_fn is y.grad_fn and type((x + 1).grad_fn) is type((x + 2).grad_fn)
