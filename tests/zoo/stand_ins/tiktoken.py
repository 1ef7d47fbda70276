"""Stands in for tiktoken where it is not installed: nanoGPT's sampling imports it, and does not
need it for data that comes with its own characters."""


def get_encoding(name: str) -> None:
    raise NotImplementedError(f"the encoding {name!r} needs tiktoken")
