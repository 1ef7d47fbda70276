"""What generating text costs when every step has another size: seconds from the first token to the
last, kernels compiled on the way, and a token once all is compiled.

A decoder of two layers of 64, one thread, in two ways of writing it:

- `growing`: the whole context goes through the model again for each token;
- `position`: keys and values are kept in a buffer made beforehand, and the model gets a token and
  its position, an int.

    python benchmarks/generation.py                  # nothing compiled before
    python benchmarks/generation.py --kept           # with the kernels that are kept on disk
    python benchmarks/generation.py --tokens 512 --peer    # PyTorch's eager mode beside it
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from harness import THREAD_VARIABLES

WIDTH, HEADS, LAYERS, WORDS = 64, 4, 2, 65


def decoder(torch: ModuleType, longest: int) -> Any:
    """`model(ids, position)`: logits of the last of ids [1, n]. Without a position they are the
    whole context, with one they stand there and are kept."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            for name in ("keys", "values"):
                self.register_buffer(name, torch.zeros(1, HEADS, longest, WIDTH // HEADS))

        def forward(self, x: Any, position: int | None) -> Any:
            count = x.shape[1]
            parts = self.qkv(self.norms[0](x)).split(WIDTH, dim=2)
            q, k, v = (p.view(1, count, HEADS, -1).transpose(1, 2) for p in parts)
            if position is not None:
                end = position + count
                self.keys[:, :, position:end], self.values[:, :, position:end] = k, v
                k, v = self.keys[:, :, :end], self.values[:, :, :end]
            y = F.scaled_dot_product_attention(q, k, v, is_causal=position is None)
            x = x + self.out(y.transpose(1, 2).reshape(1, count, WIDTH))
            return x + self.down(F.gelu(self.up(self.norms[1](x))))

    class Decoder(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(longest, WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

        def forward(self, ids: Any, position: int | None = None) -> Any:
            first = position or 0
            x = self.words(ids) + self.places.weight[first : first + ids.shape[1]]
            for block in self.blocks:
                x = block(x, position)
            return self.head(self.norm(x[:, -1]))

    torch.manual_seed(0)
    return Decoder().eval()


def growing(torch: ModuleType, model: Any, tokens: int) -> list[int]:
    """So many tokens, the likeliest each, from the whole context."""
    ids = torch.tensor([[1]])
    for _ in range(tokens):
        ids = torch.cat([ids, model(ids).argmax(-1, keepdim=True)], dim=1)
    return ids[0].tolist()[1:]


def by_position(torch: ModuleType, model: Any, tokens: int) -> list[int]:
    """The same, one token and its position at a time."""
    word, produced = torch.tensor([[1]]), []
    for position in range(tokens):
        word = model(word, position).argmax(-1, keepdim=True)
        produced.append(word.item())
    return produced


WAYS: dict[str, Callable[..., list[int]]] = {"growing": growing, "position": by_position}


def measured(torch: ModuleType, way: str, tokens: int, compiled: bool) -> tuple[float, float, Any]:
    """Seconds of the first run and of a second one, and the model."""
    model = decoder(torch, tokens + 1)
    called = torch.compile(model, threads=1, fullgraph=True) if compiled else model
    times, texts = [], []
    with torch.no_grad():
        for _ in range(2):
            started = time.perf_counter()
            texts.append(WAYS[way](torch, called, tokens))
            times.append(time.perf_counter() - started)
    assert texts[0] == texts[1]
    return times[0], times[1], called


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--kept", action="store_true", help="use kernels that are kept on disk")
    parser.add_argument("--peer", action="store_true", help="PyTorch's eager mode, too")
    arguments = parser.parse_args()
    if not arguments.kept:
        os.environ["GRAPHC_CACHE"] = "off"
    for variable in THREAD_VARIABLES:  # before NumPy is imported: eager mode is on one thread, too
        os.environ[variable] = "1"
    import frontend

    print(f"{arguments.tokens} tokens           first s  compiling s  us a token  traces")
    for way in WAYS:
        first, second, model = measured(frontend, way, arguments.tokens, compiled=True)
        traces = sum(line.startswith("traced ") for line in model.explain().splitlines())
        each = 1e6 * second / arguments.tokens
        print(
            f"{way:9} compiled {first:11.2f} {model.compile_seconds:12.2f} {each:11.0f} {traces:7}"
        )
        first, second, _ = measured(frontend, way, arguments.tokens, compiled=False)
        print(f"{way:9} eager    {first:11.2f} {'-':>12} {1e6 * second / arguments.tokens:11.0f}")
        if arguments.peer:
            import torch

            torch.set_num_threads(1)
            first, second, _ = measured(torch, way, arguments.tokens, compiled=False)
            print(
                f"{way:9} PyTorch  {first:11.2f} {'-':>12} {1e6 * second / arguments.tokens:11.0f}"
            )


if __name__ == "__main__":
    main()
