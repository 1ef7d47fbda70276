"""Twenty packages that were picked when all others ran, and tried once: how many of what nobody has
looked at runs (docs/packages.md). Scripts as in package_scripts.py."""

from __future__ import annotations

import os
from typing import Any

from tests.zoo.package_list import package
from tests.zoo.package_scripts import _net, _optimize, _set


@package("entmax")
def entmax(z: Any) -> None:
    from entmax import entmax15, entmax_bisect, sparsemax, sparsemax_loss

    x = z.draw(4, 6).requires_grad_()
    z.show(sparsemax(x, dim=1), entmax15(x, dim=1), entmax_bisect(x, 1.3))
    sparsemax_loss(x, z.integers(6, 4)).sum().backward()
    z.show(x.grad)


@package("geoopt")
def geoopt(z: Any) -> None:
    import geoopt as g

    ball = g.PoincareBall()
    points = g.ManifoldParameter(z.draw(4, 3) * 0.1, manifold=ball)
    target = ball.expmap0(z.draw(4, 3) * 0.2)
    optimizer = g.optim.RiemannianAdam([points], lr=0.05)
    for _ in range(4):
        optimizer.zero_grad()
        loss = ball.dist(points, target).square().sum()
        loss.backward()
        optimizer.step()
        z.show(loss)
    z.show(points, g.Stiefel().projx(z.draw(5, 3)))


@package("pytorch_warmup")
def pytorch_warmup(z: Any) -> None:
    import pytorch_warmup as w

    net = _net(z)
    optimizer = z.torch.optim.AdamW(net.parameters(), lr=0.1)
    schedule = z.torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
    warmup = w.UntunedLinearWarmup(optimizer)
    x = z.draw(4, 6)
    for _ in range(4):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        with warmup.dampening():
            schedule.step()
        z.show(loss, optimizer.param_groups[0]["lr"])


@package("torch_lr_finder")
def torch_lr_finder(z: Any) -> None:
    from torch.utils.data import DataLoader
    from torch_lr_finder import LRFinder

    net = _net(z)
    optimizer = z.torch.optim.SGD(net.parameters(), lr=1e-4)
    finder = LRFinder(net, optimizer, z.torch.nn.CrossEntropyLoss(), device="cpu")
    finder.range_test(DataLoader(_set(z), batch_size=8), end_lr=1, num_iter=8)
    z.show(finder.history["lr"], finder.history["loss"])
    finder.reset()
    z.show(net(z.draw(2, 6)))


@package("schedulefree")
def schedulefree(z: Any) -> None:
    from schedulefree import AdamWScheduleFree, SGDScheduleFree

    for kind in (AdamWScheduleFree, SGDScheduleFree):
        net, x = _net(z), z.draw(4, 6)
        optimizer = kind(net.parameters(), lr=0.01)
        optimizer.train()
        for _ in range(3):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
        optimizer.eval()
        z.show(net(x))


@package("lion_pytorch")
def lion_pytorch(z: Any) -> None:
    from lion_pytorch import Lion

    _optimize(z, Lion)


@package("rotary_embedding_torch")
def rotary_embedding_torch(z: Any) -> None:
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    rotary = RotaryEmbedding(dim=8)
    z.show(rotary.rotate_queries_or_keys(z.draw(1, 2, 6, 16)))
    pixels = RotaryEmbedding(dim=4, freqs_for="pixel", max_freq=10)
    z.show(apply_rotary_emb(pixels.get_axial_freqs(3, 4), z.draw(1, 3, 4, 16)))
    z.show(*RotaryEmbedding(dim=8, use_xpos=True).rotate_queries_and_keys(
        z.draw(1, 2, 6, 8), z.draw(1, 2, 6, 8)
    ))  # fmt: skip


@package("egnn_pytorch")
def egnn_pytorch(z: Any) -> None:
    from egnn_pytorch import EGNN, EGNN_Network

    z.train(z.fill(EGNN(dim=8)), z.draw(1, 6, 8), z.draw(1, 6, 3), compiled=True)
    net = EGNN_Network(num_tokens=5, num_positions=6, dim=8, depth=1, num_nearest_neighbors=3)
    z.show(*z.fill(net)(z.integers(5, 1, 6), z.draw(1, 6, 3)))


