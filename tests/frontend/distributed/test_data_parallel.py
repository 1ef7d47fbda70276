"""DistributedDataParallel: what ranks train, against one process on the whole batch and against
float64 NumPy; and the same bits for any number of ranks."""

from __future__ import annotations

import hashlib
import itertools
import weakref
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.distributed as dist
import frontend.nn.functional as F
from frontend import nn
from frontend.distributed.algorithms.ddp_comm_hooks import default_hooks
from frontend.distributed.optim import ZeroRedundancyOptimizer
from frontend.nn.parallel import DistributedDataParallel as DDP
from tests.frontend.distributed.ranks import checked

ROWS = 64
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, 12)).astype(np.float32)
IMAGES = RNG.standard_normal((ROWS, 1, 8, 8)).astype(np.float32)
Y = RNG.integers(0, 5, ROWS)


def digest(model: Any, buffers: bool = True) -> str:
    tensors = model.state_dict().values() if buffers else model.parameters()
    return hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in tensors)).hexdigest()


def mlp(dropout: float = 0.0) -> Any:
    layers = [nn.Linear(12, 16), nn.BatchNorm1d(16), nn.Dropout(dropout), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(16, 5))


def convolutions() -> Any:
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, momentum=None), nn.Tanh(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(36, 5))


def own(array: Any, rank: int, count: int) -> Any:
    rows = len(array) // count
    return torch.from_numpy(array[rank * rows : (rank + 1) * rows].copy())


def trained(model: Any, forward: Any, x: Any, y: Any, steps: int = 6) -> list[float]:
    """Steps that keep and drop `.grad`, add up, and clip."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for i in range(steps):
        optimizer.zero_grad(set_to_none=i % 2 == 0)
        if i % 3 == 2 and isinstance(model, DDP):
            with model.no_sync():
                F.cross_entropy(forward(x), y).backward()
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


# -- averages --------------------------------------------------------------------------------------


def _averages(rank: int, count: int) -> Any:
    """The gradient of a linear layer is that of the whole batch; its memory is the bucket's."""
    torch.manual_seed(rank)  # ranks start apart: DDP makes them equal
    model = DDP(nn.Linear(12, 5))
    w, b = (p.detach().numpy().astype(np.float64) for p in model.parameters())
    x, y = own(X, rank, count), own(Y, rank, count)
    F.mse_loss(model(x), F.one_hot(y, 5).float()).backward()
    error = X @ w.T + b - np.eye(5)[Y]
    np.testing.assert_allclose(model.module.weight.grad, 2 * error.T @ X / error.size, atol=1e-6)
    np.testing.assert_allclose(model.module.bias.grad, 2 * error.sum(0) / error.size, atol=1e-6)
    kept = model.module.weight.grad
    before = kept.numpy().copy()
    assert np.shares_memory(model.module.weight.grad.numpy().base, model.module.bias.grad.numpy())
    model.zero_grad()
    model(x * 3).sum().backward()  # what somebody keeps of a step is not written in the next
    assert kept.tolist() == before.tolist() and model.module.weight.grad.tolist() != kept.tolist()
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    model.load_state_dict({name: torch.zeros_like(t) for name, t in model.state_dict().items()})
    with pytest.raises(RuntimeError, match="doesn't have any parameters"):
        DDP(nn.ReLU())
    with pytest.raises(ValueError, match="device_ids"):
        DDP(nn.Linear(1, 1), device_ids=[0])
    with pytest.raises(RuntimeError, match=r"rank 1 has 2: .*f32.2,1"):
        DDP(nn.Linear(1, 1 + rank))
    return digest(model)


def _modes(rank: int, count: int) -> Any:
    """Eager, compiled outside and inside: the same bits on all ranks and in all modes."""
    digests = []
    for mode in ("eager", "outside", "inside"):
        torch.manual_seed(rank)
        net = mlp()
        model = DDP(torch.compile(net) if mode == "inside" else net)
        forward = torch.compile(model) if mode == "outside" else model
        trained(model, forward, own(X, rank, count), own(Y, rank, count))
        digests.append(digest(model, buffers=False))
    return digests


