"""`torch.nn.parallel.distributed`: a module that several processes train, each on its own part of
the data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from frontend.distributed.compiled_shares import CompiledShares
from frontend.distributed.deterministic import SETTING, check_divides
from frontend.distributed.groups import ProcessGroup, resolved
from frontend.distributed.objects import all_gather_object
from frontend.distributed.reducer import Reducer
from frontend.distributed.shared_buckets import share
from frontend.distributed.tensors import broadcast_tensors
from frontend.distributed.traced import TracedReduction, broadcast_buffers, rely_on
from frontend.distributed.traced_shares import traced_shares
from frontend.engine.eager.gradients.backward import leaves_behind
from frontend.engine.tensors.state import STATE, tracing
from frontend.engine.tensors.tensor import Tensor
from frontend.nn.modules.module import Module
from frontend.utils._pytree import tree_leaves

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """`module`, trained by all processes of a group: each calls it on its own part of a batch, and
    `backward()` leaves the average of all their gradients in `.grad`.

    All processes make it of modules with the same parameters; these, and the buffers, become rank
    0's. Its state dict has "module." before each name. Gradients are views of few large arrays
    (`bucket_cap_mb` of at most so many megabytes, 25), which are exchanged as soon as backward has
    filled them. `find_unused_parameters` takes care of parameters that a step does not use;
    `broadcast_buffers` makes the buffers rank 0's before each step. `device_ids`,
    `gradient_as_bucket_view` and what else concerns GPUs changes nothing.

    The model may be compiled, or its forward be part of a compiled function; `backward()` is called
    outside. `autograd.grad` gives what this process alone has, of inputs and parameters, and
    averages nothing; with `set_deterministic` of inputs only, and RuntimeError for parameters.
    Raises ValueError without a process group, RuntimeError for a module without parameters that
    require gradients, and where processes have other parameters.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
        check_reduction: bool = False, gradient_as_bucket_view: bool = False,
        static_graph: bool = False, **options: Any,
    ):  # fmt: skip
        super().__init__()
        chosen = resolved(process_group)
        if chosen is None:
            raise ValueError("this process is not in the process group of its model")
        if device_ids:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with "
                f"single-device/multiple-device GPU modules, but got device_ids {device_ids} for a "
                "module on the CPU"
            )
        compiled = None
        if not isinstance(module, Module) and isinstance(getattr(module, "function", None), Module):
            compiled, module = module, module.function
        self.module = module
        self.process_group = chosen
        self.device_ids = None
        self.output_device = None
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._has_buffers = next(module.buffers(), None) is not None
        named = [
            (name, p) for name, p in module.named_parameters()
            if p.requires_grad and name not in self.parameters_to_ignore
        ]  # fmt: skip
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient."
            )
        for name, p in named:
            if p.is_meta:
                raise RuntimeError(f"parameter {name!r} is on meta: it has no data to broadcast")
        if init_sync:
            self._check_alike(named)
            broadcast_tensors(self._shared_state(), chosen, "the state of the model")
        self._steps = _ModelSteps(self, named, compiled)
        if init_sync:
            share(self.reducer.buckets, chosen)

    @property
    def reducer(self) -> Reducer:
        """What averages the gradients."""
        return self._steps.reducer

    def _shared_state(self) -> list[Tensor]:
        ignored = self.parameters_to_ignore
        named = [*self.module.named_parameters(), *self.module.named_buffers()]
        return [tensor for name, tensor in named if name not in ignored]

    def _shared_buffers(self) -> list[Tensor]:
        if not self._has_buffers:  # a walk through all modules at each step
            return []
        return [
            buffer for name, buffer in self.module.named_buffers()
            if name not in self.parameters_to_ignore
        ]  # fmt: skip

    def _check_alike(self, named: list[tuple[str, Any]]) -> None:
        """Raise RuntimeError where a process has other parameters."""
        own = [(name, str(p.tensor_type)) for name, p in named]
        everybody: list[Any] = []
        all_gather_object(everybody, own, self.process_group)
        for rank, theirs in enumerate(everybody):
            if theirs != everybody[0]:
                pairs = [*zip(everybody[0], theirs)]
                apart = next((pair for pair in pairs if pair[0] != pair[1]), None)
                told = "" if apart is None else f": {apart[0]} and {apart[1]}"
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but rank 0 has {len(everybody[0])} "
                    f"parameters, rank {rank} has {len(theirs)}{told}"
                )

    # -- one step --------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if tracing():
            return self._steps.traced_forward(inputs, kwargs)
        return self._steps.forward(inputs, kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of what runs inside are added up in this process; the first step behind it
        averages them along with its own."""
        if tracing():
            with TracedReduction.of(self.reducer).no_sync():
                yield
            return
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def will_sync_module_buffers(self) -> bool:
        """Whether forward makes the buffers rank 0's."""
        return (
            self.require_forward_param_sync
            and self.broadcast_buffers
            and bool(self._shared_buffers())
        )

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Have `hook(state, bucket)` reduce each bucket: it gives a future of the tensor that takes
        the place of `bucket.buffer()`. Raises TypeError for what is no function, RuntimeError for
        a second one."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.comm_hook is not None:
            raise RuntimeError("register_comm_hook can only be called once.")
        self.reducer.comm_hook = (state, hook)

    def explain_shares(self) -> str:
        """How the shares of `set_deterministic` ran: which calls as one program, and why others one
        by one. Raises RuntimeError before the first step with shares."""
        shares = self._steps.shares
        if shares is None:
            raise RuntimeError("there was no step with set_deterministic(True) yet")
        return shares.explain()

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What is known of the model's exchange, under PyTorch's names."""
        buckets = self.reducer.buckets
        return {
            "backend_name": self.process_group.name(), "world_size": self.process_group.size(),
            "bucket_sizes": ", ".join(str(bucket.flat.nbytes) for bucket in buckets),
            "can_set_static_graph": False, "module_name": type(self.module).__name__,
            "find_unused_parameters": self.find_unused_parameters,
        }  # fmt: skip

    def _set_static_graph(self) -> None:
        self.static_graph = self.find_unused_parameters = True

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Any:  # fmt: skip
        """A context for processes that have different numbers of batches: those that are through
        take part in what the others exchange, without gradients of their own."""
        from frontend.distributed.algorithms.join import Join

        return Join(
            [self], enable, throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )  # fmt: skip

    def join_hook(self, **kwargs: Any) -> Any:
        """What this model does in `algorithms.join.Join`."""
        from frontend.distributed.algorithms.join import ModelJoinHook

        return ModelJoinHook(self)

    @property
    def join_device(self) -> Any:
        return self._shared_state()[0].device

    @property
    def join_process_group(self) -> Any:
        return self.process_group


class _ModelSteps:
    """What a model does around its steps, apart from the Module: compiled functions guard the
    attributes of Modules, and these change at each step. `synced` is whether the forward under way
    stood outside of `no_sync`; None where it ran in a compiled function."""

    def __init__(
        self, model: DistributedDataParallel, named: list[tuple[str, Any]], compiled: Any
    ):  # fmt: skip
        chosen: ProcessGroup = model.process_group
        self.model = model
        self.synced: bool | None = None
        self.joins: Any = None  # the `Join` under way
        self.call = model.module if compiled is None else compiled
        self.shares: CompiledShares | None = None
        self.reducer = Reducer(
            named, chosen._members, chosen._timeout, model.bucket_bytes_cap, self._finished,
            self._ready_in_trace,
        )  # fmt: skip
        self.reducer.syncs = self._syncs
        self.reducer.begins = self._check_alone

    def _ready_in_trace(self, parameter: Any) -> None:
        TracedReduction.of(self.reducer).ready(parameter)

    def _syncs(self) -> bool:
        return self.model.require_backward_grad_sync if self.synced is None else self.synced

    def forward(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        model = self.model
        if STATE.grad_enabled:
            self.reducer.in_shares = SETTING.shares is not None
            if self.reducer.in_shares:
                return self._in_shares(inputs, kwargs)
        training = STATE.grad_enabled and model.require_backward_grad_sync
        if self.joins is not None:
            self.joins.notify(model, 2 if training else 1)
            self._count_active()
        if training:
            self.reducer.check_finished()
        if model.require_forward_param_sync and model.broadcast_buffers and training:
            self.broadcast_buffers(self._first_active())
        result = self.call(*inputs, **kwargs)
        if STATE.grad_enabled:
            self.synced = model.require_backward_grad_sync
            self.reducer.unused = self._unused(result) if model.find_unused_parameters else None
        return result

    def traced_forward(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Forward in a compiled function. Buffers are made rank 0's behind backward."""
        model = self.model
        shares = rely_on(SETTING, "shares", "shares of set_deterministic")
        if not STATE.grad_enabled:
            return model.module(*inputs, **kwargs)
        reduction = TracedReduction.of(self.reducer)
        if shares is not None:
            check_divides(shares, model.process_group.size())
            reduction.forward(
                model.require_backward_grad_sync, set() if model.find_unused_parameters else None
            )
            return traced_shares(reduction, model.module, shares).forward(inputs, kwargs)
        result = model.module(*inputs, **kwargs)
        unused = self._unused(result) if model.find_unused_parameters else None
        reduction.forward(model.require_backward_grad_sync, unused)
        return result

    def _check_alone(self) -> None:
        """Raise RuntimeError before a step that is compiled as a whole where others are to stand in
        for this process, or eager steps left gradients of shares."""
        if self.shares is not None and self.shares.hold_gradients():
            raise RuntimeError(
                "set_deterministic(True) keeps what no_sync() adds up by share: the step that "
                "averages it has to be as those before, compiled as a whole or not"
            )
        if self.joins is not None:
            raise RuntimeError(
                "join() goes with backward() outside of compiled functions: compile the model"
            )

    def _in_shares(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Forward by `set_deterministic`."""
        model, count = self.model, SETTING.shares
        assert count is not None
        check_divides(count, model.process_group.size())
        if self.joins is not None:
            raise RuntimeError("set_deterministic(True) goes without join()")
        self.reducer.check_finished()
        if self.shares is None or self.shares.count != count:
            self.shares = CompiledShares(self.reducer, model.module, self.call, count)
        self.synced = model.require_backward_grad_sync
        self.reducer.unused = set() if model.find_unused_parameters else None
        return self.shares.forward(inputs, kwargs)

    def _unused(self, result: Any) -> set[int]:
        """The ids of the parameters that no output depends on."""
        outputs = [x for x in tree_leaves(result) if isinstance(x, Tensor) and x.requires_grad]
        used: set[int] = set().union(*map(leaves_behind, outputs))
        return {id(p) for p in self.reducer.parameters} - used

    def _first_active(self) -> int:
        """The rank whose buffers count: the first one that takes a step."""
        return 0 if self.joins is None else int(np.flatnonzero(self.joins.active)[0])

    def _count_active(self) -> None:
        active = int(np.count_nonzero(self.joins.active))
        size = self.model.process_group.size()
        self.reducer.divisor = size if self.joins.divides_by_all else active

    def shadow(self, join: Any) -> None:
        """Take part in a step of others, without input."""
        if (join.active < 2).all():
            return  # one that exchanges nothing
        model, self.joins = self.model, join
        self._count_active()
        if model.require_forward_param_sync and model.broadcast_buffers:
            self.broadcast_buffers(self._first_active())
        if model.find_unused_parameters:
            self.reducer.unused = set()
        self.reducer.shadow()
        self.joins = None

    def broadcast_state(self, root: int) -> None:
        """Have all processes hold the model of one."""
        model = self.model
        self.reducer.divisor = model.process_group.size()
        what = "the state of the model"
        broadcast_tensors(model._shared_state(), model.process_group, what, root)

    def broadcast_buffers(self, root: int = 0) -> None:
        """Make all buffers those of one rank."""
        model = self.model
        broadcast_tensors(
            model._shared_buffers(), model.process_group, "the buffers of the model", root
        )

    def _finished(self) -> None:
        model = self.model
        if tracing():
            if model.require_forward_param_sync and model.broadcast_buffers:
                broadcast_buffers(model._shared_buffers(), model.process_group)
            return
        if self.synced is None and model.require_forward_param_sync and model.broadcast_buffers:
            self.broadcast_buffers()  # before the next step: a compiled forward has no place for it
        self.synced = None
