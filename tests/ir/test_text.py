"""The text of graphs: what is printed reads back to an equal graph; what is no graph is refused
with line and column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import DType, GraphBuilder, ParseError
from graphc.ir.nodes import Node
from graphc.ir.printer import attribute_text, print_graph
from graphc.ir.registry import register, unregister
from graphc.ir.types import TensorType
from graphc.ops.kinds.op import Op, Parameters


def read_back(graph: graphc.Graph) -> graphc.Graph:
    text = str(graph)
    parsed = graphc.parse(text)
    assert parsed == graph, text
    assert print_graph(parsed, locations=False) == print_graph(graph, locations=False)
    return parsed


class Marked(Op):
    """One operand and an attribute `mark` of any kind: to print attributes with."""

    kind = "test"

    def __init__(self) -> None:
        super().__init__("marked", parameters=Parameters({"mark": None}), vjp=None, samples=None)

    def infer(self, types: Any, attributes: dict[str, Any]) -> Any:
        return types


class Region(Op):
    """Holds two subgraphs."""

    kind = "test"
    region_names = ("first", "second")

    def __init__(self) -> None:
        parameters = dict.fromkeys(self.region_names)
        super().__init__("region", parameters=Parameters(parameters), vjp=None, samples=None)

    def infer(self, types: Any, attributes: dict[str, Any]) -> Any:
        return types


@pytest.fixture
def marked() -> Iterator[Op]:
    yield Marked()
    unregister("marked")


@pytest.fixture
def region() -> Iterator[Op]:
    yield Region()
    unregister("region")


# -- round trip -----------------------------------------------------------------------------------

FLOATS = [0.0, -0.0, 1.5, -1e-45, 3.4028235e38, 1e-300, np.inf, -np.inf, np.nan, 0.1]


@pytest.mark.parametrize(
    "array",
    [
        np.array(FLOATS, np.float64),
        np.array([x for x in FLOATS if not 1e38 < abs(x) < np.inf], np.float32),
        np.array(-0.0, np.float32),
        np.array(np.nan),
        np.full((3, 4), np.nan, np.float32),
        np.full(3, -0.0),
        np.array([0.0, -0.0]),
        np.array([-(2**63), 2**63 - 1]),
        np.array([-(2**31), 2**31 - 1], np.int32),
        np.array([[0, 255], [1, 7]], np.uint8),
        np.arange(-128, 128).astype(np.int8),
        np.full((2, 3), -32768, np.int16),
        np.array([[True, False]]),
        np.array(True),
        np.zeros((0, 3), np.float32),
        np.zeros((2, 0), bool),
        np.arange(16.0),
        np.arange(17.0),
        np.arange(5000, dtype=np.int32).reshape(50, 100),
        np.random.default_rng(0).random((7, 9)) > 0.5,
        np.array([0x7FC00001, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32),
        np.array([0x7FF8000000000001], np.uint64).view(np.float64),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10.0)[::-2],
    ],
    ids=lambda a: f"{a.dtype}{list(a.shape)}",
)
def test_constants(array: np.ndarray) -> None:
    g = GraphBuilder("constants")
    parsed = read_back(g.finish(g.constant(array)))
    again = parsed.nodes[0].attribute("value").array
    assert again.tobytes() == np.ascontiguousarray(array).tobytes()
    assert again.dtype == array.dtype and again.shape == array.shape


@pytest.mark.parametrize(
    "mark",
    [
        None, True, False, 0, -7, 2**70, 0.0, -0.0, 1.0, 1e300, 5e-324, float("inf"),
        float("-inf"), "", "plain", 'a "quoted" word', "back\\slash", "two\nlines", "a\\nb",
        "// no comment", "tab\tand ünïcode →", "%x = add(%y)", "]", (), (1, 2), ((1, 2), ()),
        ("a", 'b"'), (None, True, 1.5), DType.f32, (DType.bool, DType.i64), "f32", "f32[2]", "nan",
        "carriage\rreturn", "\x85 \u2028 line separators",
        graphc.Constant(np.array([1.0, np.nan])), (graphc.Constant(np.arange(40)), 3),
    ],
    ids=repr,
)  # fmt: skip
def test_attributes(marked: Op, mark: Any) -> None:
    g = GraphBuilder("attributes")
    x = g.input("x", "f32[2]")
    parsed = read_back(g.finish(*g.apply(marked, (x,), {"mark": mark})))
    again = parsed.nodes[1].attribute("mark")
    assert type(again) is type(mark)
    assert again == mark
    assert attribute_text(again) == attribute_text(mark)


@pytest.mark.parametrize("name", ["x", "a.b.c", "_", "inf", "nan", "infinity", "graph", "constant",
                                  "return", "f32", "true", "e5", "x1", "input"])  # fmt: skip
def test_names(name: str) -> None:
    g = GraphBuilder(name)
    x = g.input(name, "f32[2]")
    read_back(g.finish(x + x, aliases=[(0, 0)]))


def test_several_results_aliases_and_no_outputs() -> None:
    g = GraphBuilder("random")
    state, x = g.input("state", "i64[2]"), g.input("x", "f32[3]")
    uniform = graphc.ops.generate.random_uniform
    numbers, new = g.apply(uniform, (state,), {"shape": (3,), "dtype": DType.f32})
    graph = g.finish(new, numbers + x, numbers, numbers, aliases=[(0, 0), (1, 1)])
    text = str(graph)
    assert "return %2.1 -> %state, %3 -> %x, %2, %2" in text
    read_back(graph)
    read_back(GraphBuilder("nothing").finish())


def test_nested_regions(region: Op) -> None:
    def inner(name: str, *regions: graphc.Graph) -> graphc.Graph:
        g = GraphBuilder(name)
        x = g.input("x", "f32[2]")
        scaled = x * 2.0 + g.constant(np.arange(2, dtype=np.float32))
        if regions:
            (scaled,) = g.apply(region, (scaled,), {}, regions)
        return g.finish(scaled)

    g = GraphBuilder("outer")
    x = g.input("x", "f32[2]")
    deep = inner("middle", inner("deepest"), inner("other"))
    (result,) = g.apply(region, (x,), {}, (deep, inner("second")))
    graph = g.finish(result + x)
    parsed = read_back(graph)
    assert parsed.nodes[1].regions[0].nodes[-1].regions[1].name == "other"
    graphc.verify(parsed)


def test_comments_and_layout_do_not_matter() -> None:
    text = """
    // a comment
    graph   g( %x:f32[ 2 , 3 ] ) {   // and one here
      %1=neg(%x):f32[2,3]
      %9 = add(%1,%x)
        : f32[2,3]   return %9 }   // end"""
    g = GraphBuilder("g")
    x = g.input("x", "f32[2,3]")
    assert graphc.parse(text) == g.finish(-x + x)


