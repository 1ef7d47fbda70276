"""Have a Llama-style model from a GGUF file write, its weights in memory as they are in the file.

The file says all: sizes in its metadata, weights under llama.cpp's names, which are the names of
the modules here, and the vocabulary. Quantized weights stay integers and scales; products unpack
them. Keys and values are kept, so a token is one pass of one row: one native call, from its number
to the number of the next, whatever its position.

    python examples/generate.py model.gguf --prompt "Once upon a time"
    python examples/generate.py model.gguf --temperature 0      # the likeliest token each time
    python examples/generate.py model.gguf --activations int8   # several times as fast
    python examples/generate.py model.gguf --pack               # faster with floats, more memory
    python examples/generate.py                                 # of a small random file: numbers
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import frontend as torch
from frontend import gguf, nn
from frontend.nn import functional as F

# -- the model -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Of a model, by what llama.cpp calls them."""

    vocabulary: int
    embedding_length: int
    block_count: int
    feed_forward_length: int
    head_count: int
    head_count_kv: int
    head_length: int
    epsilon: float
    freq_base: float

    @classmethod
    def of(cls, metadata: Mapping[str, Any], state: Mapping[str, Any]) -> Sizes:
        """Raises ValueError for a model of another kind."""
        kind = metadata.get("general.architecture")
        if kind != "llama":
            raise ValueError(f"the file has a model of the architecture {kind!r}, not 'llama'")
        if "token_embd.weight" not in state:
            raise ValueError("the file has no token_embd.weight: it is no language model")

        def value(name: str, default: Any = None) -> Any:
            found = metadata.get(f"llama.{name}", default)
            if found is None:
                raise ValueError(f"the file does not say llama.{name}")
            return found

        heads, width = value("attention.head_count"), value("embedding_length")
        length = value("attention.key_length", width // heads)
        for name, expected in (
            ("attention.value_length", length), ("rope.dimension_count", length),
            ("rope.scaling.type", "none"), ("expert_count", 0),
        ):  # fmt: skip
            if (other := value(name, expected)) != expected:
                raise ValueError(f"llama.{name} is {other}: this model has {expected}")
        return cls(
            state["token_embd.weight"].shape[0], width, value("block_count"),
            value("feed_forward_length"), heads, value("attention.head_count_kv", heads), length,
            value("attention.layer_norm_rms_epsilon"), value("rope.freq_base", 10000.0),
        )  # fmt: skip


class Block(nn.Module):
    """Attention to what came before, of several heads to one of keys and values, then a gated layer
    of its own for each position."""

    def __init__(self, sizes: Sizes, longest: int, biases: bool) -> None:
        super().__init__()
        width, inner, length = sizes.embedding_length, sizes.feed_forward_length, sizes.head_length
        own, shared = sizes.head_count * length, sizes.head_count_kv * length
        self.heads = (sizes.head_count, sizes.head_count_kv, sizes.head_count_kv)
        self.attn_norm = nn.RMSNorm(width, sizes.epsilon)
        self.attn_q = nn.Linear(width, own, bias=biases)
        self.attn_k = nn.Linear(width, shared, bias=biases)
        self.attn_v = nn.Linear(width, shared, bias=biases)
        self.attn_output = nn.Linear(own, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width, sizes.epsilon)
        self.ffn_gate = nn.Linear(width, inner, bias=False)
        self.ffn_up = nn.Linear(width, inner, bias=False)
        self.ffn_down = nn.Linear(inner, width, bias=False)
        for name in ("keys", "values"):
            kept = torch.zeros(1, sizes.head_count_kv, longest, length, device="cpu")
            self.register_buffer(name, kept, persistent=False)

    def forward(self, x: Any, position: int, angles: Any) -> Any:
        x = x + self.attn_output(self.attended(self.attn_norm(x), position, angles))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))

    def attended(self, x: Any, position: int, angles: Any) -> Any:
        _, count, _ = x.shape
        q, k, v = [
            layer(x).reshape(1, count, heads, -1).transpose(1, 2)
            for layer, heads in zip((self.attn_q, self.attn_k, self.attn_v), self.heads)
        ]
        q, k, end = rotated(q, angles), rotated(k, angles), position + count
        self.keys[:, :, position:end], self.values[:, :, position:end] = k, v
        seen = F.scaled_dot_product_attention(
            q, self.keys[:, :, :end], self.values[:, :, :end], is_causal=count > 1, enable_gqa=True
        )
        return seen.transpose(1, 2).reshape(1, count, -1)


def rotated(x: Any, angles: Any) -> Any:
    """Queries or keys [1, heads, n, length], turned by angles [n, length / 2]. llama.cpp's files
    have the rows of attn_q and attn_k in an order where neighbours turn with each other."""
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., ::2], x[..., 1::2]
    turned = torch.stack((first * cos - second * sin, first * sin + second * cos), -1)
    return turned.flatten(-2)


