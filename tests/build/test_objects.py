"""Objects, loaded into this process without a C compiler: their bits are those of the compiled
function that they were built of, at any size; what they refuse, and what they say then."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
import frontend.safetensors as frontend_safetensors
import graphc
from frontend import nn
from frontend.engine.compiled.building import source_of
from frontend.engine.tensors.tensor import Tensor
from graphc.build.built_source import ObjectSource, source_of_graph
from graphc.codegen.target import executable
from graphc.errors import ArgumentError, GraphError, LoweringError, TraceError
from graphc.ir.dims import dim
from graphc.ir.types import DType, TensorType
from graphc.ops.elementwise import relu
from tests.build.loaded import LoadedObject
from tests.build.models import MODELS, SIZES, cases, compiled

TARGETS = [target.name for target in executable()]


def source(function: Any, *arguments: Any, keep_grads: bool = False) -> ObjectSource:
    return source_of(function.function, arguments, {}, function.options, keep_grads)


def values(tensors: Any) -> list[np.ndarray]:
    return [np.array(tensor.detach().numpy()) for tensor in tensors]


def captured(function: Any, built: ObjectSource) -> dict[str, np.ndarray]:
    """What the compiled function has now, by the labels of the state."""
    program = function.specializations[-1].program
    sources = dict(zip(program.inputs.names, program.inputs.sources, strict=True))
    labels = [field.label for field in built.state()]
    return {label: np.array(sources[label].array(())) for label in labels if label in sources}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", cases("mlp", "lenet", "lstm", "gpt", "inference", "dropout"))
def test_calls_of_seven_sizes_have_the_bits_of_the_compiled_function(
    name: str, target: str
) -> None:
    function, draw = compiled(name)
    loaded = LoadedObject(source(function, *draw(4)), target)
    state = loaded.state()
    with torch.set_grad_enabled(name != "inference"):
        for size in SIZES[:-1]:
            arguments = draw(size)
            expected = values([function(*arguments)])
            results, text = loaded.call(state, values(arguments), batch=size)
            assert text == ""
            for one, other in zip(results, expected, strict=True):
                assert one.tobytes() == other.tobytes(), size
    fields = loaded.fields(state)
    left = captured(function, loaded.source)
    assert len(left) == len(fields)
    for label, array in left.items():
        assert fields[label].tobytes() == array.tobytes(), label


def test_a_batch_of_none_runs() -> None:
    function, draw = compiled("mlp")
    loaded = LoadedObject(source(function, *draw(4)))
    state = loaded.state()
    with np.errstate(all="ignore"):
        results, text = loaded.call(state, values(draw(0)), batch=0)
    assert text == "" and np.isnan(results[0])


def test_building_leaves_all_state_as_it_was(tmp_path: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout())
    optimizer = torch.optim.Adam(model.parameters())

    def step(x: Tensor) -> Tensor:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    before = {name: np.array(x.numpy()) for name, x in model.state_dict().items()}
    random = np.array(torch.get_rng_state().numpy())
    torch.compile(step).build(tmp_path, torch.randn(5, 4), name="step")
    drawn = torch.get_rng_state().numpy()
    for name, tensor in model.state_dict().items():
        assert tensor.numpy().tobytes() == before[name].tobytes(), name
    assert not optimizer.state_dict()["state"]
    assert random.shape == drawn.shape
    assert sorted(os.listdir(tmp_path)) == [
        "main.c", "main.data", "step.h", "step.o", "step.safetensors",
    ]  # fmt: skip


def test_states_are_independent() -> None:
    function, draw = compiled("mlp")
    loaded = LoadedObject(source(function, *draw(4)))
    one, two = loaded.state(), loaded.state(loaded.file)
    assert one.tobytes() == two.tobytes()
    first, _ = loaded.call(one, values(draw(5)), batch=5)
    again, _ = loaded.call(two, values(draw(5)), batch=5)
    assert first[0].tobytes() == again[0].tobytes() and one.tobytes() == two.tobytes()
    loaded.call(one, values(draw(5)), batch=5)
    assert one.tobytes() != two.tobytes()


def test_a_state_is_saved_as_a_file_that_init_reads() -> None:
    function, draw = compiled("lstm")
    loaded = LoadedObject(source(function, *draw(4)))
    state = loaded.state()
    assert saved(loaded, state) == loaded.file
    loaded.call(state, values(draw(5)), batch=5)
    file = saved(loaded, state)
    assert file != loaded.file and loaded.state(file).tobytes() == state.tobytes()


def test_gradients_are_not_in_a_file() -> None:
    function, draw = compiled("mlp")
    loaded = LoadedObject(source(function, *draw(4), keep_grads=True))
    state = loaded.state()
    loaded.call(state, values(draw(5)), batch=5)
    tensors = frontend_safetensors.load(saved(loaded, state))
    kept = [m.field for m in loaded.layout.members]
    assert any("grad" in field.label for field in kept)
    assert tensors.keys() == {field.key for field in kept if field.is_saved}


def test_too_little_room_or_another_state_is_saved_nowhere() -> None:
    function, draw = compiled("mlp")
    loaded = LoadedObject(source(function, *draw(4)))
    state = loaded.state()
    room = np.zeros(len(loaded.file), np.uint8)
    count = loaded.functions["built_save"](state.ctypes.data, room.ctypes.data, room.size - 1)
    assert count == room.size and not room.any()
    state[9] ^= 1
    assert loaded.functions["built_save"](state.ctypes.data, room.ctypes.data, room.size) == -1
    assert not room.any()


def saved(loaded: LoadedObject, state: np.ndarray) -> bytes:
    """The file that the object writes, and that nothing behind it is touched."""
    save = loaded.functions["built_save"]
    count = save(state.ctypes.data, None, 0)
    room = np.full(count + 64, 0xA5, np.uint8)
    assert save(state.ctypes.data, room.ctypes.data, count) == count
    assert (room[count:] == 0xA5).all()
    return room[:count].tobytes()


def test_a_bad_index_is_told_with_its_line_and_changes_nothing() -> None:
    function, draw = compiled("mlp")
    loaded = LoadedObject(source(function, *draw(4)))
    state = loaded.state()
    before = state.tobytes()
    x, y = values(draw(4))
    y[2] = 999
    _, text = loaded.call(state, [x, y], batch=4)
    assert "Target 999 is out of bounds" in text and "models.py:" in text
    assert state.tobytes() == before
    y[2] = -3
    _, text = loaded.call(state, [x, y], batch=4)
    assert "Target -3 is out of bounds" in text


def test_sizes_out_of_bounds_are_told() -> None:
    function, draw = compiled("mlp")
    loaded = LoadedObject(source(function, *draw(4)))
    state = loaded.state()
    _, text = loaded.call(state, values(draw(4)), batch=-5)
    assert text == "size batch is -5, not in 0 upward"
    assert loaded.work_bytes(batch=-5) == -1
    assert loaded.work_bytes(batch=1000) > loaded.work_bytes(batch=1) > 0


def test_a_state_or_header_of_another_object_is_refused() -> None:
    function, draw = compiled("inference")
    loaded = LoadedObject(source(function, *draw(4)))
    state = loaded.state()
    with pytest.raises(AssertionError, match="the header is not that of this object"):
        loaded.state(layout=loaded.layout.digest + 1)
    state[8] ^= 1
    _, text = loaded.call(state, values(draw(4)), batch=4)
    assert text == "the state was not made by built_init of this object"


def test_without_values_of_its_own_an_object_asks_for_a_file() -> None:
    function, draw = compiled("inference")
    loaded = LoadedObject(source(function, *draw(4)), embeds=False)
    with pytest.raises(AssertionError, match="the object has no initial values"):
        loaded.state()
    state = loaded.state(loaded.file)
    assert loaded.call(state, values(draw(4)), batch=4)[1] == ""


def test_an_error_text_is_cut_to_its_room() -> None:
    function, draw = compiled("inference")
    loaded = LoadedObject(source(function, *draw(4)))
    whole = loaded.text(1 << 40 | 0xFFFF)
    assert whole == "no status of this object"
    assert loaded.text(1 << 40 | 0xFFFF, room=9) == whole[:8]
    assert loaded.text(0) == ""


def test_a_graph_is_built_without_a_frontend() -> None:
    g = graphc.GraphBuilder("layer")
    x = g.input("x", TensorType(DType.f32, (dim("n"), 3)))
    w = g.input("w", "f32[3,8]")
    loaded = LoadedObject(source_of_graph(g.finish(relu(x @ w))))
    generator = np.random.default_rng(0)
    for n in (0, 1, 5, 40):
        arrays = [generator.standard_normal(shape).astype(np.float32) for shape in ((n, 3), (3, 8))]
        results, text = loaded.call(loaded.state(), arrays, n=n)
        assert text == ""
        np.testing.assert_allclose(results[0], np.maximum(arrays[0] @ arrays[1], 0), rtol=1e-5)


def test_gradients_are_kept_where_they_are_asked_for() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(3))

    def step(x: Tensor) -> Tensor:
        weight.grad = None
        loss = (x * weight).sum()
        loss.backward()
        return loss

    x = torch.tensor([1.0, 2.0, 3.0])
    function = torch.compile(step, threads=1)
    assert "weight.grad" not in [f.label for f in source(function, x).state()]
    kept = source(function, x, keep_grads=True)
    loaded = LoadedObject(kept)
    state = loaded.state()
    assert loaded.call(state, values([x]))[1] == ""
    assert loaded.field(state, "weight.grad").tolist() == [1.0, 2.0, 3.0]
    assert b"weight.grad" not in loaded.file


def test_gradients_that_add_up_are_state() -> None:
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    weight.grad = torch.tensor([10.0, 20.0])

    def step(x: Tensor) -> Tensor:
        loss = (x * weight).sum()
        loss.backward()
        return loss

    x = torch.tensor([3.0, 4.0])
    loaded = LoadedObject(source(torch.compile(step, threads=1), x))
    state = loaded.state()
    for _ in range(2):
        assert loaded.call(state, values([x]))[1] == ""
    assert loaded.field(state, "weight.grad").tolist() == [16.0, 28.0]


def test_an_updated_argument_is_written() -> None:
    def count(x: Tensor) -> Tensor:
        x.add_(1)
        return x.sum()

    x = torch.tensor([1.0, 2.0])
    loaded = LoadedObject(source(torch.compile(count, threads=1), x))
    array = np.array([1.0, 2.0], np.float32)
    results, text = loaded.call(loaded.state(), [array])
    assert text == "" and results[0] == 5.0 and array.tolist() == [2.0, 3.0]


def test_numbers_of_a_call_are_computed_without_python() -> None:
    """`1 - beta ** t` and the like: of ints and floats among the arguments."""

    def scaled(x: Tensor, t: int, beta: float) -> Tensor:
        return x * (1 - beta**t) + abs(beta - 2.0) / t

    function = torch.compile(scaled, threads=1, dynamic=True)
    x = torch.tensor([1.0, -2.0, 0.5])
    built = source(function, x, 3, 0.9)
    (t,) = [s.name for s in built.sizes if s.least == 1]
    (beta,) = built.floats
    loaded = LoadedObject(built)
    for step, factor in ((1, 0.9), (7, 0.999), (1000, 0.25), (2, 1.5)):
        sizes = {**dict.fromkeys(loaded.sizes, 3), t: step, beta: factor}
        results, text = loaded.call(loaded.state(), values([x]), **sizes)
        assert text == ""
        expected = values([scaled(x, step, factor)])[0]
        assert results[0].tobytes() == expected.tobytes()
    sizes = {**dict.fromkeys(loaded.sizes, 3), t: 2000, beta: 1e300}
    _, text = loaded.call(loaded.state(), values([x]), **sizes)
    assert "Python raises an error in computing" in text


def test_what_python_alone_computes_is_a_field() -> None:
    def shifted(x: Tensor, t: float) -> Tensor:
        return x + np.cos(t)

    x = torch.tensor([1.0, -2.0])
    built = source(torch.compile(shifted, threads=1), x, 0.5)
    loaded = LoadedObject(built)
    state = loaded.state()
    (field,) = built.state()
    assert "Python alone computes it, numpy.cos" in field.note
    loaded.field(state, field.label)[...] = 7.0
    results, _ = loaded.call(state, values([x]), **{built.floats[0]: 0.5})
    assert results[0].tolist() == [8.0, 5.0]


def test_what_lapack_computes_is_refused_by_name_and_line() -> None:
    def solved(a: Tensor, b: Tensor) -> Tensor:
        return torch.linalg.solve(a, b)

    with pytest.raises(LoweringError, match=r"linalg_solve.* is computed by Python(.|\n)*test_obj"):
        LoadedObject(source(torch.compile(solved), torch.eye(3), torch.ones(3)))


def test_values_that_go_to_python_are_refused() -> None:
    def tapped(x: Tensor) -> Tensor:
        return torch.tap(x * 2, lambda value: None)

    with pytest.raises(TraceError, match="hands values to Python"):
        LoadedObject(source(torch.compile(tapped), torch.ones(2)))


def test_kinds_targets_names_and_folders_that_are_wrong(tmp_path: Any) -> None:
    function = torch.compile(lambda x: x + 1, threads=1)
    x = torch.ones(2)
    with pytest.raises(ArgumentError, match="kind 'ship' is not built yet"):
        function.build(tmp_path, x, kind="ship")
    with pytest.raises(GraphError, match="'z80' is no known target"):
        function.build(tmp_path, x, target="z80")
    for name in ("while", "a b", "1x", "_x", "int64_t", "pow"):
        with pytest.raises(ArgumentError, match="is no name of a C function"):
            function.build(tmp_path, x, name=name)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArgumentError, match="cannot be written"):
        function.build(tmp_path / "file", x)
    assert os.listdir(tmp_path) == ["file"]


def test_keys_of_the_state_are_those_of_state_dict() -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    built = source(torch.compile(lambda x: F.relu(model(x))), torch.ones(2, 4))
    LoadedObject(built)
    assert {field.key for field in built.state()} == set(model.state_dict())


def test_tensors_without_names_are_the_same_fields_in_all_programs() -> None:
    """Two traces of one function, which meet them in another order."""
    held = [torch.arange(3.0), torch.arange(6.0).reshape(2, 3)]

    def function(x: Tensor) -> Tensor:
        first, second = held if x.shape[0] != 1 else held[::-1]
        return x * first.sum() - second.sum()

    call = torch.compile(function, threads=1, dynamic={"x": {0: "n"}})
    loaded = LoadedObject(source(call, torch.ones(4, 2)))
    assert len(loaded.built.programs) == 2
    assert sorted(m.type.shape for m in loaded.layout.members) == [(2, 3), (3,)]
    for n in (4, 1):
        x = torch.ones(n, 2)
        results, _ = loaded.call(loaded.state(), values([x]), n=n)
        assert results[0].tobytes() == function(x).numpy().tobytes()


def test_state_that_a_first_step_makes_is_the_same_in_all_programs() -> None:
    """Of an optimizer that no name leads to: each trace would make it anew."""
    model = nn.Linear(3, 2)
    held = [torch.optim.SGD(model.parameters(), momentum=0.9)]

    def step(x: Tensor) -> Tensor:
        loss = model(x).sum() * (2 if x.shape[0] == 1 else 1)
        held[0].zero_grad()
        loss.backward()
        held[0].step()
        return loss

    call = torch.compile(step, threads=1, dynamic={"x": {0: "n"}})
    loaded = LoadedObject(source(call, torch.ones(4, 3)))
    assert len(loaded.built.programs) == 2
    assert sorted(m.type.shape for m in loaded.layout.members).count((2, 3)) == 2
    state = loaded.state()
    for n in (4, 1, 3, 1):
        x = torch.ones(n, 3)
        results, _ = loaded.call(state, values([x]), n=n)
        assert results[0].tobytes() == call(x).detach().numpy().tobytes()


def test_what_a_helper_names_is_called_so() -> None:
    model = nn.Linear(3, 2)

    def helper(x: Tensor) -> Tensor:
        return model(x)

    call = torch.compile(lambda x: helper(x) + 1)
    loaded = LoadedObject(source(call, torch.ones(4, 3)))
    assert {m.field.key for m in loaded.layout.members} == {"weight", "bias"}


@pytest.mark.parametrize("name", cases("mlp", "lenet", "gpt"))
def test_threads_of_the_caller_have_the_same_bits(name: str) -> None:
    function, draw = compiled(name)
    batch = 64 if name != "mlp" else 4096  # of fewer rows threads do not pay
    one = LoadedObject(source(function, *draw(batch)))
    several = LoadedObject(source(function, *draw(batch)), threads=3)
    assert max(program.native.threads for program in several.built.programs) > 1
    states = [one.state(), several.state(), several.state()]
    for size in (batch, 7, 1, 2):
        arguments = values(draw(size))
        expected, text = one.call(states[0], arguments, batch=size)
        assert text == ""
        for state, threads in zip(states[1:], (3, 1)):
            results, text = several.call(state, arguments, threads, batch=size)
            assert text == "" and results[0].tobytes() == expected[0].tobytes()
    assert one.layout.digest == several.layout.digest
    assert len({state.tobytes() for state in states}) == 1
    arguments[1].flat[0] = 1000
    _, text = several.call(states[1], arguments, 3, batch=2)
    assert "1000 is out of bounds" in text
    assert states[0].tobytes() == states[1].tobytes()
    _, text = several.call(states[1], arguments, 2, batch=2)
    assert text == "built_part runs on 3 threads or on one, not on 2"


def test_wrong_numbers_of_threads_are_refused(tmp_path: Any) -> None:
    function = torch.compile(lambda x: x + 1, threads=1)
    for threads in (0, -1, 5000, 2.0, True):
        with pytest.raises(ArgumentError, match="threads are from 1 to 1024"):
            function.build(tmp_path, torch.ones(2), threads=threads)
    with pytest.raises(ArgumentError, match="a wheel runs on one thread"):
        function.build(tmp_path, torch.ones(2), threads=2, kind="wheel")


def test_one_tensor_for_two_arguments_is_refused() -> None:
    x = torch.ones(2)
    with pytest.raises(ArgumentError, match="one tensor is given for several arguments"):
        source(torch.compile(lambda a, b: a + b, threads=1), x, x)


@pytest.mark.slow
def test_at_level_relaxed_the_bits_are_those_of_relaxed_calls() -> None:
    torch.manual_seed(0)
    step, draw = MODELS["gpt"]()
    dynamic = {"x": {0: "n"}, "y": {0: "n"}}
    function = torch.compile(step, level="relaxed", threads=1, dynamic=dynamic)
    loaded = LoadedObject(source(function, *draw(5)))
    state = loaded.state()
    for size in (5, 3):
        results, text = loaded.call(state, values(draw(size)), n=size)
        expected = values([function(*draw(size))])[0]
        assert text == "" and results[0].tobytes() == expected.tobytes()


def test_after_calls_the_sizes_that_differed_are_open() -> None:
    function = torch.compile(lambda x: x.sum(0), threads=1)
    for size in (3, 5, 7):
        function(torch.ones(size, 4))
    folder = function._shown((), {})
    sized = function._sized_call(*folder)
    built = source_of(
        function.function, *folder, function.options, False, sized and sized.arguments
    )
    assert len(built.sizes) == 1
    loaded = LoadedObject(built)
    x = np.arange(44, dtype=np.float32).reshape(11, 4)
    results, _ = loaded.call(loaded.state(), [x], **{built.sizes[0].name: 11})
    np.testing.assert_array_equal(results[0], x.sum(0))


def test_a_function_may_be_called_like_what_an_object_brings_along(tmp_path: Any) -> None:
    function = torch.compile(lambda x: x + 1, threads=1)
    for name in ("copy", "texts", "driver0", "put_byte", "call0"):
        function.build(tmp_path, torch.ones(2), name=name)
        assert (tmp_path / f"{name}.o").exists()
