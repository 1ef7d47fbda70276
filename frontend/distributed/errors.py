"""What goes wrong between processes: PyTorch's names, in the one family of errors."""

from __future__ import annotations

from graphc.errors import GraphError


class DistError(GraphError):
    """Base of the errors of `torch.distributed`."""


class DistBackendError(DistError):
    """A collective that cannot be completed: ranks disagree, one is gone, or the time is up."""


class DistNetworkError(DistError):
    """A process that cannot be reached."""


class DistStoreError(DistError):
    """A key of a store that did not come within its time."""
