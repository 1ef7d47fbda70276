"""`torch.fx.experimental.proxy_tensor`: graphs of operators, made by running a function."""

from frontend.namespace.stubs import stubs

globals().update(stubs("fx.experimental.proxy_tensor"))


def get_proxy_mode() -> None:
    """None: no trace of this kind is ever under way."""
