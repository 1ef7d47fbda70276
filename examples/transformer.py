"""Train a character-level transformer on this project's own documentation, and let it write.

The text is the prose of README.md, CONTRIBUTING.md and docs/, and the docstrings of graphc and
frontend: real English, there in every clone. The last tenth is held out. A whole training step is
one native call: drawing the batch, forward, backward, clipping, AdamW. What is left of the loss at
the end is compared with what simple models of the same text reach, and must be below theirs.

    python examples/transformer.py                        train, then write 400 characters
    python examples/transformer.py --steps 3000 --sample 2000 --temperature 0.6
    python examples/transformer.py --eager --steps 50    the same losses, bit for bit
    graphc profile examples/transformer.py:transformer_step     where the time of a step goes
"""

from __future__ import annotations

import argparse
import ast
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import frontend as torch
from frontend import nn, optim
from frontend.nn import functional as F
from frontend.nn.utils import clip_grad_norm_

ROOT = Path(__file__).resolve().parent.parent
CONTEXT, BATCH = 64, 32
WIDTH, HEADS, LAYERS, DROPOUT = 96, 4, 2, 0.1
PEAK, WARMUP = 4e-3, 50
STEPS = 900


# -- the text ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """Characters as numbers: those to train on, and those held out."""

    alphabet: str
    train: np.ndarray
    held_out: np.ndarray

    def decoded(self, numbers: Sequence[int]) -> str:
        return "".join([self.alphabet[number] for number in numbers])

    def bounds(self) -> dict[str, float]:
        """Nats per character of models that know less, on the text held out: the number of
        characters, how often each occurs, and which one follows which."""
        size = len(self.alphabet)
        pairs = np.full((size, size), 0.1)
        np.add.at(pairs, (self.train[:-1], self.train[1:]), 1)
        before, after = self.held_out[:-1], self.held_out[1:]
        often = pairs.sum(0) / pairs.sum()
        follows = pairs / pairs.sum(1, keepdims=True)
        return {
            "their number": math.log(size),
            "their frequencies": float(-np.log(often[after]).mean()),
            "the one before": float(-np.log(follows[before, after]).mean()),
        }


def read_text(root: Path = ROOT) -> Text:
    """The project's prose. Raises FileNotFoundError outside of a clone."""
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]
    sources = sorted([*root.glob("graphc/**/*.py"), *root.glob("frontend/**/*.py")])
    parts = [prose(page.read_text("utf-8")) for page in pages]
    parts += [text for source in sources for text in docstrings(source)]
    whole = "\n\n".join(parts)
    common = {c for c, times in Counter(whole).items() if times >= 5 and c.isascii()}
    alphabet = "".join(sorted(common))
    whole = "".join([c for c in whole if c in common])
    # Held out are parts from everywhere, as pages and docstrings read differently.
    blocks = [whole[i : i + 2000] for i in range(0, len(whole), 2000)]
    train = "".join([block for i, block in enumerate(blocks) if i % 10 != 9])
    return Text(alphabet, encoded(train, alphabet), encoded("".join(blocks[9::10]), alphabet))


def encoded(text: str, alphabet: str) -> np.ndarray:
    """The characters of `text` by their places in `alphabet`."""
    places = {character: place for place, character in enumerate(alphabet)}
    return np.array([places[character] for character in text], np.int64)


