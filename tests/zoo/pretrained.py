"""A GPT-2 that goes from PyTorch to the frontend and back, by transformers' own `save_pretrained`
and `from_pretrained`: `pretrained.py SIDE PART FOLDER`, each
part a process of its own.

make (PyTorch)  : FOLDER/made, and its tokens
train (frontend): made, loaded; its tokens; trained, into FOLDER/trained; logits of that
train (PyTorch) : the same with PyTorch, to compare
read (PyTorch)  : the logits of what the frontend trained and saved

Each writes a JSON of what it saw to standard output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 4
PROMPT = [[5, 6, 7], [11, 3, 8]]


def config() -> Any:
    """A small GPT-2, its weights so large that what it says depends on the prompt."""
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4, initializer_range=0.3,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, embd_pdrop=0.0, attn_pdrop=0.0,
        resid_pdrop=0.0,
    )  # fmt: skip


def tokens(model: Any) -> Any:
    """What the model says to the prompt, by the likeliest token."""
    import torch

    model.eval()
    said = model.generate(torch.tensor(PROMPT), max_new_tokens=12, do_sample=False)
    return said.tolist()


def logits(model: Any) -> Any:
    import torch

    model.eval()
    with torch.no_grad():
        return model(torch.tensor(PROMPT)).logits.tolist()


def train(model: Any) -> list[float]:
    """The losses of a few steps on next tokens."""
    import torch

    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    batch = torch.from_numpy(np.random.default_rng(0).integers(3, 99, (4, 16)))
    losses = []
    for _ in range(STEPS):
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def run(part: str, side: str, folder: Path) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM, GPT2LMHeadModel

    if part == "make":
        torch.manual_seed(0)
        model = GPT2LMHeadModel(config())
        model.save_pretrained(folder / "made")
        return {"tokens": tokens(model)}
    if part == "read":
        model = AutoModelForCausalLM.from_pretrained(folder / "trained")
        return {"logits": logits(model), "tokens": tokens(model)}
    model = AutoModelForCausalLM.from_pretrained(folder / "made")
    tied = model.lm_head.weight is model.transformer.wte.weight
    seen = {"tokens": tokens(model), "tied": tied, "losses": train(model)}
    if side == "frontend":
        model.save_pretrained(folder / "trained")
    return {**seen, "logits": logits(model), "tokens after": tokens(model)}


def main() -> None:
    from tests.zoo.worker import prepare

    side, part, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print
    prepare(side)
    print(json.dumps(run(part, side, folder)), file=answers)


if __name__ == "__main__":
    main()
