"""`torch.__config__`: how this was built."""

from __future__ import annotations


def show() -> str:
    """A text with the versions of what computes."""
    from importlib.metadata import version

    from frontend.version import __version__

    parts = ", ".join(f"{name} {version(name)}" for name in ("llvmlite", "numpy"))
    return f"graphc {__version__}, {parts}\n"


def parallel_info() -> str:
    """How many threads compiled code runs on."""
    from frontend.devices.environment import get_num_threads

    return f"threads of compiled code: {get_num_threads()}\n"
