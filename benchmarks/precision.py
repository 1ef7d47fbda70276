"""What precisions cost: products, a training step and a token of a decoder in f32, bf16, int8 and
int4, of ours and of PyTorch's, each in a process of its own, in turns.

    python benchmarks/precision.py                       # all cases
    python benchmarks/precision.py --case linears1 decode --rounds 20
    python benchmarks/precision.py --json

Ours is compiled, PyTorch's runs in eager mode; one thread. The least time of all turns counts. A
row's ratios: own f32 over ours, and PyTorch's over ours in the same precision. `int8` of linear
layers is dynamic (`torch.ao.quantization.quantize_dynamic`, of both); of the decoder int8 and int4
are weights alone (torchao's `quantize_`, which PyTorch itself does not have: ours only). `--cpu`
takes the processor's time, for a machine that others use too.

| case | what |
|---|---|
| linears64 | four linear layers of 1024, batch 64, weights frozen |
| linears8 | the same, batch 8 |
| linears1 | eight of 2048, batch 1 |
| train | a training step of a GPT (4 layers of 256, 8 x 128 tokens): bf16 is autocast |
| decode | a token of a decoder of GPT-2's sizes with its keys and values kept: bf16 weights |
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from harness import Setup, Step, Worker, processor, serve

PEERS = ("graphc", "torch")
DYNAMIC, WEIGHTS = ("f32", "bf16", "int8"), ("f32", "bf16", "int8", "int4")
Build = Callable[[Any, Callable[[Any], Any], str], Step]


def linears(count: int, width: int, batch: int) -> Build:
    def build(torch: Any, compile: Callable[[Any], Any], kind: str) -> Step:
        torch.manual_seed(0)
        model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(count))).eval()
        x = torch.randn(batch, width)
        if kind == "bf16":
            model, x = model.to(torch.bfloat16), x.to(torch.bfloat16)
        if kind == "int8":
            layers = {torch.nn.Linear}
            model = torch.ao.quantization.quantize_dynamic(model, layers, dtype=torch.qint8)
        with torch.no_grad():
            run = compile(model)

        def step() -> float:
            with torch.no_grad():
                return float(run(x)[0, 0])

        return step

    return build


def block_of(torch: Any, width: int, heads: int) -> Any:
    """A block of a decoder: `block(x)`, or with keys, values and a position a step of one token."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, keys: Any = None, values: Any = None, position: int = 0) -> Any:
            batch, count = x.shape[:2]
            parts = self.qkv(self.first(x)).view(batch, count, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            if keys is not None:
                keys[:, :, position], values[:, :, position] = k[:, :, 0], v[:, :, 0]
                k, v = keys[:, :, : position + 1], values[:, :, : position + 1]
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=keys is None)
            x = x + self.out(y.transpose(1, 2).reshape(batch, count, width))
            return x + self.down(functional.gelu(self.up(self.second(x)), approximate="tanh"))

    return Block()


def decoder_of(torch: Any, words: int, longest: int, width: int, heads: int, layers: int) -> Any:
    nn = torch.nn

    class Decoder(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
            self.blocks = nn.ModuleList(block_of(torch, width, heads) for _ in range(layers))
            self.last, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, ids: Any, kept: Any = None, position: int = 0) -> Any:
            if kept is None:
                x = self.words(ids) + self.places.weight[: ids.shape[1]]
            else:
                x = self.words(ids) + self.places.weight[position]
            for number, block in enumerate(self.blocks):
                x = block(x) if kept is None else block(x, *kept[number], position)
            return self.head(self.last(x))

    return Decoder()


