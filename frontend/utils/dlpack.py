"""Tensors shared with other libraries through DLPack, under PyTorch's name of the module."""

from frontend.engine.tensors.dlpack import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
