"""`python -m tests.zoo.opdb [--dtype D] [--ops a,b] [--compiled] [--gradients] [--results FILE]`:
PyTorch's own database of operators, run on the frontend beside PyTorch in one process.

Every operator comes with samples (arguments that it takes) and error inputs (arguments that it
refuses, with the kind of exception). The frontend gets both, converted through NumPy: its results
have PyTorch's structure, shapes, dtypes and numbers, its refusals PyTorch's type. Prints a table by
dtype, and fails where a dtype's share is below its least. Needs torch, and expecttest, which
PyTorch's testing modules import.

Compiled, every sample is a function that is compiled and called once: minutes for a dtype where
kernels are on disk, longer where they are not. With `--results FILE` a run that was stopped goes on
with the operator it was at.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import frontend
from graphc.errors import TraceError
from tests.zoo.opdb_compare import compared, drawn
from tests.zoo.opdb_sides import Absent, converted, ours_of
from tests.zoo.opdb_tally import Kept, OfOperator, Tally, table

LEAST = {
    "float32": 99.5, "float64": 99.5, "bfloat16": 99.5, "float16": 99.5, "int64": 99.0,
    "bool": 99.0, "complex64": 99.0,
}  # fmt: skip
"""Of the samples in scope of each dtype, the least share to pass, in percent."""
LEAST_REFUSED = 97.5
"""The same of error inputs: what is reached (664 of 678), so that it does not fall behind."""
DTYPES = tuple(LEAST)
ERRORS = "error inputs"

OUT_OF_SCOPE = (
    (r"^_(?!_)|^torch\._|^torch\.ops\.|_backward$|^slice$", "PyTorch's internals"),
    (r"^jiterator_", "other devices"),
    (r"sparse", "sparse"),
)
"""What is not compared: a pattern of names, and why."""

SECONDS = 60
"""What one sample may take."""


def operators(wanted: str | None) -> list[Any]:
    """The database's entries of the names asked for (all of them: None)."""
    from torch.testing._internal.common_methods_invocations import op_db

    names = None if wanted is None else set(wanted.split(","))
    return [op for op in op_db if names is None or op.name in names]


def reason(op: Any) -> str | None:
    """Why an operator is out of scope; None where it is in."""
    return next((why for pattern, why in OUT_OF_SCOPE if re.search(pattern, op.name)), None)


def samples(op: Any, dtype: Any, options: argparse.Namespace) -> Iterator[tuple[Any, tuple, dict]]:
    """(the sample, its positional and keyword arguments)."""
    floats = dtype.is_floating_point or dtype.is_complex
    wanted = options.gradients and op.supports_autograd and floats
    draw = op.reference_inputs if options.references else op.sample_inputs
    for sample in draw("cpu", dtype, requires_grad=wanted):
        yield sample, (sample.input, *sample.args), sample.kwargs


def outcome(run: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What a call gives, and what it raises, in the time that it may take."""
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(), None
    except Exception as error:
        return None, error
    finally:
        signal.alarm(0)


@contextlib.contextmanager
def alarms() -> Iterator[None]:
    """A call that takes too long raises TimeoutError."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"not done after {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, late)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, previous)


def said(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]


def shown(sample: Any) -> str:
    """A sample's arguments in one line."""
    text = re.sub(r', device="cpu"|torch\.|, contiguous=False', "", sample.summary())
    text = text.replace("Tensor[size=", "[").replace(", broadcasts_input=False, name=''", "")
    return "\n        " + text.removeprefix("SampleInput")[:400]


def is_missing(error: Exception) -> bool:
    """Whether an exception says that there is no such function."""
    if isinstance(error, AttributeError):
        return "has no attribute" in str(error)
    return isinstance(error, Absent) or (
        isinstance(error, NotImplementedError) and "planned" in str(error)
    )


def by_value(op: Any, args: tuple, keywords: dict) -> bool:
    """Whether the shape of a result, or what Python does, depends on the tensors' values. PyTorch
    says so itself: its fake tensors, which have none, raise."""
    import torch
    from torch._subclasses import fake_tensor

    no_values = "its data is not allocated yet"  # where PyTorch's code just reads them
    refusals = (
        fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException,
    )  # fmt: skip
    try:
        with fake_tensor.FakeTensorMode() as mode:
            args, keywords = torch.utils._pytree.tree_map_only(
                torch.Tensor, mode.from_tensor, (args, keywords)
            )
            op.op(*args, **keywords)
    except refusals:
        return True
    except Exception as error:
        return no_values in str(error)
    return False


