"""Points for TensorBoard's projector: files of numbers, labels and small images in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from frontend.utils.tensorboard.arrays import array_of, image_of

CONFIG = "projector_config.pbtxt"


def write_embedding(
    folder: Path, logdir: Path, tag: str, points: Any, metadata: Sequence[Any] | None,
    images: Any, header: Sequence[str] | None,
) -> None:  # fmt: skip
    """Write points [count, size], a label (or, with a `header`, a row of them) and an image
    [channels, height, width] for each, and say so in the configuration of `logdir`. Raises
    ValueError where their numbers differ."""
    from google.protobuf import text_format
    from tensorboard.plugins.projector import (
        projector_config_pb2,
    )

    matrix = array_of(points)
    if matrix.ndim != 2:
        raise ValueError("mat should be 2D, where mat.size(0) is the number of data points")
    pictures = None if images is None else array_of(images)
    for name, each in (("metadata", metadata), ("label_img", pictures)):
        if each is not None and len(each) != len(matrix):
            raise ValueError(f"#labels should equal with #data points: {name}")
    folder.mkdir(parents=True, exist_ok=True)
    info = projector_config_pb2.EmbeddingInfo()
    within = folder.relative_to(logdir)
    info.tensor_name = f"{tag}:{within.parts[0]}"
    info.tensor_path = str(within / "tensors.tsv")
    rows = ["\t".join(str(x) for x in row) for row in matrix.tolist()]
    _write(folder / "tensors.tsv", rows)
    if metadata is not None:
        info.metadata_path = str(within / "metadata.tsv")
        table = [header, *metadata] if header else metadata
        _write(folder / "metadata.tsv", ["\t".join(map(str, row)) if header else str(row)
                                         for row in table])  # fmt: skip
    if pictures is not None:
        from PIL import Image

        side = int(np.ceil(np.sqrt(len(pictures))))
        blank = np.zeros((side**2 - len(pictures), *pictures.shape[1:]), pictures.dtype)
        each = [image_of(one, "CHW") for one in np.concatenate([pictures, blank])]
        lines = [np.concatenate(each[at : at + side], 1) for at in range(0, side**2, side)]
        sprite = np.concatenate(lines)
        Image.fromarray(sprite).save(folder / "sprite.png")
        info.sprite.image_path = str(within / "sprite.png")
        info.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
    config = projector_config_pb2.ProjectorConfig()
    path = logdir / CONFIG
    if path.exists():
        text_format.Parse(path.read_text("utf-8"), config)
    config.embeddings.append(info)
    path.write_text(text_format.MessageToString(config), "utf-8")


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
