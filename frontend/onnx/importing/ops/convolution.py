"""Convolutions, of integers too, their inverses, and windows put back together."""

from __future__ import annotations

from typing import Any

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.onnx.importing.declarations import Numbers, onnx_op
from frontend.onnx.importing.errors import OnnxError, OnnxNotHere
from frontend.onnx.importing.ops.shapes import is_number


def both_ends(pads: list[Any]) -> list[Any]:
    """ONNX's pads (all starts, then all ends) as `F.pad` takes them: from the last axis on."""
    rank = len(pads) // 2
    return [end for axis in reversed(range(rank)) for end in (pads[axis], pads[axis + rank])]


def pads_of(
    x: Tensor, auto_pad: str, pads: Any, kernel: list[Any], strides: list[int],
    dilations: list[int],
) -> list[Any]:  # fmt: skip
    """The pads of a window, all starts and then all ends, by `auto_pad` or as given."""
    rank = len(kernel)
    if auto_pad in ("NOTSET", ""):
        return list(pads or [0] * (2 * rank))
    if auto_pad == "VALID":
        return [0] * (2 * rank)
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise OnnxError(f"auto_pad {auto_pad!r} is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    low, high = [], []
    for axis in range(rank):
        size = x.shape[2 + axis]
        results = -(-size // strides[axis])
        total = (results - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1 - size
        total = total if total > 0 else 0
        less = total // 2
        low.append(less if auto_pad == "SAME_UPPER" else total - less)
        high.append(total - low[-1])
    return low + high


def padded(x: Tensor, pads: list[Any], value: float = 0.0) -> Tensor:
    """`x` with a border around its spatial axes."""
    return F.pad(x, both_ends(pads), value=value)


@onnx_op("Conv")
def conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    rank = x.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    kernel = list(weight.shape[2:])
    if kernel_shape is not None and list(kernel_shape) != kernel:
        raise OnnxError(f"kernel_shape is {kernel_shape}, the weight's {kernel}")
    ends = pads_of(x, auto_pad, pads, kernel, strides, dilations)
    even = all(_same(a, b) for a, b in zip(ends[:rank], ends[rank:]))
    if not even:
        x = padded(x, ends)
    if rank not in (1, 2, 3):
        raise OnnxNotHere(f"a convolution over {rank} axes", hint="1, 2 and 3 are here")
    return getattr(F, f"conv{rank}d")(
        x, weight, bias, stride=strides, padding=ends[:rank] if even else 0, dilation=dilations,
        groups=group,
    )  # fmt: skip


def _same(a: Any, b: Any) -> bool:
    return type(a) is int and type(b) is int and a == b


@onnx_op("ConvTranspose")
def conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, output_padding: Any = None,
    output_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    rank = x.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra = output_padding or [0] * rank
    kernel = list(weight.shape[2:])
    ends = list(pads or [0] * (2 * rank))
    if output_shape is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        want = list(output_shape)[-rank:] if output_shape else [
            x.shape[2 + i] * strides[i] for i in range(rank)
        ]  # fmt: skip
        for i in range(rank):
            full = strides[i] * (x.shape[2 + i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
            total, half = full - want[i], (full - want[i]) // 2
            upper = auto_pad == "SAME_UPPER"
            ends[i], ends[i + rank] = (half, total - half) if upper else (total - half, half)
    y = getattr(F, f"conv_transpose{rank}d")(
        x, weight, None, stride=strides, groups=group, dilation=dilations
    )
    cut = [-end for end in ends]
    cut[rank:] = [extra[i] + cut[i + rank] for i in range(rank)]
    if not all(is_number(end, 0) for end in cut):
        y = padded(y, cut)
    return y if bias is None else y + bias.reshape(-1, *[1] * rank)


@onnx_op("DeformConv")
def deform_conv(
    x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor | None = None,
    mask: Tensor | None = None, *, dilations: Any = None, group: int = 1, kernel_shape: Any = None,
    offset_group: int = 1, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """A convolution whose taps are read between pixels, each at an offset of its own."""
    if x.dim() != 4:
        raise OnnxNotHere(f"a deformable convolution over {x.dim() - 2} axes")
    strides, dilations, ends = strides or [1, 1], dilations or [1, 1], pads or [0, 0, 0, 0]
    n, c, height, width = x.shape
    kh, kw = weight.shape[2:]
    out_h, out_w = offset.shape[-2:]
    offset = offset.reshape(n, offset_group, kh * kw, 2, out_h, out_w)
    taps = torch.arange(kh * kw)
    rows = (taps // kw * dilations[0] - ends[0]).reshape(-1, 1, 1)
    columns = (taps % kw * dilations[1] - ends[1]).reshape(-1, 1, 1)
    y = rows + torch.arange(out_h).reshape(-1, 1) * strides[0] + offset[:, :, :, 0]
    z = columns + torch.arange(out_w) * strides[1] + offset[:, :, :, 1]
    grouped = x.reshape(n, offset_group, c // offset_group, height * width)
    read = between_pixels(grouped, y.flatten(2), z.flatten(2), height, width, False)
    if mask is not None:
        read = read * mask.reshape(n, offset_group, 1, kh * kw * out_h * out_w)
    read = read.reshape(n, group, c // group * kh * kw, out_h * out_w)
    flat = weight.reshape(group, weight.shape[0] // group, -1)
    result = (flat @ read).reshape(n, weight.shape[0], out_h, out_w)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


def between_pixels(
    planes: Tensor, y: Tensor, x: Tensor, height: int, width: int, clamps: bool
) -> Tensor:
    """Bilinear values of planes [a, b, channels, height * width] at places y, x [a, b, points]:
    [a, b, channels, points]. A pixel outside is 0, or, with `clamps`, the nearest inside."""
    if clamps:
        y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    top, left = y.floor(), x.floor()
    total: Any = 0
    for row, row_part in ((top, top + 1 - y), (top + 1, y - top)):
        for column, column_part in ((left, left + 1 - x), (left + 1, x - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            at = row.clamp(0, height - 1).long() * width + column.clamp(0, width - 1).long()
            at = at.unsqueeze(2).expand(*planes.shape[:3], y.shape[-1])
            part = torch.where(inside, row_part * column_part, 0).unsqueeze(2)
            total = total + planes.gather(3, at) * part
    return total


@onnx_op("Col2Im")
def col2im(
    x: Tensor, image_shape: Numbers, block_shape: Numbers, *, dilations: Any = None,
    pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """Blocks added up where they lie: the gradient of taking them, over any number of axes."""
    rank = len(block_shape)
    dilations, strides = dilations or [1] * rank, strides or [1] * rank
    ends = pads or [0] * (2 * rank)
    n = x.shape[0]
    sizes = [size + ends[i] + ends[i + rank] for i, size in enumerate(image_shape)]
    counts = [
        (sizes[i] - dilations[i] * (block_shape[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
    ]
    place: Any = torch.zeros([1] * (2 * rank), dtype=torch.int64)
    for i in range(rank):
        inner = torch.arange(block_shape[i]).reshape(-1, *[1] * (2 * rank - 1 - i)) * dilations[i]
        outer = torch.arange(counts[i]).reshape(-1, *[1] * (rank - 1 - i)) * strides[i]
        place = place * sizes[i] + (inner + outer)
    plane = 1
    for size in sizes:
        plane = plane * size
    blocks = 1
    for size in block_shape:
        blocks = blocks * size
    channels = x.shape[1] // blocks
    flat = torch.zeros(n, channels, plane, dtype=x.dtype)
    image = flat.index_add(2, place.reshape(-1), x.reshape(n, channels, -1))
    image = image.reshape(n, channels, *sizes)
    return image if not any(ends) else padded(image, [-end for end in ends])


# -- integers ------------------------------------------------------------------------------------


def centred(x: Tensor, zero: Tensor | None, axis: int | None = None) -> Tensor:
    """int32 of a tensor less its zero point, one for each slice along `axis` where there are
    several."""
    if zero is None:
        return x.to(torch.int32)
    if zero.dim() == 1 and not is_number(zero.shape[0], 1) and axis is not None:
        shape = [1] * x.dim()
        shape[axis] = zero.shape[0]
        zero = zero.reshape(shape)
    elif zero.dim() == 1 and is_number(zero.shape[0], 1):
        zero = zero.reshape(())
    return x.to(torch.int32) - zero.to(torch.int32)


@onnx_op("ConvInteger")
def conv_integer(
    x: Tensor, weight: Tensor, x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None, *, auto_pad: str = "NOTSET", dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """In f64, which holds the sums of products of bytes."""
    a, b = centred(x, x_zero_point).double(), centred(weight, w_zero_point, 0).double()
    options = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads}
    return conv(a, b, kernel_shape=kernel_shape, strides=strides, **options).to(torch.int32)


@onnx_op("MatMulInteger")
def matmul_integer(
    a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Any:
    return centred(a, a_zero_point, -2) @ centred(b, b_zero_point, -1)
