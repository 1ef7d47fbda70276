"""A script in the shape of accelerate's examples: Accelerator prepares model, optimizer, loader and
schedule, metrics are gathered; its own launcher starts two processes."""

import json
import os
import sys

import numpy as np
import torch
from accelerate import Accelerator, debug_launcher
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def loaders(accelerator):
    draws = np.random.default_rng(1)
    with accelerator.main_process_first():
        x = torch.from_numpy(draws.standard_normal((48, 12)).astype(np.float32))
        y = torch.from_numpy(draws.integers(0, 3, 48))
    train = DataLoader(TensorDataset(x[:32], y[:32]), batch_size=4, shuffle=False)
    return train, DataLoader(TensorDataset(x[32:], y[32:]), batch_size=4)


def training_function(path):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(0)
    draws = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.from_numpy(draws.standard_normal(tuple(p.shape)).astype(np.float32) / 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=32)
    train, valid = loaders(accelerator)
    model, optimizer, train, valid, schedule = accelerator.prepare(
        model, optimizer, train, valid, schedule
    )
    said = [torch.__spec__.name, type(model).__name__, accelerator.num_processes]
    losses, accuracies = [], []
    for _ in range(3):
        model.train()
        for x, y in train:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).tolist())
        model.eval()
        right = 0
        for x, y in valid:
            with torch.no_grad():
                predictions = model(x).argmax(dim=-1)
            predictions, references = accelerator.gather_for_metrics((predictions, y))
            right += (predictions == references).sum().item()
        accuracies.append(right)
    accelerator.wait_for_everyone()
    assert len(accelerator.get_state_dict(model)) == len(list(model.state_dict()))
    if accelerator.is_main_process:
        with open(path, "w") as file:
            json.dump({"said": said, "losses": losses, "right": accuracies}, file)


if __name__ == "__main__":
    path = os.path.abspath(sys.argv[1])
    if len(sys.argv) > 2:  # ranks that somebody else has started
        training_function(path)
    else:
        debug_launcher(training_function, args=(path,), num_processes=2)
