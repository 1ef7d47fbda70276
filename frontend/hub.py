"""`torch.hub`: state dicts by path or `file:` address. Nothing is fetched from a network."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlparse
from urllib.request import url2pathname

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url",
    "set_dir",
]  # fmt: skip

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_own_dir: str | None = None


def _get_torch_home() -> str:
    """`$TORCH_HOME`, or `torch` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of `set_dir`, or `hub` in `$TORCH_HOME`."""
    return _own_dir or os.path.join(_get_torch_home(), "hub")


def set_dir(d: Any) -> None:
    """Where state dicts are kept."""
    global _own_dir
    _own_dir = os.path.expanduser(d)


def _local(url: str) -> Path:
    """The file an address names. Raises RuntimeError for one on a network."""
    parts = urlparse(str(url))
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    if parts.scheme in ("", *"abcdefghijklmnopqrstuvwxyz"):  # a letter: a drive
        return Path(url)
    raise RuntimeError(
        f"{url} is on a network, and nothing is fetched from there: download the file and give its "
        "path"
    )


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Copy a local file. Raises RuntimeError for another address, and where the SHA-256 of what it
    holds does not begin with `hash_prefix`."""
    source = _local(url)
    if hash_prefix is not None:
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        if not digest.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest}")')
    shutil.copyfile(source, dst)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, weights_only: bool = False,
) -> Any:  # fmt: skip
    """What `frontend.load` reads from a path or `file:` address, or from the file of this name that
    lies in `model_dir` (or `get_dir()/checkpoints`) already; of others `check_hash` checks that
    their SHA-256 begins as their name says (PyTorch, too, checks what it fetches alone). Raises
    RuntimeError where it does not, and for what would have to be fetched from a network."""
    from frontend.serialization import load as load_file

    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    kept = folder / (file_name or os.path.basename(urlparse(str(url)).path))
    path = kept if kept.is_file() else _local(url)
    if check_hash and path is not kept:
        prefix = HASH_REGEX.search(path.name)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if prefix is not None and not digest.startswith(prefix.group(1)):
            raise RuntimeError(f'invalid hash value (expected "{prefix.group(1)}", got "{digest}")')
    return load_file(path, map_location=map_location)


def _no_network(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(
        "torch.hub: code is not fetched from a network; clone the repository and import it"
    )


load = list = help = _no_network