class Run:
    """One pass over the database."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.samples: dict[str, Tally] = {dtype: Tally() for dtype in options.dtype}
        self.refusals = Tally()
        self.kept = Kept(options.results)

    def everything(self) -> None:
        import torch

        for op in operators(self.options.ops):
            for name, tally in self.samples.items():
                dtype = getattr(torch, name)
                if dtype in op.supported_dtypes("cpu"):
                    self.once(op, name, tally, lambda of: self.operator(op, dtype, of))  # noqa: B023
            if op.error_inputs_func is not None and not self.options.compiled:
                self.once(op, ERRORS, self.refusals, lambda of: self.errors(op, of))  # noqa: B023

    def once(self, op: Any, what: str, tally: Tally, run: Callable[[OfOperator], None]) -> None:
        """An operator's samples of one dtype, or its error inputs, unless the results have them."""
        name, row = label(op), f"{what}, {mode(self.options)}"
        known = self.kept.get(name, row)
        if known is not None:
            tally.operators[name] = known
            return
        start = time.perf_counter()
        run(tally.of(name))
        tally.of(name).seconds = time.perf_counter() - start
        self.kept.add(name, row, tally.of(name))
        if self.options.verbose:
            print(f"{name}, {what}: {tally.of(name).seconds:.1f} s", file=sys.stderr)
            for line in tally.wrong(name):
                print(line, file=sys.stderr, flush=True)

    def operator(self, op: Any, dtype: Any, of: OfOperator) -> None:
        """All samples of one dtype, as far as they come in the time that an operator may take."""
        why = reason(op)
        drawn = samples(op, dtype, self.options)
        end = time.perf_counter() + self.options.seconds
        for sample, args, keywords in itertools.islice(drawn, self.options.first):
            if why is not None:
                of.add("out of scope", why)
            elif time.perf_counter() > end:
                of.add("not reached", f"in {self.options.seconds:g} s")
            else:
                of.add(*self.sample(op, sample, args, keywords))

    def sample(self, op: Any, sample: Any, args: tuple, keywords: dict) -> tuple[str, str]:
        """The verdict on one sample, and what went wrong."""
        described = shown(sample) if self.options.verbose else ""
        try:
            function = ours_of(op)
            taken, named = converted((args, keywords))
        except (Absent, NotImplementedError) as error:
            return "missing", said(error)
        if self.options.compiled:
            function = frontend.compile(function, fullgraph=True)
        expected, refused = outcome(lambda: op.op(*args, **keywords))
        if refused is not None:
            return "PyTorch refuses", said(refused)
        actual, error = outcome(lambda: function(*taken, **named))
        if error is not None:
            refused_trace = self.options.compiled and isinstance(error, TraceError)
            if refused_trace and by_value(op, args, keywords):
                return "depends on values", said(error)
            return "missing" if is_missing(error) else "failed", f"{said(error)} {described}"
        different = compared(op, actual, expected, args, keywords)
        if different is None and self.options.gradients and not drawn(op, args, keywords):
            different = self.gradients(actual, expected, (taken, named), (args, keywords))
        return ("passed", "") if different is None else ("failed", f"{different} {described}")

    def gradients(self, actual: Any, expected: Any, ours: Any, theirs: Any) -> str | None:
        from tests.zoo.opdb_compare import gradients_compared

        try:
            return gradients_compared(actual, expected, ours, theirs)
        except Exception as error:
            return f"gradient: {said(error)}"

    def errors(self, op: Any, of: OfOperator) -> None:
        """All error inputs: the frontend raises the type that PyTorch does."""
        if reason(op) is not None:
            return
        for refused in op.error_inputs("cpu"):
            sample = refused.sample_input
            try:
                function = ours_of(op)
                taken = converted(((sample.input, *sample.args), sample.kwargs))
            except (Absent, NotImplementedError) as error:
                of.add("missing", said(error))
                continue
            _, theirs = outcome(lambda: op.op(sample.input, *sample.args, **sample.kwargs))  # noqa: B023
            if not isinstance(theirs, refused.error_type):
                of.add("PyTorch takes it", "")
                continue
            _, error = outcome(lambda: function(*taken[0], **taken[1]))  # noqa: B023 (runs at once)
            of.add(*self.refusal(refused, error, sample))

    def refusal(self, refused: Any, error: Exception | None, sample: Any) -> tuple[str, str]:
        described = shown(sample) if self.options.verbose else ""
        if error is None:
            return "failed", f"does not raise {refused.error_type.__name__} {described}"
        if is_missing(error) and not issubclass(refused.error_type, AttributeError):
            return "missing", said(error)
        if not isinstance(error, refused.error_type):
            return "failed", f"not {refused.error_type.__name__}: {said(error)} {described}"
        return "passed", ""


def label(op: Any) -> str:
    """An operator's name, with that of its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo.opdb", description=__doc__)
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="one of them; repeatable")
    parser.add_argument("--ops", help="names of operators, with commas between")
    parser.add_argument("--compiled", action="store_true", help="compile each call")
    parser.add_argument("--gradients", action="store_true", help="compare gradients as well")
    parser.add_argument("--references", action="store_true", help="the larger set of samples")
    parser.add_argument("--first", type=int, help="the first so many samples of each operator")
    parser.add_argument(
        "--seconds", type=float, default=1800.0,
        help="what an operator may take; samples left then count as not passed",
    )  # fmt: skip
    parser.add_argument("--results", type=Path, help="a file of what came of each operator: "
                        "those that it has are not run again")  # fmt: skip
    parser.add_argument("--verbose", action="store_true", help="with the samples that went wrong")
    options = parser.parse_args()
    options.dtype = options.dtype or DTYPES
    run = Run(options)
    with alarms(), np.errstate(all="ignore"):
        run.everything()
    report(run)


def report(run: Run) -> None:
    """Print what went wrong, what depends on values, and the table. Raises SystemExit where a share
    is below its least."""
    tallies = {**run.samples, ERRORS: run.refusals}
    for name, tally in tallies.items():
        print(f"\n{name}", *tally.wrong(), sep="\n")
        if tally.count("depends on values"):
            print(f"\n{name}, depends on values", *tally.by_value(), sep="\n")
    print(f"\n{mode(run.options)}")
    print(table(tallies))
    least = {**LEAST, ERRORS: LEAST_REFUSED}
    shares = {name: tally.share for name, tally in tallies.items()}
    short = [name for name, share in shares.items() if share is not None and share < least[name]]
    if short:
        raise SystemExit("below its least share: " + ", ".join(short))


def mode(options: argparse.Namespace) -> str:
    """How the samples are run, in words."""
    words = ["compiled" if options.compiled else "eager"]
    words += ["with gradients"] if options.gradients else []
    words += ["reference inputs"] if options.references else []
    words += [f"first {options.first} samples"] if options.first else []
    return ", ".join(words)


if __name__ == "__main__":
    main()
