"""Reachability on the condensed graph, a node for each group, while groups merge.

in : groups of one node each, and what each reads
out: whether one group depends on another; whether a merge of two would create a cycle

What runs behind a group is a set of nodes, kept as a row of bits: a question is asked for each pair
of groups that could merge, far more often than two do.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphc.schedule.groups import FusionGroup


class GroupReachability:
    """The graph of the groups in `groups`, which gives the group of each kept node. Who merges two
    calls `merge`, then puts the merged one there."""

    def __init__(self, groups: Mapping[int, FusionGroup]) -> None:
        self._groups = groups
        self._readers: dict[int, set[int]] = {identity: set() for identity in groups}
        for identity, group in groups.items():
            for node in {value.node for value in group.sources} | group.after:
                if node in groups:
                    self._readers[node].add(identity)
        self._row = {identity: row for row, identity in enumerate(groups)}
        # Of a node's group: its nodes and all that need them, a bit each.
        self._behind = np.zeros((len(groups), -(-len(groups) // 8)), np.uint8)
        # Operands stand before their nodes, and content checks before what they protect.
        for identity in sorted(groups, reverse=True):
            row = self._row[identity]
            after = self._behind[[self._row[reader] for reader in self._readers[identity]]]
            self._behind[row] = np.bitwise_or.reduce(after, axis=0)
            self._behind[row, row // 8] |= 1 << row % 8
        # From here on whole columns are read, what leads to a group, and few rows.
        self._behind = np.asfortranarray(self._behind)

    def depends_on(self, consumer: FusionGroup, producer: FusionGroup) -> bool:
        """Whether the consumer runs behind the producer, with groups between them or not."""
        return self._leads(producer.nodes[0], consumer.nodes[0])

    def merge_creates_cycle(self, producer: FusionGroup, consumer: FusionGroup) -> bool:
        """Whether a path leads from the producer through a third group to the consumer: then merged
        they would depend on themselves."""
        return any(
            self._leads(reader, consumer.nodes[0])
            and self._groups[reader] not in (producer, consumer)
            for identity in producer.nodes
            for reader in self._readers[identity]
        )

    def merge(self, one: FusionGroup, other: FusionGroup) -> None:
        """The two groups are one from now on: what leads to one of them leads to all that either
        leads to."""
        rows = [self._row[one.nodes[0]], self._row[other.nodes[0]]]
        to_one, to_other = (self._behind[:, row // 8] >> row % 8 & 1 for row in rows)
        # What leads to both has all of it.
        self._behind[to_one != to_other] |= self._behind[rows[0]] | self._behind[rows[1]]

    def _leads(self, node: int, other: int) -> bool:
        """Whether a path leads from one node's group to the other's."""
        column = self._row[other]
        return bool(self._behind[self._row[node], column // 8] >> column % 8 & 1)
