"""The text of nests is what the grammar of docs/ir.md says, and says all that a nest is."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from graphc.codegen.nests.nest import Nest, all_splits
from graphc.codegen.nests.printer import print_nest
from graphc.codegen.nests.tails import Tail
from graphc.codegen.recipes.common import lanes_for
from graphc.codegen.recipes.contraction.problem import problems
from graphc.codegen.recipes.contraction.strategies import STRATEGIES
from graphc.codegen.target import named
from tests.codegen.recipes.contraction.problems import OPEN_PROBLEMS, PROBLEMS, body_of

PAGE = Path(__file__).parents[3] / "docs" / "ir.md"
EVERY = {**{name: graph for name, (graph, _) in PROBLEMS.items()},
         **{f"open {name}": graph for name, graph in OPEN_PROBLEMS.items()}}  # fmt: skip


# -- a recognizer of what an EBNF describes --------------------------------------------------------

SYMBOL = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z][\w-]*|[=|;{}\[\]()])""")
SKIPPED = re.compile(r"(?:\s|//[^\n]*)*")
LEXICAL = {"integer": re.compile(r"\d+"), "name": re.compile(r"[A-Za-z_][\w.]*")}


def symbols(text: str) -> list[str]:
    listed, at = [], 0
    text = re.sub(r"\(\*.*?\*\)", "", text).rstrip()
    while at < len(text):
        match = SYMBOL.match(text, at)
        assert match, f"no EBNF: {text[at : at + 40]!r}"
        listed.append(match[1])
        at = match.end()
    return listed


def rules_of(page: str, section: str) -> dict[str, list[str]]:
    """The rules of a section's grammar, each as its symbols."""
    block = page.partition(f"\n## {section}\n")[2].partition("```ebnf\n")[2].partition("```")[0]
    rules: dict[str, list[str]] = {}
    listed = symbols(block)
    while listed:
        end = listed.index(";")
        rules[listed[0]] = listed[2:end]
        listed = listed[end + 1 :]
    return rules


@dataclass(frozen=True)
class Recognizer:
    """Whether a text is what a rule says. All ways to read it are tried."""

    rules: dict[str, list[str]]

    def reads(self, text: str, rule: str) -> bool:
        @cache
        def ends(name: str, at: int) -> frozenset[int]:
            """Where what begins at a place may end."""
            if name.startswith(('"', "'")):
                return literal(name[1:-1], at)
            if name in LEXICAL:
                start = skipped(at)
                match = LEXICAL[name].match(text, start)
                return frozenset([match.end()] if match else [])
            return alternatives(tuple(self.rules[name]), at)

        def skipped(at: int) -> int:
            match = SKIPPED.match(text, at)
            assert match is not None
            return match.end()

        def literal(word: str, at: int) -> frozenset[int]:
            words = r"\s+".join(map(re.escape, word.split()))
            behind = r"(?![\w.])" if word[-1].isalnum() else ""
            match = re.compile(words + behind).match(text, skipped(at))
            return frozenset([match.end()] if match else [])

        def alternatives(listed: tuple[str, ...], at: int) -> frozenset[int]:
            return frozenset().union(*(sequence(part, at) for part in parts(listed, "|")))

        def sequence(listed: tuple[str, ...], at: int) -> frozenset[int]:
            places = frozenset([at])
            while listed:
                inner, opener, listed = first_of(listed)
                step = lambda place, inner=inner: (  # noqa: E731
                    ends(inner[0], place) if len(inner) == 1 else alternatives(inner, place)
                )
                following = frozenset().union(*map(step, places))
                if opener == "{":
                    reached, new = places | following, following - places
                    while new:
                        new = frozenset().union(*map(step, new)) - reached
                        reached |= new
                    places = reached
                else:
                    places = places | following if opener == "[" else following
            return places

        return any(skipped(end) == len(text) for end in ends(rule, 0))


def parts(listed: tuple[str, ...], separator: str) -> list[tuple[str, ...]]:
    """What stands between separators that no bracket is around."""
    found, depth, start = [], 0, 0
    for i, symbol in enumerate(listed):
        depth += (symbol in "([{") - (symbol in ")]}")
        if symbol == separator and not depth:
            found.append(listed[start:i])
            start = i + 1
    return [*found, listed[start:]]


def first_of(listed: tuple[str, ...]) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """The first item: what it is made of, its bracket, and what stands behind it."""
    if listed[0] not in ("(", "[", "{"):
        return listed[:1], "", listed[1:]
    depth = 0
    for i, symbol in enumerate(listed):
        depth += (symbol in ("(", "[", "{")) - (symbol in (")", "]", "}"))
        if not depth:
            return listed[1:i], listed[0], listed[i + 1 :]
    raise AssertionError(f"no end: {listed}")


# -- nests -----------------------------------------------------------------------------------------


@cache
def recognizer() -> Recognizer:
    page = PAGE.read_text("utf-8")
    rules = {**rules_of(page, "Graph"), **rules_of(page, "Nests")}
    return Recognizer({name: rule for name, rule in rules.items() if name not in LEXICAL})


def nests(name: str) -> list[Nest]:
    """Of all plans, one of each text."""
    body, target = body_of(EVERY[name]), named("x86-64-v3")
    plans = (
        plan for problem in problems(body, lanes_for(body, target))
        for strategy in STRATEGIES for plan in strategy.candidates(problem, target)
    )  # fmt: skip
    listed = (replace(plan.nest(), note="") for plan in plans)
    return list({print_nest(nest): nest for nest in listed}.values())


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
    rule = rules_of(PAGE.read_text("utf-8"), "Nests")["tail-name"]
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
