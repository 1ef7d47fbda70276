"""The register tile of a contraction, by a stated cost model."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.codegen.target import Target


def vector_registers(target: Target) -> int:
    """Vector registers of a target: AVX-512 and NEON have 32, AVX2 and SSE 16."""
    return 32 if target.vector_bytes == 64 or "aarch64" in target.triple else 16


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows, and vectors of columns, that stay in registers."""

    rows: int
    vectors: int


def choose_tile(m: int, n: int, lanes: int, registers: int) -> Tile:
    """The tile with the highest (tail efficiency · intensity) that fits the registers: rows·vectors
    accumulators, a vector of each column block, and one broadcast."""
    best, best_score = Tile(1, 1), -1.0
    for vectors in range(1, 4):
        for rows in range(1, 15):
            if rows * vectors + vectors + 1 > registers:
                continue
            covered = -(-m // rows) * rows * -(-n // (vectors * lanes)) * vectors * lanes
            tail = m * n / covered
            intensity = rows * vectors / (rows + vectors)
            # Latency 4 on two pipes wants eight chains under way.
            chains = min(rows * vectors, 8) / 8
            score = tail * intensity * chains
            if score > best_score:
                best, best_score = Tile(rows, vectors), score
    return best
