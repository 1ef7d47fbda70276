"""How many processors a process may use: affinity, and the quota of its control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphc.codegen.llvm.native import compile_text
from graphc.codegen.program.barrier import barrier_text
from graphc.codegen.target import named
from graphc.runtime import processors
from graphc.runtime.pool_text import condition_text, futex_text, pool_text


def limited(folder: Path, version: int, quota: str, period: str = "100000") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if version == 2:
        (folder / "cpu.max").write_text(f"{quota} {period}\n")
        return
    (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu.cfs_period_us").write_text(f"{period}\n")


@pytest.mark.parametrize(("version", "unlimited"), [(1, "-1"), (2, "max")])
def test_the_least_quota_on_the_way_to_the_root_counts(
    tmp_path: Path, version: int, unlimited: str
) -> None:
    root = tmp_path / "cgroup"
    base = root / "cpu" if version == 1 else root
    membership = tmp_path / "membership"
    membership.write_text("0::/a/b\n" if version == 2 else "3:cpuset:/x\n1:cpu,cpuacct:/a/b\n")
    limited(base / "a" / "b", version, unlimited)
    assert processors._quota(root, membership) is None
    limited(base / "a", version, "250000")
    assert processors._quota(root, membership) == 2.5
    limited(base / "a" / "b", version, "50000")
    assert processors._quota(root, membership) == 0.5


def test_no_control_groups_are_no_limit(tmp_path: Path) -> None:
    assert processors._quota(tmp_path, tmp_path / "missing") is None
    (tmp_path / "membership").write_text("0::/a\n")
    assert processors._quota(tmp_path, tmp_path / "membership") is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs affinity")
@pytest.mark.parametrize(("quota", "expected"), [(None, 3), (1.2, 2), (0.1, 1), (9.0, 3)])
def test_a_quota_is_rounded_up_and_affinity_is_the_most(
    quota: float | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(processors, "_quota", lambda *_: quota)
    assert processors.available() == expected


@pytest.mark.parametrize("name", ["x86-64-v2", "aarch64"])
def test_waiting_compiles_for_other_targets(name: str) -> None:
    target = named(name)
    pools = [pool_text(target.triple, parking) for parking in (futex_text(98), condition_text())]
    for text in (*pools, barrier_text(target.triple)):
        assert compile_text(text, target)
