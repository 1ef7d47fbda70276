"""Settings from the environment. None of them changes what generated code computes.

| variable | meaning | default |
|---|---|---|
| GRAPHC_CACHE | folder of the cache of compiled kernels, or `off` | the user's cache folder |
| GRAPHC_CACHE_MB | how large that folder may grow, in megabytes | 512 |
"""

from __future__ import annotations

import os
from pathlib import Path

from graphc.errors import ArgumentError


def cache_folder() -> Path | None:
    """Where compiled kernels are kept between processes; None where the cache is off."""
    chosen = os.environ.get("GRAPHC_CACHE")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("graphc", appauthor=False)


def cache_bytes() -> int:
    """How many bytes of compiled kernels are kept."""
    text = os.environ.get("GRAPHC_CACHE_MB", "512")
    if not text.isdecimal():
        raise ArgumentError(f"GRAPHC_CACHE_MB={text!r} is not a whole number of megabytes")
    return int(text) << 20
