"""`ZeroRedundancyOptimizer`: each rank keeps the optimizer's state of some parameters, updates
these, and gets the others from the ranks that keep theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from frontend.distributed.groups import ProcessGroup, resolved
from frontend.distributed.objects import gather_object
from frontend.distributed.tensors import broadcast_tensors
from frontend.engine.tensors.state import enable_grad
from frontend.optim.optimizer import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """`optimizer_class(params, **defaults)`, its state in shares: a parameter's is kept, and the
    parameter updated, by one rank, so that all have about as much. The bits are those of the
    optimizer alone. Raises ValueError where this process is not in the group.

    `consolidate_state_dict(to)` brings the state together on one rank, whose `state_dict()` is then
    that of the optimizer alone; `load_state_dict` takes such a one on every rank.
    """

    def __init__(
        self, params: Iterable[Any], optimizer_class: type[Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ):  # fmt: skip
        chosen = resolved(process_group)
        if chosen is None:
            raise ValueError("this process is not in the process group of its optimizer")
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer(overlap_with_ddp=True): call step() after backward()"
            )
        self.process_group: ProcessGroup = chosen
        self.optimizer_class = optimizer_class
        self.options = defaults
        self.optim: Optimizer | None = None
        self.owners: list[list[Any]] = []
        self._consolidated: dict[int, Any] | None = None
        super().__init__(params, dict(defaults))

    def _divide(self) -> None:
        """Give each parameter to the rank that has least, the largest first."""
        everything = [(i, p) for i, p in enumerate(self._numbered())]
        loads = [0] * self.process_group.size()
        self.owners = [[] for _ in loads]
        for _, p in sorted(everything, key=lambda pair: (-pair[1].tensor_type.numel, pair[0])):
            rank = loads.index(min(loads))
            loads[rank] += p.tensor_type.numel
            self.owners[rank].append(p)
        mine = {id(p) for p in self.owners[self.process_group.rank()]}
        groups = [
            {**group, "params": [p for p in group["params"] if id(p) in mine]}
            for group in self.param_groups
        ]
        self._local_groups = [i for i, group in enumerate(groups) if group["params"]]
        kept = self.optim
        self.optim = None
        if self._local_groups:
            local = [groups[i] for i in self._local_groups]
            self.optim = self.optimizer_class(local, **self.options)
            for group, source in zip(self.param_groups, range(len(groups))):
                if source in self._local_groups:
                    own = self.optim.param_groups[self._local_groups.index(source)]
                    for name, value in own.items():
                        group.setdefault(name, value)
            for p, state in (kept.state if kept is not None else {}).items():
                if id(p) in mine:
                    self.optim.state[p] = state

    def _numbered(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        self._divide()

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update the parameters of this rank, and take the others'."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if self.optim is not None:
            for i, own in zip(self._local_groups, self.optim.param_groups):
                for name, value in self.param_groups[i].items():
                    if name != "params" and own.get(name) is not value:
                        own[name] = value
            self.optim.step()
        for rank, params in enumerate(self.owners):
            what = f"the parameters that rank {rank} of the optimizer updates"
            broadcast_tensors(params, self.process_group, what, rank)
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all parameters to one rank (of the group)."""
        numbers = {id(p): i for i, p in enumerate(self._numbered())}
        state = self.optim.state if self.optim is not None else {}
        own = {numbers[id(p)]: dict(held) for p, held in state.items()}
        gathered: list[Any] = []
        gather_object(own, gathered, group_dst=to, group=self.process_group)
        if self.process_group.rank() == to:
            self._consolidated = {i: held for part in gathered for i, held in part.items()}

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer alone. Raises RuntimeError where it was not consolidated here."""
        if self._consolidated is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                "`consolidate_state_dict(to=...)` on all ranks before, and `state_dict()` on "
                "that rank."
            )
        packed = super().state_dict()
        return {**packed, "state": dict(sorted(self._consolidated.items()))}

    def load_state_dict(self, state_dict: Any) -> None:
        """Take the options, and the state of the parameters of this rank, from the whole state."""
        numbers = {id(p): i for i, p in enumerate(self._numbered())}
        self._consolidated = None
        super().load_state_dict({**state_dict, "state": {}})
        if self.optim is None:
            return
        local = self.optim.state_dict()
        listed = [p for group in self.optim.param_groups for p in group["params"]]
        whole = state_dict["state"]
        state = {
            i: whole[numbers[id(p)]] for i, p in enumerate(listed) if numbers[id(p)] in whole
        }  # fmt: skip
        self.optim.load_state_dict({**local, "state": state})
