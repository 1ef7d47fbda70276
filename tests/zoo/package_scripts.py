"""Packages that build on PyTorch, each with what it is for as a short script. `z` is the bench of
package_worker.py: it has PyTorch, numbers to work on, and shows results."""

from __future__ import annotations

from typing import Any

from tests.zoo.package_list import package

# -- training ------------------------------------------------------------------------------------


def _net(z: Any) -> Any:
    nn = z.torch.nn
    return z.fill(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))


def _set(z: Any, count: int = 24) -> Any:
    from torch.utils.data import TensorDataset

    return TensorDataset(z.draw(count, 6), z.integers(3, count))


@package("lightning")
def lightning(z: Any) -> None:
    import lightning as pl
    from lightning.fabric.plugins.environments import LightningEnvironment
    from torch.utils.data import DataLoader

    class Lit(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = _net(z)
            self.losses: list[float] = []

        def training_step(self, batch: Any, number: int) -> Any:
            x, y = batch
            loss = z.torch.nn.functional.cross_entropy(self.net(x), y)
            self.log("loss", loss)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return z.torch.optim.AdamW(self.parameters(), lr=0.01)

    model = Lit()
    trainer = pl.Trainer(
        max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu", plugins=[LightningEnvironment()],
    )  # fmt: skip
    trainer.fit(model, DataLoader(_set(z), batch_size=8))
    z.show(model.losses, trainer.callback_metrics["loss"])


@package("accelerate")
def accelerate(z: Any) -> None:
    from accelerate import Accelerator, init_empty_weights
    from torch.utils.data import DataLoader

    accelerator = Accelerator(cpu=True)
    net = _net(z)
    optimizer = z.torch.optim.AdamW(net.parameters(), lr=0.01)
    schedule = z.torch.optim.lr_scheduler.StepLR(optimizer, 2)
    parts = accelerator.prepare(net, optimizer, DataLoader(_set(z), batch_size=8), schedule)
    net, optimizer, loader, schedule = parts
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = z.torch.nn.functional.cross_entropy(net(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    z.show(losses)
    with init_empty_weights():
        assert z.torch.nn.Linear(10, 10).weight.is_meta


@package("peft")
def peft(z: Any) -> None:
    from peft import LoraConfig, get_peft_model

    net = get_peft_model(_net(z), LoraConfig(target_modules=["0", "2"], r=2, lora_dropout=0.0))
    z.train(z.fill(net), z.draw(4, 6), compiled=True)


@package("ignite", "ignite.engine", light=True)
def ignite(z: Any) -> None:
    from ignite.engine import Engine, Events, create_supervised_evaluator
    from ignite.metrics import Accuracy, Loss
    from torch.utils.data import DataLoader

    net = _net(z)
    optimizer = z.torch.optim.SGD(net.parameters(), lr=0.1)
    criterion = z.torch.nn.CrossEntropyLoss()

    def update(engine: Any, batch: Any) -> float:
        optimizer.zero_grad()
        loss = criterion(net(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return float(loss)

    losses: list[float] = []
    trainer = Engine(update)
    trainer.add_event_handler(
        Events.ITERATION_COMPLETED, lambda engine: losses.append(engine.state.output)
    )
    loader = DataLoader(_set(z), batch_size=8)
    trainer.run(loader, max_epochs=2)
    evaluator = create_supervised_evaluator(net, {"a": Accuracy(), "l": Loss(criterion)})
    evaluator.run(loader)
    z.show(losses, dict(evaluator.state.metrics))


@package("skorch")
def skorch(z: Any) -> None:
    from skorch import NeuralNetClassifier

    net = NeuralNetClassifier(
        _net(z), max_epochs=3, lr=0.1, train_split=None, verbose=0, batch_size=8,
        criterion=z.torch.nn.CrossEntropyLoss,
    )  # fmt: skip
    data = _set(z)
    net.fit(data.tensors[0].numpy(), data.tensors[1].numpy())
    z.show([row["train_loss"] for row in net.history])


@package("fastai", "fastai.learner", "fastai.vision.all")
def fastai(z: Any) -> None:
    from fastai.data.core import DataLoaders
    from fastai.data.load import DataLoader
    from fastai.learner import Learner

    loader = DataLoader(_set(z), bs=8)
    learner = Learner(
        DataLoaders(loader, loader), _net(z), loss_func=z.torch.nn.CrossEntropyLoss(), lr=0.01
    )
    with learner.no_bar(), learner.no_logging():
        learner.fit(2)
    z.show([float(each) for each in learner.recorder.losses])


@package("torchmetrics", light=True)
def torchmetrics(z: Any) -> None:
    import torchmetrics

    scores, labels = z.uniform(20, 4), z.integers(4, 20)
    for kind in (torchmetrics.Accuracy, torchmetrics.F1Score, torchmetrics.AUROC):
        metric = kind(task="multiclass", num_classes=4)
        metric(scores, labels)
        z.show(metric.compute())
    z.show(torchmetrics.MeanSquaredError()(z.draw(5), z.draw(5)))


@package("tensorboard", "torch.utils.tensorboard", light=True)
def tensorboard(z: Any) -> None:
    import glob

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter("runs") as writer:
        for step in range(3):
            writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_histogram("weights", z.draw(100), 0)
        writer.add_image("image", z.uniform(3, 8, 8), 0)
        writer.add_text("note", "text", 0)
        writer.add_hparams({"lr": 0.1}, {"loss": 0.5})
        writer.add_graph(_net(z), z.draw(1, 6))
    events = EventAccumulator(glob.glob("runs/events*")[0]).Reload()
    z.show([each.value for each in events.Scalars("loss")])
    z.show(list(events.Histograms("weights")[0].histogram_value.bucket))


# -- models and layers ---------------------------------------------------------------------------


@package("torch_geometric.nn")
def torch_geometric(z: Any) -> None:
    from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool

    nn, torch = z.torch.nn, z.torch
    x, edges = z.draw(6, 5), torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]])
    layers = [GCNConv(5, 4), GATConv(5, 4, heads=2), GINConv(nn.Linear(5, 4))]
    for layer in layers:
        z.show(z.fill(layer)(x, edges))
    z.show(global_mean_pool(x, torch.tensor([0, 0, 0, 1, 1, 1])))
    z.train(z.fill(SAGEConv(5, 4)), x, edges, compiled=True)


@package("kornia", "kornia.augmentation")
def kornia(z: Any) -> None:
    import kornia as k

    images = z.uniform(2, 3, 16, 16)
    z.show(k.filters.gaussian_blur2d(images, (3, 3), (1.5, 1.5)), k.filters.sobel(images))
    z.show(k.color.rgb_to_hsv(images), k.geometry.transform.resize(images, (8, 8)))
    z.show(k.metrics.ssim(images, images.flip(-1), 5))
    z.show(k.losses.total_variation(images))


@package("diffusers")
def diffusers(z: Any) -> None:
    from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel

    net = UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8),
        norm_num_groups=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    x, time = z.draw(2, 1, 8, 8), z.torch.tensor([10, 500])
    z.show(DDPMScheduler().add_noise(x, z.draw(2, 1, 8, 8), time))
    z.train(z.fill(net), x, time, loss=lambda out: out.sample.square().mean())
    steps = DDIMScheduler()
    steps.set_timesteps(2)
    with z.torch.no_grad():
        for t in steps.timesteps:
            x = steps.step(net(x, t).sample, t, x).prev_sample
    z.show(x)


@package("captum.attr", light=True)
def captum(z: Any) -> None:
    from captum.attr import DeepLift, IntegratedGradients, LayerGradCam, Occlusion, Saliency

    net, x, nn = _net(z), z.draw(3, 6), z.torch.nn
    for kind in (IntegratedGradients, Saliency, DeepLift):
        z.show(kind(net).attribute(x.clone().requires_grad_(), target=1))
    z.show(Occlusion(net).attribute(x, target=1, sliding_window_shapes=(2,)))
    images = z.fill(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)))
    z.show(LayerGradCam(images, images[0]).attribute(z.draw(2, 1, 4, 4), target=1))


