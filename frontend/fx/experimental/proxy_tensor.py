"""`torch.fx.experimental.proxy_tensor`: graphs of operators, made by running a function."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "fx.experimental.proxy_tensor",
        "ProxyTorchDispatchMode make_fx",
        "torch.export.export gives the graph of a Module, torch.fx.symbolic_trace one of its calls",
    )
)


def get_proxy_mode() -> None:
    """None: no trace of this kind is ever under way."""