class Tied(nn.Module):
    """A weight that several products give gradients to, one turned, beside a large one of a single
    one."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.last = nn.Linear(12, 12), nn.Linear(12, 24_000)

    def forward(self, x: Any) -> Any:
        hidden = F.linear(self.shared(x), self.shared.weight.t())
        return self.last(hidden)


def _written_in_place(rank: int, count: int) -> Any:
    """Backward writes gradients to where they are reduced, step by step the same memory; not where
    several are added up, or somebody else has them."""
    x, results = own(X, rank, count), []
    for compiled in (False, True):
        torch.manual_seed(0)
        net = Tied()
        there = _watched(net)
        model = DDP(torch.compile(net) if compiled else net)
        flats: list[Any] = []
        for _ in range(3):
            model.zero_grad(), there.clear()
            model(x).square().sum().backward()
            bucket, _ = model.reducer.bucket_of[id(net.last.weight)]
            flats.append(weakref.ref(bucket.flat))
        assert len({id(flat()) for flat in flats}) == 1 and flats[0]() is not None
        flat = bucket.flat
        assert np.shares_memory(flat, there["last.weight"])
        small, _ = model.reducer.bucket_of[id(net.shared.weight)]
        assert compiled == np.shares_memory(small.flat, there["shared.weight"])
        results.append([p.grad.numpy().tobytes() for p in net.parameters()])
        there.clear()
        del flat
        _added_and_asked_for(model, net.last.weight, x)
        both = model(x).sum() + model(2 * x).sum()  # two calls, one backward
        model.zero_grad()
        both.backward()
        whole = torch.from_numpy(X)
        hidden = [net.shared(each) @ net.shared.weight for each in (whole, 2 * whole)]
        expected = (hidden[0] + hidden[1]).sum(0).detach() / count
        np.testing.assert_allclose(net.last.weight.grad[0], expected, rtol=1e-4, atol=1e-4)
    assert results[0] == results[1]
    return results


def _watched(net: Any) -> dict[str, Any]:
    """Where gradients are when backward has them, by name: from before the hooks of the model."""
    there: dict[str, Any] = {}
    for name, p in net.named_parameters():
        p.register_post_accumulate_grad_hook(
            lambda p, name=name: there.__setitem__(name, p.grad.numpy())
        )
    return there


def _added_and_asked_for(model: Any, weight: Any, x: Any) -> None:
    model.zero_grad()
    loss = model(x).sum()
    loss.backward(retain_graph=True)
    once = weight.grad.numpy().copy()
    loss.backward()  # adds to what lies there
    np.testing.assert_allclose(weight.grad, 2 * once, rtol=1e-5)
    model.zero_grad()
    loss = model(x).sum()
    (asked,) = torch.autograd.grad(loss, [weight], retain_graph=True)
    before = asked.numpy().copy()
    loss.backward()  # what was asked for is the caller's, and of this rank alone
    assert asked.numpy().tobytes() == before.tobytes() != weight.grad.numpy().tobytes()
    np.testing.assert_allclose(weight.grad, once, rtol=1e-5)


def test_gradients_are_written_where_they_are_reduced() -> None:
    first, second = checked(2, _written_in_place)
    assert first == second


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any, both: bool) -> Any:
        return self.b(self.a(x)) if both else self.a(x)


def _special(rank: int, count: int) -> Any:
    x = torch.ones(2, 3)
    model = DDP(Branches(), find_unused_parameters=True)
    model(x, rank == 0).sum().backward()  # b on one rank, c on none
    assert model.module.c.weight.grad is None and model.module.b.weight.grad is not None
    model = DDP(Branches())
    model(x, True).sum().backward()
    with pytest.raises(RuntimeError, match=r"not used in producing loss: c\.bias, c\.weight"):
        model(x, True)
    # ranks with 2 and 4 batches: those that are there average
    model = DDP(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join(divide_by_initial_world_size=False):
        for _ in range(2 + 2 * rank):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            grads = model.module.weight.grad.tolist()
    assert grads == [[2.0] * 3]
    joined = digest(model)
    with pytest.raises(RuntimeError, match="exhausted all inputs"):
        with model.join(throw_on_early_termination=True):
            for _ in range(1 + rank):
                model(x).sum().backward()
    for hook in (default_hooks.allreduce_hook, default_hooks.bf16_compress_hook):
        model = DDP(nn.Linear(3, 1), bucket_cap_mb=1e-6)  # a bucket for each parameter
        assert len(model.reducer.buckets) == 2
        model.register_comm_hook(None, hook)
        model(x * (rank + 1)).sum().backward()
        assert model.module.weight.grad.tolist() == [[3.0] * 3]
    # buffers are rank 0's
    model = DDP(mlp())
    for _ in range(2):
        model(own(X, rank, count)).sum().backward()
    model.eval()(own(X, rank, count)).sum().backward()
    return joined, digest(model.module[1])


def _hooks_of_others(rank: int, count: int) -> Any:
    """Hooks of single parameters come ahead of the exchange, as in PyTorch, whatever the order they
    were registered in: they see this rank's gradient, and may change it, or take it away."""
    model = DDP(nn.Linear(3, 1))
    weight, bias = model.module.weight, model.module.bias
    seen: list[Any] = []
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    weight.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(10))
    bias.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    for _ in range(2):
        model.zero_grad()
        model(torch.ones(2, 3) * (rank + 1)).sum().backward()
    assert seen == [[[2.0 * (rank + 1)] * 3]] * 2
    assert weight.grad.tolist() == [[30.0] * 3] and bias.grad.tolist() == [0.0]