@package("gpytorch")
def gpytorch(z: Any) -> None:
    import gpytorch as gp

    x, y = z.torch.linspace(0, 1, 12), z.draw(12)

    class Model(gp.models.ExactGP):
        def __init__(self, likelihood: Any):
            super().__init__(x, y, likelihood)
            self.mean = gp.means.ConstantMean()
            self.kernel = gp.kernels.ScaleKernel(gp.kernels.RBFKernel())

        def forward(self, inputs: Any) -> Any:
            return gp.distributions.MultivariateNormal(self.mean(inputs), self.kernel(inputs))

    likelihood = gp.likelihoods.GaussianLikelihood()
    model = Model(likelihood)
    model.train()
    optimizer = z.torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gp.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    z.show(losses)


@package("e3nn.o3")
def e3nn(z: Any) -> None:
    from e3nn import o3

    z.show(o3.spherical_harmonics(2, z.draw(4, 3), normalize=True), o3.wigner_3j(1, 1, 2))
    layer = z.fill(o3.Linear("4x0e + 2x1o", "3x0e + 2x1o"))
    z.show(layer(z.draw(3, 10)))
    product = z.fill(o3.FullyConnectedTensorProduct("2x0e + 1x1o", "1x0e + 1x1o", "2x0e + 1x1o"))
    z.show(product(z.draw(3, 5), z.draw(3, 4)))


