"""Runs at the start of Python: see the package. The first `import torch` installs the frontend; a
process that never imports it loads nothing. Another sitecustomize, behind this one, runs too."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent


class FirstImport:
    """Installs the frontend when one of its names is imported, and is gone."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module, by what is installed now."""
        names = ("torch", "torchvision")
        if name.partition(".")[0] not in names and name != "safetensors.torch":
            return None
        sys.meta_path.remove(self)
        if PathFinder.find_spec("frontend") is None:
            sys.path.append(str(HERE.parent.parent))
        from frontend.install import install_as

        install_as("torch")
        for finder in sys.meta_path:  # the import under way is past the finder that is now first
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


def others() -> None:
    """Run the sitecustomize that would have run without this one."""
    paths = [path for path in sys.path if Path(path or ".").resolve() != HERE]
    spec = PathFinder.find_spec("sitecustomize", paths)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.meta_path.insert(0, FirstImport())
others()
