"""A script in the shape of Lightning's examples: a LightningModule, a Trainer with the strategy
that the command line names, on two processes that the strategy's own launcher starts."""

import json
import os
import sys

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))
        draws = np.random.default_rng(0)
        with torch.no_grad():
            for p in self.net.parameters():
                content = draws.standard_normal(tuple(p.shape)).astype(np.float32) / 3
                p.copy_(torch.from_numpy(content))
        self.losses = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.losses.append(loss.item())
        self.log("loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        right = (self(x).argmax(-1) == y).float().mean()
        self.log("right", right, sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.02)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]

    def loader(self, rows, seed):
        """Lightning's own sampler would draw the order, by the generator of each framework."""
        dataset = data(rows, seed)
        sampler = DistributedSampler(dataset, shuffle=False)
        return DataLoader(dataset, batch_size=4, sampler=sampler)

    def train_dataloader(self):
        return self.loader(32, 1)

    def val_dataloader(self):
        return self.loader(16, 2)

    def on_train_end(self):
        strategy = type(self.trainer.strategy.model).__name__
        metric = self.trainer.callback_metrics["right"].item()
        with open(f"{self.path}.{self.global_rank}", "w") as file:
            said = [torch.__spec__.name, strategy, self.trainer.world_size]
            json.dump({"said": said, "losses": self.losses, "right": metric}, file)


def data(rows, seed):
    draws = np.random.default_rng(seed)
    x = torch.from_numpy(draws.standard_normal((rows, 12)).astype(np.float32))
    return TensorDataset(x, torch.from_numpy(draws.integers(0, 3, rows)))


if __name__ == "__main__":
    path, strategy = os.path.abspath(sys.argv[1]), sys.argv[2]
    L.seed_everything(0)
    trainer = L.Trainer(
        accelerator="cpu", devices=2, strategy=strategy, max_epochs=3, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        use_distributed_sampler=False,
    )  # fmt: skip
    trainer.fit(Classifier(path))
