"""A script in the shape of the DDP tutorials: mp.spawn starts the ranks, each sets up its process
group, trains, and writes a checkpoint that the others read."""

import json
import os
import sys
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def filled(model):
    """Weights that do not depend on whose generator it is."""
    draws = np.random.default_rng(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.from_numpy(draws.standard_normal(tuple(p.shape)).astype(np.float32) / 4))
    return model


class Trainer:
    def __init__(self, model, loader, optimizer, path):
        self.model = DDP(model)
        self.loader, self.optimizer, self.path = loader, optimizer, path
        self.losses = []

    def run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())

    def train(self, epochs):
        for epoch in range(epochs):
            self.loader.sampler.set_epoch(epoch)
            for source, targets in self.loader:
                self.run_batch(source, targets)
        if dist.get_rank() == 0:
            torch.save(self.model.state_dict(), self.path)
        dist.barrier()
        self.model.load_state_dict(torch.load(self.path))


def demo(rank, world_size, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world_size
    )
    torch.manual_seed(0)
    draws = np.random.default_rng(1)
    data = TensorDataset(
        torch.from_numpy(draws.standard_normal((40, 10)).astype(np.float32)),
        torch.from_numpy(draws.standard_normal((40, 5)).astype(np.float32)),
    )
    sampler = DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, batch_size=4, sampler=sampler, shuffle=False)
    model = filled(ToyModel())
    trainer = Trainer(model, loader, optim.SGD(model.parameters(), lr=0.05), f"{folder}/model.pt")
    trainer.train(3)
    with open(f"{folder}/losses{rank}.json", "w") as file:
        json.dump([torch.__spec__.name, *trainer.losses], file)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        world = int(sys.argv[1]) if len(sys.argv) > 1 else 2
        mp.spawn(demo, args=(world, folder), nprocs=world, join=True)
        losses = []
        for rank in range(world):
            with open(os.path.join(folder, f"losses{rank}.json")) as file:
                losses.append(json.load(file))
        print(json.dumps(losses))
