"""What an EBNF of docs/ir.md describes, and whether a text is that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "ir.md"
SYMBOL = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z][\w-]*|[=|;{}\[\]()])""")
SKIPPED = re.compile(r"(?:\s|//[^\n]*)*")
LEXICAL = {
    "integer": re.compile(r"\d+"), "name": re.compile(r"[A-Za-z_][\w.]*"),
    "number": re.compile(r"[+-]?(?:inf|nan|\d+(?:\.\d*)?(?:e[+-]?\d+)?)"),
    "float": re.compile(r"[+-]?(?:inf|\d+(?:\.\d*(?:e[+-]?\d+)?|e[+-]?\d+))"),
    "string": re.compile(r'"(?:[^"\\]|\\.)*"'),
    "buffer-name": re.compile(r"b\d+\b"),
    "value": re.compile(r"%[\w.]+"), "index": re.compile(r"\w+"),
    "vector": re.compile(r"(?:bool|bf16|[fiu]\d+)(?:x\d+)?\b"),
}  # fmt: skip
"""What is one word, without blanks inside."""


def symbols(text: str) -> list[str]:
    listed, at = [], 0
    text = re.sub(r"\(\*.*?\*\)", "", text).rstrip()
    while at < len(text):
        match = SYMBOL.match(text, at)
        assert match, f"no EBNF: {text[at : at + 40]!r}"
        listed.append(match[1])
        at = match.end()
    return listed


def rules_of(section: str) -> dict[str, list[str]]:
    """The rules of a section's grammar, each as its symbols."""
    page = PAGE.read_text("utf-8")
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

    rules: Mapping[str, list[str]]

    @staticmethod
    def of(section: str) -> Recognizer:
        """For the grammar of a level, with what it has from that of graphs."""
        rules = {**rules_of("Graph"), **rules_of(section)}
        return Recognizer({name: rule for name, rule in rules.items() if name not in LEXICAL})

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
    listed_parts, depth, start = [], 0, 0
    for i, symbol in enumerate(listed):
        depth += (symbol in "([{") - (symbol in ")]}")
        if symbol == separator and not depth:
            listed_parts.append(listed[start:i])
            start = i + 1
    return [*listed_parts, listed[start:]]


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
