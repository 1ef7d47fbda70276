"""What tutorials of some frameworks begin with, whole; those of others are in package_scripts.py
and package_domains.py. Scripts as there."""

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
    count, kinds = 60, z.random.integers(0, 3, 60)
    words = z.random.random((count, 12)) < 0.1 + 0.5 * (np.arange(12) % 3 == kinds[:, None])
    pairs = z.random.integers(0, count, (2, 300))
    pairs = pairs[:, (kinds[pairs[0]] == kinds[pairs[1]]) & (pairs[0] != pairs[1])]
    graph = T.Compose([T.ToUndirected(), T.NormalizeFeatures()])(Data(
        x=torch.from_numpy(words.astype(np.float32)), y=torch.from_numpy(kinds),
        edge_index=torch.from_numpy(np.unique(pairs, axis=1)),
        train_mask=torch.arange(count) < 30, test_mask=torch.arange(count) >= 30,
    ))  # fmt: skip

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(12, 16), GCNConv(16, 3)

        def forward(self, x: Any, edges: Any) -> Any:
            return self.second(self.first(x, edges).relu(), edges).log_softmax(dim=1)

    net = GCN()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05, weight_decay=5e-4)
    nll = nn.functional.nll_loss
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = nll(net(graph.x, graph.edge_index)[graph.train_mask], graph.y[graph.train_mask])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
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
