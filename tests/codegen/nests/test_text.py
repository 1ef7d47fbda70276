"""The text of nests is what the grammar of docs/ir.md says, and says all that a nest is."""

from __future__ import annotations

import re
from functools import cache

import pytest

from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.strategies.table import STRATEGIES
from graphc.codegen.nests.nest import Nest, all_splits
from graphc.codegen.nests.printer import print_nest
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import named
from graphc.records import replace
from tests.codegen.kernels.contraction.problems import OPEN_PROBLEMS, PROBLEMS, body_of
from tests.ebnf import Recognizer, rules_of

EVERY = {**{name: graph for name, (graph, _) in PROBLEMS.items()},
         **{f"open {name}": graph for name, graph in OPEN_PROBLEMS.items()}}  # fmt: skip


# -- nests -----------------------------------------------------------------------------------------


@cache
def recognizer() -> Recognizer:
    return Recognizer.of("Nests")


def nests(name: str) -> list[Nest]:
    """Of all plans, one of each text."""
    body, target = body_of(EVERY[name]), named("x86-64-v3")
    plans = (
        plan for problem in problems(body, lanes_for(body, target))
        for strategy in STRATEGIES for plan in strategy.candidates(problem, target)
    )  # fmt: skip
    listed = (replace(plan.nest(), note="") for plan in plans)
    return list({print_nest(nest): nest for nest in listed}.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", EVERY)
def test_what_is_printed_is_what_the_grammar_says(name: str) -> None:
    for nest in nests(name):
        text = print_nest(nest, "k0_matmul")
        assert recognizer().reads(text, "nest"), text
        assert print_nest(replace(nest, note="why"), "k0_matmul").splitlines()[1] == "  // why"


def test_what_is_no_nest_is_not_read() -> None:
    text = print_nest(nests("large product")[0], "k")
    assert recognizer().reads(text, "nest")
    for old, new in (
        ("for k {", "for k"), ("by 256: peeled", "by 256: cut off"), ("compute", "computes"),
        ("axis k: sum", "axis k: product"), ("fill vectors", "fill"), ("{", ""),
    ):  # fmt: skip
        assert old in text and not recognizer().reads(text.replace(old, new, 1), "nest"), new


def test_the_grammar_has_every_tail() -> None:
    rule = rules_of("Nests")["tail-name"]
    assert {word[1:-1] for word in rule if word != "|"} == {str(tail) for tail in Tail}


def test_every_split_stage_and_axis_is_shown() -> None:
    for name in EVERY:
        for nest in nests(name):
            text = print_nest(nest)
            for kind, listed in (
                ("axis", nest.axes), ("split", all_splits(nest)), ("stage", nest.stages)
            ):  # fmt: skip
                for each in listed:
                    assert len(re.findall(rf"^  {kind} {each.name}\b", text, re.M)) == 1, text
