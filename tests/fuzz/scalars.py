"""Numbers beside tensors of narrow dtypes: every public function that takes them, eagerly and
compiled, against PyTorch where it is installed.

A case is a call (scalar_calls.txt), the dtypes and shapes of its tensors, and two sets of
numbers. Eager mode gives what PyTorch does, or refuses what it refuses. The compiled function is
called with the first set, the second, and the first again, so that the numbers come to be arguments
of it: it gives eager mode's bits.

`python -m tests.fuzz.scalars [seed] [cases of each] [part of a call]` walks through all calls.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import frontend
from graphc.errors import TraceError
from tests.fuzz.frame import Broken, Fuzzer, fails

Number = bool | int | float


def _calls() -> dict[str, tuple[str, ...]]:
    groups = (Path(__file__).parent / "scalar_calls.txt").read_text().split("# ")[1:]
    lines = (group.splitlines() for group in groups)
    return {name: tuple(filter(None, calls)) for name, *calls in lines}


CALLS = _calls()
"""By group: calls that take numbers beside tensors, as expressions over `T` (either library) and
`F` (its nn.functional).

`a`, `b`, `c` broadcast to one shape, each of a drawn dtype; `o` has that shape and the dtype of c.
`s`, `t` are numbers, `w` is a small whole number. `v`, `u`, `p`, `q`, … are of the sizes of FIXED
and the dtype of a; `m` is a bool mask and `i` has indices, both for p."""
DTYPES = ("int8", "uint8", "int16", "int32", "int64", "bool", "float16", "bfloat16", "float32",
          "float64")  # fmt: skip
SHAPES = ((), (3,), (2, 3), (1, 3), (2, 1))
EMPTY = ((), (3,), (0, 3), (1, 3))
FIXED = {
    "v": (3,), "u": (3,), "p": (2, 3), "q": (3, 4), "r": (2, 4), "z": (4,), "y": (2,),
    "h": (2, 2, 3), "k": (2, 3, 4),
}  # fmt: skip
WHOLE = (0, 1, 2, 3, -1, -2, 5, 7, 100, 127, 128, -128, -129, 200, 255, 256, 300, 1000, 32767,
         32768, 70000, 2**31 - 1, 2**31, -(2**31), 2**40)  # fmt: skip
FRACTIONS = (0.0, 0.5, 1.0, 2.0, -1.0, -1.5, 2.75, 3.0, 0.001, 100.25, 300.5, 1e6, -0.0)
LEAST = 1e-40  # below it digits are few
ABSENT = (
    "not implemented for", "must be either float or double", "Integral inputs not supported",
    "could not infer output dtype", "may not be a boolean tensor", "can't be cast to the desired",
    "to a single memory location", "Found dtype", "only support dx as a real number",
)  # fmt: skip
"""What PyTorch says of a dtype that a function lacks there, and of a source that is written."""
WRAPPED = (
    "T.gradient(",
    "trapezoid",
    "trapz",
    "searchsorted",
    "bucketize",
    "isin",
    "corrcoef",
    "cov",
    "lp_pool",
    "hinge_embedding_loss",
)
"""Where PyTorch's sums and numbers wrap in a narrow dtype, and the frontend's do not."""
OVERFLOWING = ("addbmm",)
"""Where what float16 cannot hold is infinite in PyTorch by the order of its sums."""
FILLED = ("fill_(", "fill(", "full(", "full_like(", "hinge_embedding_loss(")
"""Where PyTorch fills one element alone with infinity, and refuses to fill more, by a number that
float16 does not hold."""
POWERS = ("pow", "**")
"""Where PyTorch takes an exponent that float32 does not hold as a double for a few elements, and
for eight at a time as a float, of which it depends whether it is odd."""
ULPS = {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 2e-5, "float64": 1e-11}
"""Of a result's greatest element, how far off an element may be."""
HALVES = ("float16", "bfloat16")
CANCELLING = ("tanhshrink",)
"""What PyTorch subtracts from its operand after rounding it to a half type: it has the operand's
last place, not the result's."""
POLES = ("polygamma",)
"""Infinite at integers up to 0, where PyTorch's has some great number."""
TRIGAMMA = 1e-9
"""How exact PyTorch's `polygamma(1, x)` is in float64, where its series ends early."""


