"""What a writer is given as arrays: tensors, numbers, images of any layout of axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor

_IN_A_ROW = 8


def array_of(value: Any) -> np.ndarray:
    """A tensor, an array, or a number as an array of at least one axis. Raises NotImplementedError
    for anything else."""
    if isinstance(value, Tensor):
        value = value.detach().numpy()
        value = value.astype(np.float32) if value.dtype.name == "bfloat16" else value
    elif isinstance(value, list):
        value = np.array(value)
    elif not isinstance(value, np.ndarray | np.generic | int | float | bool):
        raise NotImplementedError(
            f"Got {type(value)}, but numpy array or torch tensor are expected."
        )
    return np.atleast_1d(np.asarray(value))


def number_of(value: Any) -> float:
    """A number, or the only element of a tensor or array. Raises AssertionError for several."""
    array = array_of(value)
    assert array.size == 1, "scalar should be 0D"
    return float(array.reshape(()))


def image_of(value: Any, layout: str) -> np.ndarray:
    """An image, or several side by side, as [height, width, channels] of u8, of three
    channels or four. `layout` names the axes, of N, C, H and W: floats are from 0 to 1. Raises
    AssertionError where it does not fit."""
    array = array_of(value)
    layout = layout.upper()
    assert len(set(layout)) == len(layout) == array.ndim and set(layout) <= set("NCHW"), (
        f"the layout {layout!r} does not name the axes of an image of shape {array.shape}"
    )
    for axis in "NC":
        if axis not in layout:
            array, layout = array[None], axis + layout
    images = array.transpose([layout.index(axis) for axis in "NHWC"])
    if images.shape[-1] == 1:
        images = np.repeat(images, 3, axis=-1)
    if images.dtype != np.uint8:
        images = (images * 255.0).clip(0, 255).astype(np.uint8)
    return _side_by_side(images)


def _side_by_side(images: np.ndarray) -> np.ndarray:
    """[count, height, width, channels] as one image, in rows of eight."""
    count, height, width, channels = images.shape
    columns = min(count, _IN_A_ROW)
    rows = -(-count // columns)
    grid = np.zeros((rows * columns, height, width, channels), images.dtype)
    grid[:count] = images
    grid = grid.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return grid.reshape(rows * height, columns * width, channels)


def figures_of(figure: Any, close: bool) -> np.ndarray:
    """One or several of matplotlib's figures as images, [count, channels, height, width] of u8, or
    without the first axis for one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def drawn(each: Any) -> np.ndarray:
        canvas = FigureCanvasAgg(each)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba(), np.uint8)[:, :, :3]
        if close:
            from matplotlib import pyplot

            pyplot.close(each)
        return np.moveaxis(pixels, 2, 0)

    if isinstance(figure, list):
        return np.stack([drawn(each) for each in figure])
    return drawn(figure)
