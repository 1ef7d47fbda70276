"""transformers' models with two small layers: configurations and inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

_SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "vocab_size": 99, "max_position_embeddings": 64,
}  # fmt: skip
_KEYS = {**_SMALL, "num_key_value_heads": 2, "pad_token_id": 0}
_IMAGE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
_T5 = {
    "vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
    "decoder_start_token_id": 0,
}  # fmt: skip
_BART = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "max_position_embeddings": 64,
}  # fmt: skip

TRANSFORMERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "albert": ("Albert", "text", {**_SMALL, "embedding_size": 16}),
    "bart": ("Bart", "two texts", _BART),
    "bert": ("Bert", "text", _SMALL),
    "bloom": ("Bloom", "text", {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "clip": ("CLIPVision", "image", _IMAGE),
    "cohere": ("Cohere", "text", _KEYS),
    "convnextv2": ("ConvNextV2", "image", {
        "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "image_size": 32}),
    "deit": ("DeiT", "image", _IMAGE),
    "dinov2": ("Dinov2", "image", {**_IMAGE, "mlp_ratio": 2}),
    "distilbert": ("DistilBert", "text", {
        "vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64,
        "max_position_embeddings": 64}),
    "electra": ("Electra", "text", {**_SMALL, "embedding_size": 16}),
    "falcon": ("Falcon", "text", {
        "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}),
    "gemma": ("Gemma", "text", {**_KEYS, "head_dim": 8}),
    "gpt2": ("GPT2", "text", {
        "vocab_size": 99, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}),
    "gpt_neo": ("GPTNeo", "text", {
        "vocab_size": 99, "hidden_size": 32, "num_layers": 2, "num_heads": 4,
        "max_position_embeddings": 64, "attention_types": [[["global", "local"], 1]]}),
    "gpt_neox": ("GPTNeoX", "text", _SMALL),
    "llama": ("Llama", "text", _KEYS),
    "mistral": ("Mistral", "text", {**_KEYS, "sliding_window": 8}),
    "mpnet": ("MPNet", "text", _SMALL),
    "opt": ("OPT", "text", {
        "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "ffn_dim": 64, "max_position_embeddings": 64, "word_embed_proj_dim": 32}),
    "phi": ("Phi", "text", _KEYS),
    "qwen2": ("Qwen2", "text", _KEYS),
    "roberta": ("Roberta", "text", _SMALL),
    "t5": ("T5", "two texts", _T5),
    "vit": ("ViT", "image", _IMAGE),
}  # fmt: skip
"""By name: the stem of the classes, what the model takes, and its configuration."""


def transformer(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """The model and its inputs by keyword."""
    import transformers

    stem, takes, options = TRANSFORMERS[name]
    config = getattr(transformers, f"{stem}Config")(**options)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    model = getattr(transformers, f"{stem}Model")(config)
    random = np.random.default_rng(len(name))
    if takes == "image":
        return model, {"pixel_values": random.standard_normal((2, 3, 32, 32), dtype=np.float32)}
    ids = random.integers(3, 99, (2, 12))
    mask = np.ones_like(ids)
    mask[1, 9:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if takes == "two texts":
        inputs["decoder_input_ids"] = random.integers(3, 99, (2, 7))
    return model, inputs