@dataclass(frozen=True)
class Case:
    """`numbers` has two sets of (s, t, w)."""

    call: str
    dtypes: tuple[str, str, str]
    shapes: tuple[tuple[int, ...], ...]
    numbers: tuple[tuple[Number, Number, int], ...]
    seed: int


def _number(random: np.random.Generator) -> Number:
    kind = int(random.integers(8))
    if kind == 0:
        return bool(random.integers(2))
    if kind < 4:
        return FRACTIONS[int(random.integers(len(FRACTIONS)))]
    return WHOLE[int(random.integers(len(WHOLE) if kind > 5 else 12))]


def draw(random: np.random.Generator, size: int) -> Case:
    group = list(CALLS.values())[int(random.integers(len(CALLS)))]
    call = group[int(random.integers(len(group)))]
    return case_of(call, random)


def case_of(call: str, random: np.random.Generator) -> Case:
    dtypes = [str(random.choice(DTYPES)) for _ in "abc"]
    if random.random() < 0.5:  # many functions take one dtype alone
        dtypes = dtypes[:1] * 3
    known = SHAPES if random.random() < 0.9 else EMPTY
    shapes = [known[int(random.integers(len(known)))] for _ in "abc"]
    if random.random() < 0.3 or "out=" in call:
        shapes = shapes[:1] * 3
    numbers = tuple((_number(random), _number(random), int(random.integers(5))) for _ in range(2))
    if "polynomial" in call:  # as many steps as the degree
        numbers = tuple((int(s) % 100, t, w) for s, t, w in numbers)
    if "softplus" in call:  # below a threshold where exp overflows PyTorch's is infinite
        numbers = tuple((s, min(t, 80), w) for s, t, w in numbers)
    return Case(call, tuple(dtypes), tuple(shapes), numbers, int(random.integers(1 << 30)))


# -- values --------------------------------------------------------------------------------------


DIVIDES = re.compile(r"div|fmod|remainder|//|%|gcd|lcm")


def _elements(
    random: np.random.Generator, dtype: str, shape: tuple[int, ...], divides: bool
) -> Any:
    """Small numbers, and some at the ends of the dtype; but the least one where integers are
    divided: by -1 that ends PyTorch's process, and it has no magnitude for a gcd to be of."""
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if "float" in dtype:
        return random.integers(-16, 17, shape) / 4
    limits = np.iinfo(dtype)
    small = random.integers(max(limits.min, -4), 5, shape)
    ends = random.choice([limits.min + divides, limits.max, 100, 50], shape)
    return np.where(random.random(shape) < 0.3, ends, small)


def tensors(T: Any, case: Case) -> dict[str, Any]:
    """The tensors of a case in one of the libraries."""
    random = np.random.default_rng(case.seed)
    divides = DIVIDES.search(case.call) is not None
    made = lambda dtype, shape: T.tensor(  # noqa: E731
        np.asarray(_elements(random, dtype, shape, divides)).tolist(), dtype=getattr(T, dtype)
    ).reshape(shape)
    names = {name: made(*each) for name, each in zip("abc", zip(case.dtypes, case.shapes))}
    names |= {name: made(case.dtypes[0], shape) for name, shape in FIXED.items()}
    common = np.broadcast_shapes(*case.shapes)
    names["o"] = T.zeros(common, dtype=getattr(T, case.dtypes[2]))
    names["m"] = T.tensor([[True, False, True], [False, False, True]])
    names["i"] = T.tensor([2, 0, 1])
    return names


NAMES = (*"abc", *FIXED, *"omistw")


def function(T: Any, call: str) -> Any:
    return eval(
        f"lambda {', '.join(NAMES)}: {call}",
        {"T": T, "F": importlib.import_module(f"{T.__name__}.nn.functional")},
    )


