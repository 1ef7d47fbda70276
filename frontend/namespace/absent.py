"""What stands for parts of PyTorch that are not here: names that can be imported, and raise
NotImplementedError, saying what to use instead, when they are used."""

from __future__ import annotations

from typing import Any, NoReturn


def absent_names(module: str, names: str, instead: str) -> dict[str, Any]:
    """For each of `names`, a class whose making raises: it can be called, derived from, and asked
    about by `isinstance`."""

    def raising(cls: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"torch.{module}.{cls.__name__} is not here: {instead}")

    members = {
        "__new__": raising, "__doc__": f"Raises NotImplementedError: {instead}.", "absent": instead
    }  # fmt: skip
    return {name: type(name, (), {**members, "__module__": module}) for name in names.split()}
