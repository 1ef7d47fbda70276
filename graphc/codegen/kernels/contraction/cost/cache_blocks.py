"""How many rows and columns of a product meet at a time, by the sizes of the caches."""

from __future__ import annotations

from graphc.codegen.kernels.contraction.cost.tilings import Tiling
from graphc.codegen.kernels.contraction.cost.vector_read import PANEL_ROWS
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK
from graphc.codegen.kernels.contraction.problem.view import ContractionView
from graphc.codegen.target import Target
from graphc.records import record

ROWS_OF_L2, COLUMNS_OF_L2 = 0.3, 0.4
"""Parts of L2 for the copies of a block of rows and of a block of columns (with its sums)."""


@record
class CacheBlocks:
    """`rows`: tiles of rows whose broadcast operand stays in L2 while columns pass; 0: all rows.
    `columns`: tiles of columns that a block of rows meets for one K block before the next.
    `packs_each`: the broadcast operand is packed for one block of rows at a time, not ahead of all
    loops."""

    rows: int
    columns: int
    packs_each: bool


def cache_blocks(tiling: Tiling, target: Target) -> CacheBlocks:
    """Rows: as many as fill a part of L2 with one K block, or all where all fit. As few as can be
    where the body reads more matrices than it multiplies and the packed columns fit: then all of
    them are read along their rows. Columns: as many as keep their sums and their copy in another
    part; with few rows, which are soon done with it, as many as keep their copy in L1."""
    problem, tile, packing = tiling.problem, tiling.tile, tiling.packing
    rows, depth, size = problem.rows, problem.depth, problem.dtype.itemsize
    group, packed_rows = (packing.group, packing.width) if packing is not None else (1, 0)
    width = tile.vectors * tiling.lanes
    columns = max(-(-problem.view.n[0] // width), 1)
    k_block = max(min(depth, K_BLOCK), 1) * size
    row_tiles = -(-rows // tile.rows)
    of_tile = k_block * (packed_rows / group or tile.rows)
    blocks = -(-row_tiles // max(int(ROWS_OF_L2 * target.l2_bytes / of_tile), 1))
    packed = problem.view.n[0] * depth * size
    if depth <= K_BLOCK and packed <= COLUMNS_OF_L2 * target.l2_bytes:
        if _matrices_beside(problem.view) >= 2 and rows >= 2 * tile.rows * group:
            return CacheBlocks(group if blocks > 1 else 1, columns, blocks > 1)
    row_block = -(-row_tiles // blocks // group) * group if blocks > 1 else 0
    sums = (row_block or row_tiles) * tile.rows * width * size if depth > K_BLOCK else 0
    copy = 0 if row_block else width * k_block
    fit = COLUMNS_OF_L2 * target.l2_bytes / max(copy + sums, 1)
    if rows < PANEL_ROWS:
        fit = 0.75 * target.l1_bytes / max(copy, 1)
    return CacheBlocks(row_block, -(-columns // -(-columns // max(int(fit), 1))), blocks > 1)


def _matrices_beside(view: ContractionView) -> int:
    """Inputs of the body of the results' size that are no operands of the contraction."""
    node = view.body.nodes[view.anchor.node]
    size = view.body.type_of(view.anchor).numel
    operands = {operand.node for operand in node.operands}
    return sum(
        type.numel == size and position not in operands
        for position, type in enumerate(view.body.input_types)
    )
