"""The tables that `peers.py` prints: times, first calls, memory, what is off."""

from __future__ import annotations

from typing import Any


def target(row: dict[str, Any], level: str) -> float:
    """How many times the best peer a row should be: at a level of its own, else as at `exact`;
    eager mode at no more than one and a half times the peer's time."""
    if level == "eager":
        return 1 / 1.5
    ratio: float = row["target"].get(level, row["target"]["exact"])
    return ratio


def columns(result: dict[str, Any]) -> list[str]:
    seen: dict[str, None] = {}
    for row in result["rows"]:
        seen.update(dict.fromkeys(row["best_way"]))
    return sorted(seen, key=lambda column: not column.startswith("graphc"))


def text(result: dict[str, Any]) -> str:
    names = columns(result)
    kept = "kept" if result["keep_grads"] else "not kept"
    lines = [
        f"{result['processor']}, {result['threads']} thread(s), float32, {result['rounds']} rounds",
        f"arrays seen before; gradients of graphc's steps {kept} (PyTorch keeps them, JAX not)",
        *(f"{peer}: left out, {why}" for peer, why in result["missing"].items()),
        "", "microseconds, the least of all rounds (*: images in NHWC)",
        _line("", [*names, "best peer", "ratio", "to reach"]),
    ]  # fmt: skip
    for row in result["rows"]:
        cells = [_time(row, name) for name in names]
        ratios = " ".join(f"{ratio:.2f}" for ratio in row["ratio"].values()) or "-"
        wanted = " ".join(f"{target(row, level):.2f}" for level in row["ratio"])
        met = (" met" if all(row["met"].values()) else " short") if row["met"] else "-"
        lines.append(_line(row["name"], [*cells, row.get("best_peer", "-"), ratios, wanted + met]))
    lines += _first_calls(result, names) if result["first_calls"] else []
    lines += ["", "megabytes that the process grew by after its imports (in brackets: the plan's "
              "parameters, state, batch, arena)", _line("", names)]  # fmt: skip
    lines += [
        _line(row["name"], [_memory(row, name) for name in names])
        for row in result["rows"] if row["trains"]
    ]  # fmt: skip
    for row in result["rows"]:
        for name, value in row.get("wrong", {}).items():
            lines.append(f"WRONG: {row['name']} by {name}: {value:.9g} after two steps")
        for name, entry in row["ways"].items():
            why = entry.get("failed") or (
                entry.get("missing") if entry["column"] not in result["missing"] else None
            )
            lines += [f"{row['name']} by {name}: {why}"] if why else []
            note = entry.get("warm", {}).get("note")
            lines += [f"{row['name']} by {name}: {note}"] if note else []
    return "\n".join(lines)


def _first_calls(result: dict[str, Any], names: list[str]) -> list[str]:
    tables = {
        "seconds from a process's start to its second step, empty cache": ("cold", "process_s"),
        "seconds of the first step, full cache, imports done": ("warm", "first_s"),
    }
    lines = []
    for title, (run, what) in tables.items():
        lines += ["", title, _line("", names)]
        lines += [
            _line(row["name"], [_first(row, name, run, what) for name in names])
            for row in result["rows"]
        ]
    return lines


def _line(name: str, cells: list[str]) -> str:
    return f"{name:<14}" + "".join(f"{cell:>16}" for cell in cells)


def _entry(row: dict[str, Any], column: str) -> dict[str, Any] | None:
    way = row["best_way"].get(column)
    entry: dict[str, Any] | None = row["ways"][way] if way else None
    return entry


def _time(row: dict[str, Any], column: str) -> str:
    entry = _entry(row, column)
    if entry is None:
        return "-"
    return f"{entry['us']:.1f}" + ("*" if row["best_way"][column].endswith("NHWC") else "")


def _first(row: dict[str, Any], column: str, run: str, what: str) -> str:
    entry = _entry(row, column)
    return "-" if entry is None else f"{entry[run][what]:.2f}"


def _memory(row: dict[str, Any], column: str) -> str:
    entry = _entry(row, column)
    if entry is None:
        return "-"
    planned = entry["warm"].get("planned_bytes")
    grown = f"{entry['grown_bytes'] / 1e6:.1f}"
    return grown if planned is None else f"{grown} ({planned / 1e6:.1f})"
