"""Low-rank adapters (LoRA) trained on top of a base whose weights are 4 bits: the base is read as
it is packed, in forward and in backward."""

from __future__ import annotations

from typing import Any

import numpy as np

import frontend as torch
from frontend import nn
from frontend.ao import quantization as ao
from graphc.ir.types import DType
from graphc.schedule.plan import kernels

INPUTS, INNER, OUTPUTS, ROWS = 64, 96, 128, 12


class WithAdapter(nn.Module):
    """A base, and a product of two thin matrices beside it."""

    def __init__(self, base: Any, rank: int) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: Any) -> Any:
        return self.base(x) + self.up(self.down(x))


def adapted() -> Any:
    torch.manual_seed(1)
    base = nn.Sequential(nn.Linear(INPUTS, INNER), nn.ReLU(), nn.Linear(INNER, OUTPUTS))
    ao.quantize_(base, ao.Int4WeightOnlyConfig(group_size=32))
    base.requires_grad_(False)
    return nn.Sequential(WithAdapter(base[0], 4), nn.ReLU(), WithAdapter(base[2], 4))


def trained(compiled: bool) -> tuple[Any, Any]:
    """The model after some steps, and the step."""
    model = adapted()
    adapters = [each for each in model.parameters() if each.requires_grad]
    assert len(adapters) == 4
    optimizer = torch.optim.SGD(adapters, lr=0.1)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step, fullgraph=True) if compiled else step
    torch.manual_seed(2)
    x, y = torch.randn(ROWS, INPUTS), torch.randn(ROWS, OUTPUTS)
    losses = [float(run(x, y)) for _ in range(3)]
    assert losses == sorted(losses, reverse=True)
    return model, run


def test_a_step_changes_the_adapters_alone_with_the_bits_of_eager_mode() -> None:
    before, (eager, _), (compiled, _) = adapted(), trained(False), trained(True)
    states = [model.state_dict() for model in (before, eager, compiled)]
    for name, first in states[0].items():
        second, third = (state[name].numpy() for state in states[1:])
        np.testing.assert_array_equal(second, third)
        assert np.array_equal(first.numpy(), second) == (".base." in name)


def test_no_kernel_stores_the_base() -> None:
    _, step = trained(True)
    ((specialization,),) = (step.specializations,)
    (executable,) = specialization.executables
    plan = executable.plan
    floats = {(INNER, INPUTS), (INPUTS, INNER), (OUTPUTS, INNER), (INNER, OUTPUTS)}
    for buffer in plan.buffers:
        assert buffer.type.dtype is not DType.f32 or buffer.type.shape not in floats
    base = OUTPUTS * INNER
    assert plan.arena_bytes < base * 4
    # Both layers forward, and backward the second: nobody wants the first one's input's gradient.
    readers = [
        kernel for kernel in kernels(plan)
        if any(x.dtype is DType.u8 and x.numel * 2 == base for x in kernel.body.input_types)
    ]  # fmt: skip
    assert len(readers) == 2 and all(kernel.recipe == "contract" for kernel in readers)
