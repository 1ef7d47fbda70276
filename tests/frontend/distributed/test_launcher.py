"""Scripts as they are, started by the launcher and by mpiexec."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(backend="gloo")
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
assert os.environ["LOCAL_RANK"] == str(rank) and os.environ["LOCAL_WORLD_SIZE"] == str(size)
assert int(os.environ["GRAPHC_THREADS"]) >= 1
torch.set_eager_backend("numpy")
path = sys.argv[1]
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(2, 1))
first = 0
if os.path.exists(path):
    kept = torch.load(path)
    model.load_state_dict(kept["model"])
    first = kept["step"] + 1
dist.barrier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(first, 4):
    optimizer.zero_grad()
    if step == 2 and first == 0 and rank == 1 and len(sys.argv) > 2:
        raise ValueError("the fault")
    model(torch.ones(1, 2) * (rank + 1)).sum().backward()
    optimizer.step()
    if rank == 0:
        torch.save({"step": step, "model": model.state_dict()}, path)
sums = [None] * size
dist.all_gather_object(sums, model.module.weight.sum().item())
if rank == 0:
    print(len(set(sums)), first, os.environ.get("TORCHELASTIC_RESTART_COUNT"))
dist.destroy_process_group()
"""


WITH_THE_EXTRA = pytest.mark.skipif(
    find_spec("mpi4py") is None, reason="the extra `mpi` is not installed"
)


def _run(command: list[str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "GRAPHC_THREADS"},
    )  # fmt: skip


@WITH_THE_EXTRA  # seconds, for the stage of `.ci/run` that installs it
def test_ranks_are_started_again_from_the_last_checkpoint(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "frontend.distributed.run", "--transport", "local"]
    options = ["--nproc_per_node=2", "--max-restarts", "1", "script.py", "kept.pt", "fails"]
    result = _run([*launcher, *options], tmp_path)
    assert (result.returncode, result.stdout) == (0, "1 2 1\n"), result.stdout + result.stderr
    said = result.stderr
    assert "rank 1 of 2: Traceback" in said and "ValueError: the fault" in said
    assert "rank 0 was in the gradients of bucket 0" in said
    assert "rank 1 is gone: it raised ValueError: the fault (script.py:26)" in said
    assert "all ranks are started again (1 more times at most)" in said


@WITH_THE_EXTRA
def test_ranks_of_mpi(tmp_path: Path) -> None:
    beside = Path(sys.executable).parent / "mpiexec"
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert mpiexec is not None
    command = [mpiexec, "-n", "2", sys.executable, "-m", "frontend.run", "script.py", "kept.pt"]
    result = _run(command, tmp_path)
    assert (result.returncode, result.stdout) == (0, "1 0 None\n"), result.stdout + result.stderr
    (tmp_path / "kept.pt").unlink()
    result = _run([*command, "fails"], tmp_path)
    assert result.returncode and "rank 1 is gone: it raised ValueError" in result.stderr


def test_bad_command_lines() -> None:
    from frontend.distributed.run import main

    for arguments in (["--nproc-per-node", "none", "x.py"], ["--nnodes", "2", "x.py"], []):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2


def test_names_that_accelerate_and_lightning_ask_for() -> None:
    import frontend as torch
    import frontend.distributed as dist
    from frontend.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook
    from frontend.distributed.constants import default_pg_timeout
    from frontend.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel
    from frontend.distributed.tensor import DTensor
    from frontend.nn.modules.module import _IncompatibleKeys
    from frontend.utils.data.dataloader import _BaseDataLoaderIter

    assert default_pg_timeout.total_seconds() == 1800 and dist.ReduceOp.RedOpType is dist.ReduceOp
    assert isinstance(torch.nn.Linear(1, 1).load_state_dict({}, strict=False), _IncompatibleKeys)
    assert not isinstance(torch.ones(1), DTensor) and isinstance(torch.ones(1), torch.Tensor)
    assert isinstance(iter(torch.utils.data.DataLoader([1])), _BaseDataLoaderIter)
    device, dtype, waits, layout = torch._C._nn._parse_to("cpu", torch.float64)
    assert (str(device), dtype, waits, layout) == ("cpu", torch.float64, False, None)
    with pytest.raises(NotImplementedError, match="ZeroRedundancyOptimizer"):
        FullyShardedDataParallel(torch.nn.Linear(1, 1))
    with pytest.raises(NotImplementedError, match="default_hooks"):
        post_localSGD_hook.PostLocalSGDState()
    torch.cuda.set_rng_state_all([])

    class Wrapper(torch.optim.Optimizer):  # one that was never made an Optimizer
        def __init__(self, inner: torch.optim.Optimizer):
            self.inner = inner

        def step(self) -> None:
            self.inner.step()

    p = torch.ones(1, requires_grad=True)
    p.sum().backward()
    Wrapper(torch.optim.SGD([p], lr=0.5)).step()
    assert p.tolist() == [0.5]
