"""The examples in PyTorch's own docstrings, run by PyTorch and by the frontend.

    python -m tests.zoo.docstrings [--only 'torch.nn.*'] [--seconds 20]

In: torch, installed beside; its public names' docstrings, read from it. Out: for each statement
that PyTorch runs, whether the frontend gives the same (types, shapes, values; of floats to 1e-3):
counts, and a line for each difference that is not in `KNOWN`; exit code 1 where there is one.

Each docstring starts from seed 0. What asks for other devices or processes is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import fnmatch
import importlib
import inspect
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

MODULES = (
    "", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.parametrize",
    "nn.utils.parametrizations", "nn.utils.prune", "nn.attention", "linalg", "fft", "special",
    "optim", "optim.lr_scheduler", "optim.swa_utils", "distributions", "func", "autograd",
    "autograd.functional", "autograd.forward_ad", "autograd.graph", "utils.data",
    "utils.checkpoint", "sparse", "nested", "masked", "random", "amp", "overrides", "library",
    "signal.windows", "serialization", "testing", "compiler",
)  # fmt: skip
ELSEWHERE = ("cuda", "xpu", "mps", "multiprocessing", "spawn", "init_process_group", "dist.",
             "rpc", "hub", "download", "input(", "set_trace", "/dev/", "profile")  # fmt: skip
"""Words of docstrings that are left out."""

KNOWN: dict[str, str] = {
    "*.to_sparse*": "layouts of blocks are not here",
    "sparse_bs?_tensor": "layouts of blocks are not here",
    "narrow_copy": "not of sparse tensors",
    "nested.*": "nested tensors are not here",
    "masked.is_masked_tensor": "masked tensors are not here",
    "*quantize*": "quantized dtypes are not here",
    "*empty*": "what lies in memory that nobody wrote; memory formats are told, not made",
    "*.dim_order": "memory formats are told, not made",
    "*.grad_dtype": "not here",
    "nn.utils.skip_init": "what lies in memory that nobody wrote",
    "Generator.seed": "drawn from the system",
    "poisson": "other numbers of the same distribution",
    "nn.functional.gumbel_softmax": "other numbers of the same distribution",
    "nn.functional.fractional_max_pool*": "other numbers of the same distribution",
    "*.view": "bits of a drawn number, of which the last may differ",
    "sort": "equal elements, in any order",
    "*[c]onj*": "conjugates are computed at once",
    "resolve_ne?": "negatives are computed at once",
    "adjoint": "conjugates are computed at once",
    "fft.*": "allclose of results that are rounded otherwise",
    "linalg.*solve": "allclose of results that are rounded otherwise",
    "cholesky_inverse": "rounded otherwise, of a matrix near to a singular one",
    "set_flush_denormal": "not done",
    "set_default_dtype": "no complex32",
    "typename": "its own module's name",
    "is_storage": "untyped storages alone",
    "from_file": "not here",
    "thread_safe_generator": "not here",
    "func.functionalize": "not here",
    "func.rearrange": "not here",
    "sparse.*": "sums alone, and no gradcheck of its own",
    "overrides.*": "no dispatcher to ask",
    "library.*": "no dispatcher to ask",
    "serialization.skip_data": "not here",
    "compiler.set_default_backend": "one backend",
}
"""By name behind torch, what differs and why. A whole name here would count as a test of it
(docs/coverage.py), so some are patterns."""


def docstrings() -> Iterator[tuple[str, list[str]]]:
    """The public names of the installed torch, with the statements of their examples."""
    seen: set[str] = set()

    def one(name: str, value: Any) -> Iterator[tuple[str, list[str]]]:
        text = getattr(value, "__doc__", None)
        if not isinstance(text, str) or ">>>" not in text or text in seen:
            return
        seen.add(text)
        if any(word in text for word in ELSEWHERE):
            return
        try:
            found = doctest.DocTestParser().get_examples(inspect.cleandoc(text))
        except ValueError:  # a prompt that is no prompt
            return
        yield name, [example.source for example in found]

    for suffix in MODULES:
        name = f"torch.{suffix}".rstrip(".")
        module = importlib.import_module(name)
        for own in sorted(dir(module)):
            value = None if own.startswith("_") else getattr(module, own, None)
            if value is None or inspect.ismodule(value):
                continue
            yield from one(f"{name}.{own}", value)
            for member in sorted(dir(value)) if inspect.isclass(value) else ():
                if not member.startswith("__"):
                    yield from one(f"{name}.{own}.{member}", getattr(value, member, None))


def plain(value: Any, torch: Any, depth: int = 0) -> Any:
    """What of a value is compared, without torch."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return ("tensor", str(value.dtype), tuple(value.shape), None)
        dense = value.detach() * 1 if value.dtype.is_complex else value.detach()
        dense = dense.float() if value.dtype is torch.bfloat16 else dense
        return ("tensor", str(value.dtype), tuple(value.shape), dense.numpy().copy())
    if isinstance(value, bool | int | float | complex | str | None):
        return value
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, list | tuple) and depth < 4:
        return [plain(each, torch, depth + 1) for each in value]
    if isinstance(value, dict) and depth < 4:
        return [(str(key), plain(each, torch, depth + 1)) for key, each in value.items()]
    return None  # a Module, a function: its repr is its own


