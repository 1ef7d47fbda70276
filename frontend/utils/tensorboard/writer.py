"""`SummaryWriter`: what happens in training, for TensorBoard to show."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from tensorboard.compat.proto.event_pb2 import (
    Event,
    SessionLog,
)
from tensorboard.summary.writer.event_file_writer import (
    EventFileWriter,
)

from frontend.namespace.stubs import stubs
from frontend.utils.tensorboard import summaries
from frontend.utils.tensorboard.arrays import array_of, figures_of, image_of, number_of
from frontend.utils.tensorboard.embeddings import write_embedding
from frontend.utils.tensorboard.model_graph import model_graph

__all__ = ["FileWriter", "SummaryWriter"]

Step = int | None


class FileWriter:
    """Writes summaries to an event file in a folder, from a thread of its own."""

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ):
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return str(self.event_writer.get_logdir())

    def add_event(self, event: Any, step: Step = None, walltime: float | None = None) -> None:
        """An event, at a step and a time in seconds, that of now by default."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: Step = None, walltime: float | None = None
    ) -> None:
        """A Summary, at a step."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """A GraphDef; what it took to run, the second of a pair, is left out."""
        graph = graph_profile[0] if isinstance(graph_profile, tuple) else graph_profile
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Have all that was added in the file."""
        self.event_writer.flush()

    def close(self) -> None:
        """Flush, and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Go on in another file of the folder."""
        self.event_writer.reopen()