def outcome(run: Any, T: Any, case: Case, numbers: Any) -> Any:
    """All tensors after the call, the result first; or what it raises."""
    names = tensors(T, case) | dict(zip("stw", numbers))
    try:
        result = run(*[names[name] for name in NAMES])
    except Exception as error:
        return error
    changed = [names[name] for name in NAMES[:-3]]
    return flat(T, result), [x.detach() for x in changed]


def flat(T: Any, result: Any) -> list[Any]:
    if isinstance(result, tuple | list):
        return [leaf for item in result for leaf in flat(T, item)]
    return [result.detach() if isinstance(result, T.Tensor) else result]


# -- comparing -----------------------------------------------------------------------------------


def array(x: Any) -> np.ndarray:
    """Numbers of a tensor, exactly: floats as float64."""
    x = x.double() if x.is_floating_point() else x
    return np.asarray(x.resolve_conj().numpy())


def _differs(one: Any, other: Any, least: float | None) -> bool:
    """By more than rounding, with at least this bound; `least` None: by a bit."""
    if not hasattr(other, "dtype"):
        return bool(type(one) is not type(other) or one != other)
    if str(one.dtype).split(".")[-1] != str(other.dtype).split(".")[-1]:
        return True
    x, y = array(one), array(other)
    if x.shape != y.shape:
        return True
    if least is None or x.dtype.kind not in "fc":
        return not np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
    name = str(other.dtype).split(".")[-1]
    bound = max(ULPS.get(name, 1e-5), least)
    special = ~(np.isfinite(x) & np.isfinite(y))
    if not np.array_equal(x[special], y[special], equal_nan=True):
        return True
    greatest = np.abs(y[~special]).max(initial=0.0)
    return bool((np.abs(x - y)[~special] > bound * greatest + LEAST).any())


def _compare(what: str, mine: Any, theirs: Any, least: float | None) -> None:
    if isinstance(mine, Exception) or isinstance(theirs, Exception):
        if not (isinstance(mine, Exception) and isinstance(theirs, Exception)):
            raise Broken(f"{what} {_said(mine)}, expected {_said(theirs)}")
        return
    for name, one, other in [
        ("result", mine[0], theirs[0]),
        *((f"{NAMES[j]} afterwards", [x], [y]) for j, (x, y) in enumerate(zip(mine[1], theirs[1]))),
    ]:
        same = len(one) == len(other)
        if not same or any(_differs(x, y, least) for x, y in zip(one, other)):
            raise Broken(f"{what} {name} {_said((one,))}, expected {_said((other,))}")


def _said(result: Any) -> str:
    if isinstance(result, Exception):
        return f"{type(result).__name__}: {str(result)[:150]}"
    return ", ".join(
        f"{str(x.dtype).split('.')[-1]} {x.tolist()}" if hasattr(x, "dtype") else repr(x)
        for x in result[0]
    )


