"""The minimum cut of a network (Dinic's algorithm: "Algorithm for solution of a problem of maximum
flow in a network with power estimation", 1970).

Own code, though networkx has it: importing that takes as long as importing NumPy, and would be all
that the first step of a recurrent network needs it for.
"""

from __future__ import annotations

import math
from collections.abc import Hashable


class Network:
    """Nodes are any hashable things; an edge carries at most its capacity."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._edges: list[list[int]] = []  # by node: the edges that leave it
        # Edge e and its way back, e ^ 1, are neighbours. What both can carry on top of the flow.
        self._head: list[int] = []
        self._left: list[float] = []

    def add(self, tail: Hashable, head: Hashable, capacity: float = math.inf) -> None:
        for node, other, size in ((tail, head, capacity), (head, tail, 0)):
            self._edges[self._number(node)].append(len(self._head))
            self._head.append(self._number(other))
            self._left.append(size)

    def _number(self, node: Hashable) -> int:
        number = self._numbers.setdefault(node, len(self._numbers))
        if number == len(self._edges):
            self._edges.append([])
        return number

    def cut(self, source: Hashable, sink: Hashable) -> set[Hashable]:
        """The nodes on the source's side of the minimum cut; of several cuts the one nearest to the
        sink. Uses the network up. Raises ValueError where no cut is finite."""
        start, end = self._number(source), self._number(sink)
        while True:
            distance = self._distances(start, forward=True)
            if distance[end] < 0:
                break
            self._fill(start, end, distance)
        behind = self._distances(end, forward=False)
        return {node for node, number in self._numbers.items() if behind[number] < 0}

    def _distances(self, start: int, forward: bool) -> list[int]:
        """Edges from a node to each, or from each to it, where more can flow; -1 for no way."""
        distance = [-1] * len(self._edges)
        distance[start] = 0
        work = [start]
        for node in work:
            for edge in self._edges[node]:
                other = self._head[edge]
                if distance[other] < 0 and self._left[edge if forward else edge ^ 1]:
                    distance[other] = distance[node] + 1
                    work.append(other)
        return distance

    def _fill(self, start: int, end: int, distance: list[int]) -> None:
        """Let flow along the shortest ways until none of them has room."""
        tried = [0] * len(self._edges)  # by node: how many of its edges lead nowhere any more
        path: list[int] = []
        node = start
        while True:
            if node == end:
                path = self._filled(path)
            else:
                edge = self._onward(node, tried, distance)
                if edge is not None:
                    path.append(edge)
                elif path:
                    tried[self._head[path.pop() ^ 1]] += 1
                else:
                    return
            node = self._head[path[-1]] if path else start

    def _onward(self, node: int, tried: list[int], distance: list[int]) -> int | None:
        """The first edge with room that leads farther."""
        edges = self._edges[node]
        for position in range(tried[node], len(edges)):
            edge = edges[position]
            if self._left[edge] and distance[self._head[edge]] == distance[node] + 1:
                tried[node] = position
                return edge
        tried[node] = len(edges)
        return None

    def _filled(self, path: list[int]) -> list[int]:
        """Fill a way; what of it lies before the first edge that is full now."""
        amount = min(self._left[edge] for edge in path)
        if amount == math.inf:
            raise ValueError("no finite cut parts source and sink")
        for edge in path:
            self._left[edge] -= amount
            self._left[edge ^ 1] += amount
        full = next(place for place, edge in enumerate(path) if not self._left[edge])
        return path[:full]