class Llama(nn.Module):
    """`model(ids, position)`: scores of the token that follows ids [1, n], which stand at
    `position` and the next. More than one begin at 0."""

    def __init__(self, sizes: Sizes, longest: int, biases: bool) -> None:
        super().__init__()
        self.token_embd = nn.Embedding(sizes.vocabulary, sizes.embedding_length)
        self.blk = nn.ModuleList(Block(sizes, longest, biases) for _ in range(sizes.block_count))
        self.output_norm = nn.RMSNorm(sizes.embedding_length, sizes.epsilon)
        self.output = nn.Linear(sizes.embedding_length, sizes.vocabulary, bias=False)
        places = np.arange(0, sizes.head_length, 2) / sizes.head_length
        turns = torch.tensor((sizes.freq_base**-places).astype(np.float32), device="cpu")
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, ids: Any, position: int) -> Any:
        places = torch.arange(ids.shape[1], device="cpu") + position
        angles = places.unsqueeze(1).float() * self.turns
        x = self.token_embd(ids)
        for block in self.blk:
            x = block(x, position, angles)
        return self.output(self.output_norm(x[:, -1]))[0]


def model_of(state: dict[str, Any], metadata: Mapping[str, Any], longest: int) -> Llama:
    """The model of a file, without a copy of its weights. Raises ValueError for another one."""
    state = dict(state)
    sizes = Sizes.of(metadata, state)
    state.setdefault("output.weight", state["token_embd.weight"])
    stretched = state.pop("rope_freqs.weight", None)
    with torch.device("meta"):
        model = Llama(sizes, longest, "blk.0.attn_q.bias" in state)
    gguf.assign(model, state)
    if stretched is not None:  # Llama 3's: low frequencies turn more slowly
        model.turns /= stretched
    return model.eval().requires_grad_(False)


# -- text ----------------------------------------------------------------------------------------

