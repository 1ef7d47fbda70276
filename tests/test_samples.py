"""What the suite leaves to `pytest -m slow`."""

from __future__ import annotations

from itertools import product

import pytest

from tests.samples import sample


def test_each_value_of_each_parameter_is_in_the_sample() -> None:
    cases = [{"a": i, "b": j, "c": k} for i, j, k in product(range(6), range(5), range(3))]
    chosen = sample([f"case {i}" for i in range(90)], cases, 10)
    kept = [case for case, is_chosen in zip(cases, chosen, strict=True) if is_chosen]
    assert [len({case[name] for case in kept}) for name in "abc"] == [6, 5, 3]
    by_name = sum(sample([f"case {i}" for i in range(90)], [{"a": i} for i in range(90)], 10))
    assert by_name <= len(kept) < by_name + 6


def test_few_cases_have_all_values() -> None:
    cases = [{"a": i, "b": j} for i, j in product(range(9), range(9))]
    assert sum(sample([f"case {i}" for i in range(81)], cases, 10**9)) == 9


def test_one_in_so_many_of_one_list() -> None:
    names = [f"case {i}" for i in range(300)]
    cases = [{"layer": i, "formula": i} for i in range(300)]
    chosen = sample(names, cases, 10)
    assert 15 < sum(chosen) < 50
    assert sample(names[:200] + names[201:], cases[:-1], 10) == chosen[:200] + chosen[201:]
    assert sum(sample(["a", "b"], cases[:2], 10**9)) == 1
    assert all(sample(names, cases, 1))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(40))
def test_what_is_not_in_the_sample_is_slow(number: int, request: pytest.FixtureRequest) -> None:
    is_slow = request.node.get_closest_marker("slow") is not None
    assert is_slow == (number not in IN_THE_SAMPLE)


IN_THE_SAMPLE = {
    number
    for number, chosen in enumerate(
        sample(
            [f"test_what_is_not_in_the_sample_is_slow[{i}]" for i in range(40)],
            [{"number": i} for i in range(40)],
            4,
        )
    )
    if chosen
}
