"""One time step of a recurrent cell as one op. Its results are the new states and what the gates
were, which the gradient reads: no product is computed twice.

Operands are x [rows, input], the states [rows, hidden], the weights w_ih [gates · hidden, input]
and w_hh [gates · hidden, hidden] and, where there are biases, b_ih and b_hh [gates · hidden].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from graphc.errors import ShapeError
from graphc.ir.handle import broadcast_to
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.composite import check_float
from graphc.ops.contract import matmul
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import SampleDrawer
from graphc.ops.movement import concat, transpose
from graphc.ops.nn.products import addmm
from graphc.ops.parts import split


def _turned(x: Any) -> Any:
    return transpose(x, permutation=(1, 0))


def _check(name: str, gates: int, x: Any, h: Any, w_ih: Any, w_hh: Any, *others: Any) -> None:
    """Raise ShapeError where sizes do not fit, DTypeError where x has no floats."""
    check_float(name, x)
    operands = (x, h, w_ih, w_hh)
    fits = all(len(operand.shape) == 2 for operand in operands)
    if fits:
        rows, hidden = h.shape
        wide = gates * hidden
        wanted = [(rows, x.shape[1]), (wide, x.shape[1]), (wide, hidden)]
        fits = [x.shape, w_ih.shape, w_hh.shape] == wanted
        fits = fits and all(each.shape in ((rows, hidden), (wide,)) for each in others)
    if not fits or len(others) - (gates == 4) not in (0, 2):
        types = ", ".join(str(each.tensor_type) for each in (*operands, *others))
        raise ShapeError(f"{name} of {types}")


def _gates(x: Any, count: int) -> tuple[Any, ...]:
    """[rows, count · n] as `count` matrices [rows, n]."""
    parts: tuple[Any, ...] = split(x, sizes=(x.shape[1] // count,) * count, axis=1)
    return parts


def _sigmoid_back(g: Any, out: Any) -> Any:
    return g * (out * (1 - out))


def _tanh_back(g: Any, out: Any) -> Any:
    return g * (1 - out * out)


def _sum(*gradients: Any) -> Any:
    """The sum of those that are not None; None where all are."""
    present = [gradient for gradient in gradients if gradient is not None]
    total = present[0] if present else None
    for gradient in present[1:]:
        total = total + gradient
    return total


def _joined(parts: Sequence[Any], model: Any) -> Any:
    """The gradient of all gates, of those of each (None: zero)."""
    return concat(*[model * 0 if part is None else part for part in parts], axis=1)


def _of_products(
    by_x: Callable[[], Any], by_h: Callable[[], Any], x: Any, h: Any, w_ih: Any, w_hh: Any
) -> tuple[Callable[[], Any], ...]:
    """The gradients of x, h, w_ih and w_hh, from those of what the products add to the gates."""
    return (
        lambda: matmul(by_x(), w_ih),
        lambda: matmul(by_h(), w_hh),
        lambda: matmul(_turned(by_x()), x),
        lambda: matmul(_turned(by_h()), h),
    )


# -- LSTM ----------------------------------------------------------------------------------------


def _lstm_cell(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, *biases: Any) -> tuple[Any, ...]:
    _check("lstm_cell", 4, x, h, w_ih, w_hh, c, *biases)
    if biases:
        of_x = addmm(biases[0] + biases[1], x, _turned(w_ih))
    else:
        of_x = matmul(x, _turned(w_ih))
    parts = _gates(of_x + matmul(h, _turned(w_hh)), 4)
    i, f, g, o = e.sigmoid(parts[0]), e.sigmoid(parts[1]), e.tanh(parts[2]), e.sigmoid(parts[3])
    new = f * c + i * g
    bent = e.tanh(new)
    return o * bent, new, i, f, g, o, bent


def _lstm_cell_vjp(
    gradients: Any, out: Any, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, *biases: Any
) -> tuple[Any, ...]:
    by_h, by_c, by_i, by_f, by_g, by_o, by_bent = gradients
    _, _, i, f, g, o, bent = out

    @cache
    def by_new() -> Any:
        of_bent = _sum(None if by_h is None else by_h * o, by_bent)
        return _sum(by_c, None if of_bent is None else _tanh_back(of_bent, bent))

    @cache
    def by_gates() -> Any:
        new = by_new()
        parts = [
            _sum(None if new is None else new * g, by_i),
            _sum(None if new is None else new * c, by_f),
            _sum(None if new is None else new * i, by_g),
            _sum(None if by_h is None else by_h * bent, by_o),
        ]
        pairs = zip(parts, (i, f, g, o), (_sigmoid_back, _sigmoid_back, _tanh_back, _sigmoid_back))
        return _joined([None if part is None else back(part, y) for part, y, back in pairs], i)

    of_x, of_h, of_w_ih, of_w_hh = _of_products(by_gates, by_gates, x, h, w_ih, w_hh)
    of_biases = [lambda: r.sum(by_gates(), axes=(0,))] * len(biases)
    of_c = lambda: None if by_new() is None else by_new() * f  # noqa: E731
    return of_x, of_h, of_c, of_w_ih, of_w_hh, *of_biases


def _samples(gates: int, states: int) -> Callable[[SampleDrawer], list[Any]]:
    def samples(m: SampleDrawer) -> list[Any]:
        def one(rows: int, size: int, hidden: int, biases: int) -> Any:
            wide = gates * hidden
            return m(
                m.normal(rows, size), *[m.normal(rows, hidden) for _ in range(states)],
                m.normal(wide, size), m.normal(wide, hidden),
                *[m.normal(wide) for _ in range(biases)],
            )  # fmt: skip

        return [one(2, 3, 4, 2), one(1, 5, 2, 0), one(0, 2, 3, 2)]

    return samples


# Results: h', c', the gates (input, forget, cell, output), tanh(c').
lstm_cell = Composite("lstm_cell", _lstm_cell, vjp=_lstm_cell_vjp, samples=_samples(4, 2))

# -- GRU -----------------------------------------------------------------------------------------


def _gru_cell(x: Any, h: Any, w_ih: Any, w_hh: Any, *biases: Any) -> tuple[Any, ...]:
    _check("gru_cell", 3, x, h, w_ih, w_hh, *biases)
    if biases:
        of_x = addmm(biases[0], x, _turned(w_ih))
    else:
        of_x = matmul(x, _turned(w_ih))
    of_h = matmul(h, _turned(w_hh))
    of_h = of_h + broadcast_to(biases[1], of_h.shape) if biases else of_h
    r_x, z_x, n_x = _gates(of_x, 3)
    r_h, z_h, n_h = _gates(of_h, 3)
    reset, update = e.sigmoid(r_x + r_h), e.sigmoid(z_x + z_h)
    new = e.tanh(n_x + reset * n_h)
    return new + update * (h - new), reset, update, new, n_h


def _gru_cell_vjp(
    gradients: Any, out: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, *biases: Any
) -> tuple[Any, ...]:
    by_h, by_reset, by_update, by_new, by_n_h = gradients
    _, reset, update, new, n_h = out

    @cache
    def kept() -> Any:
        return None if by_h is None else by_h * update

    @cache
    def by_n() -> Any:
        """The gradient of what tanh is taken of."""
        total = _sum(None if by_h is None else by_h - kept(), by_new)
        return None if total is None else _tanh_back(total, new)

    @cache
    def by_r_and_z() -> tuple[Any, Any]:
        of_reset = _sum(None if by_n() is None else by_n() * n_h, by_reset)
        of_update = _sum(None if by_h is None else by_h * (h - new), by_update)
        return (
            None if of_reset is None else _sigmoid_back(of_reset, reset),
            None if of_update is None else _sigmoid_back(of_update, update),
        )

    @cache
    def by_x() -> Any:
        return _joined([*by_r_and_z(), by_n()], new)

    @cache
    def by_hidden() -> Any:
        of_n_h = _sum(None if by_n() is None else by_n() * reset, by_n_h)
        return _joined([*by_r_and_z(), of_n_h], new)

    of_x, of_h, of_w_ih, of_w_hh = _of_products(by_x, by_hidden, x, h, w_ih, w_hh)
    of_biases = (
        lambda: r.sum(by_x(), axes=(0,)),
        lambda: r.sum(by_hidden(), axes=(0,)),
    )  # fmt: skip
    return of_x, lambda: _sum(kept(), of_h()), of_w_ih, of_w_hh, *of_biases[: len(biases)]


# Results: h', the gates (reset, update, new), and the hidden state's part of the last.
gru_cell = Composite("gru_cell", _gru_cell, vjp=_gru_cell_vjp, samples=_samples(3, 1))
