"""One kernel of an eager op for all sizes: bits, what is compiled, and what is kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.engine.eager.kernels import kernel_families, native_ops, pointwise
from frontend.engine.tensors.bounded import Bounded
from frontend.nn import functional as F
from frontend.utils.data import DataLoader, Dataset
from graphc.runtime import compile as compiling

pytestmark = pytest.mark.usefixtures("fresh_native")


def rows(*shape: int) -> Any:
    numbers = np.random.default_rng(sum(shape)).standard_normal(shape)
    return torch.tensor(numbers, dtype=torch.float32)


# -- bits ----------------------------------------------------------------------------------------

SIZES = ((4, 6), (7, 6), (2, 5), (1, 3), (5, 1), (0, 4), (3, 3))
CALLS: dict[str, Callable[[int, int], Any]] = {
    "pointwise": lambda n, m: F.gelu(rows(n, m) * 2.0) + rows(m, n).t(),
    "bias": lambda n, m: rows(n, 3, m) + rows(3, 1),
    "product": lambda n, m: (rows(n, m) @ rows(m, 4), rows(n, m).t() @ rows(n, 3)),
    "linear": lambda n, m: F.linear(rows(n, m), rows(4, m), rows(4)),
    "batches": lambda n, m: rows(n, 2, m) @ rows(n, m, 3),
    "sums": lambda n, m: (rows(n, m).sum(0), rows(n, m).sum(1), rows(n, m).mean()),
    "rows": lambda n, m: (rows(n, m).log_softmax(1), F.layer_norm(rows(n, m), (m,))),
    "movements": lambda n, m: (torch.cat([rows(n, m)] * 2, 1), F.pad(rows(n, m), (1, 2))),
    "order": lambda n, m: (rows(n, m).cumsum(0), *torch.sort(rows(n, m), 1)),
    "numbers": lambda n, m: (torch.arange(n + m), torch.rand(n, m)),
    "table": lambda n, m: F.embedding(torch.arange(n) % 3, rows(3, m)),
    "attention": lambda n, m: F.scaled_dot_product_attention(rows(n, 5), rows(m, 5), rows(m, 6)),
    "image": lambda n, m: F.max_pool2d(F.conv2d(rows(n, 2, 6, 6), rows(m, 2, 3, 3)), 2),
}


def values(results: Any) -> list[Any]:
    return [x.numpy().copy() for x in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CALLS)
def test_each_size_has_the_bits_of_the_kernel_for_that_size(
    name: str, same_bits: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(n: int, m: int) -> list[Any]:
        torch.manual_seed(1)
        return values(CALLS[name](n, m))

    families = [run(n, m) for n, m in SIZES]
    for module, known in ((kernel_families, "_FAMILIES"), (native_ops, "_MEMO")):
        monkeypatch.setattr(module, known, {})
    monkeypatch.setitem(torch.engine.tensors.state.PREPARED, "native", {})
    # Nothing open and nothing merged: every call is compiled for its numbers.
    monkeypatch.setattr(
        kernel_families, "openings", lambda op, types, numbers, *rest: iter([tuple(numbers)])
    )
    monkeypatch.setattr(native_ops, "is_pointwise", lambda *call: False)
    torch.set_eager_backend("numpy")
    torch.set_eager_backend("native")
    for (n, m), results in zip(SIZES, families):
        same_bits(results, run(n, m), f"{name} at {n}, {m}")


# -- what is compiled ----------------------------------------------------------------------------


def test_a_further_size_compiles_nothing(programs: list[str]) -> None:
    w = rows(5, 4)

    def step(n: int) -> None:
        x = rows(n, 5)
        (x @ w).sum(0)
        x.t() @ x
        F.softmax(x, 1) * 2.0
        F.conv2d(rows(n, 1, 4, 4), rows(2, 1, 3, 3))

    for n in (3, 33):  # convolutions of many images may have another kernel
        step(n)
    known = sorted(programs)
    for n in (9, 4, 5, 64):
        step(n)
    assert sorted(programs) == known
    assert set(known) == {"conv", "matmul", "mul", "softmax", "sum"} and len(known) <= 7


def test_shapes_and_ranks_share_the_kernels_of_pointwise_ops(programs: list[str]) -> None:
    for shape in ((3, 4), (7,), (), (2, 1, 5), (0, 3), (1, 1)):
        assert (rows(*shape) + rows(*shape)).shape == shape
    (rows(4, 2, 3, 5) + rows(1, 2, 1, 1), rows(6, 8, 7) + rows(8, 1))  # three merged axes
    assert programs == ["add", "add"]


def test_an_axis_that_all_operands_are_broadcast_along_is_an_axis() -> None:
    x = rows(4)
    assert torch.equal(x * 2.0, x + x)  # a vector by a number
    spread = x[:, None].expand(4, 3)
    assert torch.equal((spread * 2.0)[:, 2], x + x)
    assert torch.equal((spread + spread)[:, 1], x + x)


def test_what_inference_needs_as_a_number_is_one(programs: list[str]) -> None:
    for n in (5, 9, 5):
        line = torch.arange(n) * 2.0
        assert torch.searchsorted(line, line + 1).tolist() == [*range(1, n + 1)]


def test_what_a_model_fixes_is_open_once_it_was_seen_to_differ(programs: list[str]) -> None:
    for n in range(2, 12):
        rows(6, n).sum(1)
    assert len(programs) == kernel_families.SPECIAL + 1


def test_widths_of_layers_stay_numbers() -> None:
    """However many a model has: products with several open sizes have plain code."""
    for width in range(11):
        F.linear(rows(5, 4 + width), rows(20 + 3 * width, 4 + width))
    (known,) = [f for f in kernel_families._FAMILIES.values() if f.op.name == "matmul"]
    assert all({type(slot) for slot in v.slots[1:]} == {int} for v in known._variants)
    assert len(known._variants) == 11


def test_a_context_that_grows_compiles_attention_no_more(programs: list[str]) -> None:
    for n in range(2, 9 + kernel_families.SPECIAL):
        F.scaled_dot_product_attention(rows(1, 2, 1, 8), rows(1, 2, n, 8), rows(1, 2, n, 8))
    assert programs.count("attention") == kernel_families.SPECIAL + 1


def test_what_does_not_lower_with_open_sizes_is_remembered(
    monkeypatch: pytest.MonkeyPatch, programs: list[str]
) -> None:
    from graphc.errors import UndecidedSizeError
    from graphc.ir.symbols import symbols_of

    noted = compiling.program_for

    def of_numbers(graph: Any, example: Any, **options: Any) -> Any:
        program = noted(graph, example, **options)
        if symbols_of(graph):
            raise UndecidedSizeError("a recipe for numbers")
        return program

    monkeypatch.setattr(compiling, "program_for", of_numbers)
    monkeypatch.setenv("GRAPHC_CACHE", "off")
    for n in (3, 4, 5):
        assert rows(n, 7).cumsum(0).shape == (n, 7)
    (known,) = kernel_families._FAMILIES.values()
    assert known.refused == ["a recipe for numbers"] * 2
    assert programs == ["cumsum"] * 4  # what failed, then three sizes


def test_what_is_given_up_of_a_general_call_is_proposed_to_others() -> None:
    """A mask for every example holds its number of examples: each has a kernel of its own."""

    def masked(n: int, columns: int) -> None:
        mask = rows(n, 3, columns) == rows(n, 3, columns)
        x = rows(n, columns, 4)
        result = F.scaled_dot_product_attention(rows(n, 3, 4), x, x, attn_mask=mask)
        assert result.shape == (n, 3, 4)

    for n in range(2, 6 + kernel_families.SPECIAL):
        masked(n, 5)
    masked(40, 9)


def test_a_new_size_costs_few_calls() -> None:
    def run(n: int) -> None:
        F.softmax(rows(n, 6), 1)

    def calls(n: int) -> int:
        x, count = rows(n, 6), 0

        def note(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            F.softmax(x, 1)
        finally:
            sys.setprofile(None)
        return count

    run(3)
    calls(4)
    assert calls(5) < 300  # compiling takes ten thousand and more


def test_the_error_of_operands_that_do_not_fit_is_that_of_inference() -> None:
    rows(3, 4) @ rows(4, 2)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        rows(3, 4) @ rows(3, 2)


# -- what is kept --------------------------------------------------------------------------------


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ops go on when what they know has been dropped."""
    tables: list[Bounded[Any, Any]] = []
    for module, name in (
        (kernel_families, "_FAMILIES"), (pointwise, "_VARIANTS"), (native_ops, "_MEMO"),
    ):  # fmt: skip
        assert isinstance(getattr(module, name), dict)
        tables.append(Bounded(5))
        monkeypatch.setattr(module, name, tables[-1])
    for n in range(2, 30):
        x = rows(n, 4)
        assert torch.equal((x + x).sum(0), x.sum(0) * 2)
        assert torch.equal(x.t() * x.t(), (x * x).t())
        assert max(map(len, tables)) <= 5
    assert all(tables)


def test_a_folder_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that nobody can make, not even the superuser."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path / "file" / "kernels"))
    for n in (3, 5):
        assert torch.equal(rows(n, 11).cumprod(1)[:, 0], rows(n, 11)[:, 0])
    assert (tmp_path / "file").read_text() == ""


class _Squares(Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        x = rows(index + 2, 3)
        return (x @ rows(3, 2)).sum() * 2.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_forked_workers_compute_natively() -> None:
    expected = [_Squares()[i].item() for i in range(6)]
    loaded = [x.item() for x in DataLoader(_Squares(), batch_size=None, num_workers=2)]
    assert loaded == expected
