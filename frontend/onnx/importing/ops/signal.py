"""Fourier transforms, with real and imaginary parts along a last axis of two."""

from __future__ import annotations

from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.onnx.importing.declarations import Numbers, onnx_op
from frontend.onnx.importing.element_types import dtype_of
from frontend.onnx.importing.errors import OnnxError


@onnx_op("DFT", 20)
def dft(
    x: Tensor, dft_length: Numbers | None = None, axis: Numbers | None = None, *,
    inverse: int = 0, onesided: int = 0,
) -> Any:  # fmt: skip
    return _transformed(x, dft_length, axis[0] if axis else -2, inverse, onesided)


@onnx_op("DFT", 17)
def dft_before_20(
    x: Tensor, dft_length: Numbers | None = None, *, axis: int = 1, inverse: int = 0,
    onesided: int = 0,
) -> Any:  # fmt: skip
    return _transformed(x, dft_length, axis, inverse, onesided)


def _transformed(x: Tensor, length: Any, axis: int, inverse: int, onesided: int) -> Any:
    axis = axis % x.dim()
    count = length[0] if length else None
    pairs = type(x.shape[-1]) is int and x.shape[-1] == 2
    wide = x.to(torch.float64)
    values = torch.complex(wide[..., 0], wide[..., 1]) if pairs else wide[..., 0]
    if inverse and onesided:
        return torch.fft.irfft(values, count, axis).unsqueeze(-1).to(x.dtype)
    transform = torch.fft.ifft if inverse else torch.fft.rfft if onesided else torch.fft.fft
    result = transform(values, count, axis)
    return torch.stack([result.real, result.imag], -1).to(x.dtype)


@onnx_op("STFT")
def stft(
    x: Tensor, frame_step: Numbers, window: Tensor | None = None,
    frame_length: Numbers | None = None, *, onesided: int = 1,
) -> Any:  # fmt: skip
    """Transforms of windows: [batch, frames, bins, 2]."""
    if frame_length is None and window is None:
        raise OnnxError("neither a window nor a frame_length")
    length = frame_length[0] if frame_length else None
    if window is not None:
        length = window.shape[0]
    pairs = type(x.shape[-1]) is int and x.shape[-1] == 2
    values = torch.complex(x[..., 0], x[..., 1]) if pairs else x.squeeze(-1)
    frames = 1 + (values.shape[1] - length) // frame_step[0]
    at = torch.arange(frames).reshape(-1, 1) * frame_step[0] + torch.arange(length)
    taken = values.index_select(1, at.reshape(-1)).reshape(values.shape[0], frames, length)
    if window is not None:
        taken = taken * window
    transform = torch.fft.rfft if onesided and not pairs else torch.fft.fft
    result = transform(taken, None, -1)
    return torch.stack([result.real, result.imag], -1)


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(
    bins: Numbers, length: Numbers, rate: Numbers, low: Numbers, high: Numbers, *,
    output_datatype: int = 1,
) -> Any:  # fmt: skip
    """Triangles over the bins of a transform, evenly spaced in mels."""
    edges = 2595 * np.log10(1 + np.array([low[0], high[0]]) / 700)
    spaced = edges[0] + np.arange(bins[0] + 2) * ((edges[1] - edges[0]) / (bins[0] + 2))
    hertz = 700 * (10 ** (spaced / 2595) - 1)
    at = ((length[0] + 1) * hertz // rate[0]).astype(int)
    matrix = np.zeros((length[0] // 2 + 1, bins[0]))
    for i in range(bins[0]):
        first, centre, last = at[i : i + 3]
        if centre == first:
            matrix[centre, i] = 1
        for j in range(first, centre + 1):
            if centre != first:
                matrix[j, i] = (j - first) / (centre - first)
        for j in range(centre, last):
            matrix[j, i] = (last - j) / (last - centre)
    return torch.tensor(matrix).to(dtype_of(output_datatype))
