"""A line search for the strong Wolfe conditions (J. Nocedal and S. Wright, "Numerical
Optimization", algorithms 3.5 and 3.6), with cubic interpolation.

in : what evaluates a step length, the point at 0, the direction's greatest element
out: the point taken
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

DECREASE = 1e-4
"""Of the slope at 0: what the value must fall by at least, per step length."""
CURVATURE = 0.9
"""Of the slope at 0: what the slope may still be at the point taken."""


class Point(NamedTuple):
    """A step length with the objective's value, gradient and slope along the direction there."""

    t: float
    value: float
    gradient: Any
    slope: float


Evaluate = Callable[[float], Point]


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points with their slopes is least, within `bounds` (by default
    between the points); the middle of the bounds where it has no minimum."""
    low, high = bounds or (min(a.t, b.t), max(a.t, b.t))
    left, right = (a, b) if a.t <= b.t else (b, a)
    bend = left.slope + right.slope - 3 * (left.value - right.value) / (left.t - right.t)
    square = bend**2 - left.slope * right.slope
    if not square >= 0:
        return (low + high) / 2
    root = math.sqrt(square)
    share = (right.slope + root - bend) / (right.slope - left.slope + 2 * root)
    return min(max(right.t - (right.t - left.t) * share, low), high)


def strong_wolfe(
    evaluate: Evaluate, first: float, start: Point, length: float, tolerance: float, most: int
) -> Point:
    """The point taken from `start` (at 0) on, beginning at step length `first`, with at most `most`
    steps of search; `length` is the direction's greatest magnitude, `tolerance` how small a bracket
    times that may become."""
    search = _Search(evaluate, start, most)
    bracket = search.bracketed(first)
    return search.zoomed(bracket, length, tolerance)


class _Search:
    def __init__(self, evaluate: Evaluate, start: Point, most: int):
        self.evaluate = evaluate
        self.start = start
        self.most = most
        self.steps = 0

    def falls(self, point: Point) -> bool:
        """Whether the value has fallen enough for the step length."""
        return not point.value > self.start.value + DECREASE * point.t * self.start.slope

    def is_flat(self, point: Point) -> bool:
        """Whether the slope has become small enough."""
        return abs(point.slope) <= -CURVATURE * self.start.slope

    def bracketed(self, t: float) -> list[Point]:
        """Two points around one that satisfies the conditions, or such a point alone."""
        before, now = self.start, self.evaluate(t)
        while self.steps < self.most:
            if not self.falls(now) or (self.steps > 1 and now.value >= before.value):
                return [before, now]
            if self.is_flat(now):
                return [now]
            if now.slope >= 0:
                return [before, now]
            bounds = (now.t + 0.01 * (now.t - before.t), now.t * 10)
            t = cubic_minimum(before, now, bounds)
            before, now = now, self.evaluate(t)
            self.steps += 1
        return [self.start, now]

    def zoomed(self, bracket: list[Point], length: float, tolerance: float) -> Point:
        """The best point found by making the bracket smaller."""
        if len(bracket) == 1:
            return bracket[0]
        low, high = sorted(bracket, key=lambda point: point.value)
        crept = False
        while self.steps < self.most and not abs(high.t - low.t) * length < tolerance:
            t, crept = self._trial(low, high, crept)
            now = self.evaluate(t)
            self.steps += 1
            if not self.falls(now) or now.value >= low.value:
                # The two are told apart anew: `low` is the lower one.
                low, high = (low, now) if low.value <= now.value else (now, low)
                continue
            if self.is_flat(now):
                return now
            if now.slope * (high.t - low.t) >= 0:
                high = low
            low = now
        return low

    def _trial(self, low: Point, high: Point, crept: bool) -> tuple[float, bool]:
        """The next step length, and whether it lies near a border: a second time in a row, or on
        the border itself, it is moved a tenth of the bracket inwards."""
        t = cubic_minimum(low, high)
        least, greatest = min(low.t, high.t), max(low.t, high.t)
        margin = 0.1 * (greatest - least)
        if min(greatest - t, t - least) >= margin:
            return t, False
        if not crept and least < t < greatest:
            return t, True
        return (greatest - margin if greatest - t < t - least else least + margin), False