@package("monai.networks.nets", "monai.data", "monai.losses")
def monai(z: Any) -> None:
    from monai.data import MetaTensor
    from monai.losses import DiceLoss
    from monai.networks.nets import UNet

    net = UNet(2, 1, 2, channels=(4, 8), strides=(2,), num_res_units=1)
    labels = z.integers(2, 2, 1, 8, 8)
    dice = DiceLoss(to_onehot_y=True, softmax=True)
    z.train(z.fill(net), z.draw(2, 1, 8, 8), loss=lambda out: dice(out, labels), compiled=True)
    image = MetaTensor(z.draw(1, 4, 4), meta={"name": "a"})
    z.show((image * 2).as_tensor())
    assert (image + 1).meta["name"] == "a"


@package("opacus")
def opacus(z: Any) -> None:
    from opacus import GradSampleModule

    net = GradSampleModule(_net(z))
    net(z.draw(5, 6)).square().sum().backward()
    z.show([p.grad_sample for p in net.parameters()])


@package("lightly.loss", "lightly.models.modules", light=True)
def lightly(z: Any) -> None:
    from lightly.loss import BarlowTwinsLoss, NTXentLoss, VICRegLoss
    from lightly.models.modules import SimCLRProjectionHead

    a, b = z.draw(6, 8), z.draw(6, 8)
    for loss in (NTXentLoss(), BarlowTwinsLoss(), VICRegLoss()):
        z.show(loss(a, b))
    z.train(z.fill(SimCLRProjectionHead(8, 8, 4)), a, compiled=True)


@package("vector_quantize_pytorch")
def vector_quantize_pytorch(z: Any) -> None:
    from vector_quantize_pytorch import FSQ, LFQ

    z.show(FSQ(levels=[5, 5])(z.draw(2, 6, 2))[0], LFQ(codebook_size=8, dim=3)(z.draw(2, 6, 3))[0])


@package("performer_pytorch")
def performer_pytorch(z: Any) -> None:
    from performer_pytorch import SelfAttention

    z.train(z.fill(SelfAttention(dim=16, heads=2, dim_head=8, causal=False)), z.draw(1, 8, 16))


@package("linformer", light=True)
def linformer(z: Any) -> None:
    from linformer import Linformer

    z.train(z.fill(Linformer(dim=16, seq_len=8, depth=1, heads=2, k=4)), z.draw(1, 8, 16),
            compiled=True)  # fmt: skip


@package("denoising_diffusion_pytorch")
def denoising_diffusion_pytorch(z: Any) -> None:
    from denoising_diffusion_pytorch import Unet

    net = z.fill(Unet(dim=8, dim_mults=(1, 2), channels=1, attn_dim_head=8, attn_heads=2))
    z.train(net, z.draw(1, 1, 16, 16), z.torch.tensor([3.0]), compiled=True)


@package("pytorch_optimizer")
def pytorch_optimizer(z: Any) -> None:
    import pytorch_optimizer as kinds

    for name in ("Lion", "AdaBelief", "RAdam", "Lamb", "SAM", "DAdaptAdam", "Adan", "Sophia"):
        if name == "SAM" or not hasattr(kinds, name):
            continue
        _optimize(z, getattr(kinds, name))


@package("torch_optimizer", light=True)
def torch_optimizer(z: Any) -> None:
    import torch_optimizer as kinds

    for name in ("AdaBound", "DiffGrad", "Lamb", "QHAdam", "Ranger", "Yogi", "SGDW", "Shampoo"):
        _optimize(z, getattr(kinds, name))


def _optimize(z: Any, kind: Any) -> None:
    net = _net(z)
    optimizer = kind(net.parameters(), lr=0.01)
    x = z.draw(4, 6)
    for _ in range(3):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        z.show(loss)


