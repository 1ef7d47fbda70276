"""`torch.utils.flop_counter` against numbers worked out by hand; beside PyTorch in peers."""

from __future__ import annotations

from typing import Any

import pytest

import frontend as torch
from frontend import nn
from frontend.engine.tensors.state import STATE
from frontend.ops import aten
from frontend.utils.flop_counter import FlopCounterMode


def net() -> Any:
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.Flatten(), nn.Linear(36, 5))


def of(counter: Any, name: str) -> dict[str, int]:
    return {str(operator): flops for operator, flops in counter.get_flop_counts()[name].items()}


# 2 images, 4 channels of 3 by 3 places, filters of 3 by 3 by 3; then 2 rows of 36 by 5.
CONV, LINEAR = 2 * 2 * 4 * 9 * 27, 2 * 2 * 36 * 5
STEP = {
    "aten.convolution": CONV, "aten.convolution_backward": CONV, "aten.addmm": LINEAR,
    "aten.mm": 2 * LINEAR,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_step_is_counted_by_module_and_operator(backend: str) -> None:
    """The gradient of the images is not asked for: one of the two that a convolution has."""
    model, before = net(), torch.get_eager_backend()
    torch.set_eager_backend(backend)
    try:
        with FlopCounterMode(display=False) as counter:
            for _ in range(2):
                model(torch.randn(2, 3, 8, 8)).sum().backward()
    finally:
        torch.set_eager_backend(before)
    twice = {name: 2 * flops for name, flops in STEP.items()}
    assert of(counter, "Global") == of(counter, "Sequential") == twice
    assert of(counter, "Sequential.0") == {
        name: flops for name, flops in twice.items() if "convolution" in name
    }
    assert of(counter, "Sequential.2") == {"aten.addmm": 2 * LINEAR, "aten.mm": 4 * LINEAR}
    assert counter.get_total_flops() == sum(twice.values())
    assert counter.get_flop_counts()["Global"][aten.mm] == 4 * LINEAR
    assert STATE.observer is None and not model[0]._forward_hooks


def test_a_compiled_step_is_counted_by_its_graphs() -> None:
    run = torch.compile(net(), fullgraph=True)
    x = torch.randn(2, 3, 8, 8)
    run(x)
    with FlopCounterMode(display=False) as counter:
        run(x).sum().backward()
    assert of(counter, "Global") == STEP
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run(x)
    assert counter.get_total_flops() == CONV + LINEAR


def test_loops_batches_and_attention() -> None:
    with FlopCounterMode(display=False) as counter:
        torch.bmm(torch.ones(3, 2, 4), torch.ones(3, 4, 5))
        q = torch.ones(1, 2, 5, 8)
        nn.functional.scaled_dot_product_attention(q, q, q)
    scores = 2 * 2 * 5 * 5 * 8
    expected = {"aten.bmm": 2 * 3 * 2 * 4 * 5, "aten.scaled_dot_product_attention": 2 * scores}
    assert of(counter, "Global") == expected
    rnn = nn.RNN(8, 4)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        rnn(torch.ones(7, 2, 8))
    assert counter.get_total_flops() == 2 * 7 * 2 * (8 + 4) * 4


def test_a_table_is_printed_and_others_look_on_too(capsys: pytest.CaptureFixture[str]) -> None:
    model, x = net(), torch.randn(2, 3, 8, 8)
    with torch.profiler.profile() as profile, FlopCounterMode(depth=1) as counter:
        model(x)
    assert any(event.name == "conv" for event in profile.events())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if "Sequential" in line] == [
        ["Sequential", "4.608K", "100.00%"]
    ]
    assert "Sequential.0" in counter.get_table(depth=2)
    ones = FlopCounterMode(display=False, custom_mapping={aten.mm: lambda a, b, out_shape: 7})
    with ones:
        torch.ones(2, 3) @ torch.ones(3, 4)
    assert ones.get_total_flops() == 7