def test_constants_may_stand_before_the_inputs_were_met() -> None:
    g = GraphBuilder("late")
    two = g.constant(np.float32(2))
    x = g.input("x", "f32[]")
    read_back(g.finish(two * x))


# -- what is no graph -----------------------------------------------------------------------------

HEAD = "graph g(%x: f32[2]) {\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "expected graph, found 'end of text'"),
        ("grph g() { return }", 1, 1, "expected graph"),
        ("graph 7() { return }", 1, 7, "expected name"),
        ("graph g(x: f32[2]) { return }", 1, 9, "expected value, found 'x'"),
        ("graph g(%x f32[2]) { return }", 1, 12, "expected :"),
        ("graph g(%x: f31[2]) { return }", 1, 13, "'f31[2]' is not a tensor type"),
        ("graph g(%x: f32) { return }", 1, 13, "expected type"),
        ("graph g(%x: f32[-2]) { return }", 1, 13, "negative dimension"),
        ("graph g(%x: f32[2] %y: f32[2]) { return }", 1, 20, "expected ,"),
        ("graph g(%x: f32[2], %x: f32[2]) { return }", 1, 21, "two inputs are named 'x'"),
        ("graph g(%7: f32[2]) { return }", 1, 9, "'7' is not a name"),
        (HEAD + "  %1 = neg(%x) : f32[2]\n  return %1\n", 4, 1, "expected ,"),
        (HEAD + "  %1 = neg(%y) : f32[2]\n  return %1\n}", 2, 12, "%y is not defined"),
        (HEAD + "  %1 = neg(%x) : f32[3]\n  return %1\n}", 2, 18, "neg gives f32[2]"),
        (HEAD + "  %1 = neg(%x) : f32[2], f32[2]\n  return\n}", 2, 18, "neg gives f32[2]"),
        (HEAD + "  %1 = neg(%x)\n  return %1\n}", 3, 3, "expected :"),
        (HEAD + "  %1 = neg(%x, %x) : f32[2]\n  return %1\n}", 2, 8, "takes 1 operands, not 2"),
        (HEAD + "  %1 = ngg(%x) : f32[2]\n  return %1\n}", 2, 8, "unknown op 'ngg'"),
        (HEAD + "  %1 = neg(%x) a=1 : f32[2]\n  return %1\n}", 2, 8, "has no attribute 'a'"),
        (HEAD + "  %1 = sum(%x) : f32[2]\n  return %1\n}", 2, 8, "needs the attribute 'axes'"),
        (HEAD + "  %1 = sum(%x) axes=[0 : f32[]\n  return\n}", 2, 24, "expected ,"),
        (HEAD + "  %1 = sum(%x) axes=[5] : f32[]\n  return\n}", 2, 8, "axes [5] do not fit"),
        (HEAD + "  %1 = cast(%x) dtype=f99 : f32[2]\n  return\n}", 2, 23, "'f99' is no attribute"),
        (HEAD + "  %1 = neg(%x) : f32[2]\n  %1 = neg(%x) : f32[2]\n  return\n}", 3, 3,
         "%1 is defined twice"),
        (HEAD + "  %x = neg(%x) : f32[2]\n  return\n}", 2, 3, "%x is defined twice"),
        (HEAD + "  return %x ->\n}", 3, 1, "expected value"),
        (HEAD + "  return %x -> %z\n}", 2, 16, "%z is no input"),
        (HEAD + "  return %x -> %x, %x -> %x\n}", 2, 26, "rule G7"),
        (HEAD + "  return %x\n} graph", 3, 3, "expected end"),
        (HEAD + "  # comment\n}", 2, 3, "unexpected character '#'"),
        (HEAD + '  %1 = marked(%x) mark="open : f32[2]\n}', 2, 24, "unexpected character '\"'"),
        (HEAD + "  %1 = constant f32[2] [1.0]\n  return\n}", 2, 24, "takes 2 items, not 1"),
        (HEAD + "  %1 = constant f32[2] [1.0, x]\n  return\n}", 2, 30, "expected number"),
        (HEAD + "  %1 = constant i32[1] [1.5]\n  return\n}", 2, 25, "bad i32 number '1.5'"),
        (HEAD + "  %1 = constant i32[1] [99999999999]\n  return\n}", 2, 25, "bad i32 number"),
        (HEAD + "  %1 = constant bool[1] [1]\n  return\n}", 2, 26, "expected name"),
        (HEAD + "  %1 = constant bool[1] [maybe]\n  return\n}", 2, 26, "expected true or false"),
        (HEAD + '  %1 = constant f32[1] base64 "!!!!"\n  return\n}', 2, 24, "bad base64"),
        (HEAD + '  %1 = constant f32[1] base64 "AAAA"\n  return\n}', 2, 24, "takes 4 bytes, not 3"),
        (HEAD + "  %1 = constant f32[2] splat\n  return\n}", 3, 3, "expected number"),
    ],
)  # fmt: skip
def test_malformed(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        graphc.parse(text)
    assert str(caught.value).startswith(f"line {line}, column {column}: "), str(caught.value)
    assert message in str(caught.value)


def test_every_cut_of_a_text_is_refused_with_its_place(marked: Op) -> None:
    g = GraphBuilder("cut")
    x = g.input("x", "f32[2]")
    (y,) = g.apply(marked, (x * 2.0,), {"mark": ("a", (1, -2.5, None), DType.f32)})
    text = print_graph(g.finish(y, aliases=[(0, 0)]), locations=False)
    for end in range(len(text)):
        with pytest.raises(ParseError, match=r"^line \d+, column \d+: "):
            graphc.parse(text[:end])


def test_garbage_is_a_parse_error() -> None:
    g = GraphBuilder("noise")
    x = g.input("x", "f32[2,3]")
    text = print_graph(g.finish(graphc.ops.reduce.sum(x, axes=(1,)) + 1.0), locations=False)
    random = np.random.default_rng(0)
    alphabet = list('%(){}[]:=,.->x12 \nf"#nan')
    for _ in range(400):
        at = int(random.integers(len(text)))
        damaged = text[:at] + str(random.choice(alphabet)) + text[at + int(random.integers(3)) :]
        try:
            graphc.verify(graphc.parse(damaged))
        except ParseError as error:
            assert str(error).startswith("line "), str(error)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DType.f16, DType.bf16])
