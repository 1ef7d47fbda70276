"""Names of PyTorch's that packages ask for: what they are here, without PyTorch."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from frontend._dynamo.eval_frame import OptimizedModule
from frontend.futures import Future, collect_all, wait_all


@pytest.mark.parametrize(
    "name, instead",
    [
        ("TensorType", "torch.fx.symbolic_trace"), ("SymInt", "isinstance"),
        ("Stream", "one device"),
        ("sparse.SparseSemiStructuredTensor", "COO"), ("distributed.rpc.RRef", "send_object_list"),
        ("fx.experimental.proxy_tensor.make_fx", "torch.export"),
        ("_C.Graph", "TorchScript"),
        ("utils.checkpoint.create_selective_checkpoint_contexts", "saved_bytes"),
        ("_C._functorch._add_batch_dim", "vmap"), ("_subclasses.FakeTensor", "meta"),
    ],
)  # fmt: skip
def test_what_is_not_here_says_what_to_use(name: str, instead: str) -> None:
    place: Any = torch
    for part in name.split(".")[:-1]:
        place = getattr(place, part, None) or __import__(f"{place.__name__}.{part}", fromlist=["x"])
    absent = getattr(place, name.rpartition(".")[2])
    assert not isinstance(torch.ones(1), absent)
    with pytest.raises(NotImplementedError, match=instead):
        absent()


def test_families_have_the_class_they_derive_from() -> None:
    from frontend.distributions.multivariate_normal import Distribution

    assert Distribution is torch.distributions.Distribution


def test_functional_is_what_torch_has() -> None:
    from frontend import functional

    assert functional.einsum is torch.einsum
    assert all(getattr(functional, name) is getattr(torch, name) for name in functional.__all__)


def test_a_future_is_given_its_value_by_a_thread() -> None:
    future: Future[int] = Future()
    twice = future.then(lambda done: done.value() * 2)
    with pytest.raises(RuntimeError, match="no value yet"):
        future.value()
    threading.Thread(target=future.set_result, args=(3,)).start()
    assert future.wait() == 3 and twice.wait() == 6
    assert wait_all([future, twice]) == [3, 6] and collect_all([]).wait() == []
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        future.set_result(4)
    failing = future.then(lambda done: 1 // 0)
    with pytest.raises(ZeroDivisionError, match="division"):
        failing.wait()
    with pytest.raises(ZeroDivisionError, match="division"):
        wait_all([future, failing])


def test_tensors_by_device_and_dtype() -> None:
    from frontend.utils._foreach_utils import _group_tensors_by_device_and_dtype as grouped

    a, b, c = torch.ones(1), torch.ones(2, dtype=torch.float64), torch.ones(3)
    groups = grouped([[a, b, c], [c, b, None], []], with_indices=True)
    (floats, places), (doubles, second) = groups.values()
    assert [list(map(id, each)) for each in floats] == [[id(a), id(c)], [id(c), id(None)], []]
    assert places == [0, 2] and second == [1] and doubles[0][0] is b
    with pytest.raises(RuntimeError, match="must be Tensors"):
        grouped([[None]])


def test_how_tensors_print() -> None:
    from frontend._tensor_str import PRINT_OPTS, _tensor_str, printoptions

    assert PRINT_OPTS.precision == 4
    with printoptions(precision=2):
        assert PRINT_OPTS.precision == 2
        assert _tensor_str(torch.tensor([1.23456, 2]), 8) == "[1.23, 2.00]"
    assert PRINT_OPTS.precision == 4


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.scale = 2

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.scale


def test_a_compiled_module_is_a_module_around_it() -> None:
    net = Net()
    compiled = torch.compile(net)
    x = torch.ones(1, 3)
    assert isinstance(compiled, OptimizedModule) and isinstance(compiled, nn.Module)
    assert compiled._orig_mod is net and compiled.layer is net.layer
    assert list(compiled.state_dict()) == ["_orig_mod.layer.weight", "_orig_mod.layer.bias"]
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in net.parameters()]
    assert (compiled(x) == net(x)).all() and (compiled.forward(x) == net(x)).all()
    compiled.scale = 3
    assert net.scale == 3 and (compiled(x) == net(x)).all()
    compiled.eval()
    assert not net.training and not compiled.training and not net.layer.training
    del compiled.scale
    assert not hasattr(net, "scale") and not hasattr(compiled, "scale")


def test_a_compiled_module_below_a_module() -> None:
    net: Any = nn.Sequential(nn.Linear(3, 3), Net())
    x = torch.ones(1, 3)
    before = net(x)
    net[1] = torch.compile(net[1], fullgraph=True)
    assert "1._orig_mod.layer.weight" in net.state_dict()
    assert (net(x) == before).all() and (torch.compile(net)(x) == before).all()
    seen = []
    handle = net[1].register_forward_hook(lambda module, args, result: seen.append(type(module)))
    net(x)
    handle.remove()
    assert seen == [Net]
    net[1].load_state_dict({name: value * 0 for name, value in net[1].state_dict().items()})
    assert (net(x) == 0).all()


def test_an_optimizer_that_never_made_itself_one() -> None:
    class Around(torch.optim.Optimizer):
        def __init__(self, optimizer: Any):
            self.optimizer = optimizer

        def step(self, closure: Any = None) -> Any:
            return self.optimizer.step(closure)

    p = nn.Parameter(torch.ones(1))
    p.grad = torch.ones(1)
    Around(torch.optim.SGD([p], lr=0.5)).step()
    assert p.tolist() == [0.5]


def test_a_group_has_to_say_what_is_required() -> None:
    from frontend.optim.optimizer import Optimizer, required

    p = nn.Parameter(torch.ones(1))
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        Optimizer([p], {"lr": required})
    assert Optimizer([{"params": [p], "lr": 1}], {"lr": required}).param_groups[0]["lr"] == 1


def test_numpy_of_what_requires_gradients() -> None:
    p = nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match="requires grad"):
        p.numpy()
    with torch.no_grad():
        assert p.numpy().tolist() == [1, 1]


def test_former_forms_of_numbers_and_tensors() -> None:
    x, a, b = torch.ones(3), torch.full((3,), 2.0), torch.full((3,), 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert x.clone().add_(0.5, a).tolist() == [2, 2, 2]
        assert torch.add(x, 0.5, a).tolist() == [2, 2, 2]
        assert x.clone().sub_(2, a).tolist() == [-3, -3, -3]
        assert x.clone().addcmul_(0.5, a, b).tolist() == [4, 4, 4]
        assert x.clone().addcdiv_(3, a, b).tolist() == [3, 3, 3]
        assert torch.addcmul(x, 0.5, a, b).tolist() == [4, 4, 4]
    assert [part.tolist() for part in torch.arange(3).split(split_size=2)] == [[0, 1], [2]]


def test_a_parameter_made_anew_from_the_attributes_of_another() -> None:
    """As accelerate's `init_empty_weights` does."""
    p = nn.Parameter(torch.ones(2))
    attributes = p.__dict__
    attributes["requires_grad"] = p.requires_grad
    q = type(p)(p.to("meta"), **attributes)
    assert q.is_meta and q.requires_grad and p.tolist() == [1, 1]
    p.note = 3
    with pytest.raises(TypeError, match="unexpected keyword argument 'note'"):
        type(p)(p.to("meta"), **p.__dict__)