def train(torch: Any, compile: Callable[[Any], Any], kind: str) -> Step:
    torch.manual_seed(0)
    model = decoder_of(torch, 65, 128, 256, 8, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids, targets = (torch.randint(0, 65, (8, 128)) for _ in range(2))

    def step(ids: Any, targets: Any) -> Any:
        casts = torch.autocast("cpu", dtype=torch.bfloat16) if kind == "bf16" else None
        with casts or contextlib.nullcontext():
            logits = model(ids)
        loss = torch.nn.functional.cross_entropy(logits.float().view(-1, 65), targets.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = compile(step)
    return lambda: float(run(ids, targets).item())


def decode(torch: Any, compile: Callable[[Any], Any], kind: str) -> Step:
    torch.manual_seed(0)
    layers, heads, longest = 12, 12, 1024
    model = decoder_of(torch, 50257, longest, 768, heads, layers).eval()
    kept = [
        tuple(torch.zeros(1, heads, longest, 64) for _ in range(2)) for _ in range(layers)
    ]  # fmt: skip
    if kind == "bf16":
        model = model.to(torch.bfloat16)
        kept = [tuple(each.to(torch.bfloat16) for each in pair) for pair in kept]
    if kind in ("int8", "int4"):
        quantization = torch.ao.quantization
        configs = {
            "int8": quantization.Int8WeightOnlyConfig,
            "int4": quantization.Int4WeightOnlyConfig,
        }
        quantization.quantize_(model, configs[kind]())
    ids = torch.tensor([[7]])
    with torch.no_grad():
        run = compile(lambda ids, kept, position: model(ids, kept, position)[:, -1].argmax(-1))
    position = [0]

    def step() -> float:
        position[0] = position[0] % 63 + 1
        with torch.no_grad():
            return float(run(ids, kept, position[0])[0])

    return step


CASES: dict[str, tuple[Build, int, tuple[str, ...]]] = {
    "linears64": (linears(4, 1024, 64), 50, DYNAMIC),
    "linears8": (linears(4, 1024, 8), 100, DYNAMIC),
    "linears1": (linears(8, 2048, 1), 50, DYNAMIC),
    "train": (train, 5, ("f32", "bf16")), "decode": (decode, 20, WEIGHTS),
}  # fmt: skip
"""Each with the steps of a turn, and its precisions."""


def setup(name: str) -> Setup:
    case, kind, peer = name.split(".")

    def made() -> Step:
        build, *_ = CASES[case]
        if peer == "graphc":
            import frontend

            return build(frontend, lambda f: frontend.compile(f, threads=1), kind)
        import torch

        torch.set_num_threads(1)
        return build(torch, lambda f: f, kind)

    return made


def measured(case: str, rounds: int, cpu: bool) -> dict[str, Any]:
    """Microseconds by precision and peer, in turns; with `cpu` those of the processor."""
    kinds = CASES[case][2]
    names = [
        f"{case}.{kind}.{peer}" for kind in kinds for peer in PEERS
        if peer == "graphc" or kind in ("f32", "bf16") or kinds is DYNAMIC
    ]  # fmt: skip
    options = ("--cpu",) if cpu else ()
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(name, options)) for name in names]
        present = [worker for worker in workers if not worker.missing]
        for turn in range(rounds):
            first = turn % len(present)
            for worker in present[first:] + present[:first]:
                worker.run(CASES[case][1])
    times = {worker.name.partition(".")[2]: worker.min_us for worker in present}
    ratios = {f"own f32 / {k}": times["f32.graphc"] / times[f"{k}.graphc"] for k in kinds[1:]}
    for kind in kinds:
        if f"{kind}.torch" in times:
            ratios[f"torch / ours, {kind}"] = times[f"{kind}.torch"] / times[f"{kind}.graphc"]
    return {"us": times, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=10, help="turns of each (default: 10)")
    parser.add_argument("--cpu", action="store_true", help="the processor's time, not the wall's")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(setup(options.worker), time.process_time_ns if options.cpu else time.perf_counter_ns)
        return
    results = {}
    for case in options.case:
        results[case] = measured(case, options.rounds, options.cpu)
        if not options.json:
            listed = [f"{name} {value:.0f} us" for name, value in results[case]["us"].items()]
            listed += [f"{name} {value:.2f}" for name, value in results[case]["ratios"].items()]
            print(f"{case}: {', '.join(listed)}", flush=True)
    if options.json:
        facts = {"processor": processor(), "threads": 1, "cpu": options.cpu, "cases": results}
        json.dump(facts, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
