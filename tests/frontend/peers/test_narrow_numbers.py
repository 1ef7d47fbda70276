"""Numbers beside tensors of narrow dtypes: what is computed in the dtype of the result, and numbers
that a dtype does not hold. `python -m tests.fuzz scalars` draws them over all functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend

I8 = "T.tensor([100, -128, 3], dtype=T.int8)"
I16 = "T.tensor([300, -32768, 3], dtype=T.int16)"
I32 = "T.tensor([2**30, -(2**31), 3], dtype=T.int32)"
I64 = "T.tensor([1, 2, 3])"
F32 = "T.tensor([0.5, 1.5, -2.0])"
F16 = "T.tensor([0.1, 1.5, -2.0], dtype=T.float16)"
BF16 = "T.tensor([0.1, 1.5, -2.0], dtype=T.bfloat16)"
BOOL = "T.tensor([True, False, True])"

CALLS = (
    f"T.add({F32}, {I8}, alpha=3)", f"T.add({I64}, {I32}, alpha=4)", f"T.sub({F32}, {I8}, alpha=3)",
    f"T.rsub({I8}, {F32}, alpha=3)", f"T.add({I8}[0], {F32}, alpha=3)",
    f"{F32}.add_({I8}, alpha=300)", f"{I64}.sub_({I8}, alpha=300)", f"{I64}.add({BOOL}, alpha=9)",
    f"T.add({I64}, {I8}, alpha=7, out=T.zeros(3))", f"{BF16}.add({I32}, alpha=2.5)",
    f"T._foreach_add([{F32}], [{I8}], alpha=3)[0]", f"T.addcmul({F32}, {I8}, {I8})",
    f"T.addcmul({I64}, {I32}, {I32}, value=3)", f"{F32}.addcmul_({I8}, {I8}, value=0.5)",
    f"T.addcdiv({F32}.double(), {F32}, {I8}, value=3)", f"T.vander({I8})",
    f"T.linalg.vander({I16})",
    f"T.trapezoid({I64})", f"T.index_add({I64}, 0, {I64} - 1, {I64}, alpha=2.75)",
    f"T.inner({BOOL}, {BOOL}[0])", f"T.gradient({F32}, spacing=0)[0]", f"{BF16} * 0.1",
    f"0.3 * {BF16}", f"{BF16} / 0.3", f"{F16} * 1e5", f"{F16} / 1e6", f"T.special.entr({BF16})",
    f"T.sinc({BF16})", f"{BOOL} ** False", f"{BOOL}.pow(True)",
    f"T.nn.functional.mse_loss({F16}, {BOOL})", f"T.nn.functional.huber_loss({F32}, {BOOL})",
    f"T.nn.functional.smooth_l1_loss({F16}, {BOOL})", f"T.nn.functional.huber_loss({F16}, {F32})",
    f"T.nn.functional.huber_loss({F32}, {BF16}, 'none')", f"T.normal({I8}[:0], 0)",
    f"T.constant_pad_nd({I8}.byte(), (0, 1), -3)",
    f"T.addmm({F16}[:1, None], {F16}[None], {F16}[:, None], beta=1e6, alpha=-1e5)",
    "T.lcm(T.tensor([50], dtype=T.int16), T.tensor([-32767], dtype=T.int16))",
    f"T.logical_and(T.tensor(256, dtype=T.int32), {I8})",
    f"7e4 / ({F16} * 0 - 4)", f"{F16} * T.tensor(7e4)",
    f"T.mul({F16} * 0, T.tensor(70000))", f"{F16} / T.tensor([[70000]])", f"T.tensor(7e4) * {F16}",
    f"T.div({BF16} * 0 + 3, 1.001, rounding_mode='trunc')",
    f"T.div({BF16} * 0 + 3, T.tensor(1.001), rounding_mode='floor')", f"({BF16} * 0 + 3) // 1.001",
    f"T.div({I8}, 200, rounding_mode='floor')", f"T.div({I8}, 200, rounding_mode='trunc')",
    f"T.addcmul({F16} * 0 - 5000, {F16} * 0 + 0.5, {F16} * 0 + 0.5, value=7e4)",
    f"T.addcdiv({F16}, {F16} * 0 + 300, {F16} * 0 + 0.001, value=0.1)",
    f"T.nn.functional.threshold({I64} - 2, -1.5, 5)", f"T.nn.functional.threshold({F16}, 7e4, 5)",
    f"T.trapezoid({F16}, dx=-(2.0**31))",
    f"T.addr({F16}[:1, None], {F16}[2:] - 1, {F16}[:1] * 0 + 0.25, alpha=32767.0)",
    "T.renorm(T.full((2, 3), 4.0, dtype=T.float16), 100, 0, 2.0**40)",
    f"T.nn.functional.pad({BOOL}, (1, 1), value=0.5)", "T.tensor([100.25, -128], dtype=T.uint8)",
    f"T.nn.functional.l1_loss({F16}, T.tensor(3.0))",
    f"T.nn.functional.mse_loss({F16}, T.tensor(3.0))",
    f"T.nn.functional.smooth_l1_loss(T.tensor(3.0), {F16})",
    f"T.nn.functional.smooth_l1_loss({F16} * 0 + 3e4, {F16}, beta=100.0)",
    f"T.nn.functional.huber_loss({F16}, {F16} * 0, delta=7e4)",
)  # fmt: skip

REFUSED = (
    f"{I8}.clamp(max=300)", f"{I8}.clamp(-129, 5)", f"{I8}.clamp_(min=128)",
    f"{I8}.clip(max=2**40)",
    f"T.add({I8}, {I8}, alpha=128)", f"T.addcmul({I8}, {I8}, {I8}, value=300)", f"{I8}.fill_(300)",
    f"T.full_like({I8}, 300)", f"T.full_like({F16}, 1e6)", f"{I8}.masked_fill({BOOL}, 300)",
    f"T.where({BOOL}, {I8}, 300)", f"{I8}.index_fill(0, {I64} - 1, 300)",
    f"{I8}.__setitem__(0, 300)", f"{I8}.scatter(0, {I64} - 1, 300)",
    f"T.nn.functional.pad({I8}, (1, 1), value=300)", f"T.nn.functional.threshold({I8}, 300, 1)",
    f"T.nn.functional.hardtanh({I8}, -1, 300)", f"{I8} ** 300", f"{F16}.clamp(max=1e6)",
    f"T.addmm({I8}.reshape(1, 3), {I8}.reshape(3, 1)[:1], {I8}.reshape(1, 3), beta=300)",
    f"T.addr({I8}, {I8}, {I8}, beta=0.5)", f"T.index_add({I8}, 0, {I64} - 1, {I8}, alpha=300)",
    f"{F32}.float_power_(2)", f"T._foreach_add_([{I8}], [{F32}])",
    f"T.nn.functional.hinge_embedding_loss({F16}, {F16}, margin=1e6)",
    f"T.nn.functional.pad({I8}.byte(), (1, 0), value=-1)", f"T.logit({F16}, 7e4)",
    f"T.histc({F16}, 4, 0, 7e4)", "T.tensor([255.9, 1], dtype=T.uint8)",
)  # fmt: skip


def run(T: Any, source: str) -> Any:
    return eval(source, {"T": T})


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("source", CALLS)
def test_computed_in_the_dtype_of_the_result(peer: Any, source: str) -> None:
    expected = run(peer.torch, source)
    for call in (run, frontend.compile(run, fullgraph=True)):
        mine = call(frontend, source)
        assert str(mine.dtype) == str(expected.dtype)
        numbers = [x.double().numpy() for x in (mine, expected)]
        bound = 2.0**-7 if expected.dtype is peer.torch.bfloat16 else 1e-6
        np.testing.assert_allclose(*numbers, rtol=bound)


@pytest.mark.parametrize("source", REFUSED)
def test_a_number_that_a_dtype_does_not_hold(peer: Any, source: str) -> None:
    words = "value cannot be converted|must not be a floating point|requires dtype|can't be cast"
    with pytest.raises(RuntimeError, match=words):
        run(peer.torch, source)
    for call in (run, frontend.compile(run, fullgraph=True)):
        with pytest.raises(RuntimeError, match=words) as error:
            call(frontend, source)
        assert "TraceError" not in type(error.value).__name__


def test_bools_have_no_sign(peer: Any) -> None:
    source = f"T.nn.functional.soft_margin_loss({BOOL}, {F32})"
    for call, T in ((run, peer.torch), (run, frontend), (frontend.compile(run), frontend)):
        with pytest.raises(RuntimeError, match="Negation, the `-` operator, on a bool tensor"):
            call(T, source)


def test_a_loss_without_a_beta_subtracts_no_bools(peer: Any) -> None:
    source = f"T.nn.functional.smooth_l1_loss({BOOL}, {F32}, beta=0.0)"
    for call, T in ((run, peer.torch), (run, frontend), (frontend.compile(run), frontend)):
        with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with a bool tensor"):
            call(T, source)


def test_products_of_half_types_and_numbers_round_once(peer: Any) -> None:
    numbers = np.random.default_rng(0).standard_normal(500).astype(np.float32).tolist()
    for dtype in ("bfloat16", "float16"):
        x = frontend.tensor(numbers, dtype=getattr(frontend, dtype))
        y = peer.torch.tensor(numbers, dtype=getattr(peer.torch, dtype))
        for scale in (0.1, -7.77, 1e6, 3):
            for apply in (lambda z, s: z * s, lambda z, s: s * z, lambda z, s: z / s):
                expected = apply(y, scale).float().numpy()
                for call in (apply, frontend.compile(apply, fullgraph=True)):
                    np.testing.assert_array_equal(call(x, scale).float().numpy(), expected)


def test_integrals_of_narrow_integers_do_not_wrap() -> None:
    """PyTorch's do."""
    y = frontend.tensor([100, 120, -100], dtype=frontend.int8)
    x = frontend.tensor([-100, 100, 120], dtype=frontend.int8)
    assert frontend.trapezoid(y).item() == 120.0
    assert frontend.trapezoid(y, x).item() == 22200.0
    assert frontend.cumulative_trapezoid(y).tolist() == [110.0, 120.0]


def test_an_open_number_is_checked_at_each_call() -> None:
    bounded = frontend.compile(lambda x, most: x.clamp(max=most), fullgraph=True)
    x = frontend.tensor([100, 3], dtype=frontend.int8)
    assert [bounded(x, n).tolist() for n in (5, 50, 7)] == [[5, 3], [50, 3], [7, 3]]
    with pytest.raises(RuntimeError, match="without overflow"):
        bounded(x, 300)
    assert bounded(x, 9).tolist() == [9, 3]


def test_numbers_as_tensors_of_integers_are_arrays() -> None:
    assert frontend.as_tensor(2.75, dtype=frontend.int32).numpy() == 2