@package("perceiver_pytorch")
def perceiver_pytorch(z: Any) -> None:
    from perceiver_pytorch import Perceiver, PerceiverIO

    net = Perceiver(
        input_channels=3, num_freq_bands=2, max_freq=4.0, depth=1, num_latents=4, latent_dim=8,
        cross_dim_head=4, latent_heads=2, latent_dim_head=4, num_classes=3,
    )  # fmt: skip
    z.train(z.fill(net), z.draw(2, 6, 6, 3), compiled=True)
    net = PerceiverIO(dim=8, queries_dim=6, depth=1, num_latents=4, latent_dim=8, logits_dim=5)
    z.show(z.fill(net)(z.draw(1, 7, 8), queries=z.draw(3, 6)))


@package("torchcrf")
def torchcrf(z: Any) -> None:
    from torchcrf import CRF

    crf = z.fill(CRF(4, batch_first=True))
    scores, tags = z.draw(3, 6, 4).requires_grad_(), z.integers(4, 3, 6)
    mask = z.torch.arange(6) < z.torch.tensor([[6], [4], [2]])
    loss = -crf(scores, tags, mask=mask)
    loss.backward()
    z.show(loss, scores.grad, *crf.decode(scores, mask=mask))


@package("ptwt")
def ptwt(z: Any) -> None:
    import ptwt as p

    x = z.draw(2, 32)
    parts = p.wavedec(x, "db2", level=2)
    z.show(parts, p.waverec(parts, "db2"), p.cwt(x, [1, 2, 4], "mexh")[0])
    z.show(p.wavedec2(z.draw(1, 16, 16), "haar", level=1)[0])


@package("auraloss")
def auraloss(z: Any) -> None:
    import auraloss as a

    x, y = z.draw(1, 1, 4096).requires_grad_(), z.draw(1, 1, 4096)
    loss = a.freq.MultiResolutionSTFTLoss()(x, y) + a.time.SISDRLoss()(x, y)
    loss.backward()
    z.show(loss, x.grad, a.freq.MelSTFTLoss(16000)(x, y))


@package("encodec")
def encodec(z: Any) -> None:
    from encodec.modules import SEANetDecoder, SEANetEncoder
    from encodec.quantization import ResidualVectorQuantizer

    options = {"dimension": 8, "n_filters": 2, "ratios": [4, 2], "lstm": 1}
    coder, decoder = z.fill(SEANetEncoder(**options)), z.fill(SEANetDecoder(**options))
    quantizer = ResidualVectorQuantizer(dimension=8, n_q=2, bins=16, kmeans_init=False).eval()
    vectors = coder(z.draw(1, 1, 320))
    told = quantizer(vectors, 100)
    z.show(vectors, told.quantized, told.codes, decoder(told.quantized))


@package("vocos")
def vocos(z: Any) -> None:
    from vocos import Vocos
    from vocos.feature_extractors import MelSpectrogramFeatures
    from vocos.heads import ISTFTHead
    from vocos.models import VocosBackbone

    net = z.fill(Vocos(
        MelSpectrogramFeatures(sample_rate=8000, n_fft=256, hop_length=64, n_mels=20),
        VocosBackbone(20, dim=16, intermediate_dim=32, num_layers=1), ISTFTHead(16, 256, 64),
    ))  # fmt: skip
    z.show(net(z.draw(1, 2048)))


@package("torchdyn.core")
def torchdyn(z: Any) -> None:
    from torchdyn.core import NeuralODE

    nn = z.torch.nn
    field = z.fill(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)))
    net = NeuralODE(field, solver="rk4", sensitivity="adjoint")
    times, path = net(z.draw(4, 2), z.torch.linspace(0, 1, 5))
    path[-1].square().sum().backward()
    z.show(times, path, [p.grad for p in field.parameters()])


@package("rtdl_revisiting_models")
def rtdl(z: Any) -> None:
    from rtdl_revisiting_models import MLP, FTTransformer, ResNet

    z.train(z.fill(MLP(d_in=6, d_out=2, n_blocks=2, d_block=8, dropout=0.0)), z.draw(5, 6))
    net = ResNet(d_in=6, d_out=2, n_blocks=1, d_block=8, d_hidden_multiplier=2.0, d_hidden=None,
                 dropout1=0.0, dropout2=0.0)  # fmt: skip
    z.train(z.fill(net), z.draw(5, 6), compiled=True)
    net = FTTransformer(
        n_cont_features=4, cat_cardinalities=[3, 2], d_out=2, n_blocks=1, d_block=8,
        attention_n_heads=2, attention_dropout=0.0, ffn_d_hidden=None,
        ffn_d_hidden_multiplier=2.0, ffn_dropout=0.0, residual_dropout=0.0,
    )  # fmt: skip
    z.train(z.fill(net), z.draw(5, 4), z.integers(2, 5, 2))


@package("trl", "trl.trainer.sft_trainer")
def trl(z: Any) -> None:
    from datasets import Dataset
    from transformers import GPT2Config, GPT2LMHeadModel
    from trl import SFTConfig, SFTTrainer

    from tests.zoo.package_domains import _words

    words = _words("words")
    words.eos_token = "[SEP]"
    net = z.fill(GPT2LMHeadModel(GPT2Config(
        vocab_size=13, n_positions=16, n_embd=8, n_layer=1, n_head=2, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0,
    )))  # fmt: skip
    rows = [{"input_ids": row.tolist()} for row in z.integers(13, 8, 6)]
    options = SFTConfig(
        "out", num_train_epochs=2, per_device_train_batch_size=4, logging_steps=1, report_to=[],
        use_cpu=True, disable_tqdm=True, bf16=False, max_length=8, seed=3, save_strategy="no",
        gradient_checkpointing=False,
    )  # fmt: skip
    trainer = SFTTrainer(net, options, train_dataset=Dataset.from_list(rows),
                         processing_class=words)  # fmt: skip
    trainer.train()
    z.show([row["loss"] for row in trainer.state.log_history if "loss" in row])


os.environ.setdefault("DDE_BACKEND", "pytorch")


@package("deepxde")
def deepxde(z: Any) -> None:
    import deepxde as dde

    def equation(x: Any, y: Any) -> Any:
        return dde.grad.hessian(y, x) + np_pi**2 * z.torch.sin(np_pi * x)

    np_pi = 3.141592653589793
    line = dde.geometry.Interval(-1, 1)
    edge = dde.icbc.DirichletBC(line, lambda x: 0, lambda _, on: on)
    data = dde.data.PDE(line, equation, edge, 8, 2, train_distribution="uniform")
    net = z.fill(dde.nn.FNN([1, 8, 8, 1], "tanh", "Glorot uniform"))
    model = dde.Model(data, net)
    model.compile("adam", lr=0.01)
    losses, _ = model.train(iterations=6, display_every=1, verbose=0)
    z.show(losses.loss_train)


@package("neuralop.models")
def neuralop(z: Any) -> None:
    from neuralop.losses import LpLoss
    from neuralop.models import FNO

    net = FNO(n_modes=(4, 4), hidden_channels=4, in_channels=1, out_channels=1, n_layers=1)
    images, loss = z.draw(2, 1, 8, 8), LpLoss(d=2, p=2)
    optimizer = z.torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        value = loss(net(images), images)
        value.backward()
        optimizer.step()
        z.show(value)


@package("skrl.agents.torch.ppo")
def skrl(z: Any) -> None:
    import gymnasium as gym
    from skrl.memories.torch import RandomMemory
    from skrl.models.torch import DeterministicMixin, Model

    class Value(DeterministicMixin, Model):  # type: ignore[misc]
        def __init__(self) -> None:
            spaces = {"observation_space": gym.spaces.Box(-1, 1, (6,)),
                      "action_space": gym.spaces.Discrete(3), "device": "cpu"}  # fmt: skip
            Model.__init__(self, **spaces)
            DeterministicMixin.__init__(self)
            self.net = _net(z)

        def compute(self, inputs: Any, role: str) -> Any:
            return self.net(inputs["observations"]), {}

    z.show(Value().act({"observations": z.draw(4, 6)}, role="value")[0])
    memory = RandomMemory(memory_size=4, num_envs=2, device="cpu")
    memory.create_tensor("rewards", size=1, dtype=z.torch.float32)
    for _ in range(4):
        memory.add_samples(rewards=z.draw(2, 1))
    z.show(memory.get_tensor_by_name("rewards"), memory.sample_all(["rewards"]))
