"""Summaries: what one entry of an event file holds."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import (
    HistogramProto,
    Summary,
    SummaryMetadata,
)
from tensorboard.util.tensor_util import make_tensor_proto

from frontend.engine.tensors.tensor import Tensor

LEAST = 1e-7
"""What the denominators of precision and recall are at least."""
MOST_THRESHOLDS = 127


def summary(tag: str, metadata: Any = None, **value: Any) -> Any:
    """A Summary of one value."""
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, **value)])


def plugin(name: str, content: bytes = b"") -> Any:
    """The metadata of what a plugin shows."""
    return SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content)
    )


def scalar(tag: str, number: float, new_style: bool, double: bool) -> Any:
    """A number; as the plugin of today takes it where it is `new_style`, of f64 if `double`."""
    if not new_style:
        return summary(tag, simple_value=number)
    kind = np.float64 if double else np.float32
    return summary(tag, plugin("scalars"), tensor=make_tensor_proto(kind(number)))


def tensor(tag: str, array: np.ndarray) -> Any:
    """The numbers of a tensor."""
    return summary(tag, plugin("tensor"), tensor=make_tensor_proto(array))


def default_bins() -> np.ndarray:
    """TensorFlow's edges: 0, and powers of 1.1 from 1e-12 to 1e20 of both signs."""
    edges = [1e-12]
    while edges[-1] * 1.1 < 1e20:
        edges.append(edges[-1] * 1.1)
    above = np.array(edges)
    return np.concatenate([-above[::-1], [0.0], above])


def histogram(tag: str, values: np.ndarray, bins: Any, most: int | None) -> Any:
    """How many values lie between edges: those of `default_bins` for "tensorflow", else what
    NumPy's histogram takes; at most `most` of them. Raises ValueError for no values."""
    if not values.size:
        raise ValueError("The input has no element.")
    values = values.reshape(-1).astype(np.float64)
    edges = default_bins() if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, edges = np.histogram(values, bins=edges)
    if most is not None and len(counts) > most:
        together = len(counts) // most
        starts = np.arange(0, len(counts), together)
        counts = np.add.reduceat(counts, starts)
        edges = np.concatenate([edges[starts], edges[-1:]])
    if not counts.any():
        raise ValueError("The histogram is empty, please file a bug report.")
    # An empty one goes before the first that is not, so that it shows where that begins.
    first, last = np.flatnonzero(counts)[[0, -1]]
    buckets = np.concatenate([[0], counts[first : last + 1]])
    proto = HistogramProto(
        min=values.min(), max=values.max(), num=len(values), sum=values.sum(),
        sum_squares=values @ values, bucket_limit=edges[first : last + 2].tolist(),
        bucket=buckets.tolist(),
    )  # fmt: skip
    return summary(tag, histo=proto)


def image(tag: str, pixels: np.ndarray, rescale: float = 1) -> Any:
    """An image [height, width, channels] of u8, as PNG."""
    from PIL import Image

    height, width, channels = pixels.shape
    drawn = Image.fromarray(pixels)
    if rescale != 1:
        drawn = drawn.resize((int(width * rescale), int(height * rescale)))
    return summary(tag, image=_encoded(drawn, height, width, channels))


def _encoded(drawn: Any, height: int, width: int, channels: int) -> Any:
    file = io.BytesIO()
    drawn.save(file, format="PNG")
    return Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
    )


def boxes(
    tag: str, pixels: np.ndarray, corners: np.ndarray, rescale: float, labels: Sequence[str] | None
) -> Any:
    """An image with boxes (x0, y0, x1, y1) on it, each with its label."""
    from PIL import Image, ImageDraw

    height, width, channels = pixels.shape
    drawn = Image.fromarray(pixels)
    pen = ImageDraw.Draw(drawn)
    for number, box in enumerate(corners.reshape(-1, 4).tolist()):
        pen.rectangle(box, outline="red", width=2)
        if labels is not None:
            pen.text((box[0], box[1]), labels[number], fill="red")
    if rescale != 1:
        drawn = drawn.resize((int(width * rescale), int(height * rescale)))
    return summary(tag, image=_encoded(drawn, height, width, channels))


