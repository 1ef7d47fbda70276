"""Settings from the environment. None of them changes what generated code computes.

| variable | meaning | default |
|---|---|---|
| GRAPHC_CACHE | folder of the cache of compiled kernels, or `off` | the user's cache folder |
| GRAPHC_CACHE_MB | how large that folder may grow, in megabytes | 512 |
| GRAPHC_DUMP | folder to write each compiled graph to, with all stages | none |
| GRAPHC_PROCESSES | how many processes compile where many kernels are missing, 1 or 2 | 2 |
| GRAPHC_TARGET | the processor native code is made for: host, x86-64-v2, x86-64-v3, … | host |
| GRAPHC_THREADS | the most threads a call runs on, unless asked for more | all processors |
| GRAPHC_VERIFY | whether the graph is verified after each pass, 0 or 1 | 0 |
"""

from __future__ import annotations

import os
from pathlib import Path

from graphc.errors import ArgumentError
from graphc.system import IMPORTING

VERSION = "0.1.0"


def cache_folder() -> Path | None:
    """Where compiled kernels are kept between processes; None where the cache is off."""
    chosen = os.environ.get("GRAPHC_CACHE")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen).expanduser()
    with IMPORTING:
        from platformdirs import user_cache_path

    return user_cache_path("graphc", appauthor=False)


def cache_bytes() -> int:
    """How many bytes of compiled kernels are kept."""
    text = os.environ.get("GRAPHC_CACHE_MB", "512")
    if not text.isdecimal():
        raise ArgumentError(f"GRAPHC_CACHE_MB={text!r} is not a whole number of megabytes")
    return int(text) << 20


def compile_processes() -> int:
    """How many processes may compile: GRAPHC_PROCESSES, 1 or 2 (the default). Raises ArgumentError
    for anything else."""
    text = os.environ.get("GRAPHC_PROCESSES", "2")
    if text not in ("1", "2"):
        raise ArgumentError(f"GRAPHC_PROCESSES={text!r} is neither 1 nor 2")
    return int(text)


def dump_folder() -> str | None:
    """Where every graph that is compiled is written: GRAPHC_DUMP; None for nowhere."""
    return os.environ.get("GRAPHC_DUMP") or None


def most_threads() -> int | None:
    """The most threads a call runs on where nothing else is asked for: GRAPHC_THREADS; None for as
    many as there are processors. Raises ArgumentError for anything but a positive number."""
    text = os.environ.get("GRAPHC_THREADS")
    if not text:
        return None
    if not text.isdecimal() or not int(text):
        raise ArgumentError(f"GRAPHC_THREADS={text!r} is not a positive number")
    return int(text)


def target_name() -> str:
    """The name of the target of native code: GRAPHC_TARGET, `host` by default."""
    return os.environ.get("GRAPHC_TARGET") or "host"


def verify_passes() -> bool:
    """Whether the graph is verified after each pass: GRAPHC_VERIFY, 0 (the default) or 1. Raises
    ArgumentError for anything else."""
    text = os.environ.get("GRAPHC_VERIFY", "0")
    if text not in ("0", "1"):
        raise ArgumentError(f"GRAPHC_VERIFY={text!r} is neither 0 nor 1")
    return text == "1"
