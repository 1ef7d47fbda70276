"""Finding where a gradient went wrong: with anomaly detection on, each recorded op notes the user's
line, an error in a gradient rule names it, and a gradient with NaN is an error."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.state import STATE, swap_anomaly_checks


class set_detect_anomaly:
    """Sets anomaly detection at once; as a context manager it puts the former mode back.
    `check_nan=False` leaves NaN alone."""

    def __init__(self, mode: bool, check_nan: bool = True):
        self._former = swap_anomaly_checks(bool(mode), bool(check_nan))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        swap_anomaly_checks(*self._former)


class detect_anomaly:
    """A block in which anomalies are detected. It slows eager mode down several times; gradients
    of a trace have no values to check."""

    def __init__(self, check_nan: bool = True):
        self._check_nan = check_nan
        self._former: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._former.append(swap_anomaly_checks(True, self._check_nan))

    def __exit__(self, *error: Any) -> None:
        swap_anomaly_checks(*self._former.pop())


def is_anomaly_enabled() -> bool:
    return STATE.detect_anomaly


def is_anomaly_check_nan_enabled() -> bool:
    return STATE.check_nan