def video(tag: str, frames: np.ndarray, rate: float) -> Any:
    """[time, height, width, channels] of u8, as a GIF."""
    from PIL import Image

    first, *others = [Image.fromarray(frame) for frame in frames]
    file = io.BytesIO()
    first.save(
        file, format="GIF", save_all=True, append_images=others, duration=int(1000 / rate), loop=0
    )
    _, height, width, channels = frames.shape
    proto = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
    )
    return summary(tag, image=proto)


def audio(tag: str, samples: np.ndarray, rate: int) -> Any:
    """Samples from -1 to 1, of one channel, as a WAV file of 16 bits."""
    samples = samples.reshape(-1).clip(-1, 1)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((samples * np.iinfo(np.int16).max).astype("<i2").tobytes())
    proto = Summary.Audio(
        sample_rate=rate, num_channels=1, length_frames=len(samples),
        encoded_audio_string=file.getvalue(), content_type="audio/wav",
    )  # fmt: skip
    return summary(tag, audio=proto)


def text(tag: str, content: str) -> Any:
    """A text, which is shown as Markdown."""
    from tensorboard.plugins.text import metadata

    described = metadata.create_summary_metadata(display_name="", description="")
    array = np.array([content.encode("utf-8")], dtype=object)
    return summary(f"{tag}/text_summary", described, tensor=make_tensor_proto(array))


def curve_counts(
    labels: np.ndarray, predictions: np.ndarray, thresholds: int, weights: Any
) -> np.ndarray:
    """True and false positives, true and false negatives, precision and recall, each by threshold:
    [6, thresholds]. A prediction counts where it is not below the threshold."""
    labels, predictions = labels.reshape(-1).astype(np.float64), predictions.reshape(-1)
    weights = 1.0 if weights is None else np.asarray(weights, np.float64).reshape(-1)
    bins = np.floor(predictions * (thresholds - 1)).astype(np.int32)
    per_bin = [
        np.bincount(bins, weights=np.broadcast_to(each, bins.shape), minlength=thresholds)
        for each in (labels * weights, (1 - labels) * weights)
    ]
    positives, negatives = (np.cumsum(each[::-1])[::-1] for each in per_bin)
    true_negatives, false_negatives = negatives[0] - negatives, positives[0] - positives
    precision = positives / np.maximum(LEAST, positives + negatives)
    recall = positives / np.maximum(LEAST, positives + false_negatives)
    return np.stack((positives, negatives, true_negatives, false_negatives, precision, recall))


def curve(tag: str, counts: np.ndarray, thresholds: int) -> Any:
    """A precision-recall curve, of `curve_counts`."""
    from tensorboard.plugins.pr_curve import metadata

    described = metadata.create_summary_metadata(
        display_name="", description="", num_thresholds=min(thresholds, MOST_THRESHOLDS)
    )
    return summary(tag, described, tensor=make_tensor_proto(counts.astype(np.float32)))


def custom_scalars(layout: dict[str, dict[str, list[Any]]]) -> Any:
    """Which charts show which scalars: by category and title a list of "Multiline" or "Margin" and
    the tags."""
    from tensorboard.plugins.custom_scalar import (
        layout_pb2,
        metadata,
    )

    categories = []
    for category, charts in layout.items():
        shown = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                lines = layout_pb2.MarginChartContent(
                    series=[layout_pb2.MarginChartContent.Series(
                        value=tags[0], lower=tags[1], upper=tags[2]
                    )]
                )  # fmt: skip
                shown.append(layout_pb2.Chart(title=title, margin=lines))
            else:
                multiline = layout_pb2.MultilineChartContent(tag=tags)
                shown.append(layout_pb2.Chart(title=title, multiline=multiline))
        categories.append(layout_pb2.Category(title=category, chart=shown))
    described = metadata.create_summary_metadata()
    content = np.array(layout_pb2.Layout(category=categories).SerializeToString(), dtype=object)
    return summary(metadata.CONFIG_SUMMARY_TAG, described, tensor=make_tensor_proto(content))


