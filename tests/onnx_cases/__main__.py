"""All of ONNX's own backend cases: `python -m tests.onnx_cases` (needs the package `onnx`).

--kind node | simple | pytorch-operator | pytorch-converted   only these; may be given again
--compiled     through `compile`, not eagerly
--gradients    gradients of floats against numbers, in float64
--few          a dozen node cases, in all three ways
-k PART        cases whose names have this part
--part I/N     every N-th case, from the I-th on (from 0)
--all          print those that pass too
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter

from tests.onnx_cases.cases import KINDS, load_cases, run, run_gradients

FEW = (
    "test_add_uint32", "test_attention_4d_causal", "test_averagepool_2d_ceil",
    "test_basic_conv_with_padding", "test_cast_FLOAT_to_INT4", "test_gemm_all_attributes",
    "test_gru_seq_length", "test_loop11", "test_lstm_with_peepholes",
    "test_quantizelinear_axis", "test_reduce_log_sum_exp_keepdims_example",
    "test_resize_upsample_sizes_cubic", "test_scan9_sum", "test_scatternd_max",
    "test_slice_neg_steps", "test_top_k",
)  # fmt: skip
"""Of most families one, in less than a minute."""
LEAST = {"node": 1550, "simple": 0, "pytorch-operator": 35, "pytorch-converted": 82}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.onnx_cases")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("-k", default="")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--few", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.few:
        return few()
    first, step = map(int, options.part.split("/"))
    failed = False
    for kind in options.kind or KINDS:
        tally: Counter[str] = Counter()
        for number, case in enumerate(load_cases(kind)):
            if options.k not in case.name or number % step != first:
                continue
            outcome = run_gradients(case) if options.gradients else run(case, options.compiled)
            tally[outcome.result] += 1
            if outcome.result != "pass" or options.all:
                print(f"{outcome.result}: {case.name}: {outcome.detail[:300]!r}", flush=True)
        print(kind, dict(tally), flush=True)
        whole = not options.k and step == 1 and not (options.compiled or options.gradients)
        failed = failed or (whole and tally["pass"] < LEAST[kind])
    return int(failed)


def few() -> int:
    """The FEW, eagerly, compiled and their gradients: 1 where one is not as it should be."""
    cases = [case for case in load_cases("node") if case.name in FEW]
    failed = len(cases) != len(FEW)
    for case in cases:
        outcomes = [run(case), run(case, compiled=True), run_gradients(case)]
        allowed = ({"pass"}, {"pass"}, {"pass", "no gradient", "kink"})
        good = all(each.result in may for each, may in zip(outcomes, allowed))
        failed = failed or not good
        told = ", ".join(f"{each.result} {each.detail[:200]!r}" for each in outcomes)
        print(f"{'ok' if good else 'FAILED'} {case.name}: {told}", flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
