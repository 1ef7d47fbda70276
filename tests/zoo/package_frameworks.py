"""What tutorials of some frameworks begin with, whole and from the seed alone; those of others are
in package_scripts.py and package_domains.py. Scripts as there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.zoo.package_list import package


@package("diffusers", "diffusers.pipelines.stable_diffusion")
def diffusers_pipeline(z: Any) -> None:
    from diffusers import (
        AutoencoderKL,
        DDIMScheduler,
        DDPMPipeline,
        DDPMScheduler,
        StableDiffusionPipeline,
        UNet2DConditionModel,
        UNet2DModel,
    )

    unet = UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8),
        norm_num_groups=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    DDPMPipeline(z.fill(unet), DDPMScheduler()).save_pretrained("kept")
    again = DDPMPipeline.from_pretrained("kept")
    again.set_progress_bar_config(disable=True)
    draws = z.torch.Generator().manual_seed(0)
    z.show(again(batch_size=2, generator=draws, num_inference_steps=3, output_type="np").images)

    conditioned = UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, norm_num_groups=4,
        block_out_channels=(8, 8), cross_attention_dim=8, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    coder = AutoencoderKL(
        block_out_channels=(8, 8), latent_channels=4, norm_num_groups=4, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    pipeline = StableDiffusionPipeline(
        vae=z.fill(coder), unet=z.fill(conditioned), text_encoder=None, tokenizer=None,
        scheduler=DDIMScheduler(), safety_checker=None, feature_extractor=None,
        requires_safety_checker=False,
    )  # fmt: skip
    pipeline.set_progress_bar_config(disable=True)
    z.show(pipeline(
        prompt_embeds=z.draw(1, 5, 8), negative_prompt_embeds=z.draw(1, 5, 8), generator=draws,
        height=16, width=16, num_inference_steps=3, output_type="np",
    ).images)  # fmt: skip


@package("torch_geometric.nn", "torch_geometric.loader", "torch_geometric.transforms")
def torch_geometric_cora(z: Any) -> None:
    import torch_geometric.transforms as T
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GCNConv, global_mean_pool

    torch, nn = z.torch, z.torch.nn
    count, words, classes = 2708, 1433, 7  # as Cora
    kinds = z.random.integers(0, classes, count)
    own = np.arange(words) % classes == kinds[:, None]
    bags = z.random.random((count, words)) < np.where(own, 0.03, 0.01)
    ends = z.random.integers(0, count, (2, 30000))
    alike = kinds[ends[0]] == kinds[ends[1]]
    ends = ends[:, (ends[0] != ends[1]) & (alike | (z.random.random(30000) < 0.04))]
    graph = T.Compose([T.ToUndirected(), T.NormalizeFeatures()])(Data(
        x=torch.from_numpy(bags.astype(np.float32)), y=torch.from_numpy(kinds),
        edge_index=torch.from_numpy(np.unique(ends, axis=1)),
        train_mask=torch.arange(count) < 140, test_mask=torch.arange(count) >= count - 1000,
    ))  # fmt: skip

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(words, 16), GCNConv(16, classes)

        def forward(self, x: Any, edges: Any) -> Any:
            return self.second(self.first(x, edges).relu(), edges).log_softmax(dim=1)

    net = GCN()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    nll = nn.functional.nll_loss
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = nll(net(graph.x, graph.edge_index)[graph.train_mask], graph.y[graph.train_mask])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.95 * losses[0]
    net.eval()
    right = net(graph.x, graph.edge_index).argmax(dim=1) == graph.y
    z.show(losses, right[graph.test_mask].float().mean())
    rows = graph.train_mask.nonzero()[:, 0]
    z.train(net, graph.x, graph.edge_index, loss=lambda out: nll(out[rows], graph.y[rows]),
            compiled=True)  # fmt: skip
    for batch in DataLoader([graph, graph, graph], batch_size=2, shuffle=True):
        z.show(batch.ptr, global_mean_pool(batch.x, batch.batch))


@package("gpytorch")
def gpytorch_regression(z: Any) -> None:
    import gpytorch as gp

    torch = z.torch
    x = torch.linspace(0, 1, 30)
    y = torch.sin(x * (2 * np.pi)) + 0.2 * z.draw(30)

    class Model(gp.models.ExactGP):
        def __init__(self, likelihood: Any):
            super().__init__(x, y, likelihood)
            self.mean_module = gp.means.ConstantMean()
            self.covar_module = gp.kernels.ScaleKernel(gp.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gp.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gp.likelihoods.GaussianLikelihood()
    model = Model(likelihood)
    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    mll = gp.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(20):
        optimizer.zero_grad()
        loss = -mll(model(x), y)
        loss.backward()
        optimizer.step()
        z.show(loss, model.covar_module.base_kernel.lengthscale, model.likelihood.noise)
    torch.save(model.state_dict(), "state.pth")
    model.load_state_dict(torch.load(Path("state.pth")))
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gp.settings.fast_pred_var():
        told = likelihood(model(torch.linspace(0, 1, 11)))
        z.show(told.mean, *told.confidence_region())


@package("pyro", "pyro.infer", "pyro.nn")
def pyro_regression(z: Any) -> None:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Predictive, Trace_ELBO
    from pyro.infer.autoguide import AutoMultivariateNormal, init_to_mean
    from pyro.nn import PyroModule, PyroSample

    torch = z.torch
    positive = torch.distributions.constraints.positive
    pyro.set_rng_seed(1)
    pyro.clear_param_store()
    cont, rugged = z.integers(2, 60).float(), 3 * z.uniform(60)
    gdp = 9 - 1.5 * cont - 0.2 * rugged + 0.4 * cont * rugged + 0.3 * z.draw(60)

    def model(cont: Any, rugged: Any, gdp: Any = None) -> Any:
        a = pyro.sample("a", dist.Normal(0.0, 10.0))
        b_a = pyro.sample("bA", dist.Normal(0.0, 1.0))
        b_r = pyro.sample("bR", dist.Normal(0.0, 1.0))
        b_ar = pyro.sample("bAR", dist.Normal(0.0, 1.0))
        sigma = pyro.sample("sigma", dist.Uniform(0.0, 10.0))
        mean = a + b_a * cont + b_r * rugged + b_ar * cont * rugged
        with pyro.plate("data", len(rugged)):
            return pyro.sample("obs", dist.Normal(mean, sigma), obs=gdp)

    def guide(cont: Any, rugged: Any, gdp: Any = None) -> None:
        for name in ("a", "bA", "bR", "bAR"):
            place = pyro.param(f"{name}_loc", lambda: torch.tensor(0.0))
            scale = pyro.param(f"{name}_scale", lambda: torch.tensor(1.0), constraint=positive)
            pyro.sample(name, dist.Normal(place, scale))
        sigma = pyro.param("sigma_loc", lambda: torch.tensor(1.0), constraint=positive)
        pyro.sample("sigma", dist.Normal(sigma, torch.tensor(0.05)))

    inference = SVI(model, guide, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO())
    z.show([inference.step(cont, rugged, gdp) for _ in range(40)])
    z.show({name: value for name, value in pyro.get_param_store().items()})
    drawn = Predictive(model, guide=guide, num_samples=20)(cont, rugged)
    z.show(drawn["obs"], drawn["sigma"])

    class Regression(PyroModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = PyroModule[torch.nn.Linear](3, 1)
            self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 3]).to_event(2))
            self.linear.bias = PyroSample(dist.Normal(0.0, 10.0).expand([1]).to_event(1))

        def forward(self, x: Any, y: Any = None) -> Any:
            sigma = pyro.sample("sigma", dist.Uniform(0.0, 10.0))
            mean = self.linear(x).squeeze(-1)
            with pyro.plate("data", x.shape[0]):
                pyro.sample("obs", dist.Normal(mean, sigma), obs=y)
            return mean

    pyro.clear_param_store()
    net = Regression()
    around = AutoMultivariateNormal(net, init_loc_fn=init_to_mean)
    inference = SVI(net, around, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO())
    x = torch.stack([cont, rugged, cont * rugged], 1)
    z.show([inference.step(x, gdp) for _ in range(20)])
    around.requires_grad_(False)
    z.show(around.quantiles([0.25, 0.5, 0.75]))


@package("lightning")
def lightning_autoencoder(z: Any) -> None:
    import lightning as pl
    from lightning.fabric.plugins.environments import LightningEnvironment
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger
    from torch.utils.data import DataLoader, random_split

    nn = z.torch.nn
    losses: list[float] = []

    class AutoEncoder(pl.LightningModule):
        def __init__(self, width: int = 16):
            super().__init__()
            self.save_hyperparameters()
            self.encoder = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 3))
            self.decoder = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 64))

        def _loss(self, batch: Any) -> Any:
            x = batch[0].view(batch[0].size(0), -1)
            return nn.functional.mse_loss(self.decoder(self.encoder(x)), x)

        def training_step(self, batch: Any, number: int) -> Any:
            loss = self._loss(batch)
            losses.append(loss.item())
            self.log("train_loss", loss, on_epoch=True)
            return loss

        def validation_step(self, batch: Any, number: int) -> None:
            self.log("val_loss", self._loss(batch))

        def test_step(self, batch: Any, number: int) -> None:
            self.log("test_loss", self._loss(batch))

        def configure_optimizers(self) -> Any:
            optimizer = z.torch.optim.Adam(self.parameters(), lr=1e-2)
            plan = z.torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plan,
                                                             "monitor": "val_loss"}}  # fmt: skip

    pl.seed_everything(7)
    images = z.torch.utils.data.TensorDataset(z.uniform(80, 1, 8, 8))
    train, valid = random_split(images, [0.8, 0.2])
    keeper = ModelCheckpoint("kept", monitor="val_loss")
    trainer = pl.Trainer(
        max_epochs=4, accelerator="cpu", plugins=[LightningEnvironment()], log_every_n_steps=1,
        logger=CSVLogger("logs"), callbacks=[keeper, EarlyStopping("val_loss")],
        gradient_clip_val=1.0, accumulate_grad_batches=2,
    )  # fmt: skip
    loaders = DataLoader(train, batch_size=8, shuffle=True), DataLoader(valid, batch_size=8)
    trainer.fit(AutoEncoder(), *loaders)
    z.show(losses, trainer.callback_metrics["val_loss"], keeper.best_model_score)
    best = AutoEncoder.load_from_checkpoint(keeper.best_model_path)
    z.show(trainer.test(best, loaders[1], verbose=False))


@package("accelerate")
def accelerate_example(z: Any) -> None:
    from accelerate import Accelerator
    from accelerate.utils import set_seed
    from torch.utils.data import DataLoader, TensorDataset

    nn = z.torch.nn
    set_seed(42)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                        nn.Linear(144, 3))  # fmt: skip
    rows = TensorDataset(z.draw(40, 1, 8, 8), z.integers(3, 40))
    optimizer = z.torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = z.torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, epochs=2, steps_per_epoch=3)
    net, optimizer, loader, schedule = accelerator.prepare(
        net, optimizer, DataLoader(rows, batch_size=8, shuffle=True), schedule
    )
    for epoch in range(2):
        net.train()
        for x, y in loader:
            with accelerator.accumulate(net):
                loss = nn.functional.cross_entropy(net(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            z.show(loss)
        accelerator.save_state(f"state{epoch}")
    net.eval()
    accelerator.load_state("state0")
    for x, y in loader:
        told, wanted = accelerator.gather_for_metrics((net(x), y))
        z.show(told, wanted)


@package("transformers", "transformers.trainer")
def transformers_language_model(z: Any) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

    set_seed(42)
    net = GPT2LMHeadModel(GPT2Config(
        vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=1,
    ))  # fmt: skip
    rows = [{"input_ids": row, "labels": row} for row in z.integers(40, 24, 12)]
    options = TrainingArguments(
        "out", num_train_epochs=3, per_device_train_batch_size=4, logging_steps=1, report_to=[],
        use_cpu=True, save_strategy="epoch", disable_tqdm=True, eval_strategy="epoch",
        warmup_steps=2, lr_scheduler_type="cosine", gradient_accumulation_steps=2,
        learning_rate=1e-2,
    )  # fmt: skip
    trainer = Trainer(net, options, train_dataset=rows[:20], eval_dataset=rows[20:])
    trainer.train()
    for name in ("loss", "eval_loss", "grad_norm"):
        z.show([row[name] for row in trainer.state.log_history if name in row])
    trainer.save_model("kept")
    again = GPT2LMHeadModel.from_pretrained("kept").eval()
    z.show(again(rows[0]["input_ids"][None]).logits)
    z.show(again.generate(rows[0]["input_ids"][None, :4], max_new_tokens=6, do_sample=False))


@package("captum.attr")
def captum_methods(z: Any) -> None:
    from captum import attr

    torch, nn = z.torch, z.torch.nn
    torch.manual_seed(3)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 8), nn.ReLU(),
        nn.Linear(8, 3),
    ).eval()  # fmt: skip
    x, base = z.draw(2, 1, 8, 8), torch.zeros(2, 1, 8, 8)
    for kind in (
        attr.IntegratedGradients,
        attr.Saliency,
        attr.InputXGradient,
        attr.DeepLift,
        attr.GuidedBackprop,
        attr.Deconvolution,
        attr.FeatureAblation,
    ):
        z.show(kind(net).attribute(x.clone().requires_grad_(), target=1))
    z.show(attr.LRP(net[4:]).attribute(z.draw(2, 36), target=1))
    told, distance = attr.IntegratedGradients(net).attribute(
        x, base, target=2, n_steps=20, return_convergence_delta=True
    )
    z.show(told, distance)
    z.show(attr.DeepLiftShap(net).attribute(x, z.draw(3, 1, 8, 8), target=0))
    z.show(attr.GradientShap(net).attribute(x, base, n_samples=4, stdevs=0.1, target=1))
    smooth = attr.NoiseTunnel(attr.Saliency(net))
    z.show(smooth.attribute(x, nt_type="smoothgrad_sq", nt_samples=3, target=1))
    mask = (torch.arange(64) // 16).view(1, 1, 8, 8)
    for kind in (attr.ShapleyValueSampling, attr.KernelShap):
        z.show(kind(net).attribute(x[:1], target=1, feature_mask=mask, n_samples=5))
    z.show(attr.LayerIntegratedGradients(net, net[0]).attribute(x, target=1))
    z.show(attr.LayerConductance(net, net[4]).attribute(x, target=1))
    z.show(attr.NeuronGradient(net, net[4]).attribute(x, (2,)))
    z.show(attr.GuidedGradCam(net, net[0]).attribute(x, target=1))