SPACE = "\u2581"
"""What stands for a space in a vocabulary of the kind `llama`."""
CONTROL = 3
"""The kind of a token that is no text: where a text begins, where it ends."""
WORDS = {
    "gpt-2": r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+",
    "llama-bpe": r"(?i:'(?:s|t|re|ve|m|ll|d))|(?:[^\r\n\w]|_)?[^\W\d_]+|\d{1,3}"
    r"| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
"""By which a text is split ahead of merging, for a vocabulary of the kind `gpt2`."""


class Vocabulary:
    """A file's tokens: text to numbers, by merging the pair that comes first among all, and back.
    Kinds `llama` (pairs by score of what they make) and `gpt2` (bytes, and pairs in a list)."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.kind = metadata.get("tokenizer.ggml.model")
        if self.kind not in ("llama", "gpt2"):
            raise ValueError(f"a vocabulary of the kind {self.kind!r}: there are llama and gpt2")
        self.tokens: list[str] = metadata["tokenizer.ggml.tokens"]
        self.numbers = {token: number for number, token in enumerate(self.tokens)}
        kinds = metadata.get("tokenizer.ggml.token_type", ())
        self.hidden = {number for number, kind in enumerate(kinds) if kind == CONTROL}
        self.first: int | None = metadata.get("tokenizer.ggml.bos_token_id")
        if not metadata.get("tokenizer.ggml.add_bos_token", self.kind == "llama"):
            self.first = None
        if self.kind == "llama":
            scores = metadata.get("tokenizer.ggml.scores", -np.arange(len(self.tokens)))
            self.rank = {token: -scores[number] for token, number in self.numbers.items()}
        else:
            pairs = metadata["tokenizer.ggml.merges"]
            self.rank = {pair.replace(" ", "", 1): place for place, pair in enumerate(pairs)}
            self.letters = letters()
            pattern = metadata.get("tokenizer.ggml.pre", "gpt-2")
            self.words = WORDS.get(pattern, WORDS["gpt-2"])

    def encoded(self, text: str) -> list[int]:
        """Numbers of a text, with that of its beginning if the file wants one."""
        if self.kind == "llama":
            parts = [SPACE + text.replace(" ", SPACE)] if text else []
        else:
            parts = [
                "".join([self.letters[byte] for byte in word.encode()])
                for word in re.findall(self.words, text)
            ]
        pieces = [piece for part in parts for piece in self.merged(list(part))]
        numbers = [number for piece in pieces for number in self.numbers_of(piece)]
        return numbers if self.first is None else [self.first, *numbers]

    def merged(self, pieces: list[str]) -> list[str]:
        while True:
            pairs = [first + second for first, second in itertools.pairwise(pieces)]
            ranked = [(self.rank[pair], i) for i, pair in enumerate(pairs) if pair in self.rank]
            if not ranked:
                return pieces
            _, i = min(ranked)
            pieces[i : i + 2] = [pairs[i]]

    def numbers_of(self, piece: str) -> list[int]:
        """That of a token, or those of its bytes."""
        if piece in self.numbers:
            return [self.numbers[piece]]
        names = [f"<0x{byte:02X}>" for byte in piece.replace(SPACE, " ").encode()]
        return [self.numbers[name] for name in names if name in self.numbers]

    def decoded(self, numbers: Sequence[int]) -> str:
        content = bytearray()
        back = {} if self.kind == "llama" else {c: byte for byte, c in enumerate(self.letters)}
        for token in (self.tokens[number] for number in numbers if number not in self.hidden):
            if re.fullmatch("<0x[0-9A-F]{2}>", token):
                content.append(int(token[3:5], 16))
            elif self.kind == "gpt2" and all(c in back for c in token):
                content += bytes([back[c] for c in token])
            else:
                content += token.replace(SPACE, " ").encode()
        return content.decode(errors="replace")


def letters() -> list[str]:
    """What GPT-2's vocabularies write for each byte: those that print as they are, the others as
    letters from 256 on."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte if byte in plain else 256 + others.index(byte)) for byte in range(256)]


# -- a file --------------------------------------------------------------------------------------


SMALL = Sizes(
    vocabulary=512, embedding_length=256, block_count=4, feed_forward_length=512, head_count=8,
    head_count_kv=4, head_length=32, epsilon=1e-5, freq_base=10000.0,
)  # fmt: skip


def random_file(path: Path, sizes: Sizes, seed: int) -> None:
    """Write a model of random weights, in Q8_0, without a vocabulary."""
    metadata = {
        "general.architecture": "llama",
        "llama.embedding_length": sizes.embedding_length,
        "llama.block_count": sizes.block_count,
        "llama.feed_forward_length": sizes.feed_forward_length,
        "llama.attention.head_count": sizes.head_count,
        "llama.attention.head_count_kv": sizes.head_count_kv,
        "llama.attention.layer_norm_rms_epsilon": sizes.epsilon,
    }
    random = np.random.Generator(np.random.PCG64(seed))
    tensors = {}
    for name, like in Llama(sizes, longest=1, biases=False).state_dict().items():
        shape = tuple(like.shape)
        if len(shape) == 1:
            tensors[name] = (0, shape, np.ones(shape, np.float32).tobytes())
        elif name != "output.weight":  # token_embd's
            drawn = random.standard_normal(shape).astype(np.float32) / np.sqrt(shape[1])
            tensors[name] = (8, shape, q8_0(drawn))
    path.write_bytes(written(metadata, tensors))


def q8_0(x: np.ndarray) -> bytes:
    """Of each 32 numbers a scale in float16, and as many integers of 8 bits."""
    groups = x.reshape(-1, 32)
    scale = (np.abs(groups).max(1, keepdims=True) / 127).astype(np.float16)
    whole = np.rint(groups / scale.astype(np.float32)).astype(np.int8)
    return np.concatenate([scale.view(np.uint8), whole.view(np.uint8)], axis=1).tobytes()


def written(
    metadata: Mapping[str, Any], tensors: Mapping[str, tuple[int, Sequence[int], bytes]]
) -> bytes:
    """A GGUF file of texts, ints and floats, and of tensors: kind, shape and bytes of each."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def typed(value: Any) -> bytes:
        if isinstance(value, str):
            return struct.pack("<I", 8) + text(value)
        kind, code = (6, "f") if isinstance(value, float) else (4, "I")
        return struct.pack(f"<I{code}", kind, value)

    head, data = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)), b""
    head += b"".join(text(key) + typed(value) for key, value in metadata.items())
    for name, (kind, shape, content) in tensors.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += text(name) + sizes + struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


# -- the job -------------------------------------------------------------------------------------


Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


def writer(model: Llama, temperature: float, top_k: int, compile: Compile) -> Any:
    """`following(ids, position)`: the number of the token that comes next, [1, 1]."""

    @compile
    def following(ids: Any, position: int) -> Any:
        scores = model(ids, position)
        if not temperature:
            return scores.argmax().reshape(1, 1)
        # The greatest of scores with Gumbel's noise is drawn by its chance. Nothing here fails
        # once keys and values are written, so they are written in place.
        least = scores.topk(min(top_k, scores.shape[0])).values[-1]
        noise = -(-torch.rand_like(scores).log()).log()
        drawn = (scores / temperature + noise).masked_fill(scores < least, -torch.inf)
        return drawn.argmax().reshape(1, 1)

    return following


def generated(
    following: Any, prompt: Sequence[int], count: int, stop: int | None = None
) -> tuple[list[int], list[float]]:
    """Up to `count` tokens behind those of `prompt`, and when each was there, from the start on."""
    start, numbers, times = time.perf_counter(), list[int](), list[float]()
    ids, position = torch.tensor([list(prompt)]), 0
    while len(numbers) < count and (not numbers or numbers[-1] != stop):
        with torch.no_grad():  # around calls: copies of weights may be kept from one to the next
            drawn = following(ids, position)
        numbers.append(int(drawn.item()))
        times.append(time.perf_counter() - start)
        position, ids = position + ids.shape[1], drawn
    return numbers, times


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Have a model from a GGUF file write.")
    add = parser.add_argument
    add("file", type=Path, nargs="?", help="a model of the architecture llama (a random one)")
    add("--prompt", default="", help="text to go on from, or numbers of tokens: 5,17,3")
    add("--count", type=int, default=128, help="the most tokens to write (128)")
    add("--temperature", type=float, default=0.8, help="0: the likeliest each time (0.8)")
    add("--top-k", type=int, default=40, help="how many of the likeliest to draw from (40)")
    add("--seed", type=int, default=0, help="of what is drawn (0)")
    add("--threads", type=int, help="the most threads of compiled code (all)")
    add("--eager", action="store_true", help="do not compile: weights become floats at each use")
    add(
        "--activations",
        choices=("float32", "int8"),
        default="float32",
        help="int8: linear layers round their inputs to integers (float32)",
    )
    add("--pack", action="store_true", help="keep packed copies of weights: faster, more memory")
    chosen = parser.parse_args(arguments)
    if chosen.count < 1 or chosen.temperature < 0 or chosen.top_k < 1:
        parser.error("--count and --top-k take 1 or more, --temperature 0 or more")
    return chosen


def prompt_of(text: str, vocabulary: Vocabulary | None, size: int) -> list[int]:
    """The numbers of a prompt, at least one. Raises ValueError for those that are no tokens."""
    if vocabulary is not None:
        return vocabulary.encoded(text) or [0]
    numbers = [int(number) for number in text.split(",")] if text else [1]
    if not all(0 <= number < size for number in numbers):
        raise ValueError(f"--prompt takes numbers from 0 to {size - 1}: the file has no vocabulary")
    return numbers


def write(file: Path, chosen: argparse.Namespace) -> None:
    """Read the file, have the model write, and tell how fast and in what memory."""
    state, metadata = gguf.load(file, quantized=True, activations=chosen.activations)
    vocabulary = Vocabulary(metadata) if "tokenizer.ggml.tokens" in metadata else None
    prompt = prompt_of(chosen.prompt, vocabulary, Sizes.of(metadata, state).vocabulary)
    model = model_of(state, metadata, len(prompt) + chosen.count)
    weights = sum(weight.nbytes for weight in state.values())
    kept = sum(block.keys.nbytes + block.values.nbytes for block in model.blk)
    kinds = sorted({getattr(weight, "kind", str(weight.dtype)) for weight in state.values()})
    print(f"{file.name}: {len(state)} tensors, {', '.join(kinds)}")

    def compile(function: Callable[..., Any]) -> Callable[..., Any]:
        if chosen.eager:
            return function
        compiled: Callable[..., Any] = torch.compile(
            function, threads=chosen.threads, fullgraph=True
        )
        return compiled

    torch.manual_seed(chosen.seed)
    following = writer(model, chosen.temperature, chosen.top_k, compile)
    stop = metadata.get("tokenizer.ggml.eos_token_id")
    numbers, times = generated(following, prompt, chosen.count, stop)
    if vocabulary is None:
        print(" ".join(map(str, numbers)))
    else:
        print(vocabulary.decoded([*prompt, *numbers]))
    print(f"prompt of {len(prompt)}: {times[0]:.2f} s, with what there is to compile")
    later = np.diff(times)[2:]  # the first two compile for one token, and for any position
    if len(later):
        print(f"{1 / np.median(later):,.1f} tokens/s ({np.median(later) * 1e3:.2f} ms each)")
    size, most = os.path.getsize(file), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    most *= 1 if sys.platform == "darwin" else 1024
    print(
        f"memory: weights {weights / 1e6:,.1f} MB (the file {size / 1e6:,.1f} MB), keys and values "
        f"{kept / 1e6:,.1f} MB, the process {most / 1e6:,.0f} MB at most"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 2 where the file or the prompt is none that this can use."""
    chosen = options(arguments)
    limit = torch.compiler.get_packing_limit()
    if not chosen.pack:
        torch.compiler.set_packing_limit(0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = chosen.file
            if file is None:
                file = Path(folder) / "random.gguf"
                random_file(file, SMALL, chosen.seed)
            write(file, chosen)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        torch.compiler.set_packing_limit(limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
