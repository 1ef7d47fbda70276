"""Scripts as people write them, unchanged, on two ranks that their own launchers start: mp.spawn,
accelerate's, Lightning's. Losses are those of PyTorch 2.13 with gloo, in scripts/expected.json."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.distributed.ranks import CACHE

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).parents[3]
EXPECTED = json.loads((SCRIPTS / "expected.json").read_text("utf-8"))


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "frontend.run", str(SCRIPTS / f"{name}.py"), *arguments]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {
        **os.environ, "GRAPHC_CACHE": CACHE.name, "GRAPHC_THREADS": "1", "PYTHONPATH": paths,
    }  # fmt: skip
    for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        environment.pop(variable, None)
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def flat(value: Any) -> list[float]:
    return [value] if not isinstance(value, list) else [x for each in value for x in flat(each)]


def near(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(flat(found), flat(expected), atol=1e-5)


@pytest.mark.slow
def test_the_tutorials_that_spawn() -> None:
    ranks = json.loads(run("spawned"))
    assert [name for name, *_ in ranks] == ["frontend"] * 2
    near([losses for _, *losses in ranks], EXPECTED["spawned"])


@pytest.mark.slow
def test_the_imagenet_example(tmp_path: Path) -> None:
    run("images", str(tmp_path), "--world-size", "2", "--multiprocessing-distributed")
    for rank in range(2):
        name, said = json.loads((tmp_path / f"losses{rank}.json").read_text("utf-8"))
        assert name == "frontend"
        near(said, EXPECTED["images"][rank])


@pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is not installed")
def test_accelerate_and_its_launcher(tmp_path: Path) -> None:
    run("accelerated", str(tmp_path / "said.json"))
    found = json.loads((tmp_path / "said.json").read_text("utf-8"))
    assert found["said"] == ["frontend", "DistributedDataParallel", 2]
    near(found["losses"], EXPECTED["accelerated"]["losses"])
    assert found["right"] == EXPECTED["accelerated"]["right"]


@pytest.mark.skipif(find_spec("lightning") is None, reason="lightning is not installed")
@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_lightning_and_its_launchers(strategy: str, tmp_path: Path) -> None:
    run("lit", str(tmp_path / "said.json"), strategy)
    for rank, expected in enumerate(EXPECTED["lit"]):
        found = json.loads((tmp_path / f"said.json.{rank}").read_text("utf-8"))
        assert found["said"] == ["frontend", "DistributedDataParallel", 2]
        near(found["losses"], expected["losses"])
        assert found["right"] == pytest.approx(expected["right"])
