"""Spectra of what passes: the short-time Fourier transform and its inverse."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import expanded
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors
from frontend.functions.complex_numbers import view_as_real
from frontend.functions.creation import from_numpy, ones
from frontend.functions.declarations import public
from frontend.functions.fourier import along, as_complex, halved, real_of_half
from frontend.functions.layout import narrow
from frontend.functions.pointwise import where
from frontend.functions.select import unfold
from frontend.nn.functional.padding import pad
from graphc.ops.indexing import check_all


def _window(name: str, window: Any, length: int, n_fft: int, like: Tensor) -> Tensor:
    """The window of `length` (ones for None), with zeros at both ends up to `n_fft`."""
    if window is None:
        kind = like.dtype.computes_as if like.is_complex() else like.dtype
        window = ones(length, dtype=kind, device=like.device)
    elif tuple(window.shape) != (length,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, but got "
            f"window with size {list(window.shape)}"
        )
    left = (n_fft - length) // 2
    return pad(window, (left, n_fft - length - left)) if length < n_fft else window


def _lengths(n_fft: int, hop: int | None, win: int | None) -> tuple[int, int]:
    return (n_fft // 4 if hop is None else hop), (n_fft if win is None else win)


@public(method=True)
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The spectra of frames of a signal [L] or [batch, L]: [batch, frequencies, frames], each frame
    `n_fft` long, `hop_length` after the one before, and weighted by `window`. `center`: the signal
    is padded so that frame t is about t · hop_length. `onesided` (the default for a real signal and
    window): the n_fft // 2 + 1 frequencies that say all. Without `return_complex` the last
    dimension holds both parts.

    Raises RuntimeError for lengths that do not fit, and where `return_complex` is not said of a
    real signal."""
    need_tensors("stft", input=input)
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    hop, win = _lengths(n_fft, hop_length, win_length)
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future PyTorch release."
            )
        return_complex = True
    if not input.dtype.is_float or input.dim() not in (1, 2):
        raise RuntimeError(
            f"stft: expected a 1D or 2D tensor of floating point or complex values, but got "
            f"{SCALAR_NAMES[input.dtype]} {list(input.shape)}"
        )
    signal = input if input.dim() == 2 else input[None]
    if center:
        signal = pad(signal[None], (n_fft // 2, n_fft // 2), pad_mode)[0]
    length = signal.shape[-1]
    if not 0 < n_fft <= length:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"stft: expected 0 < win_length <= n_fft, but got win_length={win}")
    whole = _window("stft", window, win, n_fft, input)
    frames = unfold(_aligned(signal, whole, win, n_fft, align_to_window), -1, n_fft, hop)
    spectra = _spectra(frames * whole, normalized, not is_complex if onesided is None else onesided)
    transposed = spectra.transpose(1, 2)
    transposed = transposed if input.dim() == 2 else transposed[0]
    return transposed if return_complex else view_as_real(transposed)


def _aligned(x: Tensor, window: Tensor, win: int, n_fft: int, aligned: Any) -> Tensor:
    """The signal with zeros around it, so that frames begin where the window does."""
    if not aligned or win == n_fft:
        return x
    left = (n_fft - win) // 2
    return pad(x, (left, n_fft - win - left))


def _spectra(frames: Tensor, normalized: bool, onesided: bool) -> Tensor:
    size = frames.shape[-1]
    scale = 1 / math.sqrt(size) if normalized else 1.0
    if not onesided:
        return along(as_complex(frames), 2, True, scale)
    if frames.is_complex():
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    return halved(frames, 2, scale)


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """[batch, T, n] as the sums [batch, n + hop · (T - 1)] where frame t begins at t · hop."""
    batch, count, size = frames.shape
    places = (np.arange(count)[:, None] * hop + np.arange(size)).reshape(-1)
    total = frames.new_zeros(batch, size + hop * (count - 1))
    return total.index_add(1, from_numpy(places), frames.reshape(batch, -1))


@public(method=True)
def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal whose `stft` comes nearest to `input` [batch, frequencies, frames] (D. Griffin and
    J. Lim, "Signal estimation from modified short-time Fourier transform", 1984): the frames'
    weighted sum over that of the squared windows. `length`: what it is cut off, or filled up with
    zeros, to.

    Raises RuntimeError for lengths that do not fit, and for windows that leave a place out."""
    need_tensors("istft", input=input)
    hop, win = _lengths(n_fft, hop_length, win_length)
    _check_spectra(input, n_fft, hop, win)
    x = input if input.dim() == 3 else input[None]
    half = x.shape[1] != n_fft if onesided is None else onesided
    if x.shape[1] != (n_fft // 2 + 1 if half else n_fft):
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match n_fft / 2 + 1 when onesided=True, n_fft otherwise, but got {x.shape[1]}"
        )
    whole = _window("istft", window, win, n_fft, input)
    frames = _frames(x.transpose(1, 2), n_fft, normalized, half, return_complex, whole)
    count = frames.shape[1]
    summed = _overlapped(frames * whole, hop)
    envelope = _overlapped(expanded(whole * whole, (1, count, n_fft)), hop)
    start = n_fft // 2 if center else 0
    reach = summed.shape[1]
    end = start + length if length is not None else reach - start
    size = min(end, reach) - start
    envelope = _without_gaps(narrow(envelope, 1, start, size))
    result = narrow(summed, 1, start, size) / envelope
    if end > reach:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
            stacklevel=2,
        )
        result = pad(result, (0, end - reach))
    return result if input.dim() == 3 else result[0]


def _without_gaps(envelope: Tensor) -> Tensor:
    """The envelope, once it is checked: by the op whose result is asked for here, in compiled code
    too."""
    message = {"message": "istft: window overlap add min: the windows leave a place out"}
    (covered,) = CONTEXT.apply(check_all, (envelope.abs() >= 1e-11,), message)
    return where(covered, envelope, 1)


def _frames(
    x: Tensor, n_fft: int, normalized: bool, half: bool, to_complex: bool, window: Tensor
) -> Tensor:
    scale = 1 / math.sqrt(n_fft) if normalized else 1 / n_fft
    if to_complex:
        if half:
            raise RuntimeError("cannot have onesided output if window or input is complex")
        return along(x, 2, False, scale)
    if window.is_complex():
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    needed = x if half else narrow(x, 2, 0, n_fft // 2 + 1)
    return real_of_half(needed, 2, n_fft, scale)


def _check_spectra(x: Tensor, n_fft: int, hop: int, win: int) -> None:
    if not x.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if not x.numel() or x.dim() not in (2, 3):
        raise RuntimeError(
            f"istft: expected a tensor with 2 or 3 dimensions and some elements, but got "
            f"{list(x.shape)}"
        )
    if not 0 < win <= n_fft:
        raise RuntimeError(f"istft: expected 0 < win_length <= n_fft, but got {win}")
    if not 0 < hop <= win:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, but got {hop}")
