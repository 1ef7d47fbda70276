"""`torch.distributed.rpc`: not here; each name raises NotImplementedError when used."""

from frontend.namespace.stubs import stubs


def is_available() -> bool:
    """False."""
    return False


globals().update(stubs("distributed.rpc"))
