"""The generator of PyTorch's CPU code: its published words, one stream however it is cut, and the
shuffle made of them; natively, by NumPy, and by its own rule."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.errors import AttributeValueError, DTypeError
from graphc.ops.interpreter import evaluate
from graphc.ops.mersenne_twister import AS_SEEDED, STATE, WORDS, mersenne_twister, seeded, shuffled
from graphc.ops.movement import slice_


def drawn(state: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The words as unsigned numbers, and the state behind them."""
    g = graphc.GraphBuilder("draw")
    graph = g.finish(mersenne_twister(g.input("state", f"i32[{STATE}]"), count=count))
    (native,) = graphc.compile(graph)(state)
    (by_numpy,) = graphc.run(graph, state)
    np.testing.assert_array_equal(native, by_numpy)
    return native[STATE:].view(np.uint32), native[:STATE]


def test_known_answers() -> None:
    # The first word of the default seed of the published program, and its ten thousandth, which
    # the C++ standard states.
    words, _ = drawn(seeded(5489), 10000)
    assert (words[0], words[-1]) == (3499211612, 4123659995)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1, -1, 2**40 + 7])
def test_seeds_are_those_of_numpy(seed: int) -> None:
    state = seeded(seed)
    other = np.random.RandomState(seed % 2**32)
    assert state[WORDS] == AS_SEEDED
    np.testing.assert_array_equal(state[:WORDS].view(np.uint32), other.get_state()[1])
    wanted = other.randint(0, 2**32, 1300, np.uint32)
    np.testing.assert_array_equal(drawn(state, 1300)[0], wanted)


def test_the_stream_does_not_depend_on_how_it_is_cut() -> None:
    whole, end = drawn(seeded(3), 1400)
    state, parts = seeded(3), []
    for count in (0, 1, 5, 618, 1, 622, 153):
        part, state = drawn(state, count)
        parts.append(part)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(state, end)


@pytest.mark.parametrize("used", [-(2**31), -1, 624, 625, 10**6])
def test_any_count_of_used_words_stays_within_memory(used: int) -> None:
    state = seeded(3)
    state[WORDS] = used
    np.testing.assert_array_equal(drawn(state, 3)[0], drawn(seeded(3), 3)[0])


def test_the_rule_itself() -> None:
    g = graphc.GraphBuilder("draw")
    words = mersenne_twister(g.input("state", f"i32[{STATE}]"), count=700)
    graph = g.finish(words)
    (by_rule,) = evaluate(graph, (seeded(9),), reference=True)
    np.testing.assert_array_equal(by_rule[STATE:].view(np.uint32), drawn(seeded(9), 700)[0])


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
def test_draws_of_a_graph_follow_each_other(threads: int) -> None:
    g = graphc.GraphBuilder("draws")
    state = g.input("state", f"i32[{STATE}]")
    first = mersenne_twister(state, count=50_000)
    between = slice_(first, start=(0,), size=(STATE,), step=(1,))
    graph = g.finish(first, mersenne_twister(between, count=9))
    one, two = graphc.compile(graph, threads=threads)(seeded(2))
    words = np.concatenate([one[STATE:], two[STATE:]]).view(np.uint32)
    np.testing.assert_array_equal(words, drawn(seeded(2), 50_009)[0])


@pytest.mark.parametrize("count", [2, 3, 10, 1000])
def test_a_shuffle(count: int) -> None:
    words, _ = drawn(seeded(4), count - 1)
    wanted = list(range(count))
    for place, word in enumerate(words.tolist()):
        other = place + word % (count - place)
        wanted[place], wanted[other] = wanted[other], wanted[place]
    g = graphc.GraphBuilder("order")
    graph = g.finish(shuffled(g.input("words", f"i32[{count - 1}]")))
    taken = words.view(np.int32)
    for order in (graphc.compile(graph)(taken)[0], graphc.run(graph, taken)[0]):
        assert order.dtype == np.int64
        np.testing.assert_array_equal(order, wanted)


def test_refusals() -> None:
    g = graphc.GraphBuilder("bad")
    with pytest.raises(DTypeError, match=r"takes one state i32\[625\]"):
        mersenne_twister(g.input("short", "i32[624]"), count=1)
    with pytest.raises(AttributeValueError, match="of -1 words"):
        mersenne_twister(g.input("state", f"i32[{STATE}]"), count=-1)
    with pytest.raises(DTypeError, match="takes words in i32 of one dimension"):
        shuffled(g.input("words", "i64[5]"))