def run(examples: list[tuple[str, list[str]]], own: bool, seconds: int) -> dict[str, list[Any]]:
    """Of each statement what it gives, or ("raises", why)."""
    if own:
        import frontend

        frontend.install_as("torch")
    import torch

    def late(*_: Any) -> None:
        raise TimeoutError(f"took more than {seconds} s")

    signal.signal(signal.SIGALRM, late)
    results: dict[str, list[Any]] = {}
    for name, statements in examples:
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float32)
        names: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
        given = results[name] = []
        for source in statements:
            signal.alarm(seconds)
            quiet = contextlib.redirect_stdout(io.StringIO())
            try:
                with quiet, contextlib.redirect_stderr(io.StringIO()):
                    try:
                        code = compile(source, "<example>", "eval")
                    except SyntaxError:
                        exec(compile(source, "<example>", "exec"), names)
                        given.append(None)
                    else:
                        given.append(plain(eval(code, names), torch))
            except (Exception, SystemExit) as error:
                given.append(("raises", f"{type(error).__name__}: {error}"[:160]))
            finally:
                signal.alarm(0)
    return results


def difference(theirs: Any, ours: Any) -> str:
    """What differs between two results of `plain`; "" where nothing does."""
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return f"{len(theirs)} results, {len(ours)} here"
        return next((d for x, y in zip(theirs, ours) if (d := difference(x, y))), "")
    if isinstance(theirs, tuple) and isinstance(ours, tuple) and len(theirs) == len(ours):
        if theirs[:-1] != ours[:-1]:
            return f"{theirs[:-1]}, here {ours[:-1]}"
        return difference(theirs[-1], ours[-1])
    if isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray):
        if theirs.dtype.kind not in "fc":
            return "" if np.array_equal(theirs, ours) else "other values"
        near = np.allclose(theirs, ours, rtol=1e-3, atol=1e-4, equal_nan=True)
        return "" if near else "other values"
    if isinstance(theirs, float) and isinstance(ours, float):
        near = np.isclose(theirs, ours, rtol=1e-3, atol=1e-4, equal_nan=True)
        return "" if near else f"{theirs}, here {ours}"
    same = type(theirs) is type(ours) and theirs == ours
    return "" if same else f"{theirs!s:.60}, here {ours!s:.60}"


def known(name: str) -> str:
    behind = name.removeprefix("torch.")
    return next((why for pattern, why in KNOWN.items() if fnmatch.fnmatch(behind, pattern)), "")


def compared(examples: list[tuple[str, list[str]]], runs: list[dict[str, list[Any]]]) -> int:
    """Print what differs; how many differences are not known."""
    counts: Counter[str] = Counter()
    for name, statements in examples:
        for source, theirs, ours in zip(statements, runs[0][name], runs[1][name]):
            if isinstance(theirs, tuple) and theirs[0] == "raises":
                counts["not run by PyTorch"] += 1
                continue
            if theirs is None and ours is None:
                counts["without a value"] += 1
                continue
            said = difference(theirs, ours)
            kind = "same" if not said else "known" if known(name) else "other"
            counts[kind] += 1
            if kind == "other":
                print(f"{name}: {' '.join(source.split())[:100]}: {said}")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
    return counts["other"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="names, with * and ?")
    parser.add_argument("--seconds", type=int, default=20, help="a statement may take")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.run is not None:
        given, results, who = arguments.run
        examples = pickle.loads(Path(given).read_bytes())
        os.chdir(Path(given).parent)
        found = run(examples, who == "frontend", arguments.seconds)
        Path(results).write_bytes(pickle.dumps(found))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        examples = [each for each in docstrings() if fnmatch.fnmatch(each[0], arguments.only)]
        given = Path(folder) / "examples"
        given.write_bytes(pickle.dumps(examples))
        runs = []
        for who in ("torch", "frontend"):
            results = Path(folder) / who
            subprocess.run(
                [sys.executable, "-m", "tests.zoo.docstrings", "--seconds", str(arguments.seconds),
                 "--run", str(given), str(results), who],
                check=True, env={**os.environ, "PYTHONPATH": os.getcwd()},
            )  # fmt: skip
            runs.append(pickle.loads(results.read_bytes()))
    return int(compared(examples, runs) > 0)


if __name__ == "__main__":
    sys.exit(main())
