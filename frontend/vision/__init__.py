"""`frontend.vision`: the parts of torchvision that its small-image scripts need."""

from frontend.vision import datasets, transforms

__all__ = ["datasets", "transforms"]
