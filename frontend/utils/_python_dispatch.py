"""`torch.utils._python_dispatch`: modes below the operators are not here; functions and
methods can be looked at by `torch.overrides.TorchFunctionMode`."""

from frontend.namespace.stubs import stubs

globals().update(stubs("utils._python_dispatch"))


def is_traceable_wrapper_subclass(t: object) -> bool:
    """False: there are no such classes."""
    return False