def mesh(tag: str, parts: dict[str, np.ndarray | None], config: dict[str, Any] | None) -> Any:
    """Points [batch, count, 3], with "COLOR" and "FACE" of the same form."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import (
        MeshPluginData,
    )

    there = {name: array for name, array in parts.items() if array is not None}
    kinds = {name: MeshPluginData.ContentType.Value(name) for name in there}
    bits = metadata.get_components_bitmask(list(kinds.values()))
    values = []
    for name, array in there.items():
        described = metadata.create_summary_metadata(
            tag, "", kinds[name], bits, list(array.shape), json_config=json.dumps(config or {})
        )
        called = metadata.get_instance_name(tag, kinds[name])
        proto = make_tensor_proto(array.astype(np.float32))
        values.append(Summary.Value(tag=called, tensor=proto, metadata=described))
    return Summary(value=values)


def hparams(
    chosen: dict[str, Any], metrics: dict[str, Any], domains: dict[str, list[Any]] | None
) -> list[Any]:
    """What a run was made with, what it is measured by, and that it has ended: three Summaries.
    Raises TypeError for anything but dicts, and for a domain of another type than its parameter,
    ValueError for other values than numbers, texts, bools and tensors."""
    from google.protobuf import struct_pb2
    from tensorboard.plugins.hparams import (
        api_pb2,
        metadata,
        plugin_data_pb2,
    )

    for name, each in (("hparam_dict", chosen), ("metric_dict", metrics)):
        if not isinstance(each, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    start = plugin_data_pb2.SessionStartInfo()
    infos = []
    for name, value in chosen.items():
        if value is None:
            continue
        field, kind, value = _parameter(value)
        setattr(start.hparams[name], field, value)
        info = api_pb2.HParamInfo(name=name, type=api_pb2.DataType.Value(kind))
        for each in (domains or {}).get(name, ()):
            if not isinstance(each, type(chosen[name])):
                raise TypeError(
                    f"parameter: hparam_domain_discrete[{name}] should be a list of same type as "
                    f"hparam_dict[{name}]."
                )
            info.domain_discrete.values.append(struct_pb2.Value(**{field: each}))
        infos.append(info)
    if unknown := (domains or {}).keys() - chosen.keys():
        raise TypeError(f"parameter: hparam_domain_discrete[{sorted(unknown)[0]}] is no parameter")
    named = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metrics]
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=named)
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))
    plugin_data = {
        metadata.EXPERIMENT_TAG: {"experiment": experiment},
        metadata.SESSION_START_INFO_TAG: {"session_start_info": start},
        metadata.SESSION_END_INFO_TAG: {"session_end_info": end},
    }
    version = metadata.PLUGIN_DATA_VERSION
    contents = {
        tag: plugin_data_pb2.HParamsPluginData(version=version, **part).SerializeToString()
        for tag, part in plugin_data.items()
    }
    return [summary(tag, plugin(metadata.PLUGIN_NAME, each)) for tag, each in contents.items()]


def _parameter(value: Any) -> tuple[str, str, Any]:
    """The field a parameter's value is kept in, its type for the plugin, and the value."""
    if isinstance(value, Tensor):
        return "number_value", "DATA_TYPE_FLOAT64", float(value)
    if isinstance(value, bool):
        return "bool_value", "DATA_TYPE_BOOL", value
    if isinstance(value, int | float):
        return "number_value", "DATA_TYPE_FLOAT64", value
    if isinstance(value, str):
        return "string_value", "DATA_TYPE_STRING", value
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
