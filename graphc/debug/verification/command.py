"""`graphc verify`."""

from __future__ import annotations

from argparse import Namespace

from graphc.debug.arguments import calls_of
from graphc.debug.verification.verifier import verify_calls

DIFFERS = 1


def run_verify(arguments: Namespace) -> int:
    """Verify what the arguments name and print what came out; the exit code."""
    with calls_of(arguments) as calls:
        verifications = verify_calls(calls)
    print(verifications)
    return 0 if verifications else DIFFERS
