"""`torch.nn.attention.flex_attention`: not here; each name raises NotImplementedError when used."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["AuxRequest", "BlockMask", "create_block_mask", "create_mask", "flex_attention"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


def flex_attention(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError(
        "there is no flex_attention: use torch.nn.functional.scaled_dot_product_attention with a "
        "mask or an additive bias"
    )


create_block_mask = create_mask = create_nested_block_mask = and_masks = or_masks = flex_attention
noop_mask = flex_attention


class BlockMask:
    """A mask in blocks. Raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any):
        flex_attention()


class AuxRequest:
    """What `flex_attention` returns besides. Raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any):
        flex_attention()
