"""Merging of equal nodes: what is equal, what is not."""

from __future__ import annotations

import numpy as np

from graphc.ir.builder import GraphBuilder
from graphc.ir.parser import parse
from graphc.ir.verifier import verify
from graphc.passes.common_subexpressions import common_subexpressions


def test_equal_nodes_are_merged_through_their_users() -> None:
    before = parse("""
        graph g(%x: f32[2], %y: f32[2]) {
          %2 = exp(%x) : f32[2]
          %3 = exp(%x) : f32[2]
          %4 = sub(%2, %y) : f32[2]
          %5 = sub(%3, %y) : f32[2]
          return %4, %5
        }""")
    expected = parse("""
        graph g(%x: f32[2], %y: f32[2]) {
          %2 = exp(%x) : f32[2]
          %3 = sub(%2, %y) : f32[2]
          return %3, %3
        }""")
    assert verify(common_subexpressions(before)) == expected


def test_operands_of_a_commuting_op_are_merged_in_either_order() -> None:
    graph = parse("""
        graph g(%x: f32[2], %y: f32[2]) {
          %2 = add(%x, %y) : f32[2]
          %3 = add(%y, %x) : f32[2]
          %4 = maximum(%x, %y) : f32[2]
          %5 = maximum(%y, %x) : f32[2]
          return %2, %3, %4, %5
        }""")
    outputs = common_subexpressions(graph).outputs
    assert outputs[0] == outputs[1]
    assert outputs[2] != outputs[3]  # of -0 and +0, maximum gives the second


def test_constants_are_compared_by_bits() -> None:
    builder = GraphBuilder()
    numbers = [0.0, -0.0, 0.0, np.nan, np.nan]
    constants = [builder.constant(np.float32(number)) for number in numbers]
    constants += [builder.constant(np.float64(0)), builder.constant(np.zeros(1, np.float32))]
    after = common_subexpressions(builder.finish(*constants))
    ids = [output.node for output in after.outputs]
    assert ids == [0, 1, 0, 2, 2, 3, 4]


def test_attributes_are_compared_by_type_and_sign() -> None:
    graph = parse("""
        graph g(%x: f32[4,2], %w: f32[2]) {
          %2 = layer_norm(%x, %w, %w) eps=0.0 : f32[4,2]
          %3 = layer_norm(%x, %w, %w) eps=-0.0 : f32[4,2]
          %4 = layer_norm(%x, %w, %w) eps=0 : f32[4,2]
          %5 = layer_norm(%x, %w, %w) eps=0.0 : f32[4,2]
          return %2, %3, %4, %5
        }""")
    outputs = common_subexpressions(graph).outputs
    assert len(set(outputs)) == 3
    assert outputs[0] == outputs[3]


def test_draws_from_one_state_are_merged_and_from_two_are_not() -> None:
    graph = parse("""
        graph g(%s: i64[2]) {
          %1 = random_uniform(%s) dtype=f32 shape=[3] : f32[3], i64[2]
          %2 = random_uniform(%s) dtype=f32 shape=[3] : f32[3], i64[2]
          %3 = random_uniform(%2.1) dtype=f32 shape=[3] : f32[3], i64[2]
          return %1, %2, %3
        }""")
    outputs = common_subexpressions(graph).outputs
    assert outputs[0] == outputs[1] != outputs[2]
