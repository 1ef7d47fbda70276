"""Models whose weights are those of a file, quantized ones in the layers that read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frontend.gguf.weights import QuantizedWeight
from frontend.nn.modules.linear import Linear
from frontend.nn.modules.module import Module
from frontend.nn.modules.sparse import Embedding

LAYERS = (Linear, Embedding)


def assign(model: Module, state: Mapping[str, Any]) -> None:
    """Have a model the tensors of `state`, by the names of its `state_dict()`, without a copy.

    A QuantizedWeight becomes the `weight` of an `nn.Linear` or `nn.Embedding` and is what it
    computes with; all else is as `load_state_dict(assign=True)` has it, so the model may have been
    made on the device "meta". Raises RuntimeError where names or shapes are not the model's, and
    TypeError for a QuantizedWeight elsewhere; the model is as it was then.
    """
    layers = {}
    for name, value in state.items():
        if isinstance(value, QuantizedWeight):
            layers[name] = _layer(model, name, value)
    expected = model.state_dict()
    wrong = [("Missing", expected.keys() - state.keys()), ("Unexpected", state.keys() - expected)]
    for word, names in wrong:
        if names:
            raise RuntimeError(f"{word} names in the state: {', '.join(sorted(names))}")
    for name, value in state.items():
        if tuple(value.shape) != tuple(expected[name].shape):
            raise RuntimeError(
                f"{name} is {list(value.shape)} in the state, {list(expected[name].shape)} in the "
                "model"
            )
    plain = {name: value for name, value in state.items() if name not in layers}
    model.load_state_dict(plain, strict=False, assign=True)
    for name, layer in layers.items():
        del layer.weight
        layer.weight = state[name]


def _layer(model: Module, name: str, weight: QuantizedWeight) -> Any:
    """The layer that this is the weight of."""
    parent, _, own = name.rpartition(".")
    layer = dict(model.named_modules()).get(parent)
    if own != "weight" or type(layer) not in LAYERS or weight.ndim != 2:
        raise TypeError(
            f"{name} is a QuantizedWeight ({weight.extra_repr()}): a Linear or an Embedding can "
            "have a matrix of them as its weight; dequantize() it for others"
        )
    if getattr(layer, "max_norm", None) is not None:
        raise TypeError(f"{name} is a QuantizedWeight: max_norm has an Embedding write its weight")
    return layer
