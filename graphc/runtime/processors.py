"""How many processors this process may use, and how many threads may be asked for."""

from __future__ import annotations

import math
import operator
from pathlib import Path
from typing import Any

from graphc.config import most_threads
from graphc.system import processors

MOST_THREADS = 256


def checked_threads(threads: Any) -> int | None:
    """`threads` as a whole number or None. Raises TypeError or ValueError naming it."""
    if threads is None:
        return None
    if isinstance(threads, bool) or not hasattr(threads, "__index__"):
        raise TypeError(f"threads must be a whole number or None, not {type(threads).__name__}")
    count = operator.index(threads)
    if not 1 <= count <= MOST_THREADS:
        raise ValueError(f"threads must be from 1 to {MOST_THREADS}, not {count}")
    return count


def available() -> int:
    """Processors this process may use: its affinity, within the quota of its control group, and
    GRAPHC_THREADS, its share where several processes have the machine."""
    count = processors()
    quota = _quota(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))
    limits = [count, most_threads(), None if quota is None else math.ceil(quota)]
    return max(min(limit for limit in limits if limit is not None), 1)


def _quota(root: Path, membership: Path) -> float | None:
    """Processors the control groups of this process (version 2, or 1) grant; None for no limit."""
    try:
        entries = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:
        return None
    limits = []
    for _, controllers, path in (entry for entry in entries if len(entry) == 3):
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / "cpu" if controllers else root
        groups = [base / path.strip("/")]
        while groups[-1] != base:
            groups.append(groups[-1].parent)
        limits += [limit for group in groups if (limit := _limit(group)) is not None]
    return min(limits, default=None)


def _limit(group: Path) -> float | None:
    """Processors one control group grants."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text().strip()
        return None if quota in ("max", "-1") else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
