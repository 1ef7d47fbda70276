"""What PyTorch's `compile` is told by name: its own names pass, others are told."""

from __future__ import annotations

import warnings

import pytest

import frontend as torch


def test_pytorchs_modes_and_backends_pass_and_others_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"mode": "max-autotune"}, {"backend": "eager"}, {"mode": None}):
            assert torch.compile(lambda x: x + 1, **options)(torch.ones(1)).tolist() == [2.0]
        torch.compile(lambda x: x, backend=lambda graph, inputs: graph.forward)
    with pytest.warns(UserWarning, match="mode='max-autotun' is none of default, "):
        torch.compile(lambda x: x, mode="max-autotun")
    with pytest.warns(UserWarning, match="backend='inducktor' is none of inductor, "):
        torch.compile(backend="inducktor")


def test_former_names_of_amp_are_classes() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available") as told:
        scaler = torch.cuda.amp.GradScaler(init_scale=4.0)
    assert told[0].filename == __file__
    assert isinstance(scaler, torch.cuda.amp.GradScaler) and isinstance(
        scaler, torch.amp.GradScaler
    )

    class Mine(torch.cuda.amp.GradScaler):
        pass

    assert not Mine(enabled=False).is_enabled()
    with torch.cpu.amp.autocast() as region:
        assert isinstance(region, torch.amp.autocast)
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert isinstance(torch.cuda.amp.autocast(), torch.cuda.amp.autocast)


def test_names_around_pytorchs_compiler() -> None:
    torch._logging.set_logs(recompiles=True)
    torch._dynamo.config.compiled_autograd = True
    torch._dynamo.config.compiled_autograd = False
    torch._inductor.config.triton.unique_kernel_names = True
    torch._inductor.config.cpp.threads = 1
    torch._functorch.config.enable_autograd_cache = True
    assert torch._dynamo.utils.is_compile_supported("cpu")
    x = torch.ones(3, requires_grad=True)
    with torch._inductor.utils.fresh_inductor_cache():
        loss = torch.compile(lambda x: (x * x).sum())(x)
    with torch._dynamo.compiled_autograd._enable(torch.compile(fullgraph=True)):
        loss.backward()
    assert x.grad is not None and x.grad.tolist() == [2.0] * 3
