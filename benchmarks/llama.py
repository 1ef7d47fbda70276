"""Tokens a second of a Llama-style model from a GGUF file: examples/generate.py's and llama.cpp's
(by the package xllamacpp), on the same drawn file, each in a process of its own, in turns.

    python benchmarks/llama.py                              # 0.3 B parameters, all three kinds
    python benchmarks/llama.py --size 1.1b --kind Q4_0 --threads 2
    python benchmarks/llama.py --pack                       # ours with packed copies of the weights
    python benchmarks/llama.py --activations float32        # ours with activations in floats

Weights are drawn as valid blocks, of which `gguf` cannot write some. Prompt and continuation are
512 and 48 tokens; the best of all turns counts. Memory is what the process had at most, less what
it had before the model. Both compute with activations in blocks of int8, ours also with floats.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"0.3b": (1024, 20, 2816, 16, 4), "1.1b": (2048, 22, 5632, 32, 4)}
"""Width, layers, inner width, heads, and heads of keys and values."""
KINDS = ("Q8_0", "Q4_0", "Q4_K_M")
ACTIVATIONS = ("float32", "int8")
WORDS, PROMPT, COUNT = 32000, 512, 48
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def blocks(random: np.random.Generator, kind: str, rows: int, columns: int) -> np.ndarray:
    """Valid blocks whose elements are of the size of 1 / √columns: [rows, bytes of a row]."""
    sizes = {"Q8_0": (32, 34, [0], 1.5), "Q4_0": (32, 18, [0], 20.0),
             "Q4_K": (256, 144, [0, 2], 600.0), "Q6_K": (256, 210, [208], 900.0)}  # fmt: skip
    elements, size, places, less = sizes[kind]
    drawn = random.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    scale = np.float16(1 / (np.sqrt(columns) * (less if kind != "Q8_0" else 100)))
    for place in places:
        drawn[:, place : place + 2] = np.frombuffer(scale.tobytes(), np.uint8)
    return drawn.reshape(rows, -1)


def kind_of(kind: str, name: str, layer: int, layers: int) -> str:
    """Of a matrix: Q4_K_M has Q6_K for half of the layers' values and results, and the words."""
    if kind != "Q4_K_M":
        return kind
    wide = "attn_v" in name or "ffn_down" in name
    more = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
    return "Q6_K" if name.startswith("token_embd") or (wide and more) else "Q4_K"


def write(path: Path, size: str, kind: str) -> None:
    from gguf import GGMLQuantizationType, GGUFWriter

    width, layers, inner, heads, shared = SIZES[size]
    random = np.random.default_rng(0)
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*("<unk>", "<s>", "</s>"), *(f"w{i}" for i in range(3, WORDS))])
    writer.add_token_scores([0.0] * WORDS)
    writer.add_token_types([2, 3, 3, *[1] * (WORDS - 3)])

    def matrix(name: str, layer: int, rows: int, columns: int) -> None:
        own = kind_of(kind, name, layer, layers)
        drawn = blocks(random, own, rows, columns)
        writer.add_tensor(name, drawn, raw_dtype=GGMLQuantizationType[own])

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(width, np.float32))

    matrix("token_embd.weight", 0, WORDS, width)
    ones("output_norm.weight")
    few = width // heads * shared
    for layer in range(layers):
        at = f"blk.{layer}"
        for name, rows, columns in (
            ("attn_q", width, width), ("attn_k", few, width), ("attn_v", few, width),
            ("attn_output", width, width), ("ffn_gate", inner, width), ("ffn_up", inner, width),
            ("ffn_down", width, inner),
        ):  # fmt: skip
            matrix(f"{at}.{name}.weight", layer, rows, columns)
        ones(f"{at}.attn_norm.weight")
        ones(f"{at}.ffn_norm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def most() -> float:
    """Megabytes that the process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def held() -> float:
    """Those it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def ours(path: Path, options: argparse.Namespace) -> dict[str, float]:
    sys.path.append(str(EXAMPLES))
    import generate

    import frontend as torch

    if not options.pack:
        torch.compiler.set_packing_limit(0)
    before = held()
    state, metadata = torch.gguf.load(path, quantized=True, activations=options.activations)
    model = generate.model_of(state, metadata, PROMPT + COUNT)
    del state

    def compile(function: Any) -> Any:
        return torch.compile(function, threads=options.threads, fullgraph=True)

    following = generate.writer(model, 0, 1, compile)
    prompt = [int(i) for i in np.random.default_rng(1).integers(3, WORDS, PROMPT)]
    generate.generated(following, prompt, 6)  # compiles
    _, times = generate.generated(following, prompt, COUNT)
    each = float(np.median(np.diff(times)))
    return {"prompt": PROMPT / times[0], "token": 1 / each, "memory": most() - before}


def llama_cpp(path: Path, options: argparse.Namespace) -> dict[str, float]:
    import xllamacpp

    before = held()
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel = PROMPT + COUNT + 64, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.warmup, params.verbosity = True, 0
    server = xllamacpp.Server(params)
    prompt = [int(i) for i in np.random.default_rng(1).integers(3, WORDS, PROMPT)]
    asked = {
        "prompt": prompt, "n_predict": COUNT, "temperature": 0, "ignore_eos": True,
        "cache_prompt": False,
    }  # fmt: skip
    server.handle_completions(asked)
    answer = server.handle_completions(asked)
    timings = (answer if isinstance(answer, dict) else json.loads(answer))["timings"]
    return {
        "prompt": timings["prompt_per_second"], "token": timings["predicted_per_second"],
        "memory": most() - before,
    }  # fmt: skip


SIDES = {"ours": ours, "llama.cpp": llama_cpp}


def turn(side: str, path: Path, options: argparse.Namespace) -> dict[str, float]:
    command = [
        sys.executable, __file__, "--side", side, "--file", str(path), "--threads",
        str(options.threads), "--activations", options.activations,
        *(["--pack"] if options.pack else []),
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SystemExit(f"{side}: {answer.stderr[-2000:]}")
    result: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=list(SIZES), default="0.3b")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2, help="turns of each (default: 2)")
    parser.add_argument("--pack", action="store_true", help="ours keeps packed copies of weights")
    parser.add_argument("--activations", choices=ACTIVATIONS, default="int8", help="ours (int8)")
    parser.add_argument("--side", choices=list(SIDES), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(SIDES[options.side](options.file, options)))
        return
    for kind in options.kind:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{kind}.gguf"
            write(path, options.size, kind)
            size, start = path.stat().st_size / 2**20, time.perf_counter()
            turns: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
            for _ in range(options.rounds):
                for side in SIDES:
                    turns[side].append(turn(side, path, options))
            best = {
                side: {name: max(each[name] for each in made) for name in made[0]}
                for side, made in turns.items()
            }
            told = ", ".join(
                f"{side} {each['token']:.1f} tokens/s, prompt {each['prompt']:.0f}/s, "
                f"{each['memory'] / size:.2f} of the file" for side, each in best.items()
            )  # fmt: skip
            took = time.perf_counter() - start
            print(f"{options.size} {kind}, {size:.0f} MB: {told} ({took:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
