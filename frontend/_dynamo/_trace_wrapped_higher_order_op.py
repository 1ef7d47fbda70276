"""`torch._dynamo._trace_wrapped_higher_order_op`."""

from typing import Any


class TransformGetItemToIndex:
    """A block in which `x[i]` may take 0-d tensors for i. It always may."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass
