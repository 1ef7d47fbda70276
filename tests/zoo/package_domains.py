"""More packages that build on PyTorch, by what they are about: pictures, sound, text, probability,
reinforcement learning, series in time, tools. Scripts as in package_scripts.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.zoo.package_list import package
from tests.zoo.package_scripts import _net, _set

# -- pictures --------------------------------------------------------------------------------------


@package("segmentation_models_pytorch")
def segmentation_models_pytorch(z: Any) -> None:
    import segmentation_models_pytorch as smp

    net = smp.Unet(
        "resnet18", encoder_weights=None, encoder_depth=3, decoder_channels=(16, 8, 4), classes=2
    )
    labels = z.integers(2, 2, 32, 32)
    loss = smp.losses.DiceLoss("multiclass")
    net = z.fill(net)
    z.show(loss(net(z.draw(2, 3, 32, 32)), labels))
    net.eval()
    z.train(net, z.draw(2, 3, 32, 32), loss=lambda out: loss(out, labels), compiled=True)


@package("efficientnet_pytorch")
def efficientnet_pytorch(z: Any) -> None:
    from efficientnet_pytorch import EfficientNet

    net = z.fill(EfficientNet.from_name("efficientnet-b0", num_classes=3)).eval()
    z.train(net, z.draw(1, 3, 32, 32))


@package("facenet_pytorch")
def facenet_pytorch(z: Any) -> None:
    from facenet_pytorch import MTCNN, InceptionResnetV1

    z.show(z.fill(InceptionResnetV1(num_classes=4, classify=True)).eval()(z.draw(1, 3, 96, 96)))
    finder = MTCNN(image_size=40, min_face_size=20, thresholds=[0.1, 0.0, 0.0], keep_all=True)
    image = (z.uniform(1, 80, 80, 3) * 255).to(z.torch.uint8)
    boxes, scores = finder.detect(image)
    assert len(boxes[0]) > 1
    z.show(*(each.astype(float) for each in (*boxes, *scores)))


@package("pytorch_msssim")
def pytorch_msssim(z: Any) -> None:
    from pytorch_msssim import ms_ssim, ssim

    a, b = z.uniform(1, 3, 176, 176).requires_grad_(), z.uniform(1, 3, 176, 176)
    value = ms_ssim(a, b, data_range=1)
    value.backward()
    z.show(value, a.grad, ssim(a, b, data_range=1))


@package("lpips", light=True)
def lpips(z: Any) -> None:
    import lpips as p

    net = z.fill(p.LPIPS(net="alex", pretrained=False, pnet_rand=True, verbose=False))
    z.show(net(z.draw(1, 3, 64, 64), z.draw(1, 3, 64, 64)))


@package("open_clip")
def open_clip(z: Any) -> None:
    import open_clip as oc

    net = z.fill(oc.CLIP(
        16, oc.CLIPVisionCfg(layers=1, width=16, head_width=8, patch_size=8, image_size=16),
        oc.CLIPTextCfg(context_length=8, vocab_size=50, width=16, heads=2, layers=1),
    ))  # fmt: skip
    loss = oc.ClipLoss()
    images, words = z.draw(3, 3, 16, 16), z.integers(50, 3, 8)
    z.train(net, images, words, loss=lambda out: loss(*out[:3]), compiled=True)


@package("ultralytics")
def ultralytics(z: Any) -> None:
    import cv2
    from ultralytics import YOLO

    random = np.random.default_rng(3)
    for part in ("images", "labels"):
        Path("set", part).mkdir(parents=True)
    for i in range(8):
        image = random.integers(0, 60, (64, 64, 3)).astype(np.uint8)
        x, y = random.integers(4, 36, 2)
        cv2.rectangle(image, (int(x), int(y)), (int(x) + 20, int(y) + 20), (255, 255, 255), -1)
        cv2.imwrite(f"set/images/{i}.png", image)
        Path(f"set/labels/{i}.txt").write_text(
            f"0 {(x + 10) / 64} {(y + 10) / 64} {20 / 64} {20 / 64}"
        )
    Path("set.yaml").write_text(
        json.dumps({"path": str(Path("set").resolve()), "train": "images", "val": "images",
                    "names": {"0": "square"}})
    )  # fmt: skip
    model = YOLO("yolov8n.yaml")
    z.fill(model.model)
    losses: list[Any] = []
    model.add_callback(
        "on_train_batch_end",
        lambda trainer: losses.append([float(each) for each in trainer.loss_items.values()]),
    )
    model.train(
        data="set.yaml", epochs=2, imgsz=64, batch=4, device="cpu", workers=0, plots=False,
        amp=False, pretrained=False, seed=0, project="runs", verbose=False, optimizer="SGD",
        mosaic=0.0, warmup_epochs=0,
    )  # fmt: skip
    assert len(losses) == 4 and np.isfinite(losses).all()
    z.show(losses)


# -- sound -----------------------------------------------------------------------------------------


@package("demucs.htdemucs", "demucs.apply")
def demucs(z: Any) -> None:
    from demucs.htdemucs import HTDemucs

    net = HTDemucs(["a", "b"], audio_channels=1, channels=8, nfft=512, depth=2, t_layers=1,
                   t_heads=2, samplerate=8000, segment=1, bottom_channels=16)  # fmt: skip
    z.show(z.fill(net).eval()(z.draw(1, 1, 8000)))


@package("whisper")
def whisper(z: Any) -> None:
    from whisper.model import ModelDimensions, Whisper

    net = z.fill(Whisper(ModelDimensions(8, 20, 16, 2, 1, 60, 10, 16, 2, 1)))
    z.train(net, z.draw(2, 8, 40), z.integers(60, 2, 6), compiled=True)


@package("speechbrain", "speechbrain.lobes.features", "speechbrain.lobes.models.ECAPA_TDNN")
def speechbrain(z: Any) -> None:
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

    z.show(Fbank(n_mels=10)(z.draw(1, 4000)))
    net = ECAPA_TDNN(10, lin_neurons=8, channels=[16] * 5, attention_channels=8)
    z.show(z.fill(net).eval()(z.draw(2, 30, 10)))


@package("torchcrepe")
def torchcrepe(z: Any) -> None:
    from torchcrepe import Crepe
    from torchcrepe.decode import argmax

    scores = z.fill(Crepe("tiny")).eval()(z.draw(2, 1024)).detach()
    z.show(scores, *argmax(scores[None].transpose(1, 2)))


@package("silero_vad", stops="TorchScript archives")
def silero_vad(z: Any) -> None:
    from silero_vad import load_silero_vad

    z.show(load_silero_vad()(z.draw(512), 16000))


# -- text ------------------------------------------------------------------------------------------


def _words(folder: str) -> Any:
    """A tokenizer of whole words, kept in a folder."""
    from transformers import BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "cat", "dog", "sat",
             "ran", "on", "mat"]  # fmt: skip
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)})
    assert tokenizer.unk_token_id not in tokenizer("the cat sat").input_ids
    tokenizer.save_pretrained(folder)
    return tokenizer


def _bert(kind: str) -> Any:
    import transformers

    config = transformers.BertConfig(
        vocab_size=13, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=16, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, num_labels=2,
    )  # fmt: skip
    return getattr(transformers, kind)(config)


@package("transformers", "transformers.trainer")
def transformers_trainer(z: Any) -> None:
    from transformers import Trainer, TrainingArguments

    net = z.fill(_bert("BertForSequenceClassification"))
    words, labels = z.integers(13, 16, 6), z.integers(2, 16)
    rows = [{"input_ids": w, "labels": y} for w, y in zip(words, labels)]
    options = TrainingArguments(
        "out", num_train_epochs=2, per_device_train_batch_size=4, logging_steps=1, report_to=[],
        use_cpu=True, save_strategy="epoch", disable_tqdm=True, eval_strategy="epoch", seed=3,
    )  # fmt: skip
    trainer = Trainer(net, options, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    for name in ("loss", "eval_loss"):
        z.show([row[name] for row in trainer.state.log_history if name in row])


@package("sentence_transformers")
def sentence_transformers(z: Any) -> None:
    import builtins

    import pyarrow
    from sentence_transformers import InputExample, SentenceTransformer, losses, util
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from torch.utils.data import DataLoader

    # pyarrow 26 says that it stands there, and dill, by which datasets are hashed, looks for it.
    builtins.MonthDayNano = pyarrow.MonthDayNano  # type: ignore[attr-defined]
    net = z.fill(_bert("BertModel"))
    net.save_pretrained("bert")
    _words("bert")
    words = Transformer("bert", max_seq_length=8)
    model = SentenceTransformer(
        modules=[words, Pooling(words.get_embedding_dimension())], device="cpu"
    )
    sentences = ["the cat sat on the mat", "a dog ran", "the dog sat", "a cat ran on a mat"]
    examples = [
        InputExample(texts=[a, b], label=float(i % 2))
        for i, (a, b) in enumerate(zip(sentences, sentences[::-1]))
    ]
    model.fit(
        [(DataLoader(examples, batch_size=2, shuffle=False), losses.CosineSimilarityLoss(model))],
        epochs=2, warmup_steps=0, show_progress_bar=False, optimizer_params={"lr": 1e-2},
    )  # fmt: skip
    vectors = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
    z.show(vectors, util.cos_sim(vectors, vectors))


@package("linear_attention_transformer", light=True)
def linear_attention_transformer(z: Any) -> None:
    from linear_attention_transformer import LinearAttentionTransformerLM

    net = LinearAttentionTransformerLM(
        num_tokens=30, dim=16, heads=2, depth=1, max_seq_len=32, causal=True
    )
    z.train(z.fill(net), z.integers(30, 1, 32))


@package("reformer_pytorch")
def reformer_pytorch(z: Any) -> None:
    from reformer_pytorch import LSHSelfAttention, ReformerLM

    layer = LSHSelfAttention(dim=16, heads=2, bucket_size=4, n_hashes=2)
    z.show(z.fill(layer)(z.draw(1, 16, 16)))
    net = ReformerLM(num_tokens=20, dim=16, depth=1, max_seq_len=16, heads=2, bucket_size=4,
                     use_full_attn=True, n_hashes=1)  # fmt: skip
    z.train(z.fill(net), z.integers(20, 1, 16))


@package("x_clip")
def x_clip(z: Any) -> None:
    from x_clip import CLIP

    net = CLIP(
        dim_text=16, dim_image=16, dim_latent=8, num_text_tokens=30, text_enc_depth=1,
        text_seq_len=8, text_heads=2, visual_enc_depth=1, visual_image_size=16,
        visual_patch_size=8, visual_heads=2, visual_patch_dropout=0.0,
    )  # fmt: skip
    z.train(z.fill(net), z.integers(30, 2, 8), z.draw(2, 3, 16, 16))


# -- probability -----------------------------------------------------------------------------------


@package("pyro", "pyro.infer")
def pyro(z: Any) -> None:
    import pyro.distributions as dist
    from pyro import clear_param_store, param, plate, sample, set_rng_seed
    from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDiagonalNormal
    from pyro.optim import Adam

    clear_param_store()
    set_rng_seed(0)
    x, y = z.draw(20, 2), z.draw(20)

    def model(x: Any, y: Any) -> None:
        weight = sample("weight", dist.Normal(z.torch.zeros(2), 1.0).to_event(1))
        scale = sample("scale", dist.LogNormal(0.0, 1.0))
        with plate("data", len(x)):
            sample("y", dist.Normal(x @ weight, scale), obs=y)

    guide = AutoDiagonalNormal(model)
    inference = SVI(model, guide, Adam({"lr": 0.05}), loss=Trace_ELBO())
    z.show([inference.step(x, y) for _ in range(10)], param("AutoDiagonalNormal.loc"))
    chain = MCMC(NUTS(model, max_tree_depth=3), num_samples=4, warmup_steps=2, disable_progbar=True)
    chain.run(x, y)
    z.show(chain.get_samples()["weight"])


@package("botorch", "botorch.models", "botorch.optim")
def botorch(z: Any) -> None:
    from botorch.acquisition import LogExpectedImprovement, qExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch = z.torch
    x = z.uniform(6, 2).double()
    bounds = torch.stack([torch.zeros(2), torch.ones(2)]).double()

    def target(x: Any) -> Any:
        return -(x - 0.4).square().sum(-1, keepdim=True)

    for _ in range(2):
        model = SingleTaskGP(x, target(x))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        best = LogExpectedImprovement(model, target(x).max())
        point, value = optimize_acqf(best, bounds, q=1, num_restarts=2, raw_samples=8)
        x = torch.cat([x, point])
        z.show(value)
    z.show(x, qExpectedImprovement(model, target(x).max())(x[:1]))


@package("zuko", "zuko.flows")
def zuko(z: Any) -> None:
    from zuko.flows import CNF, MAF, NSF

    for kind in (MAF, NSF):
        flow = z.fill(kind(3, 2, transforms=2, hidden_features=(8,)))
        z.show(flow(z.draw(4, 2)).log_prob(z.draw(4, 3)))
    flow = z.fill(CNF(3, 2, hidden_features=(8,)))
    z.show(flow(z.draw(4, 2)).log_prob(z.draw(4, 3)))
    z.show(MAF(3, 0, hidden_features=(8,))().sample((2,)).shape)


@package("normflows")
def normflows(z: Any) -> None:
    import normflows as nf

    layers = []
    for _ in range(2):
        layers += [nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2])), nf.flows.Permute(2)]
    net = z.fill(nf.NormalizingFlow(nf.distributions.DiagGaussian(2), layers))
    x = z.draw(6, 2)
    z.train(_Called(z, net, lambda net, x: net.forward_kld(x)), x, loss=lambda out: out)
    z.show(net.sample(3))


def _Called(z: Any, inner: Any, call: Any) -> Any:
    """A Module whose forward is something that is done with another."""

    class Called(z.torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *inputs: Any) -> Any:
            return call(self.inner, *inputs)

    return Called()


@package("laplace")
def laplace(z: Any) -> None:
    from laplace import Laplace
    from torch.utils.data import DataLoader

    net = _net(z)
    for structure in ("diag", "kron", "full"):
        la = Laplace(net, "classification", "all", structure)
        la.fit(DataLoader(_set(z), batch_size=8))
        z.show(la.log_marginal_likelihood(), la(z.draw(4, 6), link_approx="probit"))


# -- reinforcement learning ------------------------------------------------------------------------


@package("tianshou", "tianshou.algorithm.modelfree.dqn")
def tianshou(z: Any) -> None:
    import gymnasium as gym
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch
    from tianshou.utils.net.common import Net

    space = gym.spaces.Discrete(3)
    net = z.fill(Net(state_shape=6, action_shape=3, hidden_sizes=[8]))
    policy = DiscreteQLearningPolicy(
        model=net, action_space=space, observation_space=gym.spaces.Box(-1, 1, (6,)),
        eps_training=0.0,
    )  # fmt: skip
    algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-2), target_update_freq=2)
    observed = z.draw(5, 6).numpy()
    with z.torch.no_grad():
        z.show(policy(Batch(obs=observed, info={})).logits)
    for _ in range(3):
        batch = Batch(obs=observed, act=np.arange(5) % 3, returns=z.draw(5), info={})
        z.show(algorithm._update_with_batch(batch).loss)


@package("torchrl", "torchrl.objectives")
def torchrl(z: Any) -> None:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss

    actor = QValueActor(
        TensorDictModule(_net(z), ["observation"], ["action_value"]), in_keys=["observation"],
        action_space="categorical",
    )  # fmt: skip
    loss = DQNLoss(actor, action_space="categorical")
    following = TensorDict(
        {"observation": z.draw(4, 6), "reward": z.draw(4, 1),
         "done": z.torch.zeros(4, 1, dtype=z.torch.bool),
         "terminated": z.torch.zeros(4, 1, dtype=z.torch.bool)}, [4])  # fmt: skip
    z.show(loss(TensorDict(
        {"observation": z.draw(4, 6), "action": z.integers(3, 4), "next": following}, [4]
    ))["loss"])  # fmt: skip


# -- tables and series in time ---------------------------------------------------------------------


@package("pytorch_tabnet.tab_model")
def pytorch_tabnet(z: Any) -> None:
    from pytorch_tabnet.tab_network import TabNet

    net = z.fill(TabNet(6, 3, n_d=4, n_a=4, n_steps=2, virtual_batch_size=8,
                        group_attention_matrix=z.torch.eye(6)))  # fmt: skip
    z.train(net, z.draw(8, 6))


@package("tsai.all")
def tsai(z: Any) -> None:
    from tsai.models.InceptionTime import InceptionTime
    from tsai.models.TST import TST

    for kind in (InceptionTime(2, 3, nf=4), TST(2, 3, 20, n_layers=1, d_model=8, n_heads=2,
                                                d_ff=16, dropout=0.0)):  # fmt: skip
        z.show(z.fill(kind).eval()(z.draw(2, 2, 20)))


@package("pytorch_forecasting")
def pytorch_forecasting(z: Any) -> None:
    import pandas as pd
    from pytorch_forecasting import NBeats, TimeSeriesDataSet
    from pytorch_forecasting.metrics import SMAPE

    frame = pd.DataFrame({"time": np.arange(40), "value": np.sin(np.arange(40) / 3), "group": "a"})
    data = TimeSeriesDataSet(
        frame, time_idx="time", target="value", group_ids=["group"], max_encoder_length=10,
        max_prediction_length=3, time_varying_unknown_reals=["value"],
    )  # fmt: skip
    net = z.fill(NBeats.from_dataset(
        data, widths=[8, 8], backcast_loss_ratio=0.1, loss=SMAPE(), dropout=0.0
    ))  # fmt: skip
    x, y = next(iter(data.to_dataloader(train=False, batch_size=4)))
    out = net(x)
    loss = net.loss(out["prediction"], y)
    loss.backward()
    z.show(out["prediction"], loss)


@package("neuralforecast", "neuralforecast.models")
def neuralforecast(z: Any) -> None:
    from neuralforecast.models import NHITS, DLinear

    for kind in (NHITS, DLinear):
        net = z.fill(kind(h=4, input_size=12, max_steps=1))
        batch = {
            "insample_y": z.draw(3, 12, 1), "insample_mask": z.torch.ones(3, 12, 1),
            "futr_exog": None, "hist_exog": None, "stat_exog": None,
        }  # fmt: skip
        z.show(net(batch))


# -- tools -----------------------------------------------------------------------------------------


@package("pytorch_lightning")
def pytorch_lightning(z: Any) -> None:
    import pytorch_lightning as pl
    from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
    from torch.utils.data import DataLoader

    class Lit(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = _net(z)

        def training_step(self, batch: Any, number: int) -> Any:
            return z.torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch: Any, number: int) -> None:
            self.log("val", z.torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            optimizer = z.torch.optim.SGD(self.parameters(), lr=0.1)
            return [optimizer], [z.torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    model, loader = Lit(), DataLoader(_set(z), batch_size=8)
    trainer = pl.Trainer(
        max_epochs=3, logger=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu", gradient_clip_val=1.0, accumulate_grad_batches=2,
        callbacks=[ModelCheckpoint("kept", monitor="val"), EarlyStopping("val")],
    )  # fmt: skip
    trainer.fit(model, loader, loader)
    z.show(trainer.callback_metrics["val"], trainer.test_loop is not None)
    again = Lit.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    z.show(again.net(z.draw(3, 6)))


@package("torch_ema", light=True)
def torch_ema(z: Any) -> None:
    from torch_ema import ExponentialMovingAverage

    net = _net(z)
    kept = ExponentialMovingAverage(net.parameters(), decay=0.9)
    with z.torch.no_grad():
        for p in net.parameters():
            p.mul_(2)
    kept.update()
    with kept.average_parameters():
        z.show(net(z.draw(2, 6)))


@package("torchsummary", light=True)
def torchsummary(z: Any) -> None:
    import contextlib
    import io
    import re

    from torchsummary import summary

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        summary(_net(z), (6,), device="cpu")
    z.show([int(number) for number in re.findall(r"params: (\d+)", text.getvalue())])


@package("ptflops", light=True)
def ptflops(z: Any) -> None:
    from ptflops import get_model_complexity_info

    # Its other backend, "aten", is a TorchDispatchMode.
    z.show(*get_model_complexity_info(
        _net(z), (6,), as_strings=False, print_per_layer_stat=False, backend="pytorch"
    ))  # fmt: skip


@package("thop", light=True)
def thop(z: Any) -> None:
    from thop import profile

    z.show(*profile(_net(z), (z.draw(1, 6),), verbose=False))


@package("fvcore.nn", stops="graphs of torch.jit.trace")
def fvcore(z: Any) -> None:
    from fvcore.nn import FlopCountAnalysis, parameter_count, sigmoid_focal_loss

    z.show(sigmoid_focal_loss(z.draw(6), z.uniform(6)), dict(parameter_count(_net(z))))
    z.show(FlopCountAnalysis(_net(z), z.draw(1, 6)).total())


@package("shap")
def shap(z: Any) -> None:
    import shap as s

    net, background, x = _net(z), z.draw(10, 6), z.draw(3, 6)
    z.show(s.DeepExplainer(net, background).shap_values(x, check_additivity=False))
    z.show(s.GradientExplainer(net, background).shap_values(x, nsamples=20, rseed=0).shape)
