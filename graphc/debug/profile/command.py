"""`graphc profile`."""

from __future__ import annotations

from argparse import Namespace

from graphc.debug.arguments import calls_of
from graphc.debug.profile.calls import Profiles, profile_calls
from graphc.debug.profile.machine import machine, measured
from graphc.debug.profile.perf_map import write_perf_map
from graphc.debug.profile.table import text
from graphc.errors import ArgumentError


def run_profile(arguments: Namespace) -> None:
    """Profile what the arguments name and print it."""
    if not arguments.seconds > 0:
        raise ArgumentError(f"--seconds {arguments.seconds:g}: a positive number is needed")
    if arguments.top < 0:
        raise ArgumentError(f"--top {arguments.top}: 0 or more")
    if arguments.measure:
        measured()
        machine.cache_clear()
    with calls_of(arguments) as calls:
        if arguments.perf_map:
            for call in calls:
                print(f"names of kernels in {write_perf_map(call.executable())}")
        _print(profile_calls(calls, arguments.seconds), arguments)


def _print(profiles: Profiles, arguments: Namespace) -> None:
    for number, each in enumerate(profiles):
        print("\n" * bool(number) + "\n".join(text(each, arguments.top)))
    if arguments.trace:
        profiles.save_trace(arguments.trace)
        print(f"Chrome trace in {arguments.trace}")
