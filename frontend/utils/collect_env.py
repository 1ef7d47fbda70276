"""`python -m torch.utils.collect_env`: the versions of what is here."""

from __future__ import annotations

import platform
import sys

__all__ = ["get_pretty_env_info", "main"]


def get_pretty_env_info() -> str:
    """A line each for versions and the machine."""
    from frontend import __config__
    from frontend.version import __version__

    return "\n".join(
        (
            f"frontend version: {__version__}",
            f"Python version: {sys.version.split()[0]}",
            f"Platform: {platform.platform()}",
            f"CPU: {platform.machine()}",
            __config__.show() + __config__.parallel_info(),
        )
    )


def main() -> None:
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
