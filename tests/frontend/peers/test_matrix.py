"""Matrix products, einsum, norms of matrices against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

F32 = np.float32
INF = np.inf

SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (1, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)), ((6, 5, 2, 3), (3,)), ((3,), (2, 5, 3, 1)),
    ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0,), (0,)), ((4, 0, 3), (3, 2)), ((1, 1), (1, 1)),
    ((2, 3), (3, 0)), ((0, 2, 3), (0, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul(peer: Any, shapes: Any) -> None:
    x, y = (peer.normal(*shape) for shape in shapes)
    peer.function(lambda t, x, y: (t.matmul(x, y), x @ y), x, y)


# Calls on a [2, 3], b [3, 4], f [5, 2, 3], g [5, 3, 4], v [3], w [2], q [3, 3], s [], i [2, 3]
# integers.
CALLS = """
t.mm(a, b) | a.mm(b) | t.mm(i, i.T) | t.bmm(f, g) | f.bmm(g) | t.mv(a, v) | i.mv(i[0])
t.dot(v, v * 2) | v.dot(q[0]) | t.vdot(v, q[1]) | t.dot(i[0], i[1]) | t.inner(a, q) | t.inner(v, a)
t.inner(a, s) | a.inner(a) | t.inner(f, a) | t.outer(v, w) | t.ger(v, w) | v.outer(i[0])
t.addmm(s, a, b, beta=0.5, alpha=2) | t.addmm(b[:2], a, b) | t.addmm(i[:, :2], i, i.T, beta=2)
t.addmm(b[:2], a, b, beta=0) | a.clone().addmm_(a, q, beta=2) | t.addmm(b[0], a, b, alpha=-1)
t.addmv(w, a, v) | w.addmv(a, v, beta=2, alpha=3) | t.addmv(s, a, v)
t.addr(a, w, v) | t.addr(s, w, v, beta=0) | t.addr(i, w, v, alpha=2) | a.clone().addr_(w, v, beta=3)
t.addbmm(b[:2], f, g) | t.addbmm(b[:2], f, g, beta=2, alpha=0.5)
t.baddbmm(b[:2], f, g, beta=0.5) | t.baddbmm(s, f, g, alpha=2) | t.baddbmm(b[:2] / 0, f, g, beta=0)
t.chain_matmul(a, b, b.T, q) | t.chain_matmul(a) | t.chain_matmul(a, b)
t.linalg.multi_dot([a, b, b.T]) | t.linalg.multi_dot([w, a, b, b[0]]) | t.linalg.multi_dot([a, v])
t.linalg.multi_dot([w, w]) | t.linalg.multi_dot([v, b])
t.matrix_power(q, 0) | t.matrix_power(q, 1) | q.matrix_power(2) | t.linalg.matrix_power(q, 5)
t.matrix_power(f[:, :, :2], 3) | t.matrix_power(i[:, :2], 2)
t.cross(v, q[0], dim=0) | t.cross(q, q.T, dim=1) | t.cross(q, q.flip(0))
t.cross(f, f.flip(0), dim=-1)
t.linalg.cross(q, q.T) | t.linalg.cross(q[None], f[:, :1]) | i.cross(i + 1, 1) | q.cross(q.T, -2)
t.linalg.norm(a) | t.linalg.norm(a, ord=1) | t.linalg.norm(a, -1) | t.linalg.norm(a, ord=INF)
t.linalg.norm(a, ord=-INF) | t.linalg.norm(a, 'fro') | t.linalg.norm(a, 3, 0) | t.linalg.norm(v, 3)
t.linalg.norm(f) | t.linalg.norm(f, 'fro', (0, 1)) | t.linalg.norm(f, 1, (0, 1), True)
t.linalg.norm(a, dtype=t.float64) | t.linalg.norm(v, 1, dim=0, keepdim=True)
t.linalg.norm(f, dim=1)
t.linalg.vector_norm(a) | t.linalg.vector_norm(a, 1, 0) | t.linalg.vector_norm(a, 3, (0, 1), True)
t.linalg.vector_norm(a, INF, dim=(1,)) | t.linalg.vector_norm(f, ord=1.5, axis=2, keepdims=True)
t.linalg.matrix_norm(a) | t.linalg.matrix_norm(a, 1) | t.linalg.matrix_norm(f, INF, keepdim=True)
t.linalg.matrix_norm(f, dim=(0, 1)) | t.linalg.matrix_norm(f, 'fro', (0, 2))
t.linalg.matrix_norm(f, -1)
t.linalg.matmul(a, b) | t.linalg.vecdot(a, a * 2) | t.linalg.vecdot(f, a, dim=1)
t.tensordot(f, f, dims=3) | t.tensordot(f, g, ([2], [1])) | t.tensordot(a, b, dims=1)
t.tensordot(f, f, dims=([0, 1], [0, 1])) | t.tensordot(a, b, dims=0) | t.tensordot(v, v, 1)
t.tensordot(f, f, ((-1, 0), (2, 0)))
t.kron(a, q) | t.kron(v, a) | t.kron(s, a) | t.kron(i, i) | a.kron(f) | t.kron(s, s)
"""
TEXTS = [part.strip() for line in CALLS.strip().splitlines() for part in line.split("|")]


def operands(peer: Any) -> dict[str, np.ndarray]:
    return {
        "a": peer.normal(2, 3), "b": peer.normal(3, 4), "f": peer.normal(5, 2, 3),
        "g": peer.normal(5, 3, 4), "v": peer.normal(3), "w": peer.normal(2),
        "q": peer.normal(3, 3), "s": np.array(1.5, F32), "i": np.array([[1, 2, 3], [4, 5, 6]]),
    }  # fmt: skip


@pytest.mark.parametrize("line", CALLS.strip().splitlines())
def test_compiled(peer: Any, line: str) -> None:
    arrays = operands(peer)

    def call(t: Any, *tensors: Any) -> Any:
        names = {"t": t, "INF": INF, **dict(zip(arrays, tensors, strict=True))}
        return [eval(part.strip(), names) for part in line.split("|")]

    peer.function(call, *arrays.values(), modes=["compiled"])


@pytest.mark.parametrize("text", TEXTS)
def test_eager(peer: Any, text: str) -> None:
    arrays = operands(peer)

    def call(t: Any, *tensors: Any) -> Any:
        return eval(text, {"t": t, "INF": INF, **dict(zip(arrays, tensors, strict=True))})

    peer.function(call, *arrays.values(), modes=["eager"])


# -- einsum --------------------------------------------------------------------------------------

EINSUM = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij->ji", (2, 3)), ("ij", (2, 3)),
    ("ba", (2, 3)), ("bA", (2, 3)), ("ij->", (2, 3)), ("ij->i", (2, 3)), ("ii", (3, 3)),
    ("ii->i", (3, 3)), ("iji->j", (3, 2, 3)), ("iii->i", (3, 3, 3)), ("ijj->ij", (2, 3, 3)),
    ("i,i->", (4,), (4,)), ("i,i->i", (4,), (4,)), ("i,j->ij", (2,), (3,)), ("i,j->ji", (2,), (3,)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)), ("bij,bkj->bki", (5, 2, 3), (5, 4, 3)),
    ("bi,bi->b", (5, 3), (5, 3)), ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bhqk,bkhd->bqhd", (2, 3, 4, 6), (2, 6, 3, 5)), ("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4)),
    ("...ij,jk->...ik", (5, 1, 2, 3), (3, 4)), ("...,...->...", (2, 3), (1, 3)),
    ("...i,...i->...", (2, 3), (3,)), ("i...->...", (2, 3, 4)), ("i...j->j...i", (2, 3, 4)),
    ("i...->i", (2, 3, 4)), ("...", (2, 3)), ("...->...", ()), ("", ()), (",->", (), ()),
    (",ij->j", (), (2, 3)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,jk,kl,lm", (2, 3), (3, 4), (4, 5), (5, 2)), ("i,ij,j", (2,), (2, 3), (3,)),
    ("ab,ab,ab->a", (2, 3), (2, 3), (2, 3)), ("a,b,c->cab", (2,), (3,), (4,)),
    ("bn,anm,bm->ba", (5, 2), (4, 2, 3), (5, 3)), ("i,i->i", (1,), (5,)),
    ("ij,jk->ik", (2, 1), (3, 4)), ("ij,kj->ik", (0, 3), (4, 3)), ("ij,jk->ik", (2, 0), (0, 4)),
    ("i,j->", (0,), (3,)), ("ij,ij->", (2, 3), (2, 3)), ("Ab,bA->A", (2, 3), (3, 2)),
    ("...a,...b->...ab", (2, 3), (2, 4)), ("a...,a...->...", (2, 3), (2, 1)),
    (" i j , j k -> i k ", (2, 3), (3, 4)), ("ij,ik,il->jkl", (2, 3), (2, 4), (2, 5)),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUM, ids=str)
def test_einsum(peer: Any, case: Any) -> None:
    text, *shapes = case
    arrays = [np.asarray(peer.normal(*shape), F32) for shape in shapes]
    peer.function(lambda t, *xs: t.einsum(text, *xs), *arrays)


def test_einsum_with_lists(peer: Any) -> None:
    def call(t: Any, f: Any, a: Any, i: Any) -> Any:
        return [
            t.einsum(f, [0, 1, 2], [2, 0]), t.einsum(f, [0, 1, 2], a, [1, 2], [0]),
            t.einsum(f, [..., 1], [1, ...]), t.einsum(a, [51, 3]), t.einsum(a, [0, 1], a, [0, 1]),
            t.einsum("ij,jk->ik", [a, a.T]), t.einsum("ij,kj->ik", i, i),
        ]  # fmt: skip

    peer.function(call, peer.normal(5, 2, 3), peer.normal(2, 3), np.array([[1, 2], [3, 4]]))


REFUSED = """
a @ a | a @ v[:2] | w @ b | v @ w | f @ f | f @ s | s @ f | a @ b.double() | a @ 2 | 2 @ a
t.mm(a, v) | t.mm(a, a) | t.mm(a, f) | t.bmm(f, f) | t.bmm(a, f) | t.mv(a, w) | t.mv(v, v)
t.mv(a, a) | t.dot(v, w) | t.dot(a, v) | t.dot(v, v.long()) | (v > 0).dot(v > 0)
(a > 0) @ (b > 0) | t.inner(v, w) | t.inner(f, b) | t.inner(a, a.long()) | t.outer(a, v)
t.addmm(v, a, b) | t.addmm(f, a, b) | t.addmm(a.double(), a, q) | t.addmm(s, a, v)
t.addmm(s, v, a)
t.addmv(v, a, v) | t.addr(a, a, v) | t.baddbmm(s, a, g) | t.addbmm(q, f, g) | t.chain_matmul(a, v)
t.linalg.multi_dot([a]) | t.linalg.multi_dot([a, v, a]) | t.matrix_power(a, 2)
t.matrix_power(v, 2)
t.linalg.cross(v, q) | t.linalg.cross(v, w) | t.cross(w, w) | t.cross(v, q)
t.linalg.norm(a, ord=4)
t.linalg.norm(v, ord='fro') | t.linalg.norm(f, ord=2) | t.linalg.norm(f, dim=(0, 1, 2))
t.linalg.norm(i) | t.linalg.vector_norm(i) | t.linalg.matrix_norm(a, 3) | t.linalg.matrix_norm(v)
t.linalg.matrix_norm(f, dim=(0, 0)) | t.linalg.matrix_norm(f, 'foo') | t.linalg.matrix_norm(i)
t.linalg.vecdot(i, i)
t.tensordot(f, f, dims=2) | t.tensordot(f, f, dims=([0, 1], [1, 0])) | t.tensordot(f, f, dims=-1)
t.tensordot(f, w, dims=1) | t.tensordot(i, a, 2)
t.tensordot(f, f, dims=([0], [0, 1])) | t.einsum('ii', a) | t.einsum('i1->i', a)
t.einsum('ij->ik', a) | t.einsum('ij,jk->ik', a, a) | t.einsum('ijk', a) | t.einsum('ij,ij', a)
t.einsum('ij', a, a) | t.einsum('ij->ii', a) | t.einsum('.ij->ij', a)
t.einsum('ij...->...ij...', a)
t.einsum('ij->ij->i', a) | t.einsum('i') | t.einsum('ij,kj->ik', i, a) | t.einsum(a, [0, 52])
t.einsum('i...', s) | t.einsum('ij', 3) | a.addmm_(b, b) | t.mm(a, b, out=t.zeros(2, 4).long())
"""


@pytest.mark.parametrize("text", [part.strip() for line in REFUSED.strip().splitlines()
                                  for part in line.split("|")])  # fmt: skip
def test_what_pytorch_refuses(peer: Any, text: str) -> None:
    arrays = operands(peer)

    def call(t: Any) -> Any:
        names = {name: t.tensor(array) for name, array in arrays.items()}
        return eval(text, {"t": t, **names})

    peer.refusal(call)
