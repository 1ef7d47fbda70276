"""Wheels of the example transformer: in an environment that has NumPy alone they are installed,
train on, and write, to the bits of this process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from examples import transformer as example

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler"),
]

STEPS, CHARACTERS = 4, 12
PROGRAM = """
import sys
import numpy as np
import trainer, writer

data = np.load(sys.argv[1])
state = trainer.ModelState()
losses = [trainer.trainer(state, batch) for batch in data["batches"]]
written = writer.ModelState()
for name in writer.FIELDS.keys() & trainer.FIELDS.keys():
    setattr(written, name, getattr(state, name))
window, numbers = data["window"], []
for _ in range(int(sys.argv[2])):
    drawn, window = writer.writer(written, window, data["warmth"])
    numbers.append(int(drawn[0]))
assert not [name for name in sys.modules if name.startswith(("graphc", "frontend", "llvmlite"))]
np.savez(sys.argv[3], losses=losses, numbers=numbers)
"""


def empty_environment(folder: Path) -> Path:
    """The interpreter of a new environment with NumPy alone."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    numpy = Path(np.__file__).parent
    for source in (numpy, numpy.with_name("numpy.libs")):
        if source.exists():
            (packages / source.name).symlink_to(source)
    return folder / "bin" / "python"


def following_of(model: Any, text: Any, warmth: float) -> Callable[..., Any]:
    """The function of the example that draws the next character."""
    functions: list[Any] = []

    def keep(function: Any) -> Any:
        functions.append(function)
        return function

    example.written(model, text, 0, warmth, keep)
    return torch.compile(functions[0], threads=1)


def test_the_transformer_trains_on_and_writes_with_numpy_alone(tmp_path: Path) -> None:
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        pytest.skip("needs pip")
    generator = np.random.default_rng(0)
    batches = generator.integers(0, 96, (STEPS, 32, example.CONTEXT + 1))
    text = example.Text("".join(map(chr, range(32, 128))), batches[0, 0], batches[1, 0])
    model = example.transformer
    torch.manual_seed(0)
    step = torch.compile(example.transformer_step, threads=1)
    window, warmth = torch.from_numpy(text.held_out[None, : example.CONTEXT].copy()), 0.8
    model.train()
    trainer = step.build(tmp_path, torch.from_numpy(batches[0]), kind="wheel", name="trainer")
    following = following_of(model, text, warmth)
    writer = following.build(tmp_path, window, torch.tensor(warmth), kind="wheel", name="writer")

    python = empty_environment(tmp_path / "empty")
    wheels = [str(path) for built in (trainer, writer) for path in built.files]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index"]
    installed = subprocess.run([*pip, "--no-deps", *wheels], capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    np.savez(tmp_path / "data.npz", batches=batches, window=window.numpy(), warmth=np.float32(0.8))
    (tmp_path / "use.py").write_text(PROGRAM)
    command = [str(python), "use.py", "data.npz", str(CHARACTERS), "results.npz"]
    environment = {"PATH": os.environ["PATH"]}
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    results = np.load(tmp_path / "results.npz")

    model.train()
    losses = [step(torch.from_numpy(batch)).detach().numpy() for batch in batches]
    model.eval()
    numbers = []
    for _ in range(CHARACTERS):
        drawn, window = following(window, torch.tensor(warmth))
        numbers.append(drawn.item())
    assert results["losses"].tobytes() == np.array(losses).tobytes()
    assert results["numbers"].tolist() == numbers