def check(case: Case) -> str:
    """Eager mode against PyTorch, then compiled code against eager mode."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = function(frontend, case.call)
        eager = [outcome(run, frontend, case, numbers) for numbers in case.numbers]
        if importlib.util.find_spec("torch") is not None:
            torch = importlib.import_module("torch")
            for mine, numbers in zip(eager, case.numbers):
                theirs = outcome(function(torch, case.call), torch, case, numbers)
                if not known(case, numbers, mine, theirs):
                    _compare(f"eager {numbers}:", mine, theirs, _bound(case))
        compiled = frontend.compile(run, fullgraph=True)
        traced = False
        for turn in (0, 1, 0):
            result = outcome(compiled, frontend, case, case.numbers[turn])
            if isinstance(result, TraceError):
                continue
            traced = True
            _compare(f"compiled {case.numbers[turn]}:", result, eager[turn], None)
    if all(isinstance(x, Exception) for x in eager):
        return "refused"
    return "agrees" if traced else "not traced"


def _bound(case: Case) -> float:
    """What is computed in the half type of an operand before it meets a wider one has its bits."""
    return max([ULPS[dtype] for dtype in case.dtypes if dtype in HALVES], default=0.0)


def known(case: Case, numbers: Any, mine: Any, theirs: Any) -> bool:
    """Whether PyTorch has not what is asked for, or gives what wrapped in a narrow integer."""
    said = str(theirs) if isinstance(theirs, Exception) else ""
    if "degrees go up to" in str(mine):
        return True  # each term is computed
    if isinstance(mine, tuple) and any(reason in said for reason in ABSENT):
        return True
    if "float16" in case.dtypes[0] and any(name in case.call for name in OVERFLOWING):
        return True
    if case.dtypes[0] in HALVES and any(name in case.call for name in CANCELLING):
        return True
    if "without overflow" in str(mine) and isinstance(theirs, tuple):
        one = [array(x) for x in theirs[0]]
        filled = any(name in case.call for name in FILLED)
        return filled and all(x.size == 1 and np.isinf(x).all() for x in one)
    if isinstance(mine, tuple) and any(name in case.call for name in POLES):
        if any(np.isinf(array(x)).any() for x in mine[0]):
            return True
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        pairs = list(zip(mine[0], theirs[0]))[:1]
        if all(hasattr(x, "dtype") for pair in pairs for x in pair):
            if any(_inexact(case, numbers, array(x), array(y)) for x, y in pairs):
                return True
    whole = not any("float" in dtype for dtype in case.dtypes[:1])
    return whole and any(name in case.call for name in WRAPPED)


def _inexact(case: Case, numbers: Any, mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether these two differ by what PyTorch's kernels lose, and no more."""
    (s, t, w), kind = numbers, case.dtypes[0]
    if mine.shape != theirs.shape:
        return False
    near = lambda bound: np.allclose(mine, theirs, bound, 0, equal_nan=True)  # noqa: E731
    if any(name in case.call for name in POWERS):
        magnitudes = (np.abs(mine), np.abs(theirs))
        rounded = kind == "float32" and float(np.float32(s)) != s
        return rounded and np.allclose(*magnitudes, equal_nan=True)
    if "T.mul(s, a)" in case.call:  # where `s * a` does not, PyTorch rounds the number first
        return kind == "float16" and abs(s) > 65504
    if "ldexp" in case.call:  # PyTorch's exponents wrap at 32 bits
        exponents = array(tensors(frontend, case)["b"])
        return bool((np.abs(exponents.astype(float)) >= 2**31).any())
    if "polygamma" in case.call:
        return w == 1 and near(TRIGAMMA)
    if "T.prod(" in case.call:  # by the order of its products a half type has 0 times infinity
        return "float16" in case.dtypes and bool(np.isnan(theirs).all())
    if "smooth_l1" in case.call:  # a beta that float16 does not hold is infinite there
        return s > 65504 and "float16" in case.dtypes
    if "rrelu" in case.call:  # the mean of two whole numbers is one of float32
        return int(s) == s and int(t) == t and near(1e-6)
    if "poisson" in case.call:  # exp of integers is one of float32, in a sum of float64
        return "int" in kind and near(1e-6)
    return False


def smaller(case: Case) -> Iterator[Case]:
    first, second = case.numbers
    if first != second:
        yield replace(case, numbers=(first, first))
        yield replace(case, numbers=(second, second))
    for shapes in (((),) * 3, ((3,),) * 3, case.shapes[:1] * 3):
        if shapes != case.shapes:
            yield replace(case, shapes=shapes)


def program(case: Case) -> str:
    return f"from tests.fuzz.scalars import Case, check\ncheck({case!r})"


FUZZER = Fuzzer("scalars", draw, check, program, smaller)


def main() -> int:
    """0 where nothing was found."""
    seed, count, part = (*sys.argv[1:], *("0", "20", "")[len(sys.argv) - 1 :])
    calls = [call for group in CALLS.values() for call in group if part in call]
    found = 0
    for call in calls:
        random = np.random.default_rng([int(seed), *call.encode()])
        for _ in range(int(count)):
            case = case_of(call, random)
            error = fails(FUZZER, case)
            if error is not None:
                found += 1
                print(f"{case}: {str(error)[:300]}", flush=True)
    print(f"{len(calls)} calls, {count} cases of each, {found} findings")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
