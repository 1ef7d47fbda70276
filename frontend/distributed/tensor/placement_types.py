"""`torch.distributed.tensor.placement_types`: how a divided tensor would lie on devices. These are
plain values; no tensor here is divided."""

from __future__ import annotations

from dataclasses import dataclass


class Placement:
    """Along one dimension of a mesh of devices: one of the classes below."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is divided along `dim`, or along any dimension."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether each device has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each device has a part of a sum, or of `reduce_op`."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each device has a range of dimension `dim`."""

    dim: int


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Each device has ranges of dimension `dim`, one of each of `split_factor` parts."""

    split_factor: int


@dataclass(frozen=True)
class Replicate(Placement):
    """Each device has the whole."""


@dataclass(frozen=True)
class Partial(Placement):
    """The devices' values have to be combined by `reduce_op`."""

    reduce_op: str = "sum"
