"""A model's bytes, and the data that lies beside its file.

in : a path, bytes, an open file, or a ModelProto of the package `onnx`
out: a ModelProto whose tensors hold their data

External data is read from regular files in the folder of the model (or below it), after every link
is followed; another place, and bytes beyond a file's end, raise OnnxError.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from frontend.onnx.importing.errors import OnnxError


def onnx_package() -> Any:
    """The package `onnx`. Raises ImportError that says how to install it."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("ONNX files need the package onnx: pip install 'graphc[onnx]'") from error
    return onnx


def read_model(source: Any) -> Any:
    """The ModelProto, with its external data. Raises OnnxError for what is none."""
    onnx = onnx_package()
    folder: Path | None = None
    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
    else:
        content, folder = _content(source)
        model = _parsed(onnx, content)
    _check_texts(model)
    if not model.HasField("graph") or not model.opset_import:
        raise OnnxError(
            "this is no ONNX model: it has no graph, or no operator set",
            hint="check the file with onnx.checker.check_model",
        )
    for tensor in tensors_of(onnx, model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _read_external(onnx, tensor, folder)
    return model


def _content(source: Any) -> tuple[bytes, Path | None]:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), None
    if hasattr(source, "read"):
        return source.read(), None
    path = Path(os.fspath(source))
    return path.read_bytes(), path.resolve().parent


def _parsed(onnx: Any, content: bytes) -> Any:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:  # protobuf's DecodeError, of one of its implementations
        raise OnnxError(
            f"this is no ONNX model: {error}", hint="check that the file is whole"
        ) from None
    return model


def _check_texts(model: Any) -> None:
    """Raise OnnxError for a name that is no text: protobuf hands out the bytes of such."""
    messages = [model]
    while messages:
        message = messages.pop()
        for field, value in message.ListFields():
            if field.message_type is None and field.type != field.TYPE_STRING:
                continue
            single = isinstance(value, str | bytes) or hasattr(value, "DESCRIPTOR")
            values = [value] if single else list(value)
            if field.message_type is not None:
                messages += values
            elif not all(isinstance(each, str) for each in values):
                raise OnnxError(
                    f"this is no ONNX model: its {field.name} is no text",
                    hint="check that the file is whole",
                )


def tensors_of(onnx: Any, model: Any) -> list[Any]:
    """Every TensorProto in a model: initializers and attributes, of inner graphs and functions."""
    tensors: list[Any] = []
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            tensors += graph.initializer
            for sparse in graph.sparse_initializer:
                tensors += [sparse.values, sparse.indices]
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            if attribute.HasField("t"):
                tensors.append(attribute.t)
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            tensors += attribute.tensors
            graphs += attribute.graphs
    return tensors


def _read_external(onnx: Any, tensor: Any, folder: Path | None) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    where = f"the data of tensor {tensor.name!r} in file {location!r}"
    if folder is None:
        raise OnnxError(
            f"{where}: only a model that is given by its path has files beside it",
            hint="pass the path, or save the model with its data inside",
        )
    path = (folder / location).resolve() if location else folder
    if not location or os.path.isabs(location) or folder not in path.parents:
        raise OnnxError(f"{where}: it must lie beside the model", hint="save the model anew")
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
        # No link below is followed: the path was resolved.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            status = os.fstat(file.fileno())
            length = status.st_size - offset if length < 0 else length
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is no regular file")
            if offset < 0 or length < 0 or offset + length > status.st_size:
                raise ValueError(f"bytes {offset} to {offset + length} of {status.st_size}")
            file.seek(offset)
            data = file.read(length)
    except (OSError, ValueError) as error:
        raise OnnxError(f"{where}: {error}") from None
    tensor.raw_data = data
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]
