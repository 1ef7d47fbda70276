"""Several transforms as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.tensors.tensor import from_data
from frontend.functions.sampling import multinomial
from frontend.nn.modules.container import ModuleList
from frontend.nn.modules.module import Module
from frontend.vision.transforms.image_types import drawn, drawn_integer

__all__ = ["Compose", "Lambda", "RandomApply", "RandomChoice", "RandomOrder"]

Transform = Callable[[Any], Any]


def _listed(name: str, transforms: Sequence[Transform]) -> str:
    return f"{name}(\n" + "".join(f"    {t}\n" for t in transforms) + ")"


class Compose:
    """One transform after the other."""

    def __init__(self, transforms: Sequence[Transform]):
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _listed("Compose", self.transforms)


class Lambda:
    """A function as a transform."""

    def __init__(self, lambd: Transform):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return "Lambda()"


class RandomApply(Module):
    """All transforms, with probability p; else none."""

    def __init__(self, transforms: Sequence[Transform] | ModuleList, p: float = 0.5):
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img: Any) -> Any:
        if self.p < drawn():
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _listed(f"RandomApply(p={self.p})", list(self.transforms))


class RandomOrder(Compose):
    """All transforms, in an order drawn anew."""

    def __call__(self, img: Any) -> Any:
        left = list(self.transforms)
        while left:
            img = left.pop(drawn_integer(len(left)))(img)
        return img

    def __repr__(self) -> str:
        return _listed("RandomOrder", self.transforms)


class RandomChoice(Compose):
    """One of the transforms, with the probabilities `p` (equal by default)."""

    def __init__(self, transforms: Sequence[Transform], p: Sequence[float] | None = None):
        super().__init__(transforms)
        if p is not None and len(p) != len(transforms):
            raise ValueError(f"{len(p)} probabilities for {len(transforms)} transforms")
        self.p = p

    def __call__(self, img: Any) -> Any:
        if self.p is None:
            return self.transforms[drawn_integer(len(self.transforms))](img)
        chosen = int(multinomial(from_data(list(self.p)), 1).item())
        return self.transforms[chosen](img)

    def __repr__(self) -> str:
        return _listed(f"RandomChoice(p={self.p})", self.transforms)