def test_hooks_of_parameters_come_ahead_of_the_exchange() -> None:
    checked(2, _hooks_of_others)


def _whole_batch() -> Any:
    """One process: what two ranks come near to."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
    return trained(model, model, torch.from_numpy(X), torch.from_numpy(Y), 2), model


def _near(rank: int, count: int) -> Any:
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)))
    trained(model, model, own(X, rank, count), own(Y, rank, count), 2)
    return [p.detach().numpy() for p in model.parameters()]


def _synchronized(rank: int, count: int) -> Any:
    """SyncBatchNorm on parts of different sizes is BatchNorm on the whole batch."""
    images = np.random.default_rng(1).standard_normal((5, 3, 2, 2))
    weights = np.random.default_rng(2).standard_normal(images.shape)
    whole = nn.BatchNorm2d(3, dtype=torch.float64)
    x = torch.from_numpy(images).requires_grad_()
    out = whole(x)
    (out * torch.from_numpy(weights)).sum().backward()
    part = slice(0, 2) if rank == 0 else slice(2, 5)
    layer = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3)).double()
    own_x = torch.from_numpy(images[part]).requires_grad_()
    own_out = layer(own_x)
    (own_out * torch.from_numpy(weights[part])).sum().backward()
    np.testing.assert_allclose(own_out.detach(), out.detach()[part], rtol=1e-12)
    np.testing.assert_allclose(own_x.grad, x.grad[part], rtol=1e-10, atol=1e-12)
    for name in ("running_mean", "running_var"):
        np.testing.assert_allclose(getattr(layer, name), getattr(whole, name), rtol=1e-12)
    total = layer.weight.grad
    dist.all_reduce(total)
    np.testing.assert_allclose(total, whole.weight.grad, rtol=1e-10)
    assert layer.eval()(own_x).shape == own_x.shape
    return digest(layer)


def _state_in_shares(rank: int, count: int) -> Any:
    """The optimizer's bits are those of Adam alone, and so is its state dict."""
    digests, states = [], []
    for shared in (False, True):
        torch.manual_seed(0)
        model = DDP(mlp())
        options = {"lr": 0.1, "weight_decay": 0.01}
        optimizer: Any = torch.optim.Adam(model.parameters(), **options)
        if shared:
            optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, **options)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for step in range(4):
            if shared and step == 2:
                optimizer.consolidate_state_dict(to=1)
                box = [optimizer.state_dict() if rank == 1 else None]
                if rank == 0:
                    with pytest.raises(RuntimeError, match="not been consolidated"):
                        optimizer.state_dict()
                dist.broadcast_object_list(box, src=1)
                optimizer.load_state_dict(box[0])
            optimizer.zero_grad()
            model(own(X, rank, count)).square().sum().backward()
            optimizer.step()
            schedule.step()
        if shared:
            optimizer.consolidate_state_dict()
            kept = sum(len(state) for state in optimizer.optim.state.values())
            assert 0 < kept < 3 * len(list(model.parameters()))
        if rank == 0:
            states.append(optimizer.state_dict())
        digests.append(digest(model, buffers=False))
    assert digests[0] == digests[1]
    if rank == 0:
        alone, joined = states
        assert alone["param_groups"] == joined["param_groups"]
        assert alone["state"].keys() == joined["state"].keys()
        for i, state in alone["state"].items():
            for name, value in state.items():
                assert value.tolist() == joined["state"][i][name].tolist()
    return digests[0]


