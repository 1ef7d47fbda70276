"""`torch.utils._python_dispatch`: modes below the operators are not here; functions and
methods can be looked at by `torch.overrides.TorchFunctionMode`."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "utils._python_dispatch", "TorchDispatchMode",
        "use torch.overrides.TorchFunctionMode, or frontend.trace for the graph",
    )
)  # fmt: skip


def is_traceable_wrapper_subclass(t: object) -> bool:
    """False: there are no such classes."""
    return False