def test_every_half_reads_back_and_has_few_digits(dtype: DType) -> None:
    """All 65536 patterns, 16 to a constant; NaNs other than the plain one go as base64."""
    patterns = np.arange(65536, dtype=np.uint16).view(dtype.numpy)
    g = GraphBuilder("halves")
    for part in patterns.reshape(-1, 16):
        g.constant(part)
    graph = g.finish()
    assert graphc.parse(print_graph(graph, locations=False)) == graph
    g = GraphBuilder("few")
    shown = print_graph(g.finish(g.constant(np.array([0.1, 3.1, -0.0], dtype.numpy))))
    assert "[0.1, 3.1, -0.0]" in shown


# -- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["f32[]", "f64[0]", "i32[2,3]", "bool[1,1,1]", "i64[10]", "f16[4]", "bf16[2,3]", "u8[]",
     "i8[1]", "i16[7]"],
)  # fmt: skip
def test_types(text: str) -> None:
    assert str(TensorType.parse(text)) == text


@pytest.mark.parametrize("text", ["f32", "f32[", "f31[2]", "f32[a]", "f32[2;3]", "", "f32[2.5]"])
def test_types_that_are_none(text: str) -> None:
    with pytest.raises(ParseError, match="is not a tensor type"):
        TensorType.parse(text)


