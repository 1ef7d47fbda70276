"""Handles that take hooks off again, under PyTorch's name of the module."""

from frontend.engine.tensors.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
