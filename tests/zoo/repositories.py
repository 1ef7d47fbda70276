"""Repositories that people train from, as they are checked out: each with its own training script
on small drawn data, or where that wants downloads with a loop over its own models and losses.
Scripts as in package_scripts.py; `z.checkout` is the checkout's folder."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tests.zoo.package_list import repository


def _run(z: Any, script: str, *arguments: str, numbers: str = "") -> None:
    """A script as from a command line: the numbers that it prints."""
    path = Path(script).resolve()
    text = io.StringIO()
    sys.argv = [path.name, *arguments]
    sys.path.insert(0, str(path.parent))
    with contextlib.redirect_stdout(text):
        runpy.run_path(str(path), run_name="__main__")
    if numbers:
        printed = re.findall(numbers, text.getvalue())
        assert printed, text.getvalue()
        z.show([float(each) for each in printed])


def _learn(z: Any, parameters: Any, loss_of: Any, steps: int = 3) -> None:
    """The losses of some steps of Adam."""
    optimizer = z.torch.optim.Adam(list(parameters), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        z.show(loss)


def _step(z: Any, net: Any, last: Any, loss_of: Any) -> None:
    """The loss and the gradients of the last layers before a step. The loss after it is no measure
    of networks that normalise a few numbers for each channel: PyTorch's is 5e-3 away from that of
    float64, where 1e-7 of the weights become 3e-3 of it as well."""
    optimizer = z.torch.optim.Adam(net.parameters(), lr=1e-3)
    loss = loss_of()
    loss.backward()
    z.show(loss, [p.grad for p in last.parameters()])
    optimizer.step()
    assert bool(loss_of().isfinite())


def _pictures(folder: str, count: int, side: int, masks: str = "") -> None:
    """Pictures of a square on noise, and masks of it."""
    from PIL import Image

    random = np.random.default_rng(5)
    for each in filter(None, (folder, masks)):
        Path(each).mkdir(parents=True)
    for i in range(count):
        image = random.integers(0, 60, (side, side, 3)).astype(np.uint8)
        mask = np.zeros((side, side), np.uint8)
        y, x = random.integers(0, side // 2, 2)
        mask[y : y + side // 2, x : x + side // 2] = 1
        image[mask == 1] += 150
        Image.fromarray(image).save(f"{folder}/{i}.png")
        if masks:
            Image.fromarray(mask).save(f"{masks}/{i}.png")


# -- text ------------------------------------------------------------------------------------------


@repository("llama2.c")
def llama2_c(z: Any) -> None:
    for name in ("train.py", "model.py", "export.py", "tinystories.py", "tokenizer.py",
                 "configurator.py"):  # fmt: skip
        shutil.copy(z.checkout / name, name)
    tokens = Path("data/tok64")
    tokens.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(2):
        random.integers(0, 64, 2000).astype(np.uint16).tofile(tokens / f"data{number}.bin")
    # With PyTorch's own compiler a C++ one would be needed for its side.
    _run(
        z, "train.py", f"--compile={z.ours}", "--device=cpu", "--dtype=float32", "--dim=32",
        "--vocab_source=custom", "--vocab_size=64", "--n_layers=2", "--n_heads=2",
        "--n_kv_heads=2", "--max_seq_len=16", "--batch_size=4", "--max_iters=6", "--eval_iters=2",
        "--gradient_accumulation_steps=2", "--warmup_iters=0", "--eval_interval=4",
        numbers=r"loss (\d+\.\d+)",
    )  # fmt: skip


@repository("makemore")
def makemore(z: Any) -> None:
    for kind in ("transformer", "gru", "bow", "mlp"):
        _run(
            z, str(z.checkout / "makemore.py"), "-i", str(z.checkout / "names.txt"),
            "--max-steps", "31", "--type", kind, "--n-layer", "2", "--n-embd", "16",
            "--n-embd2", "16", "--num-workers", "0", numbers=r"loss (\d+\.\d+)",
        )  # fmt: skip


@repository("mamba-minimal")
def mamba_minimal(z: Any) -> None:
    from model import Mamba, ModelArgs

    net, words = Mamba(ModelArgs(16, 2, 20)), z.integers(20, 2, 8)
    loss = z.torch.nn.functional.cross_entropy
    z.train(net, words, loss=lambda out: loss(out.flatten(0, 1), words.flatten()), compiled=True)


@repository("LLMs-from-scratch", path="ch05/01_main-chapter-code")
def llms_from_scratch(z: Any) -> None:
    import gpt_train
    from previous_chapters import GPTModel

    class Letters:
        def encode(self, text: str, **_: Any) -> list[int]:
            return [ord(each) % 64 for each in text]

        def decode(self, numbers: list[int]) -> str:
            return "".join(chr(each + 32) for each in numbers)

    net = GPTModel({
        "vocab_size": 64, "context_length": 16, "emb_dim": 16, "n_heads": 2, "n_layers": 2,
        "drop_rate": 0.0, "qkv_bias": False,
    })  # fmt: skip
    words = z.integers(64, 12, 17)
    data = z.torch.utils.data.TensorDataset(words[:, :-1], words[:, 1:])
    loader = z.torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    optimizer = z.torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=0.1)
    with contextlib.redirect_stdout(io.StringIO()):
        z.show(*gpt_train.train_model_simple(
            net, loader, loader, optimizer, "cpu", 2, 2, 2, "every", Letters()
        ))  # fmt: skip


# -- pictures --------------------------------------------------------------------------------------


@repository("detr")
def detr(z: Any) -> None:
    import torchvision

    torchvision.__version__ = "0.15"  # it compares the first three letters as a number
    import models.backbone
    from models import build_model

    models.backbone.is_main_process = lambda: False  # which would load weights
    net, criterion, _ = build_model(argparse.Namespace(
        dataset_file="coco", device="cpu", masks=False, frozen_weights=None, aux_loss=True,
        backbone="resnet18", dilation=False, position_embedding="sine", lr_backbone=1e-5,
        hidden_dim=32, enc_layers=1, dec_layers=2, dim_feedforward=32, dropout=0.0, nheads=2,
        num_queries=5, pre_norm=False, set_cost_class=1, set_cost_bbox=5, set_cost_giou=2,
        bbox_loss_coef=5, giou_loss_coef=2, eos_coef=0.1,
    ))  # fmt: skip
    images = [z.draw(3, 64, 48), z.draw(3, 64, 64)]
    targets = [{"labels": z.integers(91, n), "boxes": z.uniform(n, 4) / 4 + 0.3} for n in (2, 1)]

    def loss() -> Any:
        losses = criterion(net(images), targets)
        return sum(losses[k] * w for k, w in criterion.weight_dict.items() if k in losses)

    _learn(z, net.parameters(), loss)


@repository("segment-anything")
def segment_anything(z: Any) -> None:
    from segment_anything import SamAutomaticMaskGenerator
    from segment_anything.modeling import (
        ImageEncoderViT,
        MaskDecoder,
        PromptEncoder,
        Sam,
        TwoWayTransformer,
    )

    sam = Sam(
        ImageEncoderViT(img_size=64, embed_dim=32, depth=2, num_heads=2, out_chans=16,
                        use_rel_pos=True, window_size=2, global_attn_indexes=(1,)),
        PromptEncoder(16, (4, 4), (64, 64), 4),
        MaskDecoder(transformer_dim=16, transformer=TwoWayTransformer(1, 16, 2, 32),
                    iou_head_hidden_dim=16),
    )  # fmt: skip
    images, wanted = z.draw(1, 3, 64, 64), z.integers(2, 1, 3, 16, 16).float()
    points = (z.uniform(1, 2, 2) * 64, z.torch.ones(1, 2))
    bce = z.torch.nn.functional.binary_cross_entropy_with_logits

    def loss() -> Any:
        sparse, dense = sam.prompt_encoder(points=points, boxes=None, masks=None)
        masks, quality = sam.mask_decoder(
            image_embeddings=sam.image_encoder(images), dense_prompt_embeddings=dense,
            image_pe=sam.prompt_encoder.get_dense_pe(), sparse_prompt_embeddings=sparse,
            multimask_output=True,
        )  # fmt: skip
        return bce(masks, wanted) + quality.square().mean()

    _learn(z, sam.parameters(), loss)
    maker = SamAutomaticMaskGenerator(
        sam, points_per_side=4, pred_iou_thresh=-1e9, stability_score_thresh=-1.0
    )
    masks = maker.generate((z.uniform(64, 64, 3) * 255).to(z.torch.uint8).numpy())
    assert masks
    z.show([[each["area"], *each["bbox"]] for each in masks])


@repository("mae")
def mae(z: Any) -> None:
    import timm.models.vision_transformer as vit

    np.float = float  # of the day that it was written
    block = vit.Block
    with mock.patch.object(vit, "Block", lambda *a, qk_scale, **o: block(*a, **o)):
        from models_mae import MaskedAutoencoderViT

        net = MaskedAutoencoderViT(
            img_size=32, patch_size=8, embed_dim=32, depth=1, num_heads=2, decoder_embed_dim=32,
            decoder_depth=1, decoder_num_heads=2, norm_pix_loss=True,
        )  # fmt: skip
    images = z.draw(2, 3, 32, 32)
    _learn(z, net.parameters(), lambda: net(images)[0])


@repository("Pytorch-UNet")
def pytorch_unet(z: Any) -> None:
    sys.modules["wandb"] = mock.MagicMock()
    from train import train_model
    from unet import UNet

    _pictures("data/imgs", 5, 32, "data/masks")
    net = UNet(n_channels=3, n_classes=2, bilinear=True)
    train_model(net, z.torch.device("cpu"), epochs=1, batch_size=2, val_percent=0.2, img_scale=1.0)
    logged = [call.args[0] for call in sys.modules["wandb"].init.return_value.log.mock_calls]
    z.show([each["train loss"] for each in logged if "train loss" in each])
    z.show([each["validation Dice"] for each in logged if "validation Dice" in each])


@repository("DeepLabV3Plus-Pytorch")
def deeplab(z: Any) -> None:
    sys.modules["visdom"] = mock.MagicMock()  # it draws curves in a browser
    import network
    from utils.loss import FocalLoss

    net = network.modeling.deeplabv3plus_mobilenet(
        num_classes=3, output_stride=16, pretrained_backbone=False
    )
    for module in net.modules():
        if isinstance(module, z.torch.nn.Dropout):
            module.p = 0.0
    images, labels, loss = z.draw(2, 3, 64, 64), z.integers(3, 2, 64, 64), FocalLoss()
    _step(z, net, net.classifier.classifier[-1], lambda: loss(net(images), labels))


@repository("pytorch-cifar")
def pytorch_cifar(z: Any) -> None:
    import models

    images, labels = z.draw(4, 3, 32, 32), z.integers(10, 4)
    loss = z.torch.nn.functional.cross_entropy
    for kind in (models.SimpleDLA, models.ResNet18, models.MobileNetV2):
        z.torch.manual_seed(0)
        net = kind()
        _step(z, net, net.linear, lambda: loss(net(images), labels))  # noqa: B023


@repository("PyTorch-GAN", path="implementations/gan")
def pytorch_gan(z: Any) -> None:
    from tests.zoo.script_data import digits

    folder = Path("data/mnist")
    folder.mkdir(parents=True)
    digits(folder / "script", trained=80, tested=20)
    shutil.move("data/mnist/data/MNIST", "data/mnist/MNIST")
    for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        assert Path(f"data/mnist/MNIST/raw/{part}-ubyte").exists()
    work = Path("implementations/gan")
    work.mkdir(parents=True)
    with contextlib.chdir(work):
        _run(z, str(z.checkout / "gan.py"), "--n_epochs", "1", "--batch_size", "16",
             numbers=r"loss: (\d+\.\d+)")  # fmt: skip


@repository("nerf-pytorch")
def nerf(z: Any) -> None:
    import run_nerf
    from run_nerf_helpers import get_rays, img2mse

    Path("e").mkdir()
    options, _, _, parameters, optimizer = run_nerf.create_nerf(argparse.Namespace(
        multires=4, i_embed=0, use_viewdirs=True, multires_views=2, N_importance=4, netdepth=8,
        netwidth=16, netdepth_fine=8, netwidth_fine=16, netchunk=1024, lrate=5e-4, basedir=".",
        expname="e", ft_path=None, no_reload=False, perturb=1.0, N_samples=4, white_bkgd=True,
        raw_noise_std=1.0, dataset_type="blender", no_ndc=False, lindisp=False,
    ))  # fmt: skip
    side, focal = 6, 5.0
    lens = np.array([[focal, 0, side / 2], [0, focal, side / 2], [0, 0, 1]])
    place = z.torch.eye(4)[:3]
    rays = z.torch.stack([r.reshape(-1, 3) for r in get_rays(side, side, lens, place)])
    wanted = z.uniform(side * side, 3)
    for _ in range(3):
        rgb, _, _, extras = run_nerf.render(
            side, side, lens, chunk=64, rays=rays, retraw=True, near=2.0, far=6.0, **options
        )
        optimizer.zero_grad()
        loss = img2mse(rgb, wanted) + img2mse(extras["rgb0"], wanted)
        loss.backward()
        optimizer.step()
        z.show(loss)
    z.show([p.grad.abs().sum() for p in parameters if p.grad is not None])


# -- others ----------------------------------------------------------------------------------------


@repository("pykan")
def pykan(z: Any) -> None:
    from kan import KAN

    x = z.uniform(40, 2) * 2 - 1
    y = (x[:, :1] * 3).sin() + x[:, 1:] ** 2
    data = {"train_input": x, "train_label": y, "test_input": x[:10], "test_label": y[:10]}
    for way, steps in (("LBFGS", 3), ("Adam", 5)):
        net = KAN(width=[2, 3, 1], grid=3, k=3, seed=0, auto_save=False)
        told = net.fit(data, opt=way, steps=steps, lamb=0.001)
        z.show(np.array(told["train_loss"], float), np.array(told["test_loss"], float))


@repository("pygcn")
def pygcn(z: Any) -> None:
    random, count = np.random.default_rng(0), 1500
    folder = Path("data/cora")
    folder.mkdir(parents=True)
    kinds = random.integers(0, 3, count)
    words = random.random((count, 12)) < 0.1 + 0.3 * (np.arange(12) % 3 == kinds[:, None])
    Path("data/cora/cora.content").write_text("".join(
        f"{i} {' '.join(str(int(w)) for w in words[i])} kind{kinds[i]}\n" for i in range(count)
    ))  # fmt: skip
    pairs = random.integers(0, count, (3000, 2))
    Path("data/cora/cora.cites").write_text("".join(f"{a} {b}\n" for a, b in pairs))
    Path("pygcn").mkdir()
    sys.path.insert(0, str(z.checkout))
    with contextlib.chdir("pygcn"):
        _run(z, str(z.checkout / "pygcn/train.py"), "--epochs", "8", "--dropout", "0",
             numbers=r"loss\S* (\d+\.\d+)")  # fmt: skip


@repository("cleanrl", path="cleanrl")
def cleanrl(z: Any) -> None:
    import glob

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    _run(z, str(z.checkout / "ppo.py"), "--total-timesteps", "256", "--num-envs", "2",
         "--num-steps", "32", "--no-cuda")  # fmt: skip
    events = EventAccumulator(glob.glob("runs/*/events*")[0]).Reload()
    # Two are what is left of sums and differences of numbers around one, and are held to these.
    for name, about in (("value_loss", 0), ("policy_loss", 1), ("entropy", 0), ("approx_kl", 1)):
        shown = [each.value for each in events.Scalars(f"losses/{name}")]
        assert len(shown) == 4
        z.show([about + each for each in shown])


@repository("annotated_deep_learning_paper_implementations")
def labml(z: Any) -> None:
    from labml import tracker
    from labml_nn.conv_mixer import (
        ClassificationHead,
        ConvMixer,
        ConvMixerLayer,
        PatchEmbeddings,
    )
    from labml_nn.graphs.gat import GraphAttentionLayer
    from labml_nn.hypernetworks.hyper_lstm import HyperLSTM
    from labml_nn.lora import Linear
    from labml_nn.lstm import LSTM
    from labml_nn.normalization.batch_norm import BatchNorm
    from labml_nn.normalization.group_norm import GroupNorm
    from labml_nn.resnet import ResNetBase
    from labml_nn.transformers.mha import MultiHeadAttention
    from labml_nn.transformers.rope import RotaryPositionalEmbeddings

    tracker.debug = lambda *_: None  # which releases of today do not have
    nn = z.torch.nn
    mixer = ConvMixer(ConvMixerLayer(8, 3), 1, PatchEmbeddings(8, 4, 3), ClassificationHead(8, 3))
    z.train(mixer, z.draw(2, 3, 16, 16))
    near = (z.uniform(5, 5, 1) > 0.5) | z.torch.eye(5, dtype=z.torch.bool)[..., None]
    z.train(GraphAttentionLayer(6, 4, 2, dropout=0.0), z.draw(5, 6), near)
    z.train(HyperLSTM(4, 6, 5, 3, 1), z.draw(3, 2, 4))
    z.train(z.fill(Linear(6, 4, True, 2)), z.draw(3, 6), compiled=True)
    z.train(LSTM(4, 6, 2), z.draw(3, 2, 4))
    z.train(nn.Sequential(nn.Conv2d(3, 4, 3), BatchNorm(4), GroupNorm(2, 4)), z.draw(2, 3, 8, 8))
    z.train(ResNetBase([1, 1], [4, 8], img_channels=3, first_kernel_size=3), z.draw(2, 3, 16, 16))
    attention = MultiHeadAttention(2, 8, dropout_prob=0.0)
    x = z.draw(4, 2, 8)
    _learn(z, attention.parameters(), lambda: attention(query=x, key=x, value=x).square().mean())
    z.show(RotaryPositionalEmbeddings(4)(z.draw(3, 2, 2, 8)))