def _parallel(rank: int, count: int) -> Any:
    modes = _modes(rank, count)
    torch.set_eager_backend("numpy")  # which compiles nothing
    parts = [_averages(rank, count), modes, _special(rank, count), _near(rank, count)]
    return [*parts, _synchronized(rank, count), _state_in_shares(rank, count)]


@pytest.mark.slow
def test_two_ranks_train_one_model() -> None:
    first, second = checked(2, _parallel)
    assert first[:3] == second[:3] and first[4:] == second[4:]
    assert len(set(first[1])) == 1
    for parameters, p in zip(zip(first[3], second[3]), _whole_batch()[1].parameters()):
        assert parameters[0].tobytes() == parameters[1].tobytes()
        np.testing.assert_allclose(parameters[0], p.detach(), atol=1e-6)


def _in_one_memory(rank: int, count: int) -> Any:
    """Ranks of one machine add up gradients where they lie, to the bits of what is sent; while one
    of them keeps a gradient, that is sent."""
    x, results = own(X, rank, count), []
    for shared in (True, False):
        torch.manual_seed(0)
        model = DDP(nn.Linear(12, 400))
        (bucket,) = model.reducer.buckets
        assert len(bucket.everywhere) == count
        if not shared:
            bucket.everywhere = []
        kept: Any = None
        at_home, gradients = [], []
        for step in range(4):
            model.zero_grad()
            kept = kept if step < 3 else None
            model(x * (step + 1)).square().sum().backward()
            at_home.append(bucket.is_shared())
            gradients.append(model.module.weight.grad.numpy().tobytes())
            if step == 1 and rank == 0:
                kept = model.module.weight.grad
        results.append(gradients)
        assert not shared or at_home == [True, True, rank > 0, True]
    assert results[0] == results[1]
    return results


def test_gradients_are_added_up_in_memory_that_ranks_share() -> None:
    for count in (2, 3):
        first, *others = checked(count, _in_one_memory)
        assert all(each == first for each in others)


# -- the same bits for any number of ranks ---------------------------------------------------------


def _in_shares(rank: int, count: int) -> Any:
    results = []
    for make, data, compiled in itertools.product((mlp, convolutions), (0, 1), (False, True)):
        if (make is mlp) == bool(data) or (make is convolutions and not compiled):
            continue
        torch.manual_seed(3)
        net = make(0.3) if make is mlp else make()
        dist.set_deterministic(True, shares=4)
        model = DDP(torch.compile(net) if compiled else net)
        x = own(IMAGES if data else X, rank, count)
        losses = trained(model, model, x, own(Y, rank, count))
        draws = torch.rand(1).item()  # the stream outside of the model is where it was
        results.append((digest(model), draws, len(losses)))
        dist.set_deterministic(False)
    return results


