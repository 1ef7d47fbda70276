"""`install_as("torch")`: scripts that import torch get the frontend.

Every `torch.x` is then the very module `frontend.x`, loaded once, so classes stay identical
whichever name they are imported by; `torchvision` is `frontend.vision` where no other is installed.
`importlib.metadata` is told the same versions as scripts are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_SHARED = {
    "counts": "binomial geometric multinomial negative_binomial poisson",
    "extremes": "generalized_pareto gumbel pareto weibull",
    "gamma": "beta chi2 dirichlet",
    "half_distributions": "half_cauchy half_normal",
    "mixture": "mixture_same_family",
    "one_hot": "one_hot_categorical",
    "wide_tails": "cauchy fishersnedecor laplace studentT",
}
"""Modules of `distributions` that hold what PyTorch has in several."""


class _SameModule(Loader):
    """Loads a module that exists under another name."""

    def __init__(self, target: str):
        self.target = target
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the alias's spec on the module by now.
        module.__spec__ = self.spec


class _Aliases(MetaPathFinder):
    """Finds modules of `names` (alias to target package), and says of what `importlib.metadata`
    asks that it is installed."""

    def __init__(self, names: dict[str, str]):
        self.names = names

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """That of the package that is stood in for, with the version it has as `__version__`
        (2.13.0+graphc); nothing where `context` names another."""
        from frontend.namespace.distribution import StandInDistribution  # few programs ask

        wanted = getattr(context, "name", None)
        for alias, target in self.names.items():
            if target == "frontend" and (wanted is None or wanted.lower() == alias):
                yield StandInDistribution(alias, import_module(target).__version__)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        alias, dot, rest = fullname.partition(".")
        if fullname in self.names:  # a module inside another package
            alias, dot, rest = fullname, "", ""
        package = self.names.get(alias)
        if package is None:
            return None
        wanted = f"{package}{dot}{rest}"
        try:
            module = import_module(wanted)
        except ModuleNotFoundError as error:
            if error.name is None or not wanted.startswith(error.name):
                raise
            raise ModuleNotFoundError(
                f"No module named {fullname!r} (frontend has no {wanted!r})", name=fullname
            ) from None
        return ModuleSpec(fullname, _SameModule(wanted), is_package=hasattr(module, "__path__"))


class _SafetensorsOfTorch:
    """`safetensors.safe_open` while the frontend is installed: files opened for "pt" give its
    tensors, others go where they went before."""

    def __init__(self) -> None:
        import safetensors

        self._names = vars(safetensors)
        self._before = safetensors.safe_open
        self._names["safe_open"] = self.open

    def open(self, filename: Any, framework: str, *device: Any, **options: Any) -> Any:
        if framework not in ("pt", "torch", "pytorch"):
            return self._before(filename, framework, *device, **options)
        from frontend.safetensors import safe_open

        return safe_open(filename, framework, *device, **options)

    def remove(self) -> None:
        self._names["safe_open"] = self._before


class Installed:
    """What `install_as` did; `remove()`, or leaving a `with` block, undoes it."""

    def __init__(self, finder: _Aliases, files: _SafetensorsOfTorch | None = None):
        self._finder = finder
        self._files = files

    def remove(self) -> None:
        """Take the names back; modules that imported them keep what they have."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        names = self._finder.names
        for name in [n for n in sys.modules if n in names or n.partition(".")[0] in names]:
            del sys.modules[name]
        _called("frontend", "frontend.engine.tensors.tensor")
        if self._files is not None:
            self._files.remove()
            self._files = None

    def __enter__(self) -> Installed:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def _called(name: str, home: str) -> None:
    """The package says that this is its name, as packages ask of a module that they patch; and
    Tensor that it stands in `home`, by which libraries for several frameworks know whose it is."""
    package = import_module("frontend")
    package.__name__, package.Tensor.__module__ = name, home


def _is_installed(name: str) -> bool:
    """Whether the module is there to be imported, or was."""
    return name in sys.modules or PathFinder.find_spec(name) is not None


def install_as(name: str = "torch") -> Installed:
    """From here on `import name` (and `name.nn`, …) gives the frontend. As "torch" it takes
    "torchvision" along, unless that is installed: it then runs on the frontend;
    "safetensors.torch" is `frontend.safetensors`, "functorch" what PyTorch's package of that name
    has. Raises RuntimeError where another module of that name is loaded already.
    """
    names = {name: "frontend"}
    for module, parts in _SHARED.items():
        for part in parts.split():
            names[f"{name}.distributions.{part}"] = f"frontend.distributions.{module}"
    if name == "torch":
        names["safetensors.torch"] = "frontend.safetensors"
        names["functorch"] = "frontend._functorch.package"
        if not _is_installed("torchvision"):
            names["torchvision"] = "frontend.vision"
    for alias, target in names.items():
        loaded = sys.modules.get(alias)
        if loaded is not None and loaded is not sys.modules.get(target):
            raise RuntimeError(
                f"{alias} is imported already, from {getattr(loaded, '__file__', 'somewhere')}; "
                f"call install_as({name!r}) before anything imports it"
            )
    finder = _Aliases(names)
    sys.meta_path.insert(0, finder)
    _called(name, name)
    return Installed(finder, _SafetensorsOfTorch() if name == "torch" else None)
