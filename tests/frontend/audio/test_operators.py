"""The operators of torchaudio's compiled library: filters against the same sums in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frontend


@pytest.fixture(autouse=True)
def _loaded(tmp_path: Path) -> None:
    frontend.ops.load_library(str(tmp_path / "lib" / "_torchaudio.abi3.so"))
    frontend.ops.load_library(str(tmp_path / "lib" / "libtorchaudio.so"))


def test_what_the_library_says_of_itself() -> None:
    assert frontend.ops._torchaudio.cuda_version() is None
    assert frontend.ops._torchaudio.is_align_available() is False
    with pytest.raises(NotImplementedError, match="torchaudio::forced_align"):
        frontend.ops.torchaudio.forced_align(*[frontend.zeros(1)] * 4, 0)


def test_a_filter_takes_its_own_last_values() -> None:
    random = np.random.default_rng(0)
    windows = random.standard_normal((2, 3, 12))
    coefficients = np.concatenate([random.standard_normal((3, 2)) / 3, np.ones((3, 1))], 1)
    padded = frontend.zeros(2, 3, 14, dtype=frontend.float64)
    signal = frontend.tensor(windows)
    frontend.ops.torchaudio._lfilter_core_loop(signal, frontend.tensor(coefficients), padded)
    expected = np.zeros((2, 3, 14))
    for at in range(12):
        past = expected[:, :, at : at + 2] * coefficients[:, :2]
        expected[:, :, at + 2] = windows[:, :, at] - past.sum(-1)
    np.testing.assert_allclose(padded.numpy(), expected, rtol=1e-12)
    np.testing.assert_array_equal(signal.numpy(), windows)


def test_overdrive_takes_away_what_stands() -> None:
    random = np.random.default_rng(1)
    sound, driven = random.standard_normal((2, 2, 9))
    before, after = frontend.zeros(2).double(), frontend.zeros(2).double()
    output = frontend.zeros(2, 9).double()
    frontend.ops.torchaudio._overdrive_core_loop(
        frontend.tensor(sound), frontend.tensor(driven), before, after, output
    )
    last_in, last_out, expected = np.zeros(2), np.zeros(2), np.zeros((2, 9))
    for at in range(9):
        last_out = driven[:, at] - last_in + 0.995 * last_out
        last_in = driven[:, at]
        expected[:, at] = sound[:, at] * 0.5 + last_out * 0.75
    np.testing.assert_allclose(output.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(after.numpy(), last_out, rtol=1e-12)
    np.testing.assert_array_equal(before.numpy(), last_in)