def _refused(rank: int, count: int) -> None:
    dist.set_deterministic(True, shares=8)
    model = DDP(mlp())
    with pytest.raises(ValueError, match="no 8 equal shares: its size has to be divisible by 4"):
        model(own(X, rank, count)[:6])
    with pytest.raises(ValueError, match="along dimension 0"):
        DDP(nn.Bilinear(12, 12, 1))(torch.ones(8, 12), torch.ones(1, 12))
    with pytest.raises(ValueError, match="power of two"):
        dist.set_deterministic(True, shares=6)
    with pytest.raises(ValueError, match="2 ranks do not divide 1 shares"):
        dist.set_deterministic(True, shares=1)
    with pytest.raises(RuntimeError, match="share"):
        torch.compile(model, fullgraph=True)(own(X, rank, count))
    with torch.no_grad():
        assert model.eval()(own(X, rank, count)[:6]).shape == (6, 5)
    dist.set_deterministic(True, shares=2)
    net = nn.Linear(12, 1)  # numbers are means, inputs get their gradients
    model = DDP(net)
    x = own(X, rank, count).requires_grad_()
    both = DDP(Loss(net))(x)
    both.backward()
    expected = np.broadcast_to(net.weight.detach().numpy() / len(x), x.shape)
    np.testing.assert_allclose(x.grad, expected, rtol=1e-6)
    dist.set_deterministic(False)


def _asked_for(rank: int, count: int) -> None:
    """`autograd.grad` of inputs leaves nothing behind: the next step has its own gradients alone,
    and the same graph may be gone through again. What shares cannot give is refused."""
    grads = []
    for shares, compiled in itertools.product((None, 4), (False, True)):
        dist.set_deterministic(shares is not None, shares=shares or count)
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(12, 3), nn.Tanh(), nn.Linear(3, 1))
        model = DDP(net)
        x = own(X, rank, count).requires_grad_()

        def step(model: Any = model, x: Any = x) -> Any:
            loss = model(x).mean()
            (gradient,) = torch.autograd.grad(loss, x, retain_graph=True)
            loss.backward()
            return gradient

        asked = (torch.compile(step, fullgraph=True) if compiled else step)()
        np.testing.assert_allclose(asked, x.grad, rtol=1e-5)
        w, b, v, _ = (p.detach().numpy().astype(np.float64) for p in net.parameters())
        hidden = np.tanh(X @ w.T + b)
        expected = ((1 - hidden**2) * v).T @ X / len(X)
        np.testing.assert_allclose(net[0].weight.grad, expected, atol=1e-6)
        grads.append(net[0].weight.grad.numpy().tobytes())
    assert grads[2] == grads[3]
    for ask in (
        lambda: torch.autograd.grad(model(x).mean(), list(net.parameters()), allow_unused=True),
        lambda: model(x).mean().backward(inputs=list(net.parameters())),
    ):
        with pytest.raises(RuntimeError, match=r"come by backward\(\) alone"):
            ask()
    with pytest.raises(RuntimeError, match="create_graph=True goes without it"):
        torch.autograd.grad(model(x).mean(), x, create_graph=True)
    loss = model(x).mean()
    loss.backward()
    with pytest.raises(RuntimeError, match="a second time; specify retain_graph=True"):
        loss.backward()
    dist.set_deterministic(False)


@pytest.mark.slow
def test_gradients_that_are_asked_for() -> None:
    checked(1, _asked_for)
    checked(2, _asked_for)


class Loss(nn.Module):
    def __init__(self, net: Any):
        super().__init__()
        self.net = net

    def forward(self, x: Any) -> Any:
        return self.net(x).mean()


def test_the_bits_do_not_know_how_many_ranks_there_are() -> None:
    runs = [checked(count, _in_shares) for count in (1, 2, 4)]
    everywhere = [result for run in runs for result in run]
    assert len(everywhere) == 7 and len(everywhere[0]) == 3
    assert all(result == everywhere[0] for result in everywhere)
    (eager, *_), (compiled, *_), _ = everywhere[0]
    assert eager == compiled
    checked(2, _refused)
