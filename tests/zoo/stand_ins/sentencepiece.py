"""Stands in for sentencepiece where it is not installed: its file holds the number of tokens,
which are bytes, and a text is decoded to their numbers, so that those can be compared."""

from __future__ import annotations

from pathlib import Path


class SentencePieceProcessor:
    def __init__(self, model_file: str):
        self.count = int(Path(model_file).read_text())

    def vocab_size(self) -> int:
        return self.count

    def get_piece_size(self) -> int:
        return self.count

    def bos_id(self) -> int:
        return 1

    def eos_id(self) -> int:
        return 2

    def pad_id(self) -> int:
        return -1

    def encode(self, text: str) -> list[int]:
        return [byte % self.count for byte in text.encode()]

    def decode(self, tokens: list[int]) -> str:
        return "".join(f"token {token} " for token in tokens)

    EncodeAsIds = encode
    DecodeIds = decode