class SummaryWriter:
    """Writes entries to event files in `log_dir` ("runs/TIME_HOST" and `comment` by default), which
    TensorBoard reads. Entries from step `purge_step` on of an earlier run there are hidden. Each
    entry has a tag, a step (`global_step`) and a time in seconds (`walltime`)."""

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: Step = None,
        max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "",
    ):  # fmt: skip
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._opened(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                step = self.purge_step
                self.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
                start = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(step=step, session_log=start))
                self.purge_step = None
        return self.file_writer

    def _opened(self, folder: Any) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _add(self, summary: Any, step: Step, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    def get_logdir(self) -> str:
        """The folder."""
        return str(self.log_dir)

    # -- numbers -----------------------------------------------------------------------------

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Step = None,
        walltime: float | None = None, new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """A number, or a tensor or array of one."""
        number = number_of(scalar_value)
        summary = summaries.scalar(tag, number, new_style, double_precision)
        self._add(summary, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Step = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Several numbers in one chart: each gets an event file of its own."""
        walltime = time.time() if walltime is None else walltime
        root = self._get_file_writer().get_logdir()
        writers = self.all_writers
        assert writers is not None
        for tag, value in tag_scalar_dict.items():
            folder = f"{root}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in writers:
                writers[folder] = self._opened(folder)
            summary = summaries.scalar(main_tag, number_of(value), False, False)
            writers[folder].add_summary(summary, global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Step = None, walltime: float | None = None
    ) -> None:
        """All numbers of a tensor."""
        array = tensor.detach().numpy() if hasattr(tensor, "detach") else np.asarray(tensor)
        self._add(summaries.tensor(tag, array), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: Step = None, bins: Any = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """How values are distributed. Raises ValueError for none."""
        summary = summaries.histogram(tag, array_of(values), bins, max_bins)
        self._add(summary, global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: int, sum: float, sum_squares: float,
        bucket_limits: Sequence[float], bucket_counts: Sequence[float],
        global_step: Step = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A histogram that was made elsewhere. Raises ValueError where there are not as many counts
        as limits."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        proto = summaries.HistogramProto(
            min=min, max=max, num=num, sum=sum, sum_squares=sum_squares,
            bucket_limit=bucket_limits, bucket=bucket_counts,
        )  # fmt: skip
        self._add(summaries.summary(tag, histo=proto), global_step, walltime)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None, run_name: str | None = None,
        global_step: Step = None,
    ) -> None:  # fmt: skip
        """What a run was made with, and what came of it, in a folder `run_name` (the time by
        default) below the writer's."""
        session = summaries.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self.get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as writer:
            for summary in session:
                writer._add(summary, None, None)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    # -- pictures and sounds -----------------------------------------------------------------

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Step = None,
        walltime: float | None = None, dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """An image, u8 or floats from 0 to 1; `dataformats` names its axes."""
        summary = summaries.image(tag, image_of(img_tensor, dataformats))
        self._add(summary, global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Step = None,
        walltime: float | None = None, dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Several images, side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Any, box_tensor: Any, global_step: Step = None,
        walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:  # fmt: skip
        """An image with boxes (x0, y0, x1, y1) in pixels on it. Raises ValueError where there are
        not as many labels."""
        corners = array_of(box_tensor)
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != len(corners):
            labels = None
        pixels = image_of(img_tensor, dataformats)
        summary = summaries.boxes(tag, pixels, corners, rescale, labels)
        self._add(summary, global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: Step = None, close: bool = True,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """One or several of matplotlib's figures, which are closed unless `close` is False."""
        layout = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, figures_of(figure, close), global_step, walltime, layout)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: Step = None, fps: float = 4,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Videos [count, time, channels, height, width], side by side, `fps` frames a second."""
        frames = np.moveaxis(array_of(vid_tensor), 1, 0)
        pixels = np.stack([image_of(frame, "NCHW") for frame in frames])
        self._add(summaries.video(tag, pixels, fps), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Step = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Samples from -1 to 1, of one channel."""
        summary = summaries.audio(tag, array_of(snd_tensor), sample_rate)
        self._add(summary, global_step, walltime)

    # -- texts, graphs, charts ---------------------------------------------------------------

    def add_text(
        self, tag: str, text_string: str, global_step: Step = None, walltime: float | None = None
    ) -> None:
        """A text, shown as Markdown."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:  # fmt: skip
        """The graph of a Module on inputs like these: that which compiling it traces. Raises
        TraceError where it cannot be traced."""
        graph = model_graph(model, () if input_to_model is None else input_to_model, verbose)
        self._get_file_writer().add_graph(graph)

    def add_embedding(
        self, mat: Any, metadata: Sequence[Any] | None = None, label_img: Any = None,
        global_step: Step = None, tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Points [count, size] for the projector, with a label and an image for each."""
        root = Path(self._get_file_writer().get_logdir())
        folder = root / str(0 if global_step is None else global_step).zfill(5) / tag
        write_embedding(folder, root, tag, mat, metadata, label_img, metadata_header)

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: Step = None,
        num_thresholds: int = 127, weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Precision and recall of predictions (0 to 1) of labels (0 or 1), by threshold."""
        weights = None if weights is None else array_of(weights)
        count = min(num_thresholds, summaries.MOST_THRESHOLDS)
        counts = summaries.curve_counts(array_of(labels), array_of(predictions), count, weights)
        self._add(summaries.curve(tag, counts, count), global_step, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any,
        true_negative_counts: Any, false_negative_counts: Any, precision: Any, recall: Any,
        global_step: Step = None, num_thresholds: int = 127, weights: Any = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A curve whose counts were made elsewhere, each by threshold."""
        parts = (true_positive_counts, false_positive_counts, true_negative_counts,
                 false_negative_counts, precision, recall)  # fmt: skip
        counts = np.stack([array_of(part) for part in parts])
        self._add(summaries.curve(tag, counts, num_thresholds), global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, list[Any]]]) -> None:
        """Charts of scalars: by category and title a list of "Multiline" and tags, or of "Margin"
        and three tags (value, lower, upper)."""
        self._add(summaries.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of several scalars."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of a scalar between two others: value, lower, upper. Raises AssertionError for
        another number of tags."""
        assert len(tags) == 3, "a margin chart has three tags: value, lower, upper"
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(
        self, tag: str, vertices: Any, colors: Any = None, faces: Any = None,
        config_dict: dict[str, Any] | None = None, global_step: Step = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Points [batch, count, 3], their colours (0 to 255), and triangles of their numbers."""
        parts = {"VERTEX": vertices, "FACE": faces, "COLOR": colors}
        arrays = {name: None if v is None else array_of(v) for name, v in parts.items()}
        self._add(summaries.mesh(tag, arrays, config_dict), global_step, walltime)

    # -- ending ------------------------------------------------------------------------------

    def flush(self) -> None:
        """Have all that was added in the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Flush, and close the files. An entry after that opens another."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


SummaryWriter.add_onnx_graph = stubs(  # type: ignore[attr-defined]
    "utils.tensorboard.SummaryWriter"
)["add_onnx_graph"]
