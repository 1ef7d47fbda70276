"""Modules of x-transformers that train or sample around a model, and the small ones that the
options of a model do not reach. Random numbers come from NumPy on both sides.

Not here: AttentionLayers, which is the base of Encoder and Decoder, and what holds a value and is
no model (always, equals, not_equals).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.zoo.called import called
from tests.zoo.x_transformers_models import (
    DIM,
    LAYERS,
    LENGTH,
    OTHERS,
    STATES,
    TEXT,
    WORDS,
    Made,
    _class,
    _decoder,
)

FRAMES = np.random.default_rng(9).standard_normal((2, LENGTH, 8), dtype=np.float32)
LATENTS = np.random.default_rng(10).standard_normal((2, LENGTH, 6), dtype=np.float32)
CONDITION = np.random.default_rng(11).standard_normal((2, DIM), dtype=np.float32)
HIDDENS = np.random.default_rng(12).standard_normal((3, 2, LENGTH, DIM), dtype=np.float32)
STREAMS = np.random.default_rng(13).standard_normal((4, LENGTH, DIM), dtype=np.float32)
HEADS = np.random.default_rng(14).standard_normal((3, 2, 4, LENGTH, 8), dtype=np.float32)
SMALL: dict[str, Any] = {"dim": DIM, "max_seq_len": 16, "heads": 2, "attn_dim_head": 8}


def _made(name: str, *inputs: Any, file: str = "x_transformers", **options: Any) -> Any:
    return lambda: (_class(name, file)(**options), inputs)


def _calling(
    name: str, call: Callable[..., Any], *inputs: Any, file: str = "x_transformers", **options: Any
) -> Callable[[], Made]:
    return lambda: (called(_class(name, file)(**options), call), inputs)


def _around(name: str, file: str, *inputs: Any, **options: Any) -> Callable[[], Made]:
    """What takes a decoder first."""
    return lambda: (_class(name, file)(_decoder(), **options), inputs or (TEXT,))


def _wrapper(layers: str, **options: Any) -> Any:
    attention = _class(layers)(**LAYERS)
    wrapper = _class("TransformerWrapper")
    return wrapper(num_tokens=WORDS, max_seq_len=16, attn_layers=attention, **options)


def _continuous(**options: Any) -> Any:
    wrapper = _class("ContinuousTransformerWrapper", "continuous")
    sizes = {"dim_in": 8, "dim_out": 8, "max_seq_len": 16}
    return wrapper(**sizes, attn_layers=_class("Decoder")(**LAYERS), **options)


def _rollout(**options: Any) -> Callable[[], Made]:
    wrapper = "ContinuousAutoregressiveWrapper"
    return lambda: (_class(wrapper, "continuous")(_continuous(**options)), (FRAMES,))


def _preferences() -> Made:
    prompt = np.zeros((2, LENGTH), bool)
    prompt[:, :4] = True
    call = lambda module, x, y, mask: module(x, y, prompt_mask=mask)  # noqa: E731
    return called(_class("DPO", "dpo")(_decoder()), call), (TEXT, TEXT[:, ::-1].copy(), prompt)


def _tokenizer() -> Made:
    model = _class("EntropyBasedTokenizer", "entropy_based_tokenizer")(
        _decoder(), entropy_threshold=4.4
    )
    return called(model, lambda module, x: module(x).float()), (TEXT,)


def _masked(**options: Any) -> Callable[[], Made]:
    def build() -> Made:
        net = _class("TransformerWrapper")(
            num_tokens=WORDS + 1, max_seq_len=LENGTH, logits_dim=WORDS,
            attn_layers=_class("Encoder")(**LAYERS),
        )  # fmt: skip
        wrapper = _class("NonAutoregressiveWrapper", "nonautoregressive_wrapper")
        model = wrapper(net, mask_id=WORDS, **options)
        return called(model, lambda module, x: module(x).loss), (TEXT,)

    return build


def _numbers() -> Made:
    wrapper = _class("XValTransformerWrapper", "xval")
    layers = _class("Decoder")(**LAYERS)
    net = wrapper(num_tokens=WORDS, numerical_token_id=3, max_seq_len=16, attn_layers=layers)
    model = _class("XValAutoregressiveWrapper", "xval")(net)
    values = np.where(TEXT == 3, FRAMES[..., 0], np.nan).astype(np.float32)
    return model, (TEXT, values)


def _beliefs() -> Made:
    model = _class("BeliefStateWrapper", "belief_state_wrapper")(
        _wrapper("Decoder"), _wrapper("Decoder")
    )
    return model, (TEXT,)


def _tensor_products() -> Made:
    sizes = {"dim": DIM, "num_fillers": WORDS, "num_roles": 16, "mlp_dim": 24}
    roles = np.broadcast_to(np.arange(LENGTH), (2, LENGTH)).copy()
    return _class("TPREncoder", "discover_wrapper")(**sizes), (TEXT, roles)


def _bottleneck() -> Made:
    model = _class("DiscoverDecoder", "discover_wrapper")(
        decoder=_decoder(), num_fillers=WORDS, bos_id=1, pad_id=0, max_seq_len=8
    )
    text = TEXT[:, :6] + (TEXT[:, :6] == 0)
    return model, (text, text[:, ::-1].copy())


def _synthetic() -> Made:
    generator = _class("SyntheticDataGenerator", "up_wrapper")
    model = generator(dim=16, num_tokens=WORDS, max_seq_len=16)
    return called(model, lambda module, x: module(x)), (TEXT,)


def _pretraining() -> Made:
    generator = _class("SyntheticDataGenerator", "up_wrapper")
    model = _class("UniversalPretrainWrapper", "up_wrapper")(
        _decoder(), generator(dim=16, num_tokens=WORDS, max_seq_len=16), buffer_size=4,
        num_reset=2, batch_size=2, seq_len=16, seed_length=4,
    )  # fmt: skip
    return called(model, lambda module: module()), ()


def _tested_in_training() -> Made:
    """Weights that a window of text adapts for the next window."""
    model = _class("XLAutoregressiveWrapper", "xl_autoregressive_wrapper")(
        _decoder(), ttt_module_paths=("to_logits",), ttt_lr=1e-2, tbptt_steps=2
    )
    return model, (np.concatenate([TEXT, TEXT[:, ::-1]], 1),)


def _hiddens_loss(name: str, **options: Any) -> Callable[[], Made]:
    def build() -> Made:
        from types import SimpleNamespace

        model = _class(name, "xl_autoregressive_wrapper")(dim=DIM, **options)
        call = lambda module, x: module(SimpleNamespace(last_layer_hiddens=x))  # noqa: E731
        return called(model, call), (STATES,)

    return build


def _low_rank() -> Made:
    import torch

    model = _class("LowRankLinear", "xl_autoregressive_wrapper")
    return model(torch.nn.Linear(DIM, DIM), 4), (STATES,)


def _with_memories(name: str, **options: Any) -> Callable[[], Made]:
    return lambda: (_class(name, "xl_autoregressive_wrapper")(_decoder(), **options), (TEXT,))


def _streams(module: Any, residuals: Any) -> Any:
    branch, rest, more = module.prepare(residuals)
    return module(branch, rest, **more)


def _around_linear(name: str, **options: Any) -> Callable[[], Made]:
    def build() -> Made:
        import torch

        return _class(name)(torch.nn.Linear(DIM, DIM), DIM, **options), (STATES,)

    return build


def _conditioned(module: Any, x: Any, condition: Any) -> Any:
    return module(x, condition=condition[:, None])


def _adaptive_scale() -> Made:
    import torch

    model = _class("AdaptiveLayerScale")(torch.nn.Linear(DIM, DIM), DIM)
    return called(model, _conditioned), (STATES, CONDITION)


def _glu() -> Made:
    import torch

    model = _class("GLU")(DIM, 16, torch.nn.GELU(), mult_bias=True)
    return model, (STATES,)


def _scale() -> Made:
    import torch

    return _class("Scale")(0.5, torch.nn.Linear(DIM, DIM)), (STATES,)


def _attend() -> Made:
    model = _class("Attend", "attend")(causal=True, scale=8**-0.5)
    return called(model, lambda module, q, k, v: module(q, k, v)[0]), tuple(HEADS)


def _prefix() -> Made:
    model = _class("PrefixDecoder")(**LAYERS)
    return called(model, lambda module, x: module(x, prefix_attn_len=4)), (STATES,)


def _cross() -> Made:
    model = _class("CrossAttender")(**LAYERS)
    return called(model, lambda module, x, y: module(x, context=y)), (STATES, OTHERS)


def _rotation(name: str, **options: Any) -> Callable[[], Made]:
    """Angles for places 0 to 11."""
    places = np.arange(LENGTH, dtype=np.float32)[None]
    return lambda: (called(_class(name)(**options), lambda m, t: m(t)), (places,))


def _latents(name: str) -> Callable[[], Made]:
    return _made(name, CONDITION, file="continuous_autoencoder", dim=DIM, dim_latent=8)


def _full_bandwidth() -> Made:
    layers = _class("Decoder")(**LAYERS, depth_scale_residual=True)
    options = {"num_tokens": WORDS, "max_seq_len": 16, "tie_embedding": True, "post_emb_norm": True}
    decoder = _class("TransformerWrapper")(**options, attn_layers=layers)
    return _class("FullBandwidth", "full_bandwidth")(decoder), (TEXT,)


def _recirculating() -> Made:
    model = _class("Recirculation", "recirculation")(
        _decoder(), source_layer=1, destination_layer=0, use_learned=True
    )
    return model, (TEXT,)


NAMES: dict[str, Callable[[], Made]] = {
    "Attend": _attend,
    "PrefixDecoder": _prefix,
    "CrossAttender": _cross,
    "TransformerBlock": _made("TransformerBlock", STATES, dim=DIM, heads=2, attn_dim_head=8),
    "GaussianNLL": _rollout(probabilistic=True),
    "ContinuousAutoregressiveWrapper": _rollout(),
    "VariationalLatentBottleneck": _latents("VariationalLatentBottleneck"),
    "DeterministicLatentBottleneck": _latents("DeterministicLatentBottleneck"),
    "ContinuousTransformerAutoencoder": _made(
        "ContinuousTransformerAutoencoder", STATES, file="continuous_autoencoder",
        **SMALL, enc_depth=1, dec_depth=1, dim_latent=8,
    ),
    "DPO": _preferences,
    "EntropyBasedTokenizer": _tokenizer,
    "BeliefStateWrapper": _beliefs,
    "TPREncoder": _tensor_products,
    "DiscoverDecoder": _bottleneck,
    "BinaryMapper": _made("BinaryMapper", LATENTS, file="free_transformer", bits=6),
    "FreeTransformer": _made(
        "FreeTransformer", TEXT, file="free_transformer", **SMALL, num_tokens=WORDS,
        dec_head_depth=1, dec_tail_depth=1, latent_bits=4,
    ),
    "GPTVAE": _made(
        "GPTVAE", TEXT, file="gpt_vae", **SMALL, num_tokens=WORDS, depth=1, enc_depth=1,
        dim_latent=8,
    ),
    "FullBandwidth": _full_bandwidth,
    "LatentAutoregressive": _around("LatentAutoregressive", "gpt_lejepa", dim=DIM),
    "NextLatentWrapper": _around("NextLatentWrapper", "next_latent_wrapper", dim=DIM),
    "RolloutGRU": _around("NextLatentWrapper", "next_latent_wrapper", dim=DIM, dynamics_type="gru"),
    "NonAutoregressiveWrapper": _masked(),
    "SelfCritic": _masked(self_token_critic=True),
    "Recirculation": _recirculating,
    "SyntheticDataGenerator": _synthetic,
    "UniversalPretrainWrapper": _pretraining,
    "XMLatentDecoder": _around("XMLatentDecoder", "xm_latent_decoder"),
    "XValAutoregressiveWrapper": _numbers,
    "EpisodicMemoryWrapper": _with_memories("EpisodicMemoryWrapper", episodic_mem_len=4),
    "TTTModuleWrapper": _tested_in_training,
    "TTTMetaLearningTargetKLLoss": _hiddens_loss("TTTMetaLearningTargetKLLoss", num_classes=9),
    "TTTNextLatentPredictionLoss": _hiddens_loss("TTTNextLatentPredictionLoss"),
    "LowRankLinear": _low_rank,
    "ReluSquared": _made("ReluSquared", STATES),
    "RelativeProjPositionalBias": _made("RelativeProjPositionalBias", STATES, dim=DIM, heads=4),
    "RotaryEmbedding": _rotation("RotaryEmbedding", dim=8, use_xpos=True),
    "PolarEmbedding": _rotation("PolarEmbedding", dim=8, heads=4),
    "LoRALinear": _made("LoRALinear", STATES, dim_in=DIM, dim_out=16, dim=4),
    "Scale": _scale,
    "AdaptiveLayerNorm": _calling("AdaptiveLayerNorm", _conditioned, STATES, CONDITION, dim=DIM),
    "AdaptiveRMSNorm": _calling("AdaptiveRMSNorm", _conditioned, STATES, CONDITION, dim=DIM),
    "MVSplitResidualUpdate": _made("MVSplitResidualUpdate", STATES, OTHERS, dim=DIM, learned=True),
    "AttentionResidual": _made("AttentionResidual", HIDDENS, dim=DIM, lora_rank=4),
    "HyperConnection": _calling(
        "HyperConnection", _streams, STREAMS, dim=DIM, layer_index=0, num_residual_streams=2
    ),
    "GatedMultiResidual": _calling(
        "GatedMultiResidual", _streams, STREAMS, dim=DIM, layer_index=0, num_residual_streams=2,
        read_gate_rank=4,
    ),
    "DynamicLIMe": _made("DynamicLIMe", STATES, HIDDENS, dim=DIM, num_layers=3),
    "LayerScale": _around_linear("LayerScale", init_value=0.1),
    "AdaptiveLayerScale": _adaptive_scale,
    "ConcatCombine": _calling(
        "ConcatCombine", lambda m, x, y: m(x, [y]), STATES, OTHERS, dim=DIM, prev_layer_ind=0
    ),
    "GLU": _glu,
}  # fmt: skip
"""By the name of the class: what builds it, and its inputs, in order."""
