"""What an export gives: a model, to be saved, looked at, checked and run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.onnx.importing.files import onnx_package

MOST_INSIDE = 1 << 30
"""Bytes of weights up to which a model is one file: protobuf holds at most 2 GiB."""


class ONNXProgram:
    """An exported model. `model_proto` is the ModelProto, `input_names` and `output_names` what it
    takes and gives, `size_guards` what its open sizes have to be like, as texts. Called with
    tensors, it runs them with ONNX Runtime."""

    def __init__(
        self, model_proto: Any, input_names: Sequence[str], output_names: Sequence[str],
        size_guards: Sequence[str] = (),
    ):  # fmt: skip
        self.model_proto = model_proto
        self.input_names = tuple(input_names)
        self.output_names = tuple(output_names)
        self.size_guards = tuple(size_guards)
        self._session: Any = None

    @property
    def model(self) -> Any:
        """The ModelProto."""
        return self.model_proto

    def save(self, destination: Any, *, external_data: bool | None = None, **ignored: Any) -> None:
        """Write the model to a path or open file. With `external_data` its weights go to a file
        beside it, `NAME.data`; None decides by their size."""
        content = None
        weights = sum(len(each.raw_data) for each in self.model_proto.graph.initializer)
        beside = weights > MOST_INSIDE if external_data is None else external_data
        if hasattr(destination, "write"):
            content = self.model_proto.SerializeToString()
            destination.write(content)
            return
        onnx = onnx_package()
        path = os.fspath(destination)
        if not beside:
            onnx.save_model(self.model_proto, path)
            return
        copy = onnx.ModelProto()
        copy.CopyFrom(self.model_proto)
        location = os.path.basename(path) + ".data"
        if os.path.exists(path + ".data"):
            os.remove(path + ".data")  # it would be appended to
        onnx.save_model(
            copy,
            path,
            save_as_external_data=True,
            location=location,
            size_threshold=0,
        )

    def __call__(self, *inputs: Any) -> Any:
        """The results of ONNX Runtime for these tensors, as a tuple."""
        from frontend.functions.creation import tensor

        if self._session is None:
            import onnxruntime

            content = self.model_proto.SerializeToString()
            self._session = onnxruntime.InferenceSession(content)
        arrays = [x.detach().numpy() if isinstance(x, Tensor) else x for x in inputs]
        results = self._session.run(None, dict(zip(self.input_names, arrays, strict=True)))
        return tuple([tensor(result) for result in results])

    def verify(self, model: Any, args: Any, kwargs: Any = None) -> None:
        """Raise AssertionError where results for these arguments differ from the model's by more
        than 1e-4."""
        from frontend.engine.tensors import tree
        from frontend.engine.tensors.state import no_grad

        args = tuple(args) if isinstance(args, tuple | list) else (args,)
        inputs: list[Any] = []
        expected: list[Any] = []
        tree.flatten((args, dict(kwargs or {})), inputs)
        with no_grad():
            tree.flatten(model(*args, **(kwargs or {})), expected)
        for name, mine, theirs in zip(self.output_names, self(*inputs), expected, strict=True):
            difference = (mine.double() - theirs.double()).abs().max() if mine.numel() else 0
            assert float(difference) <= 1e-4, f"{name} differs by {float(difference):.3g}"

    def __repr__(self) -> str:
        shown = f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"
        return f"ONNXProgram({shown}; {len(self.model_proto.graph.node)} nodes)"