@package("torchdiffeq", light=True)
def torchdiffeq(z: Any) -> None:
    from torchdiffeq import odeint, odeint_adjoint

    net, x, times = _net(z), z.draw(4, 3), z.torch.linspace(0, 1, 4)
    inner = z.fill(z.torch.nn.Linear(3, 3))

    class Field(z.torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, t: Any, state: Any) -> Any:
            return z.torch.tanh(self.inner(state))

    field = Field()
    z.show(odeint(field, x, times), odeint(field, x, times, method="rk4"))
    odeint_adjoint(field, x, times).sum().backward()
    z.show([p.grad for p in field.parameters()], net(z.draw(1, 6)))


@package("torchsde")
def torchsde(z: Any) -> None:
    from torchsde import sdeint_adjoint

    class Field(z.torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.inner = z.fill(z.torch.nn.Linear(3, 3))

        def f(self, t: Any, y: Any) -> Any:
            return self.inner(y)

        def g(self, t: Any, y: Any) -> Any:
            return y * 0

    field = Field()
    result = sdeint_adjoint(field, z.draw(2, 3), z.torch.linspace(0, 1, 3), dt=0.1)
    result.sum().backward()
    z.show(result, field.inner.weight.grad)


@package("nflows.flows")
def nflows(z: Any) -> None:
    from nflows.distributions import StandardNormal
    from nflows.flows import Flow
    from nflows.transforms import MaskedAffineAutoregressiveTransform

    flow = Flow(MaskedAffineAutoregressiveTransform(3, 8), StandardNormal([3]))
    z.show(z.fill(flow).log_prob(z.draw(5, 3)))


@package("pytorch_metric_learning.losses", light=True)
def pytorch_metric_learning(z: Any) -> None:
    from pytorch_metric_learning import losses, miners

    x, labels = z.draw(12, 4), z.integers(3, 12)
    pairs = miners.MultiSimilarityMiner()(x, labels)
    for loss in (losses.TripletMarginLoss(), losses.MultiSimilarityLoss(), losses.NTXentLoss()):
        z.show(loss(x, labels, pairs))


@package("piq", light=True)
def piq(z: Any) -> None:
    import piq as p

    a, b = z.uniform(1, 3, 32, 32), z.uniform(1, 3, 32, 32)
    z.show(p.psnr(a, b), p.ssim(a, b), p.gmsd(a, b), p.total_variation(a))


@package("higher")
def higher(z: Any) -> None:
    import higher as h

    net = _net(z)
    optimizer = z.torch.optim.SGD(net.parameters(), lr=0.1)
    with h.innerloop_ctx(net, optimizer, copy_initial_weights=False) as (inner, steps):
        steps.step(inner(z.draw(4, 6)).square().mean())
        inner(z.draw(4, 6)).square().mean().backward()
    z.show([p.grad for p in net.parameters()])


@package("ncps.torch", light=True)
def ncps(z: Any) -> None:
    from ncps.torch import CfC

    z.train(z.fill(CfC(3, 5)), z.draw(2, 4, 3), loss=lambda out: out[0].square().mean())


@package("ema_pytorch", light=True)
def ema_pytorch(z: Any) -> None:
    from ema_pytorch import EMA

    net = _net(z)
    ema = EMA(net, beta=0.9, update_after_step=0, update_every=1)
    for _ in range(3):
        with z.torch.no_grad():
            for p in net.parameters():
                p.add_(1)
        ema.update()
    z.show(ema(z.draw(2, 6)))


@package("torchinfo", light=True)
def torchinfo(z: Any) -> None:
    from torchinfo import summary

    told = summary(_net(z), (2, 6), verbose=0)
    z.show(told.total_params, told.total_mult_adds)


@package("stable_baselines3")
def stable_baselines3(z: Any) -> None:
    import gymnasium as gym
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", gym.make("CartPole-v1"), n_steps=32, n_epochs=1, seed=0, device="cpu")
    z.fill(model.policy)
    z.show(model.policy(z.draw(3, 4), deterministic=True)[1:])
    model.learn(64)


@package("torch_pruning")
def torch_pruning(z: Any) -> None:
    import torch_pruning as tp

    net = _net(z)
    graph = tp.DependencyGraph().build_dependency(net, example_inputs=z.draw(1, 6))
    graph.get_pruning_group(net[0], tp.prune_linear_out_channels, idxs=[1, 2]).prune()
    z.show(net(z.draw(2, 6)))


@package("tensordict")
def tensordict(z: Any) -> None:
    from tensordict import TensorDict

    batch = TensorDict({"x": z.draw(4, 3), "y": z.draw(4)}, batch_size=[4])
    z.show(batch[1:3]["x"], (batch + 1)["y"], batch.reshape(2, 2)["x"])
