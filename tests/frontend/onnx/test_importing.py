"""`frontend.onnx.load`: models built here with the package `onnx`, run eagerly and compiled."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
import frontend as torch  # noqa: E402
from frontend import nn  # noqa: E402
from frontend.onnx import OnnxError, OnnxNotHere  # noqa: E402
from graphc.errors import GraphError  # noqa: E402

helper, numpy_helper = onnx.helper, onnx.numpy_helper
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
RANDOM = np.random.default_rng(0)


def f32(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def model(nodes: Any, inputs: Any, outputs: Any, weights: Any = (), opset: int = 20) -> Any:
    """A model of `inputs` {name: (type, shape)}, outputs likewise, and arrays by name."""
    infos = [
        [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in each.items()]
        for each in (inputs, outputs)
    ]
    arrays = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(list(nodes), "g", *infos, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def mlp() -> Any:
    weights = {"net.0.weight": f32(8, 4), "net.0.bias": f32(8), "net.2.weight": f32(3, 8)}
    nodes = [
        helper.make_node("Gemm", ["x", "net.0.weight", "net.0.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Transpose", ["net.2.weight"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["r", "t"], ["y"], name="last"),
    ]
    io = {"x": (FLOAT, ["batch", 4])}, {"y": (FLOAT, ["batch", 3])}
    return model(nodes, *io, weights), weights


def by_hand(x: Any, weights: Any) -> Any:
    hidden = np.maximum(x @ weights["net.0.weight"].T + weights["net.0.bias"], 0)
    return hidden @ weights["net.2.weight"].T


def of_range(start: float, step: float, kind: int, added: float = 0.5) -> Any:
    """The places of the columns of x, as detectors make them: Range over a size that was cast to
    floats, and that size itself, halved."""
    weights = {"column": 1, "start": start, "step": step, "some": added}
    dtypes = {"column": np.int64}
    arrays = {
        name: np.array(value, dtypes.get(name, helper.tensor_dtype_to_np_dtype(kind)))
        for name, value in weights.items()
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "column"], ["width"]),
        helper.make_node("Cast", ["width"], ["limit"], to=kind),
        helper.make_node("Range", ["start", "limit", "step"], ["range"]),
        helper.make_node("Add", ["range", "some"], ["places"]),
        helper.make_node("Mul", ["limit", "some"], ["half"]),
    ]
    outputs = {"places": (kind, ["n"]), "half": (kind, [])}
    return model(nodes, {"x": (FLOAT, ["rows", "columns"])}, outputs, arrays)


@pytest.mark.parametrize("kind", [FLOAT, onnx.TensorProto.DOUBLE], ids=["f32", "f64"])
def test_ranges_of_sizes_cast_to_floats_leave_them_open(tmp_path: Path, kind: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    for start, step, programs in ((0.0, 1.0, 1), (2.0, 3.0, 1), (0.0, 0.5, 2)):
        onnx.save(of_range(start, step, kind), tmp_path / "range.onnx")
        loaded = torch.onnx.load(tmp_path / "range.onnx")
        compiled = torch.compile(loaded)
        for columns in (5, 8):
            x = torch.ones(3, columns)
            places, half = compiled(x)
            expected = np.arange(start, columns, step, dtype) + dtype.type(0.5)
            assert places.numpy().dtype == dtype and np.array_equal(places.numpy(), expected)
            assert half.numpy().dtype == dtype and half.item() == columns / 2
            assert np.array_equal(loaded(x)[0].numpy(), expected)
        assert len(compiled.trace_reasons) == programs


def test_weights_have_their_names_and_the_model_trains(tmp_path: Path) -> None:
    proto, weights = mlp()
    onnx.save(proto, tmp_path / "mlp.onnx")
    net = torch.onnx.load(tmp_path / "mlp.onnx")
    assert {name: tuple(p.shape) for name, p in net.named_parameters()} == {
        name: array.shape for name, array in weights.items()
    }
    assert net.state_dict().keys() == weights.keys()
    x, target = f32(6, 4), f32(6, 3)
    np.testing.assert_allclose(net(torch.from_numpy(x)).detach(), by_hand(x, weights), rtol=1e-5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    @torch.compile
    def step(x: Any, target: Any) -> Any:
        loss = (net(x) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step(torch.from_numpy(x), torch.from_numpy(target))) for _ in range(20)]
    assert losses[-1] < losses[0]


def test_gradients_are_those_of_numbers() -> None:
    proto, weights = mlp()
    net = torch.onnx.load(proto).double()
    x = torch.tensor(f32(5, 4), dtype=torch.float64)
    net(x).square().sum().backward()
    gradient = net.get_parameter("net.0.weight").grad.numpy()
    exact = {name: array.astype(np.float64) for name, array in weights.items()}
    for place in ((0, 0), (3, 2), (7, 1)):
        ends = []
        for sign in (1, -1):
            moved = {name: array.copy() for name, array in exact.items()}
            moved["net.0.weight"][place] += sign * 1e-6
            ends.append((by_hand(x.numpy(), moved) ** 2).sum())
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-6)


def test_sizes_that_the_model_leaves_open_are_compiled_once() -> None:
    proto, weights = mlp()
    net = torch.onnx.load(proto)
    assert net.open_sizes["x"] == {0: "batch"}
    compiled = torch.compile(net)
    with torch.no_grad():
        for size in (5, 2, 17):
            x = f32(size, 4)
            np.testing.assert_array_equal(compiled(torch.from_numpy(x)), net(torch.from_numpy(x)))
            np.testing.assert_allclose(
                compiled(torch.from_numpy(x)), by_hand(x, weights), rtol=1e-4
            )
    assert compiled.explain().count("traced ") == 1


def test_copies_and_pickles_are_models() -> None:
    net = torch.onnx.load(mlp()[0])
    x = torch.from_numpy(f32(3, 4))
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(other(x).detach(), net(x).detach())


def test_shapes_are_numbers_in_a_trace() -> None:
    """Flattened by Shape, Slice, ReduceProd and Concat, as exporters write it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    weights = {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])}
    io = {"x": (FLOAT, ["n", 2, "k"])}, {"y": (FLOAT, None)}
    compiled = torch.compile(torch.onnx.load(model(nodes, *io, weights)))
    with torch.no_grad():
        for n, k in ((2, 5), (4, 3)):
            assert compiled(torch.from_numpy(f32(n, 2, k))).shape == (n, 2 * k)
    assert compiled.explain().count("traced ") == 1


