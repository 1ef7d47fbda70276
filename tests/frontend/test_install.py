"""`install_as`: torch's names on the frontend's modules."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import frontend


def test_every_name_is_the_frontends_own() -> None:
    code = """
import sys, frontend
handle = frontend.install_as("torch")
import torch, torch.nn as nn, torch.nn.functional as F, torch.optim.lr_scheduler
from torch.nn.modules.module import Module
from torch.utils.data import DataLoader
from torch import autograd
import torch.jit, torch.amp
assert torch.torch is torch
import importlib.metadata as metadata
assert metadata.version("torch") == torch.__version__ == "2.13.0+graphc"
assert metadata.distribution("torch").metadata["Name"] == "torch"
assert "torch" in metadata.packages_distributions()["torch"]
from importlib.machinery import PathFinder
if PathFinder.find_spec("torchvision") is None:
    import torchvision.transforms
    assert torchvision is frontend.vision
assert torch.Tensor.__module__ == "torch" and repr(torch.ones(1)) == "tensor([1.])"
assert repr(nn.Parameter(torch.ones(1))).startswith("Parameter containing:\\ntensor([1.]")
import functorch
assert functorch.vmap is torch.func.vmap and not hasattr(functorch, "dim")
assert torch is frontend and nn is frontend.nn and F is frontend.nn.functional
assert Module is frontend.nn.Module and DataLoader is frontend.utils.data.DataLoader
assert torch.optim.lr_scheduler.StepLR is frontend.optim.lr_scheduler.StepLR
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "torch":
        own = sys.modules["frontend" + name[len("torch"):]]
        called = "torch" if name == "torch" else own.__name__  # as packages ask of it
        assert module is own and module.__name__ == called, name
        assert called.startswith("frontend") or own is frontend, name
        assert module.__spec__.name.startswith("frontend"), name
try:
    import torch.quantum
except ModuleNotFoundError as error:
    assert "torch.quantum" in str(error)
else:
    raise AssertionError
handle.remove()
assert not {"torch", "functorch"} & sys.modules.keys()
assert frontend.__name__ == "frontend"
assert frontend.Tensor.__module__.startswith("frontend.engine.")
assert all("graphc" not in each.version for each in metadata.distributions(name="torch"))
print("done")
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert result.stdout == "done\n", result.stderr


def test_distributions_are_found_where_pytorch_has_them() -> None:
    code = """
import frontend
frontend.install_as("torch")
from torch.distributions.beta import Beta
from torch.distributions.studentT import StudentT
from torch.distributions.half_cauchy import HalfCauchy
from torch.distributions.mixture_same_family import MixtureSameFamily
import torch.distributions.one_hot_categorical
ours = frontend.distributions
assert Beta is ours.Beta and StudentT is ours.StudentT and HalfCauchy is ours.HalfCauchy
assert torch.distributions.one_hot_categorical.OneHotCategorical is ours.OneHotCategorical
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_module_of_that_name_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "somebody", ModuleType("somebody"))
    with pytest.raises(RuntimeError, match="somebody is imported already"):
        frontend.install_as("somebody")
