"""A small Llama in a GGUF file, read by transformers' `from_pretrained(gguf_file=)`, with PyTorch
and with the frontend, and by examples/generate.py: `gguf_files.py SIDE PART FOLDER`, each part a
process of its own.

make (PyTorch)     : FOLDER/plain.gguf and FOLDER/packed.gguf, of one model, and its logits
read (either side) : logits and tokens of both files, loaded by transformers
example (frontend) : logits of both files, loaded by the example

Each writes a JSON of what it saw to standard output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

FILES = ("plain.gguf", "packed.gguf")
PROMPT = [5, 90, 3, 3, 17, 44, 60]
HEADS, SHARED, WIDTH, INNER, WORDS, LAYERS, EPSILON, BASE = 4, 2, 64, 96, 96, 2, 1e-6, 5000.0
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "model.layers": "blk", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def logits(model: Any) -> Any:
    import torch

    model.eval()
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits[0].tolist()


def make(folder: Path) -> dict[str, Any]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, rms_norm_eps=EPSILON,
        rope_theta=BASE, max_position_embeddings=64, tie_word_embeddings=False,
        initializer_range=0.2,
    ))  # fmt: skip
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    for name in FILES:
        write(folder / name, state, packed=name == "packed.gguf")
    return {"logits": logits(model)}


def write(path: Path, state: dict[str, Any], packed: bool) -> None:
    """The file that llama.cpp's converter would write of these weights, matrices as Q8_0 or F32."""
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    writer = GGUFWriter(path, "llama")
    writer.add_name("small")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(SHARED)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(BASE)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(WORDS)
    for name, weight in state.items():
        if "q_proj" in name or "k_proj" in name:
            weight = neighbours(weight, HEADS if "q_proj" in name else SHARED)
        for theirs, own in NAMES.items():
            name = name.replace(theirs, own)
        if packed and weight.ndim == 2:
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(name, quants.quantize(weight, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, np.ascontiguousarray(weight))
    for step in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{step}_to_file")()
    writer.close()


def neighbours(weight: Any, heads: int) -> Any:
    """Rows in the order that the converter gives attn_q and attn_k."""
    halves = weight.reshape(heads, 2, len(weight) // heads // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))


def read(folder: Path) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM

    seen = {}
    for name in FILES:
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name)
        said = model.generate(torch.tensor([PROMPT]), max_new_tokens=8, do_sample=False)
        seen[name] = {"logits": logits(model), "tokens": said.tolist()}
    return seen


def example(folder: Path) -> dict[str, Any]:
    import torch

    from examples import generate
    from frontend import gguf

    seen = {}
    for name in FILES:
        state, metadata = gguf.load(folder / name, quantized=True)
        model = generate.model_of(state, metadata, len(PROMPT))
        step = torch.compile(model, fullgraph=True)
        with torch.no_grad():
            rows = [step(torch.tensor([[word]]), place) for place, word in enumerate(PROMPT)]
        kinds = {getattr(weight, "kind", "plain") for weight in state.values()}
        seen[name] = {"logits": [row.tolist() for row in rows], "kinds": sorted(kinds)}
    return seen


def main() -> None:
    from tests.zoo.worker import prepare

    side, part, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print
    prepare(side)
    seen = {"make": make, "read": read, "example": example}[part](folder)
    print(json.dumps(seen), file=answers)


if __name__ == "__main__":
    main()
