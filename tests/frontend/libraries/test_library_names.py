"""Names that other people's libraries import: what works works, what is not here says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.attention.flex_attention
from frontend import Tensor, nn
from frontend.nn.utils import parametrizations, parametrize
from frontend.utils import _pytree as pytree
from graphc.schedule.plan import kernels as graph_kernels


def test_an_operator_of_ones_own() -> None:
    @torch.library.custom_op("tests_names::cube", mutates_args=())
    def cube(x: Tensor, times: int = 1) -> Tensor:
        return x**3 * times

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    cube.register_autograd(lambda ctx, g: (g * 3 * ctx.saved_tensors[0] ** 2, None),
                           setup_context=keep)  # fmt: skip
    x = torch.tensor([2.0], requires_grad=True)
    torch.ops.tests_names.cube(x, 1).backward()
    assert x.grad.tolist() == [12.0]
    assert cube.operator.schema == "(Tensor x, SymInt times=1) -> Tensor"
    with pytest.raises(AttributeError, match="'tests_names' object has no attribute 'square'"):
        torch.ops.tests_names.square  # noqa: B018
    assert torch.ops.aten.add.Tensor(torch.ones(1), torch.ones(1)).tolist() == [2.0]
    assert not hasattr(torch.ops.aten, "frobnicate")


def test_script_gives_what_runs_the_same() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    scripted = torch.jit.script(model).eval()
    x = torch.ones(1, 2)
    assert scripted(x).tolist() == model(x).tolist() and not model.training
    assert scripted.state_dict().keys() == model.state_dict().keys()
    assert isinstance(scripted, torch.jit.ScriptModule)
    with pytest.raises(NotImplementedError, match="no TorchScript"):
        scripted.save("x.pt")
    assert torch.jit.isinstance([1, 2], list[int]) and not torch.jit.isinstance(["a"], list[int])


def test_weights_of_norm_and_direction() -> None:
    torch.manual_seed(0)
    layer, plain = nn.Linear(3, 2), nn.Linear(3, 2)
    plain.load_state_dict(layer.state_dict())
    parametrizations.weight_norm(layer)
    assert sorted(layer.state_dict()) == [
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1",
    ]  # fmt: skip
    x = torch.randn(4, 3)
    np.testing.assert_allclose(layer(x).detach(), plain(x).detach(), rtol=1e-6)
    with torch.no_grad():
        layer.parametrizations.weight.original0.mul_(2)
    np.testing.assert_allclose(layer.weight.detach(), 2 * plain.weight.detach(), rtol=1e-6)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter)
    old = nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(3, 2)))
    assert sorted(old.state_dict()) == ["bias", "weight"]


def test_spectral_norm_divides_by_the_greatest_singular_value() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(4, 3)
    greatest = np.linalg.svd(layer.weight.detach().numpy())[1][0]
    before = layer.weight.detach().numpy().copy()
    parametrizations.spectral_norm(layer, n_power_iterations=50)
    np.testing.assert_allclose(layer.weight.detach(), before / greatest, rtol=1e-4)


def test_a_fused_layer_does_what_both_did() -> None:
    torch.manual_seed(0)
    conv, norm = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
    norm(conv(torch.randn(4, 2, 6, 6)))
    conv.eval(), norm.eval()
    x = torch.randn(2, 2, 6, 6)
    fused = nn.utils.fuse_conv_bn_eval(conv, norm)
    np.testing.assert_allclose(fused(x).detach(), norm(conv(x)).detach(), rtol=1e-4, atol=1e-5)


def test_one_process_is_what_distributed_names_know() -> None:
    assert torch.distributed.is_available() and not torch.distributed.is_initialized()
    with pytest.raises(ValueError, match="has not been initialized"):
        torch.distributed.get_rank()
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    x = torch.randn(2, 1, 3, 3)
    expected = model(x).tolist()
    synchronized = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(synchronized[1]) is nn.SyncBatchNorm
    assert nn.DataParallel(synchronized)(x).tolist() == expected
    sampler = torch.utils.data.DistributedSampler(range(5), 2, 1, shuffle=False)
    assert list(sampler) == [1, 3, 0]


def test_nests_are_taken_apart_and_put_together() -> None:
    nest = {"a": [1, (2, 3)], "b": 4}
    leaves, spec = pytree.tree_flatten(nest)
    assert leaves == [1, 2, 3, 4] and pytree.tree_unflatten(leaves, spec) == nest
    assert pytree.tree_map(lambda x: -x, nest) == {"a": [-1, (-2, -3)], "b": -4}
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(nest)[0]]
    assert paths == ["['a'][0]", "['a'][1][0]", "['a'][1][1]", "['b']"]
    with pytest.raises(ValueError, match="4 items"):
        pytree.tree_unflatten([1], spec)


def test_guards_by_dispatch_keys_leave_autocast_out() -> None:
    x = torch.ones(2, 2)
    key = torch._C.DispatchKey
    with torch.autocast("cpu"):
        assert (x @ x).dtype is torch.bfloat16
        keys = torch._C.DispatchKeySet(key.AutocastCPU) | torch._C.DispatchKeySet(key.AutocastCUDA)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            assert (x @ x).dtype is torch.float32
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key.AutocastCUDA)):
            assert (x @ x).dtype is torch.bfloat16


def test_small_names() -> None:
    layer = nn.utils.skip_init(nn.Linear, 3, 2, bias=False)
    assert layer.weight.tolist() == [[0.0] * 3] * 2
    with pytest.raises(RuntimeError, match="Expected a Module"):
        nn.utils.skip_init(int)
    weights = {"weight": torch.ones(2, 3)}
    assert nn.utils.stateless.functional_call(layer, weights, torch.ones(1, 3)).tolist() == [[3, 3]]
    x, y = torch.ones(2, requires_grad=True), nn.Parameter(torch.zeros(3))
    torch.utils.swap_tensors(x, y)
    assert x.shape == (3,) and type(x) is nn.Parameter and y.tolist() == [1, 1] and y.requires_grad
    flat = torch._utils._flatten_dense_tensors([torch.ones(2), torch.zeros(1, 2)])
    parts = torch._utils._unflatten_dense_tensors(flat, [torch.ones(2), torch.zeros(1, 2)])
    assert flat.tolist() == [1, 1, 0, 0] and parts[1].tolist() == [[0, 0]]
    assert nn.attention.SDPBackend.MATH == 0  # the module, not the file of layers
    graph = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    from frontend.fx.passes.shape_prop import ShapeProp

    ShapeProp(graph).propagate(torch.ones(4, 3))
    assert {tuple(node.meta["tensor_meta"].shape) for node in graph.graph.nodes} == {(4, 3), (4, 2)}
    assert pytree.tree_all_only(int, lambda x: x > 0, [1, "a", {"b": 2}])
    assert [path for path, _ in pytree.tree_leaves_with_path([1, {"b": 2}])][1][1].key == "b"
    with torch.autograd.profiler.profile() as profile:
        torch.ones(2).sum()
    assert "sum" in profile.table() and profile.total_average().count >= 1
    with torch.autograd.profiler.profile(enabled=False) as profile:
        torch.ones(2).sum()
    assert not profile.function_events


def test_a_profile_counts_operations(tmp_path: Path) -> None:
    plan = torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=1)
    ready: list[Any] = []
    with torch.profiler.profile(schedule=plan, on_trace_ready=ready.append) as profile:
        for _ in range(4):
            with torch.profiler.record_function("step"):
                torch.ones(2, 2) @ torch.ones(2, 2)
            profile.step()
    counts = {entry.key: entry.count for entry in profile.key_averages()}
    assert counts["matmul"] == counts["step"] == 1 and ready == [profile]
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    names = [e["name"] for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert "matmul" in names and "matmul" in profile.key_averages().table(sort_by="count")


def test_a_profile_has_the_launches_of_compiled_calls(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    @torch.compile
    def step(x: Tensor) -> Tensor:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    score = torch.compile(model)
    x = torch.ones(4, 8)
    step(x), score(x).sum().backward()
    with torch.profiler.profile(with_stack=True) as profile:
        with torch.profiler.record_function("part"):
            plain = step(x)
        score(x).sum().backward()
    assert step(x).item() == plain.item()
    events = profile.events()
    calls = [e for e in events if e.category == "compiled"]
    launches = [e for e in events if e.category == "launch"]
    assert calls[0].name == "compiled step" and len(calls) == 3
    assert all(any(c.start <= e.start and e.end <= c.end for c in calls) for e in launches)
    executable = step.specializations[0].executable
    names = {e.name for e in launches}
    assert set(graph_kernels(executable.plan).values()) <= names
    assert "test_library_names.py" in " ".join(e.place for e in launches)
    averages = {entry.key: entry for entry in profile.key_averages()}
    assert averages["compiled step"].self_cpu_time_total < averages["compiled step"].cpu_time_total
    assert averages["part"].count == 1 and "sum" in averages
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    kinds = {e["cat"] for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert kinds == {"user_annotation", "cpu_op", "compiled", "launch"}
    with pytest.warns(UserWarning, match="profile_memory"):
        torch.profiler.profile(profile_memory=True)


def test_state_dicts_come_from_files_and_not_from_networks(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save({"w": torch.ones(2)}, path)
    for address in (str(path), path.as_uri()):
        assert torch.hub.load_state_dict_from_url(address)["w"].tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="on a network"):
        torch.hub.load_state_dict_from_url("https://example.org/weights.pth")


def test_a_state_dict_that_is_kept_is_not_hashed_again(tmp_path: Path) -> None:
    """PyTorch checks what it fetches."""
    path = tmp_path / "weights-00000000.pth"
    torch.save({"w": torch.ones(2)}, path)
    load = torch.hub.load_state_dict_from_url
    kept = load(
        "https://example.org/weights-00000000.pth", model_dir=str(tmp_path), check_hash=True
    )
    assert kept["w"].tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match='invalid hash value \\(expected "00000000"'):
        load(str(path), model_dir=str(tmp_path / "other"), check_hash=True)


def test_comparing_tensors() -> None:
    torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 2"):
        torch.testing.assert_close(torch.ones(2), torch.tensor([1.0, 2.0]))
    with pytest.raises(AssertionError, match="'dtype' do not match"):
        torch.testing.assert_close(torch.ones(2), torch.ones(2).double())
    result = torch.testing.make_tensor(3, 4, dtype=torch.int64, low=2, high=4)
    assert result.shape == (3, 4) and set(result.flatten().tolist()) <= {2, 3}


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.export.draft_export(nn.Linear(1, 1), ()),
        lambda: torch.onnx.ExportOptions(),
        lambda: torch.nested.nested_tensor([]),
        lambda: torch.sparse.spsolve(1, 2),
        lambda: nn.attention.flex_attention.flex_attention(),
        lambda: torch.FloatStorage([1.0]),
        lambda: torch.ao.quantization.prepare(nn.ReLU(), prepare_custom_config_dict={"x": 1}),
        lambda: torch.jit.load("x.pt"),
        lambda: torch.autograd.forward_ad.dual_level(),
        lambda: torch.utils.cpp_extension.load("x", []),
        lambda: torch._C._ExcludeDispatchKeyGuard(
            torch._C.DispatchKeySet(torch._C.DispatchKey.Autograd)
        ),
    ],
)
def test_what_is_not_here_says_so_when_used(use: Any) -> None:
    refused = (
        "is not here|there is no|there are no custom|takes a number of elements"
        "|takes dynamic_shapes itself|have no kernels by dispatch keys"
    )
    with pytest.raises(NotImplementedError, match=refused):
        use()


def test_dtypes_that_are_not_here_are_names() -> None:
    assert torch.zeros(1).dtype != torch.complex32 and torch.bits16.itemsize == 2
    assert torch.finfo(torch.float8_e4m3fn).max == 448.0
    with pytest.raises(TypeError, match="complex32"):
        torch.zeros(1, dtype=torch.complex32)


def test_memory_is_shared_by_views() -> None:
    x = torch.arange(6)
    storage = x[2:].untyped_storage()
    assert storage.data_ptr() == x.data_ptr() and storage.nbytes() == 48


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_diff(n: int) -> None:
    numbers = np.array([[1, 4, 9, 16], [2, 3, 5, 7]])
    assert torch.diff(torch.tensor(numbers), n).tolist() == np.diff(numbers, n).tolist()
    assert torch.tensor(numbers).diff(dim=0).tolist() == np.diff(numbers, axis=0).tolist()


def test_an_expansion_that_repeats_nothing_is_written_to() -> None:
    x = torch.arange(4)
    x.expand((1, -1)).copy_(torch.tensor([[4, 3, 2, 1]]))
    assert x.tolist() == [4, 3, 2, 1]
    y = torch.ones(3, requires_grad=True)
    z = y * 1
    z.expand(1, 3).mul_(2)
    z.sum().backward()
    assert y.grad.tolist() == [2.0, 2.0, 2.0]
    double = torch.compile(lambda x: x.clone().expand(1, 3).mul_(2))
    assert double(torch.ones(3)).tolist() == [[2.0, 2.0, 2.0]]
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.ones(3).expand(2, 3).mul_(2)
