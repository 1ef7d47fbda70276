"""ResNet-50 and BERT-base in int8: ours by `torch.ao.quantization`, ONNX Runtime's static
quantization to QDQ of the same model, and both in float32; one thread.

    python benchmarks/quantized_models.py resnet50 [--rounds 10] [--steps 5] [--json]
    python benchmarks/quantized_models.py bert

ResNet-50 is torchvision's quantizable one, fused, observed on drawn images and converted. BERT-base
is transformers' encoder on 128 tokens, its linear layers quantized dynamically, by rows. Weights
are drawn anew, the same ones for all. Needs torchvision (`--no-deps` will do), transformers and the
peers.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from harness import Step, main

MODELS = ("resnet50", "bert")
MODEL = "GRAPHC_QUANTIZED_MODEL"
"""Where the processes of the peers find which one is measured."""
SIDE, TOKENS = 224, 128


def image(seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal((1, 3, SIDE, SIDE), np.float32)


def ids() -> Any:
    return np.random.default_rng(1).integers(0, 30522, (1, TOKENS))


def drawn(torch: Any, model: Any) -> Any:
    """The model in eval mode, with weights that depend on their names and shapes alone."""
    rng, state = np.random.default_rng(0), {}
    for name, tensor in model.state_dict().items():
        shape = tuple(tensor.shape)
        values = rng.standard_normal(shape) * (2 / max(np.prod(shape[1:]), 1)) ** 0.5
        if name.endswith(("running_var", "bias", "running_mean")) or len(shape) == 1:
            values = np.full(shape, 1.0 if name.endswith(("running_var", "weight")) else 0.0)
        if "num_batches" not in name and "position_ids" not in name:
            state[name] = torch.tensor(np.asarray(values, np.float32))
    model.load_state_dict(state, strict=False)
    return model.eval()


def resnet50(torch: Any, quantizable: bool) -> Any:
    if not quantizable:
        import torchvision

        return drawn(torch, torchvision.models.resnet50())
    from torchvision.models.quantization import resnet50 as made

    return drawn(torch, made(quantize=False))


def bert(torch: Any) -> Any:
    from transformers import BertConfig, BertModel

    settings = BertConfig(num_hidden_layers=12, attn_implementation="sdpa")
    model = drawn(torch, BertModel(settings, add_pooling_layer=False))

    class Encoder(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any) -> Any:
            return self.model(ids).last_hidden_state

    return Encoder().eval()


def ours(kind: str) -> Step:
    import frontend as torch

    torch.install_as("torch")
    ao = torch.ao.quantization
    if os.environ[MODEL] == "bert":
        model, x = bert(torch), torch.tensor(ids())
        if kind == "int8":
            ao.quantize_(model, ao.Int8DynamicActivationInt8WeightConfig())
    else:
        model, x = resnet50(torch, kind == "int8"), torch.tensor(image())
        if kind == "int8":
            model.fuse_model()
            model.qconfig = ao.get_default_qconfig("x86")
            ao.prepare(model, inplace=True)
            with torch.no_grad():
                for seed in range(3):
                    model(torch.tensor(image(seed)))
            ao.convert(model, inplace=True)
    run = torch.compile(torch.freeze(model), threads=1, fullgraph=True)

    def step() -> float:
        with torch.no_grad():
            return float(run(x).flatten()[0])

    return step


def onnxruntime(kind: str) -> Step:
    import onnxruntime
    import torch

    torch.set_num_threads(1)
    sys.modules["torchvision._meta_registrations"] = ModuleType("_meta_registrations")
    of_text = os.environ[MODEL] == "bert"
    model = bert(torch) if of_text else resnet50(torch, False)
    array = ids() if of_text else image()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        torch.onnx.export(
            model, (torch.tensor(array),), path, dynamo=False, opset_version=17,
            input_names=["x"], output_names=["out"],
        )  # fmt: skip
        if kind == "int8":
            path = quantized(path, array)
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    return lambda: float(session.run(None, {"x": array})[0].reshape(-1)[0])


def quantized(path: str, array: Any) -> str:
    """The file with products and convolutions between QuantizeLinear and DequantizeLinear."""
    from onnxruntime import quantization as q

    class Images(q.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{"x": array}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    prepared, result = path + ".prepared", path + ".int8"
    q.shape_inference.quant_pre_process(path, prepared, skip_symbolic_shape=True)
    q.quantize_static(
        prepared, result, Images(), quant_format=q.QuantFormat.QDQ, per_channel=True,
        activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8,
    )  # fmt: skip
    return result


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in MODELS:
        os.environ[MODEL] = sys.argv.pop(1)
    if MODEL not in os.environ:
        raise SystemExit(
            f"usage: python benchmarks/quantized_models.py {'|'.join(MODELS)} [options]"
        )
    main(
        f"{os.environ[MODEL]}, batch 1, frozen",
        {
            "int8": lambda: ours("int8"), "f32": lambda: ours("f32"),
            "onnxruntime int8": lambda: onnxruntime("int8"),
            "onnxruntime f32": lambda: onnxruntime("f32"),
        },
    )  # fmt: skip
