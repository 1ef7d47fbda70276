"""What stands for the functions of an export that is not there."""

from typing import Any, NoReturn


def absent(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError("torch.onnx: there is no export to ONNX")
