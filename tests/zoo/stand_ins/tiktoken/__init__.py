"""Stands in for tiktoken where it is not installed: tokens are bytes, whatever the encoding."""

from __future__ import annotations


class Encoding:
    """256 tokens, and one between texts where GPT-2 has it."""

    eot_token = 50256
    max_token_value = 50256

    def encode(self, text: str, **special: object) -> list[int]:
        return list(text.encode())

    def encode_ordinary(self, text: str) -> list[int]:
        return self.encode(text)

    def decode(self, tokens: list[int]) -> str:
        return bytes(token % 256 for token in tokens).decode(errors="replace")

    def decode_bytes(self, tokens: list[int]) -> bytes:
        return bytes(token % 256 for token in tokens)


def get_encoding(name: str) -> Encoding:
    return Encoding()