def prose(page: str) -> str:
    """A page of Markdown without code, tables and comments, and of links the words."""
    page = re.sub(r"^```.*?^```$|<!--.*?-->|^\|.*?$", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", page)
    return re.sub(r"\n{3,}", "\n\n", page).strip()


def docstrings(source: Path) -> list[str]:
    """The docstrings of a module, its classes and its functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [n for n in ast.walk(ast.parse(source.read_text("utf-8"))) if isinstance(n, kinds)]
    return [text for node in nodes if (text := ast.get_docstring(node))]


# -- the model -----------------------------------------------------------------------------------


class Block(nn.Module):
    """Attention to what came before, then a layer of its own for each position."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x: Any) -> Any:
        x = x + self.drop(self.out(self.attended(self.norm1(x))))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))

    def attended(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(x).reshape(batch, length, 3, HEADS, width // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return seen.transpose(1, 2).reshape(batch, length, width)


class Transformer(nn.Module):
    """[N, CONTEXT] characters to [N, CONTEXT, characters] scores of the next one."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.character = nn.Embedding(characters, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, characters, bias=False)
        self.apply(initialised)

    def forward(self, characters: Any) -> Any:
        x = self.character(characters) + self.place.weight
        return self.head(self.norm(self.blocks(x)))


def initialised(layer: nn.Module) -> None:
    if isinstance(layer, nn.Linear | nn.Embedding):
        nn.init.normal_(layer.weight, std=0.05)
    if isinstance(layer, nn.Linear) and layer.bias is not None:
        nn.init.zeros_(layer.bias)


# -- training ------------------------------------------------------------------------------------


Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


def optimizer_of(model: nn.Module) -> optim.Optimizer:
    return optim.AdamW(model.parameters(), lr=PEAK, betas=(0.9, 0.98), weight_decay=0.1)


def trained_on(model: nn.Module, optimizer: optim.Optimizer, drawn: Any) -> Any:
    """One step on [BATCH, CONTEXT + 1] characters; the loss."""
    loss = F.cross_entropy(model(drawn[:, :-1]).flatten(0, 1), drawn[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def train(
    model: nn.Module, text: Text, steps: int, compile: Compile, advance: Callable[[float], None]
) -> None:
    """`steps` steps on batches drawn at random; `advance` is called with the loss of each."""
    optimizer = optimizer_of(model)
    characters = torch.from_numpy(text.train)
    window = torch.arange(CONTEXT + 1)

    @compile
    def step() -> Any:
        starts = torch.randint(0, len(text.train) - CONTEXT, (BATCH, 1))
        return trained_on(model, optimizer, characters[starts + window])

    model.train()
    for done in range(steps):
        rise, fall = min(1.0, (done + 1) / WARMUP), math.cos(math.pi * done / steps)
        optimizer.param_groups[0]["lr"] = PEAK * rise * (0.52 + 0.48 * fall)
        advance(step().item())


# What the commands of graphc can be asked about: a model of 96 characters. The annotation says what
# inputs a step is shown on.

transformer = Transformer(96)
transformer_optimizer = optimizer_of(transformer)


def transformer_step(drawn: Annotated[Any, "i64[32,65]<96"]) -> Any:
    """A training step on drawn characters; the loss."""
    return trained_on(transformer, transformer_optimizer, drawn)


def held_out_loss(model: nn.Module, text: Text, compile: Compile) -> float:
    """Nats per character on the text held out."""

    @compile
    def loss(drawn: Any) -> Any:
        with torch.no_grad():
            scores = model(drawn[:, :-1])
            return F.cross_entropy(scores.flatten(0, 1), drawn[:, 1:].flatten())

    model.eval()
    starts = np.arange(0, len(text.held_out) - CONTEXT, CONTEXT)
    starts = starts[: len(starts) // BATCH * BATCH].reshape(-1, BATCH, 1)
    batches = text.held_out[starts + np.arange(CONTEXT + 1)]
    return float(np.mean([loss(torch.from_numpy(batch)).item() for batch in batches]))


def written(
    model: nn.Module, text: Text, count: int, temperature: float, compile: Compile
) -> tuple[str, str]:
    """The characters given to begin with, and `count` more, each drawn by its chance."""

    @compile
    def following(window: Any, temperature: Any) -> tuple[Any, Any]:
        with torch.no_grad():
            chances = F.softmax(model(window)[0, -1] / temperature, dim=-1)
            drawn = torch.multinomial(chances, 1)
            return drawn, torch.cat([window[:, 1:], drawn[None]], dim=1)

    model.eval()
    begin = text.held_out[:CONTEXT]
    window, warmth = torch.from_numpy(begin[None].copy()), torch.tensor(temperature)
    numbers = []
    for _ in range(count):
        drawn, window = following(window, warmth)
        numbers.append(drawn.item())
    return text.decoded(begin), text.decoded(numbers)


# -- the job -------------------------------------------------------------------------------------


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a character-level transformer on prose.")
    add = parser.add_argument
    add("--steps", type=int, default=STEPS, help=f"training steps ({STEPS})")
    add("--seed", type=int, default=0, help="of weights, batches, dropout and samples (0)")
    add("--level", choices=("none", "exact", "relaxed"), default="exact", help="of compiled code")
    add("--threads", type=int, help="the most threads of compiled code (all)")
    add("--eager", nargs="?", const="native", choices=("numpy", "native"), help="do not compile")
    add("--sample", type=int, default=400, help="how many characters to write (400)")
    add("--temperature", type=float, default=0.7, help="below 1 likely characters gain (0.7)")
    chosen = parser.parse_args(arguments)
    if chosen.steps < 1 or chosen.sample < 0 or not chosen.temperature > 0:
        parser.error("--steps takes 1 or more, --sample 0 or more, --temperature more than 0")
    return chosen


def bound_after(steps: int) -> str:
    """Which of the simple models training has to be better than after so many steps."""
    if steps >= 300:
        return "the one before"
    return "their frequencies" if steps >= 60 else "their number"


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, judge and write. Returns 0 where the loss is below its bound, else 1."""
    chosen = options(arguments)
    console = Console()
    text = read_text()
    torch.manual_seed(chosen.seed)
    model = Transformer(len(text.alphabet))
    size = sum(p.numel() for p in model.parameters())
    kinds = len(text.alphabet)
    console.print(f"{len(text.train):,} characters, {kinds} different; {size:,} weights")

    def compile(function: Callable[..., Any]) -> Callable[..., Any]:
        if chosen.eager:
            return function
        compiled: Callable[..., Any] = torch.compile(
            function, level=chosen.level, threads=chosen.threads, keep_grads=False
        )
        return compiled

    if chosen.eager:
        torch.set_eager_backend(chosen.eager)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}  {task.fields[speed]:,.0f} characters/s"),
        TimeRemainingColumn(),
    )  # fmt: skip
    losses: list[float] = []
    times = [time.perf_counter()]
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=chosen.steps, loss=math.nan, speed=0.0)

        def advance(loss: float) -> None:
            losses.append(loss)
            times.append(time.perf_counter())
            recent = times[-21:]
            speed = BATCH * CONTEXT * (len(recent) - 1) / (recent[-1] - recent[0])
            progress.update(task, advance=1, loss=float(np.mean(losses[-20:])), speed=speed)

        train(model, text, chosen.steps, compile, advance)
    first, *later = np.diff(times)
    console.print(f"first step {first:.2f} s, then {np.median(later or [first]) * 1e3:.1f} ms each")

    console.print("\nnats per character held out, by what a model knows of the others:")
    for known, loss in text.bounds().items():
        console.print(f"  {known:20}{loss:.3f}")
    reached = held_out_loss(model, text, compile)
    bound = bound_after(chosen.steps)
    console.print(f"  {f'the {CONTEXT} before':20}{reached:.3f}  (this one)")
    if chosen.sample:
        prompt, continuation = written(model, text, chosen.sample, chosen.temperature, compile)
        shown = f"\n[dim]{escape(prompt)}[/dim]{escape(continuation)}"
        console.print(shown, highlight=False, soft_wrap=True)
    if not reached < text.bounds()[bound]:
        console.print(f"[red]not below the loss of a model that knows {bound}[/red]")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
