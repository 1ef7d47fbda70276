"""Packages that build on PyTorch, each with what it is for as a short script. `z` is the bench of
package_worker.py: it has PyTorch, numbers to work on, and shows results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Package(NamedTuple):
    """`modules`: what is imported. `light`: meant for .ci/run. `stops`: why it is known not to run
    to its end, "" where it does."""

    modules: tuple[str, ...]
    script: Callable[[Any], None]
    light: bool
    stops: str


PACKAGES: dict[str, Package] = {}


def package(*modules: str, light: bool = False, stops: str = "") -> Any:
    """Declare the script of the package that `modules` are of."""

    def declare(script: Callable[[Any], None]) -> Callable[[Any], None]:
        PACKAGES[script.__name__.rstrip("_")] = Package(modules, script, light, stops)
        return script

    return declare


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
        enable_model_summary=False, accelerator="cpu",
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
