"""What the tests of built files share: models built once for a target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import frontend as torch
from tests.build.models import compiled

Built = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The folder of a model built for a target, with seven calls; made once."""
    folders: dict[tuple[str, str], Path] = {}

    def folder(name: str, target: str) -> Path:
        if (name, target) not in folders:
            path = tmp_path_factory.mktemp(f"{name}_{target}")
            function, draw = compiled(name)
            with torch.set_grad_enabled(name != "inference"):
                function.build(path, *draw(4), target=target, name=name, calls=7)
            folders[name, target] = path
        return folders[name, target]

    return folder