def test_a_class_that_is_a_tensor_behind_another_base() -> None:
    """As MONAI's MetaTensor."""

    class Described:
        def __init__(self) -> None:
            self.about: dict[str, int] = {}

    class MetaTensor(Described, torch.Tensor):
        @staticmethod
        def __new__(cls, x: Any) -> Any:
            return torch.as_tensor(x).as_subclass(cls)

        def __init__(self, x: Any) -> None:
            super().__init__()

    x = MetaTensor(torch.ones(2, requires_grad=True))
    assert type(x) is MetaTensor and x.about == {} and type(x + 1) is MetaTensor
    (x * 2).sum().backward()


def test_variables_are_tensors_over_the_same_memory() -> None:
    x = torch.zeros(2)
    y = torch.autograd.Variable(x, requires_grad=True)
    z = torch.autograd.Variable(x, requires_grad=False)
    assert y.is_leaf and y.requires_grad and not z.requires_grad and not x.requires_grad
    (y * 3).sum().backward()
    z.add_(1)
    assert y.grad is not None and y.grad.tolist() == [3.0, 3.0] and x.tolist() == [1.0, 1.0]


def test_whether_tensors_lie_in_the_same_storage() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    alias = torch._C._is_alias_of
    assert alias(x, x[1]) and alias(x[0], x[1]) and alias(x.detach(), x.t())
    assert not alias(x, x.clone()) and not alias(x, torch.empty(6, device="meta"))


def test_whether_a_function_mode_is_on() -> None:
    enabled = torch._C._is_torch_function_mode_enabled
    assert not enabled()
    with torch.overrides.BaseTorchFunctionMode():
        assert enabled()
    assert not enabled()


def test_parameters_by_another_class() -> None:
    """As packages make of PyTorch's."""
    from frontend.nn.parameter import _ParameterMeta

    class Other(torch.Tensor, metaclass=_ParameterMeta):
        pass

    x = torch.ones(2)
    assert not isinstance(x, Other)
    x._is_param = True
    assert isinstance(x, Other) and isinstance(torch.ones(2).as_subclass(Other), Other)
    assert not isinstance(1, Other)


def test_a_parameter_whose_class_makes_it_from_other_arguments() -> None:
    """As geoopt's ManifoldParameter."""

    class Named(nn.Parameter):
        def __new__(cls, data: Any, name: str, *, scale: float, requires_grad: bool = True) -> Any:
            self = torch.Tensor._make_subclass(cls, data * scale, requires_grad)
            self.called = name
            return self

    p = Named(torch.ones(2), "p", scale=3.0)
    assert p.called == "p" and p.tolist() == [3.0, 3.0] and p.requires_grad and p.is_leaf
    net = nn.Module()
    net.weight = p
    assert [id(each) for each in net.parameters()] == [id(p)]
    (p * 2).sum().backward()
    assert p.grad is not None and p.grad.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="takes 2 arguments but 3"):
        nn.Parameter(torch.ones(2), True, "p")