def test_locations_are_comments() -> None:
    g = GraphBuilder("located")
    x = g.input("x", "f32[]")
    graph = g.finish(x + 1.0)
    assert "// test_text.py:" in str(graph)
    assert "//" not in print_graph(graph, locations=False)
    node = graph.nodes[-1]
    assert isinstance(node, Node)
    assert node.location is not None and node.location.function == "test_locations_are_comments"


def test_an_op_is_declared_once(marked: Op) -> None:
    with pytest.raises(graphc.GraphError, match="'marked' is declared twice"):
        register(marked)


def test_an_attribute_is_given_once() -> None:
    text = "graph g(%x: f32[3]) {\n  %1 = sum(%x) axes=[0] axes=[0] : f32[]\n  return\n}"
    with pytest.raises(graphc.ParseError, match="line 2, column 25: axes is given twice"):
        graphc.parse(text)


def test_every_sample_of_every_op_reads_back() -> None:
    from graphc.ops.kinds.op import SampleDrawer

    for op in graphc.ops.table():
        for sample in op.samples(SampleDrawer()):
            g = graphc.GraphBuilder("sample")
            types = [graphc.TensorType.of(array) for array in sample.operands]
            operands = tuple(g.input(f"x{i}", type) for i, type in enumerate(types))
            try:
                graph = g.finish(*g.apply(op, operands, sample.attributes))
            except graphc.DTypeError:
                continue  # samples hold float64, which not every op takes as it is
            assert graphc.parse(str(graph)) == graph


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "  %1 = sum(%x) axes=" + "[" * 100_000,
        "graph g() {\n  %1 = cond() " * 2000,
        HEAD + "  %1 = sum(%x) axes=" + "1" * 5000 + " : f32[]\n  return\n}",
        "1" * 100_000 + "x",
        "graph g(%x: f32[" + "9" * 5000 + "]) { return }",
        "graph g(%x: f32[" + " " * 100_000,
        "graph g(%x: f32[٣]) { return }",
        HEAD + '  %1 = constant f32[1] base64 "é"\n  return\n}',
        HEAD + "  %1 = constant f32[1099511627776] splat 1.0\n  return\n}",
        HEAD + "  %1 = constant f32[" + "1," * 70 + "1] splat 1.0\n  return\n}",
        HEAD + "  %1 = constant f32[0,4611686018427387904,4] splat 1.0\n  return\n}",
    ],
    ids=range(11),
)
def test_texts_that_ask_for_much_are_refused_soon(text: str) -> None:
    with pytest.raises(ParseError, match=r"^line \d+, column \d+: "):
        graphc.parse(text)


def test_a_region_has_sizes_of_its_own_and_leaves_those_around_it() -> None:
    graph = graphc.parse("""
        graph sums(%x: f32[n], %y: f32[3,n], %z: f32[m]) where 0 <= n, 1 <= m {
          %last = scan(%x, %y) carry=1 length=3 sequences=1
            graph body(%a: f32[n], %b: f32[n]) where 0 <= n {
              %c = add(%a, %b) : f32[n]
              return %c
            } : f32[n]
          %twice = broadcast(%z) shape=[2, m] : f32[2,m]
          return %last, %twice
        }""")
    read_back(graph)
    (size,) = graph.output_types[1].shape[1:]
    assert str(size) == "m"
