"""Packed copies of weights that are not frozen: kept, bounded, seen to be outdated, let go."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.engine.compiled.packed_copies import PACKED
from frontend.engine.compiled.packing import PATIENCE, RETRY
from frontend.utils.dlpack import from_dlpack

X = torch.arange(8.0).reshape(2, 4) - 3


@pytest.fixture(autouse=True)
def without_grad() -> Iterator[None]:
    """No gradients, and the limit as it was at the end."""
    gc.collect()
    limit = torch.compiler.get_packing_limit()
    with torch.no_grad():
        yield
    torch.compiler.set_packing_limit(limit)


def product(w: Any) -> Any:
    """A compiled function that packs `w`."""
    return torch.compile(lambda x: x @ w.t(), threads=1)


def packing(function: Any) -> Any:
    return function.specializations[0].packing


def kept(function: Any) -> int:
    """Bytes of packed copies that a function keeps."""
    return sum(copy.array.nbytes for copy in packing(function).copies())


def agrees(function: Any, w: Any) -> bool:
    """Whether a call gives what the weight says now."""
    expected = X.detach()._value @ np.array(w.detach()._value).T
    return np.allclose(function(X)._value, expected, atol=1e-5)


def test_a_weight_is_packed_once() -> None:
    w = torch.randn(6, 4)
    f = product(w)
    f(X)
    copies = packing(f).copies()
    assert len(copies) == 1 and PACKED.bytes >= kept(f) > 0
    for _ in range(3):
        assert agrees(f, w)
    assert packing(f).copies() == copies and packing(f).computed == 1
    assert (
        f"packed copies: {kept(f):,} bytes kept of 1 of 1 values, 1 computed so far" in f.explain()
    )


def test_the_bits_are_those_without_packing() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
        nn.Linear(8 * 16, 10),
    ).eval()  # fmt: skip
    x = torch.randn(2, 3, 4, 4)
    packed, plain = torch.compile(net), torch.compile(net, max_bytes=1 << 20)
    for _ in range(2):
        assert packed(x)._value.tobytes() == plain(x)._value.tobytes()
        net[0].weight.mul_(1.5)
        net[1].running_var.add_(1)
    assert packing(packed).copies() and packing(plain) is None, "max_bytes leaves no room"


def test_two_functions_share_a_copy() -> None:
    w = torch.randn(6, 4)
    f, g = product(w), product(w)
    assert agrees(f, w) and agrees(g, w)
    assert packing(f).copies() == packing(g).copies() and packing(g).computed == 0
    w.add_(1)
    assert agrees(f, w) and agrees(g, w)


def test_only_under_no_grad() -> None:
    w = torch.randn(6, 4)
    f = product(w)
    with torch.enable_grad():
        f(X)
    assert packing(f) is None


WRITES: dict[str, Callable[[Any], Any]] = {
    "in place": lambda w: w.mul_(2),
    "index": lambda w: w.__setitem__(0, 2.0),
    "view": lambda w: w[1:].zero_(),
    "view kept": lambda w: w.t()[0].add_(3),
    "detached": lambda w: w.detach().fill_(2),
    "data": lambda w: w.data.add_(1),
    "data assigned": lambda w: setattr(w, "data", torch.ones(6, 4)),
    "out": lambda w: torch.add(w, 1, out=w),
    "resized": lambda w: w.resize_(6, 4).add_(1),
    "set": lambda w: w.set_(torch.ones(6, 4)),
    "compiled": lambda w: torch.compile(lambda v, x: v.add_(x.sum()))(w, X),
    "compiled, captured": lambda w: torch.compile(lambda x: w.add_(x.sum()))(X),
    "frozen meanwhile": lambda w: torch.unfreeze(torch.freeze(w)).mul_(2),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_seen(write: str) -> None:
    w = torch.randn(6, 4)
    f = product(w)
    f(X)
    WRITES[write](w)
    assert agrees(f, w) and agrees(f, w)


@pytest.mark.parametrize("function", ["t_", "unsqueeze_"])
def test_another_shape_in_place_is_seen(function: str) -> None:
    """Such a method gives a tensor another array, which binding has to look up again."""
    w = torch.arange(16.0).reshape(4, 4)
    f = torch.compile(lambda x: x @ w)
    f(X)
    w.t_() if function == "t_" else w.unsqueeze_(0)
    assert f(X).tolist() == (X @ w).tolist()


HANDED_OUT: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda w: w.numpy(),
    "numpy of a view": lambda w: w[0].numpy(),
    "numpy of data": lambda w: w.data.numpy(),
    "asarray": np.asarray,
    "dlpack": np.from_dlpack,
    "capsule": lambda w: from_dlpack(w)._value,
    "storage": lambda w: w.untyped_storage()._elements.view(np.float32),
    "as_strided": lambda w: w.as_strided((24,), (1,))._value,
    "data_ptr": lambda w: (w.data_ptr(), w._value)[1],
}


@pytest.mark.sampled(54)
@pytest.mark.parametrize("way", HANDED_OUT)
@pytest.mark.parametrize("before", [False, True])
def test_memory_that_was_handed_out_is_not_trusted(way: str, before: bool) -> None:
    w = torch.randn(6, 4)
    if before:
        array = HANDED_OUT[way](w)
    f = product(w)
    f(X)
    if not before:
        array = HANDED_OUT[way](w)
    for _ in range(PATIENCE + 3):
        array[...] += 1
        assert agrees(f, w)
    assert packing(f) is None or not packing(f).copies()


TAKEN_IN: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "from_numpy": lambda array, path: torch.from_numpy(array),
    "as_tensor": lambda array, path: torch.as_tensor(array),
    "asarray": lambda array, path: torch.asarray(array),
    "dlpack": lambda array, path: from_dlpack(array),
    "buffer": lambda array, path: torch.frombuffer(array, dtype=torch.float32).reshape(6, 4),
    "memory map": lambda array, path: torch.from_numpy(_mapped(array, path)),
    "parameter": lambda array, path: nn.Parameter(torch.from_numpy(array)),
}


def _mapped(array: np.ndarray, path: Path) -> np.ndarray:
    array.tofile(path)
    return np.memmap(path, np.float32, "r+", shape=array.shape)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", TAKEN_IN)
def test_memory_from_outside_is_not_trusted(way: str, tmp_path: Path) -> None:
    array = np.ones((6, 4), np.float32)
    w = TAKEN_IN[way](array, tmp_path / "array")
    f = product(w)
    for _ in range(2):
        assert agrees(f, w)
        (w._value if way == "memory map" else array)[...] *= 2
        assert agrees(f, w)
    assert packing(f) is None


def test_memory_of_a_mapped_file_is_not_trusted(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(6, 4)}, tmp_path / "w.pt")
    torch.safetensors.save_file({"w": torch.ones(6, 4)}, tmp_path / "w.safetensors")
    for w in (
        torch.load(tmp_path / "w.pt", mmap=True)["w"],
        torch.safetensors.load_file(tmp_path / "w.safetensors")["w"],
    ):
        f = product(w)
        assert agrees(f, w) and packing(f) is None


def test_data_assigned_from_a_tensor_that_lives_is_not_trusted() -> None:
    w, other = torch.randn(6, 4), torch.randn(6, 4)
    w.data = other
    f = product(w)
    for _ in range(2):
        assert agrees(f, w)
        other.add_(1)
    del other
    g = product(w)
    assert agrees(g, w) and kept(g), "nobody else counts writes any more"
    assert not (w.data, w)[0].equal(w + 1)
    assert agrees(g, w) and kept(g)


def test_data_of_a_kept_tensor_is_not_trusted_while_it_lives() -> None:
    w = torch.randn(6, 4)
    f = product(w)
    f(X)
    part = w.data[1:]
    for _ in range(2):
        part.add_(1)
        assert agrees(f, w) and not kept(f)
    del part
    w.add_(1)
    assert agrees(f, w) and kept(f), "it looks again where a write is counted"
    w.data = w.data.contiguous()
    w.data = w.data.clone()
    assert agrees(f, w) and kept(f)


def test_a_copy_goes_with_the_write() -> None:
    w = torch.randn(60, 40)
    f, before = torch.compile(lambda x: x @ w), PACKED.bytes
    f(torch.ones(2, 60))
    assert PACKED.bytes > before
    w.add_(1)
    assert PACKED.bytes == before, "at once, not at the next call"


def test_copies_go_with_the_function_and_the_weight() -> None:
    before = PACKED.bytes
    net = nn.Linear(64, 64).eval()
    f = torch.compile(net)
    f(torch.ones(2, 64))
    assert PACKED.bytes > before
    del f, net
    gc.collect()
    assert PACKED.bytes == before


def test_the_least_recently_used_go_first() -> None:
    weights = [torch.randn(64, 4) for _ in range(3)]
    functions = [product(w) for w in weights]
    functions[0](X)
    size = kept(functions[0])
    torch.compiler.set_packing_limit(PACKED.bytes + size)
    functions[1](X)
    functions[0](X)  # the other one was used before this
    functions[2](X)
    assert [kept(f) for f in functions] == [size, 0, size]
    assert all(agrees(f, w) for f, w in zip(functions, weights))
    torch.compiler.set_packing_limit(0)
    assert PACKED.bytes == 0
    assert all(agrees(f, w) for f, w in zip(functions, weights))
    assert not any(map(kept, functions))


def test_what_is_larger_than_the_limit_is_not_packed() -> None:
    torch.compiler.set_packing_limit(100)
    f = product(w := torch.randn(64, 4))
    assert agrees(f, w) and packing(f) is None


@pytest.mark.parametrize("limit, error", [(-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_a_limit_is_a_number_of_bytes(limit: Any, error: Any) -> None:
    with pytest.raises(error, match="set_packing_limit"):
        torch.compiler.set_packing_limit(limit)


def test_weights_written_between_all_calls_are_not_packed() -> None:
    w = torch.randn(6, 4)
    f = product(w)
    for _ in range(PATIENCE + 3):
        assert agrees(f, w)
        w.add_(1)
    assert packing(f).computed <= PATIENCE + 1 and not kept(f)
    assert "packed copies: none kept" in f.explain()
    for _ in range(RETRY):
        f(X)
    w.requires_grad_().requires_grad_(False)  # something that makes it look
    assert agrees(f, w) and kept(f)


def test_one_weight_of_many_that_changes_is_computed_alone() -> None:
    large, small = torch.randn(40, 4), torch.randn(2, 4)
    f = torch.compile(lambda x: (x @ large.t(), x @ (small * 2).t()))
    f(X)
    computed = packing(f).computed
    for _ in range(PATIENCE + 3):
        small.add_(1)
        assert np.allclose(f(X)[1]._value, (X @ (small * 2).t())._value, atol=1e-5)
    assert packing(f).computed == computed + PATIENCE + 3, "large is not computed again"


def test_a_call_costs_no_more_python_than_a_frozen_one() -> None:
    def calls(function: Any) -> list[str]:
        seen: list[str] = []
        function(X)
        function(X)
        sys.setprofile(lambda frame, event, _: seen.append(f"{event} {frame.f_code.co_name}"))
        function(X)
        sys.setprofile(None)
        return seen

    w = torch.randn(6, 4)
    packed = product(w)
    assert calls(packed) == calls(product(torch.freeze(w.clone()))) and kept(packed)


def test_writes_in_another_thread() -> None:
    """Whatever a call saw that ran beside a write, the call behind it is right."""
    w = torch.zeros(64, 4)
    f = product(w)
    f(X)
    for value in range(50):
        thread = threading.Thread(target=lambda: w.fill_(float(value)))  # noqa: B023
        thread.start()
        f(X)
        thread.join()
        assert agrees(f, w)


def test_what_is_put_back_after_a_run_is_not_taken_for_what_came_between() -> None:
    """`verify` runs a function eagerly and puts back what it wrote, counts too."""
    w = torch.randn(6, 4)
    f = product(w)

    def writes(x: Any) -> Any:
        w.add_(1)
        seen.append(f(X) if not torch.compiler.is_compiling() else None)
        return x

    seen: list[Any] = []
    f(X)
    torch.compile(writes).verify(X)
    w.mul_(2)
    assert agrees(f, w)


def test_an_interrupt_leaves_nothing_outdated() -> None:
    """At drawn lines of binding and packing, behind a write."""
    w = torch.randn(6, 4)
    f = product(w)
    f(X)
    places = ("packing.py", "memory_tracking.py", "specialization.py")
    for after in range(0, 120, 5):
        left = after

        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal left
            if not frame.f_code.co_filename.endswith(places):
                return trace if event == "call" else None
            left -= event == "line"
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        w.add_(1)
        sys.settrace(trace)
        try:
            f(X)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert agrees(f, w)
        w.numpy() if after == 60 else None
        assert agrees(f, w)
