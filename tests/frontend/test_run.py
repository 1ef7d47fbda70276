"""`python -m frontend.run`: a script runs as `__main__` with the frontend as torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from frontend.run import MISUSED, main

SCRIPT = """
import atexit, pickle, sys
import torch, torch.nn.functional
import beside

class Kept:
    pass

assert torch.__name__ == "torch" and isinstance(pickle.loads(pickle.dumps(Kept())), Kept)
# What `import torch` alone brings there.
assert torch.cpu.is_available() and torch.cpu.device_count() == 1
print(torch.cuda.amp.autocast, torch.utils.data.distributed.DistributedSampler)
print(torch.nn.modules.utils._pair(1), torch.nn.parallel.distributed, torch.fx.traceback)
atexit.register(lambda: print("at exit", __import__("torch").ones(1).item()))
print(__name__, sys.argv[1:], beside.NUMBER)
sys.exit(7)
"""


def test_a_script_has_its_arguments_its_folder_and_its_exit_code(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPT)
    (folder / "beside.py").write_text("NUMBER = 5")
    command = [sys.executable, "-m", "frontend.run", str(folder / "script.py"), "--a", "b"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (7, "")
    assert result.stdout.splitlines()[2:] == ["__main__ ['--a', 'b'] 5", "at exit 1.0"]


@pytest.mark.parametrize(
    "arguments, message",
    [([], "the name of a script comes first"), (["nowhere.py"], "can't open file")],
)
def test_what_cannot_be_run_says_so(arguments, message, capsys) -> None:
    assert main(arguments) == MISUSED
    assert message in capsys.readouterr().err


STARTS = """
import os, subprocess, sys
told = "import sys; print('frontend' in sys.modules, sys.BESIDE); import torch; print(torch)"
print(subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout)
"""


@pytest.mark.slow
def test_what_a_script_starts_runs_on_the_frontend_too(tmp_path: Path) -> None:
    """Whatever starts it; who imports no torch loads nothing, and other sites are customized."""
    (tmp_path / "script.py").write_text(STARTS)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys\nsys.BESIDE = 'here'\n")
    paths = [str(tmp_path / "site"), str(Path(__file__).parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "frontend.run", "script.py"]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert result.stderr == "" and result.stdout.startswith("False here\n<module 'frontend'")
