"""A script in the shape of the imagenet example on processors: its options, its workers by
mp.spawn, meters that are reduced over the ranks, a validation set that two ranks do not divide, a
checkpoint beside the best one."""

import argparse
import json
import os
import shutil
import sys
from enum import Enum

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.optim
import torch.utils.data
import torch.utils.data.distributed
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import Subset, TensorDataset

parser = argparse.ArgumentParser(description="Training on images")
parser.add_argument("folder")
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("-b", "--batch-size", default=12, type=int)
parser.add_argument("--lr", default=0.1, type=float)
parser.add_argument("--momentum", default=0.9, type=float)
parser.add_argument("--wd", default=1e-4, type=float, dest="weight_decay")
parser.add_argument("--world-size", default=1, type=int)
parser.add_argument("--rank", default=0, type=int)
parser.add_argument("--dist-backend", default="gloo")
parser.add_argument("--multiprocessing-distributed", action="store_true")


class Summary(Enum):
    NONE = 0
    AVERAGE = 1
    SUM = 2


class AverageMeter:
    def __init__(self, name, summary=Summary.AVERAGE):
        self.name, self.summary = name, summary
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def all_reduce(self):
        device = torch.accelerator.current_accelerator() or torch.device("cpu")
        total = torch.tensor([self.sum, self.count], dtype=torch.float32, device=device)
        dist.all_reduce(total, dist.ReduceOp.SUM, async_op=False)
        self.sum, self.count = total.tolist()
        self.avg = self.sum / self.count


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x):
        return self.relu(self.bn(self.conv(x)) + self.downsample(x))


def make_model():
    draws = np.random.default_rng(0)
    layers = [Block(3, 8, 1), Block(8, 12, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(12, 4))
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                content = draws.standard_normal(tuple(p.shape)) / np.sqrt(p[0].numel())
                p.copy_(torch.from_numpy(content.astype(np.float32)))
            else:
                p.fill_(0.5)
    return model


def images(rows, seed):
    draws = np.random.default_rng(seed)
    x = torch.from_numpy(draws.standard_normal((rows, 3, 8, 8)).astype(np.float32))
    return TensorDataset(x, torch.from_numpy(draws.integers(0, 4, rows)))


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
        rows = target.size(0)
        return [correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100 / rows) for k in topk]


def main():
    args = parser.parse_args()
    args.store = f"file://{os.path.abspath(args.folder)}/store"
    if args.multiprocessing_distributed:
        mp.spawn(main_worker, nprocs=args.world_size, args=(args,))
    else:
        main_worker(args.rank, args)


def main_worker(rank, args):
    dist.init_process_group(
        backend=args.dist_backend, init_method=args.store, world_size=args.world_size, rank=rank
    )
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(make_model())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(
        model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay
    )
    scheduler = StepLR(optimizer, step_size=1, gamma=0.1)
    train_dataset, val_dataset = images(48, 1), images(27, 2)
    train_sampler = torch.utils.data.distributed.DistributedSampler(train_dataset, shuffle=False)
    val_sampler = torch.utils.data.distributed.DistributedSampler(
        val_dataset, shuffle=False, drop_last=True
    )
    rows = args.batch_size // args.world_size
    train_loader = torch.utils.data.DataLoader(
        train_dataset, batch_size=rows, shuffle=train_sampler is None, sampler=train_sampler
    )
    val_loader = torch.utils.data.DataLoader(
        val_dataset, batch_size=rows, shuffle=False, sampler=val_sampler
    )
    best, said = 0.0, []
    for epoch in range(args.epochs):
        train_sampler.set_epoch(epoch)
        said.append(train(train_loader, model, criterion, optimizer))
        acc1 = validate(val_loader, model, criterion, args)
        said.append(acc1)
        scheduler.step()
        is_best = acc1 > best
        best = max(acc1, best)
        if rank == 0:
            content = {
                "epoch": epoch + 1, "state_dict": model.state_dict(), "best": best,
                "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
            }  # fmt: skip
            torch.save(content, f"{args.folder}/checkpoint.pth.tar")
            if is_best or not os.path.exists(f"{args.folder}/model_best.pth.tar"):
                best_path = f"{args.folder}/model_best.pth.tar"
                shutil.copyfile(f"{args.folder}/checkpoint.pth.tar", best_path)
    dist.barrier()
    checkpoint = torch.load(f"{args.folder}/checkpoint.pth.tar", map_location="cpu")
    model.load_state_dict(checkpoint["state_dict"])
    said.append(validate(val_loader, model, criterion, args))
    with open(f"{args.folder}/losses{rank}.json", "w") as file:
        json.dump([torch.__spec__.name, said], file)
    dist.destroy_process_group()


def train(loader, model, criterion, optimizer):
    losses, top1 = AverageMeter("Loss"), AverageMeter("Acc@1")
    model.train()
    said = []
    for images, target in loader:
        output = model(images)
        loss = criterion(output, target)
        acc1, _ = accuracy(output, target, topk=(1, 3))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1[0], images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        said.append(loss.item())
    return said


def validate(loader, model, criterion, args):
    def run_validate(loader):
        with torch.no_grad():
            for images, target in loader:
                output = model(images)
                (acc1,) = accuracy(output, target)
                top1.update(acc1.item(), images.size(0))

    top1 = AverageMeter("Acc@1", Summary.AVERAGE)
    model.eval()
    run_validate(loader)
    top1.all_reduce()
    if len(loader.sampler) * args.world_size < len(loader.dataset):
        rest = range(len(loader.sampler) * args.world_size, len(loader.dataset))
        run_validate(
            torch.utils.data.DataLoader(Subset(loader.dataset, rest), batch_size=args.batch_size)
        )
    return top1.avg


if __name__ == "__main__":
    sys.exit(main())