def branches() -> Any:
    def branch(op: str, name: str) -> Any:
        out = helper.make_tensor_value_info(name, FLOAT, [3])
        return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [out])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("Exp", "a"),
                            else_branch=branch("Neg", "b"))  # fmt: skip
    return model([node], {"c": (BOOL, []), "x": (FLOAT, [3])}, {"y": (FLOAT, [3])})


@pytest.mark.parametrize("number", [True, False])
def test_if_takes_a_branch_by_a_number_or_a_value(number: bool) -> None:
    net = torch.onnx.load(branches())
    assert net.number_inputs == ("c",)
    x = torch.from_numpy(f32(3))
    compiled = torch.compile(net)
    for flag, expected in ((True, x.exp()), (False, -x)):
        given = flag if number else torch.tensor(flag)
        with torch.no_grad():
            np.testing.assert_array_equal(net(given, x), expected)
            np.testing.assert_array_equal(compiled(given, x), expected)


def test_a_loop_of_rounds_that_a_tensor_counts() -> None:
    """h = h * x + i for i in range(n)."""
    infos = [helper.make_tensor_value_info(*each) for each in
             (("i", INT64, []), ("going", BOOL, []), ("h", FLOAT, [2]))]  # fmt: skip
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["still"]),
            helper.make_node("Cast", ["i"], ["fi"], to=FLOAT),
            helper.make_node("Mul", ["h", "x"], ["hx"]),
            helper.make_node("Add", ["hx", "fi"], ["after"]),
        ],
        "body", infos,
        [helper.make_tensor_value_info("still", BOOL, []),
         helper.make_tensor_value_info("after", FLOAT, [2])],
    )  # fmt: skip
    node = helper.make_node("Loop", ["n", "", "h0"], ["y"], body=body)
    io = {"n": (INT64, []), "h0": (FLOAT, [2]), "x": (FLOAT, [2])}, {"y": (FLOAT, [2])}
    net = torch.onnx.load(model([node], *io))
    h0, x = f32(2), f32(2)
    expected = h0
    for i in range(4):
        expected = expected * x + np.float32(i)
    compiled = torch.compile(net)
    with torch.no_grad():
        for count in (4, torch.tensor(4)):
            for call in (net, compiled):
                got = call(count, torch.from_numpy(h0), torch.from_numpy(x))
                np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_unsigned_integers_have_arithmetic() -> None:
    for kind in (np.uint16, np.uint32, np.uint64):
        top = int(np.iinfo(kind).max)
        a = np.array([7, top, top // 2 + 1, 3], kind)
        b = np.array([2, 3, 5, top], kind)
        for op, expected in (
            ("Add", a + b), ("Sub", a - b), ("Mul", a * b), ("Div", a // b), ("Mod", a % b),
            ("Less", a < b), ("GreaterOrEqual", a >= b), ("Max", np.maximum(a, b)),
            ("Min", np.minimum(a, b)),
        ):  # fmt: skip
            element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            io = {"a": (element, [4]), "b": (element, [4])}, {"y": (element, [4])}
            net = torch.onnx.load(model([helper.make_node(op, ["a", "b"], ["y"])], *io))
            got = net(torch.from_numpy(a), torch.from_numpy(b)).numpy()
            assert got.dtype == expected.dtype, op
            np.testing.assert_array_equal(got, expected, err_msg=f"{op} of {kind.__name__}")


# -- what cannot be read -------------------------------------------------------------------------


def test_errors_name_the_node_and_its_operator() -> None:
    io = {"x": (FLOAT, [2])}, {"y": (FLOAT, [2])}
    for op, attributes, name in (
        ("NoSuchOperator", {}, "there is no operator NoSuchOperator"),
        ("Relu", {"slope": 2}, "attribute slope is not here"),
        ("SequenceConstruct", {}, "there is no operator SequenceConstruct"),
    ):
        node = helper.make_node(op, ["x"], ["y"], name="here", **attributes)
        with pytest.raises(OnnxNotHere, match=rf"node 'here' .{op}.: {name}"):
            torch.onnx.load(model([node], *io))
    node = helper.make_node("Reshape", ["x", "to"], ["y"], name="here")
    net = torch.onnx.load(model([node], *io, {"to": np.array([3, 5])}))
    with pytest.raises(GraphError, match=r"node 'here' .Reshape.: "):
        net(torch.zeros(2))
    with pytest.raises(OnnxError, match=r"the model takes x; given were 2"):
        net(torch.zeros(2), torch.zeros(2))
    with pytest.raises(OnnxError, match="no node before it gives 'z'"):
        torch.onnx.load(model([helper.make_node("Relu", ["z"], ["y"])], *io))


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    whole = mlp()[0].SerializeToString()
    rng = np.random.default_rng(1)
    for cut in range(0, len(whole), 37):
        words = "no ONNX model|no node before it gives|the model takes|what was left is a model"
        with pytest.raises((OnnxError, GraphError), match=words):
            net = torch.onnx.load(whole[:cut])
            net(torch.zeros(2, 4))
            raise OnnxError("what was left is a model")
    for _ in range(60):  # changed bytes: read and run, or an error of ours
        data = bytearray(whole)
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
        with contextlib.suppress(GraphError):
            torch.onnx.load(bytes(data))(torch.zeros(2, 4))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        torch.onnx.load(tmp_path / "nowhere.onnx")


@pytest.mark.parametrize("attack", ["above", "absolute", "link", "beyond", "pipe"])
def test_data_outside_is_read_only_from_files_beside_the_model(tmp_path: Path, attack: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(4096))
    proto, _ = mlp()
    onnx.save_model(proto, folder / "m.onnx", save_as_external_data=True, location="m.data",
                    size_threshold=0)  # fmt: skip
    assert torch.onnx.load(folder / "m.onnx")(torch.zeros(1, 4)).shape == (1, 3)
    loaded = onnx.load(folder / "m.onnx", load_external_data=False)
    entries = {entry.key: entry for entry in loaded.graph.initializer[0].external_data}
    if attack == "beyond":
        entries["length"].value = str(1 << 40)
    elif attack == "link":
        os.symlink(tmp_path / "secret", folder / "linked")
        entries["location"].value = "linked"
    elif attack == "pipe":
        os.mkfifo(folder / "pipe")
        entries["location"].value = "pipe"
    else:
        entries["location"].value = "../secret" if attack == "above" else str(tmp_path / "secret")
    (folder / "m.onnx").write_bytes(loaded.SerializeToString())
    with pytest.raises(OnnxError, match=r"the data of tensor 'net\.0\.weight'"):
        torch.onnx.load(folder / "m.onnx")


def test_a_model_is_a_module_like_others() -> None:
    net = torch.onnx.load(mlp()[0])
    assert isinstance(net, nn.Module) and not net.training
    assert repr(net).startswith("OnnxModule(") and "x -> y" in repr(net)
    other = torch.onnx.load(mlp()[0])
    other.load_state_dict(net.state_dict())
    x = torch.from_numpy(f32(2, 4))
    np.testing.assert_array_equal(other(x).detach(), net(x).detach())
