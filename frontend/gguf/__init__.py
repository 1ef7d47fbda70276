"""GGUF files, as llama.cpp and what is built on it keep models: `load` gives their tensors.

    state, metadata = frontend.gguf.load("model.gguf", quantized=True)

container: the file, checked; kinds: how blocks of each kind are numbers; files: `load`; weights:
tensors that stay integers and scales; block_product: their products with activations in int8;
assigning: models that have them. docs/precision.md.
"""

from frontend.gguf.assigning import assign as assign
from frontend.gguf.files import load as load
from frontend.gguf.weights import QuantizedWeight as QuantizedWeight

__all__ = ["QuantizedWeight", "assign", "load"]
